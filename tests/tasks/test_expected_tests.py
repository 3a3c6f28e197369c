"""Writing lists of tests into task.yaml files of different styles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from agentbench_core.errors import InputError
from agentbench_core.inputs.suite import read_task
from agentbench_tasks.expected_tests import with_lists, write_expected_tests

LISTS = {"fail_to_pass": ['tests/t.py::test_a[x: "y" # é]', "t::b"], "pass_to_pass": ["c"]}

LAST_FIELD = "id: x\nvalidation:\n  failing_command: f\n  passing_command: p"
COMMENTS = "validation:  # a\n  # b\n  passing_command: 'p'  # c\n\n  # d\n  failing_command: f\n# e\nagent: {}\n"
BLOCK = "validation:\n    passing_command: |\n        p\n        q\n\n    failing_command: f\n"
FOLDED = "validation:\r\n  failing_command: f\r\n  passing_command: >\r\n    p\r\n    q\r\nid: x\r\n"
SEVERAL_LINES = 'validation:\n  passing_command: "p\n    q"\n  failing_command: f\n'
EMPTY = "validation:\n  pass_to_pass: []  # c\n  passing_command: p\n  fail_to_pass: [\n    ]\n  failing_command: f\n"
INDENTED = "id: x\nvalidation:\n      passing_command: p\n      files: checks\n"


FLOW = "validation:\n  passing_command: p\n  fail_to_pass: [a,\n    b]  # c\n  pass_to_pass: [c]\n  files: f\n"
LISTED = "validation:\n  passing_command: p\n  fail_to_pass: # c\n  # d\n  - t::b\n  pass_to_pass:\n      - 'c'\nid: x"


@pytest.mark.parametrize("text", [LAST_FIELD, COMMENTS, BLOCK, FOLDED, SEVERAL_LINES, EMPTY, INDENTED, FLOW, LISTED])
def test_only_the_lists_change(text: str) -> None:
    """Both lists read back as written, and all other lines are unchanged."""
    new = with_lists(text, LISTS, "task.yaml")
    expected = yaml.safe_load(text)
    expected["validation"] |= LISTS
    assert yaml.safe_load(new) == expected
    old = [line for line in text.splitlines() if "_to_pass" not in line and line.strip() not in ("]", "b]  # c")]
    lines = iter(new.splitlines())
    assert all(line in lines for line in old)


NAMES = st.lists(st.sampled_from(["a", "t::b", "x: [y]", "# z", 'q"', "é"]), unique=True, max_size=4)


@given(NAMES, NAMES, st.sampled_from(["", "  "]), st.booleans())
def test_lists_are_replaced(before: list[str], after: list[str], dent: str, last: bool) -> None:
    """New lists may be longer, shorter or empty; the text around them is unchanged."""
    items = "".join(f"\n  {dent}- {json.dumps(name)}  # of {number}" for number, name in enumerate(before)) or " []"
    end = "" if last else "\n  # next\n  failing_command: f\nid: x"
    text = f"validation:  # a\n  passing_command: p\n  fail_to_pass:  # b{items}{end}\n".replace("# b []", "[]  # b")
    new = with_lists(text, {"fail_to_pass": after}, "task.yaml")
    assert yaml.safe_load(new) == {
        **yaml.safe_load(text),
        "validation": {**yaml.safe_load(text)["validation"], "fail_to_pass": after},
    }
    assert new.endswith(f"{end}\n")
    assert new.startswith("validation:  # a\n  passing_command: p\n  fail_to_pass:")
    assert "# b" in new.splitlines()[2]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_id_survives(name: str) -> None:
    """Ids with quotes, control characters, line breaks and YAML syntax round-trip."""
    new = with_lists(LAST_FIELD, {"fail_to_pass": [name]}, "task.yaml")
    assert yaml.safe_load(new)["validation"]["fail_to_pass"] == [name]


def test_a_file_that_has_changed_is_left_alone(make_task: Callable[..., Any]) -> None:
    """The file was edited during validation."""
    path: Path = make_task() / "task.yaml"
    task = read_task(path)
    path.write_text(f"# new\n{task.text}")
    with pytest.raises(InputError, match="changed while the task was being validated"):
        write_expected_tests(task, LISTS)
    assert path.read_text() == f"# new\n{task.text}"
