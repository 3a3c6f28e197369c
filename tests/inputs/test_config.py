"""Layers of settings are merged, and each value has an origin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentbench_core import InputError
from agentbench_core.inputs.config import Settings, assignment, layer, resolve
from agentbench_core.inputs.variants import find_variant


def test_without_layers_everything_is_the_default() -> None:
    """Each origin is ``default``, too."""
    resolved = resolve([])
    assert resolved.settings == Settings()
    assert {leaf.origin for leaf in resolved.leaves.values()} == {"default"}


def test_the_later_layer_wins_leaf_by_leaf() -> None:
    """Leaves that the later layer omits keep their values."""
    resolved = resolve([layer("file", {"run": {"workers": 4, "repeats": 3}}), assignment("run.workers=8")])
    assert (resolved.settings.run.workers, resolved.settings.run.repeats) == (8, 3)
    assert resolved.leaves["run.workers"].origin == "--set run.workers=8"
    assert resolved.leaves["run.repeats"].origin == "file"
    assert resolved.leaves["run.out"].origin == "default"


def test_a_value_over_a_mapping_and_a_mapping_over_a_value() -> None:
    """The later one replaces the earlier one."""
    over = resolve([assignment("agent.x=5"), assignment("agent.x.y=1")])
    assert over.settings.agent.options == {"x": {"y": 1}}
    back = resolve([assignment("agent.x.y=1"), assignment("agent.x=5")])
    assert back.settings.agent.options == {"x": 5}


def test_a_key_with_a_dot_in_a_file_stays_one_key() -> None:
    """Only ``--set`` splits keys at dots."""
    settings = resolve([layer("f", {"agent": {"name": "x", "headers": {"a.b": 1}}})]).settings
    assert settings.agent.options == {"headers": {"a.b": 1}}


def test_a_name_alone_chooses_a_component() -> None:
    """``agent: NAME`` and ``agent: {name: NAME}`` are equivalent."""
    assert resolve([layer("f", {"agent": "x"})]).settings == resolve([layer("f", {"agent": {"name": "x"}})]).settings


def test_another_component_does_not_inherit_options() -> None:
    """Options apply only to the component that they were written for."""
    file = layer("f", {"agent": {"name": "x", "depth": 3}})
    assert resolve([file, assignment("agent.width=1")]).settings.agent.options == {"depth": 3, "width": 1}
    assert resolve([file, assignment("agent=y"), assignment("agent.width=1")]).settings.agent.options == {"width": 1}
    assert resolve([file, assignment("agent=x")]).settings.agent.options == {"depth": 3}


def test_no_layer_can_switch_off_the_redaction_of_another_one() -> None:
    """Each layer adds names; the origin lists the layers that did."""
    file = layer("file", {"artifacts": {"redact": ["A", "B"]}})
    resolved = resolve([file, assignment("artifacts.redact=[]"), assignment("artifacts.redact=[B, C]")])
    assert resolved.settings.artifacts.redact == ("A", "B", "C")
    assert resolved.leaves["artifacts.redact"].origin == "file, --set artifacts.redact=[B, C]"
    assert resolve([file, assignment("artifacts.redact=[A]")]).leaves["artifacts.redact"].origin == "file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits.max_step=3", "--set limits.max_step=3: limits.max_step: unknown field (did you mean 'max_steps'?)"),
        ("limits.max_steps=x", "--set limits.max_steps=x: limits.max_steps: expected integer, found 'x'"),
        ("nonsense", "--set nonsense: expected KEY=VALUE"),
        ("run..x=1", "--set run..x=1: expected KEY=VALUE"),
        ("run.suite=[", "--set run.suite:1:2: "),
    ],
)
def test_a_bad_assignment_names_the_flag(text: str, message: str) -> None:
    """The message quotes the flag as typed."""
    with pytest.raises(InputError, match=re.escape(message)):
        assignment(text)


@given(st.lists(st.tuples(st.sampled_from(["run.workers", "run.repeats", "limits.max_steps"]), st.integers(1, 99))))
def test_the_last_assignment_of_a_leaf_decides(pairs: list[tuple[str, int]]) -> None:
    """Earlier assignments have no effect."""
    leaves = resolve([assignment(f"{key}={value}") for key, value in pairs]).leaves
    assert {key: leaves[key].value for key, _ in pairs} == dict(pairs)


def test_variant_cannot_set_repeats(tmp_path: Path) -> None:
    """A variant defines what is compared, not how often it runs."""
    path = tmp_path / "v.yaml"
    path.write_text("agent: x\nrun: {repeats: 3}\n")
    with pytest.raises(InputError, match="run: not allowed here"):
        find_variant(str(path), {})


def test_a_variant_is_found_by_name_path_or_plugin(tmp_path: Path) -> None:
    """A file and a plugin's variant of the same name conflict; a typo gets a suggestion."""
    (tmp_path / "mine.yaml").write_text("agent: x\n")
    shipped = {"theirs": {"agent": "y"}, "mine": {"agent": "z"}}
    assert find_variant("theirs", shipped, tmp_path)[1].values == {"agent": {"name": "y"}}
    assert find_variant(str(tmp_path / "mine.yaml"), shipped)[0] == "mine"
    with pytest.raises(InputError, match="both"):
        find_variant("mine", shipped, tmp_path)
    with pytest.raises(InputError, match=r"no variant 'thiers' \(did you mean 'theirs'\?\)"):
        find_variant("thiers", shipped, tmp_path)
