"""Tables in the documentation match the code."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest

import agentbench_core
from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.discovery import discover
from agentbench_core.run.metering.resources import HostLoad, PhaseResources
from agentbench_core.schema import describe
from agentbench_core.values.events import EVENT_CLASSES
from agentbench_core.values.execution import ResourceUsage
from agentbench_core.values.failures import FailureReason
from agentbench_core.values.task import DEFAULT_PROTECTED, TaskSpec
from agentbench_tasks.mining.values import Code

ROOT = Path(agentbench_core.__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "tasks/README.md", *sorted(ROOT.glob("docs/**/*.md"))]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def task_rows(cls: type, prefix: str = "") -> Iterator[str]:
    """Rows of the table of fields in ``docs/task.md``."""
    hints = get_type_hints(cls)
    for row in describe(cls):
        if attrs.has(hints[row.name]):
            yield from task_rows(hints[row.name], f"{prefix}{row.name}.")
        else:
            default = row.default if len(row.default) < 60 else "see below"
            yield f"| `{prefix}{row.name}` | {row.type} | {default} | {row.help} |"


def test_every_field_of_a_task_is_documented() -> None:
    """With the same type, default and help as in the code."""
    expected = list(task_rows(TaskSpec))
    assert [line for line in page("task.md").splitlines() if line.startswith("| `")] == expected
    assert "\n".join(DEFAULT_PROTECTED) in page("task.md")


def test_every_field_of_timings_is_documented() -> None:
    """With the same help as in the code, including units."""
    prefixes = {PhaseResources: "", ResourceUsage: "commands.", HostLoad: "host."}
    expected = [
        f"| `{at}{row.name}` | {row.help} |" for cls, at in prefixes.items() for row in describe(cls) if row.help
    ]
    told = page("run-directory.md").partition("## Timings")[2].partition("\n## ")[0]
    assert [line for line in told.splitlines() if line.startswith("| `")] == expected
    named = {field.name for cls in prefixes for field in attrs.fields(cls)} - {"commands", "host"}
    assert named == {row.split("`")[1].rpartition(".")[2] for row in expected}


def test_every_hook_is_documented() -> None:
    """No other hook is mentioned."""
    hooks = {name for name in dir(hookspecs) if name.startswith("agentbench_register_")}
    assert set(re.findall(r"agentbench_register_\w+", page("write-a-plugin.md"))) == hooks


def test_every_event_and_failure_reason_is_documented() -> None:
    """In the pages that list them."""
    assert set(EVENT_CLASSES) <= set(re.findall(r"`([a-z_]+)`", page("run-directory.md")))
    assert set(FailureReason) <= set(re.findall(r"`([A-Z_]+)`", page("failures.md")))


def test_every_code_of_mining_is_documented() -> None:
    """In the order of the code, each with its meaning and what to do."""
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.+) \| (.+) \|$", page("your-own-repository.md"), re.MULTILINE)
    assert [code for code, *_ in rows] == list(Code)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_point_to_existing_files(path: Path) -> None:
    """Links within the repository exist."""
    for target in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
        assert target.startswith("http") or (path.parent / target).exists(), target


ROWS = {
    *(f"H{number:02}" for number in (*range(1, 36), 37, 38)),
    *(f"G{number:02}" for number in range(1, 13)),
    *(f"P{number:02}" for number in range(1, 18)),
    *(f"T{number:02}" for number in range(1, 10)),
    *(f"X{number:02}" for number in range(1, 9)),
    *(f"C{number:02}" for number in range(1, 33)),
    *("D", *(f"I{number:02}" for number in (*range(1, 8), *range(9, 13), 16))),
    *(f"E{number:02}" for number in range(1, 16)),
    *(f"F{number:02}" for number in range(1, 36)),
    *(f"N{number:02}" for number in range(1, 7)),
    *(f"M{number:02}" for number in range(1, 12)),
    *(f"V{number:02}" for number in range(1, 10)),
    *(f"W{number:02}" for number in range(1, 14)),
    *(f"R{number:02}" for number in range(1, 11)),
}
"""Rows of the threat model that `docs/security.md` must have."""


def test_every_row_of_the_threat_model_has_its_test() -> None:
    """Each row names a threat, its outcome and existing tests, whose docstrings have the row's id."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for line in page("security.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and re.fullmatch(r"[A-Z]\d\d|D", cells[0]):
            assert cells[0] not in rows, cells[0]
            assert len(cells) == 4, line
            assert all(cells), line
            rows[cells[0]] = re.findall(r"`([\w/-]+\.py)::(\w+)`", cells[3])
            assert rows[cells[0]], line
    assert set(rows) >= ROWS
    for row, tests in rows.items():
        for file, name in tests:
            assert re.search(rf"\b{row}\b", docstrings(ROOT / file).get(name, "")), f"{row}: {file}::{name}"


@functools.cache
def docstrings(path: Path) -> dict[str, str]:
    """Docstrings of the functions in a file; those without one have that of the module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_docstring(node) or ast.get_docstring(tree) or "" for node in functions}


def test_attack_page_has_the_summary_of_each_agent() -> None:
    """The table lists the controls and all adversaries, with the summaries of the code; `make attack` writes it."""
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| \d+ of \d+ \|", page("attack.md"), re.MULTILINE)
    agents = {each.name: each for each in discover().registry.all("agent")}
    adversaries = {name for name, each in agents.items() if "adversary" in each.capabilities}
    assert {name for name, _ in rows} == {"idle", "scripted", *adversaries}
    assert dict(rows) == {name: agents[name].summary for name, _ in rows}
