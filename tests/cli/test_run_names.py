"""Every command that takes a run finds it by path, name, id, a beginning of one of them, or ``latest``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import write_run

RUNS = {
    # directory: run id, variant, group, start
    "2026-01-01__mini__one": ("01AAAAAAAAAAAAAAAAAAAA0001", "one", "a", "2026-01-01T10:00:00+0000"),
    "2026-01-02__mini__one": ("01AAAAAAAAAAAAAAAAAABB0002", "one", "b", "2026-01-02T10:00:00+0000"),
    "2026-01-02__mini__two": ("01AAAAAAAAAAAAAAAAAABB0003", "two", "b", "2026-01-02T10:00:00+0000"),
    "2026-01-03__mini__two": ("01CCCCCCCCCCCCCCCCCCCC0004", "two", "c", "2026-01-01T09:00:00+0000"),
}


@pytest.fixture
def runs() -> None:
    """Four runs of two variants; the one whose directory comes last was started first."""
    for name, (run_id, variant, group, start) in RUNS.items():
        fields = {"run_id": run_id, "variant": variant, "group_id": group, "created_at": start}
        write_run(Path("artifacts/runs") / name, {"one": True}, run=fields)
    write_run(Path("elsewhere/2026__mini__far"), {"one": True})


def _shown(agentbench: Any, name: str) -> tuple[str, str]:
    done = agentbench("runs", "show", name, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["manifest"]["run_id"], done.err


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("artifacts/runs/2026-01-01__mini__one", "0001"),
        ("2026-01-01__mini__one", "0001"),
        ("2026-01-03", "0004"),
        ("01aaaaaaaaaaaaaaaaaaaa0001", "0001"),
        ("01C", "0004"),
        ("one-0002", "0002"),
        ("two-0004", "0004"),
        ("latest:one", "0002"),
        ("latest~1:one", "0001"),
        ("latest~1", "0002"),
        ("latest~3", "0004"),
        ("elsewhere/latest", "_far"),
        ("elsewhere/2026", "_far"),
        ("artifacts/runs/latest~2", "0001"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_a_run_has_many_names(agentbench: Any, typed: str, found: str) -> None:
    assert _shown(agentbench, typed)[0].endswith(found)


@pytest.mark.usefixtures("runs")
def test_latest_of_several_variants_is_named_in_a_note(agentbench: Any) -> None:
    run_id, note = _shown(agentbench, "latest")
    assert run_id.endswith("0003")
    assert note == "note: latest is two-0003; the same command ran these variants: one, two\n"
    assert _shown(agentbench, "latest:two") == (run_id, "")


@pytest.mark.usefixtures("runs")
def test_an_existing_path_counts_first(agentbench: Any) -> None:
    write_run(Path("latest"), {"one": True})
    assert _shown(agentbench, "latest") == ("run-latest", "")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("one", "'one' matches 2 runs in artifacts/runs: one-0001, one-0002"),
        ("01A", "'01A' matches 3 runs in artifacts/runs: one-0001, one-0002, two-0003"),
        ("on-0002", "(did you mean 'one-0002'?)"),
        ("zzzz", "no run in artifacts/runs has this name\nThe latest runs: two-0003, one-0002, one-0001, two-0004."),
        ("latest:thre", "no run in artifacts/runs has variant 'thre'\nVariants of these runs: one, two."),
        ("latest:tow", "(did you mean 'two'?)"),
        ("latest~4", "latest~4: artifacts/runs has 4 runs, so the oldest is latest~3"),
        ("latest~2:two", "artifacts/runs has 2 runs of variant 'two', so the oldest is latest~1"),
        ("nowhere/latest", "nowhere/latest: there are no runs in nowhere"),
        ("elsewhere/", "elsewhere is not a run directory (run.json not found)"),
        ("", "is not a run directory"),
        ("x" * 5000, "is not a run directory (run.json not found)"),
        ("x" * 5000 + "/latest", "cannot be read: File name too long"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_errors_list_candidates(agentbench: Any, typed: str, message: str) -> None:
    done = agentbench("runs", "show", typed)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    "command",
    [
        ["runs", "show", "RUN"],
        ["runs", "rebuild", "RUN"],
        ["report", "summary", "--run", "RUN"],
        ["report", "html", "--run", "RUN", "--run-b", "RUN"],
        ["report", "paired", "--run-a", "RUN", "--run-b", "RUN"],
        ["report", "compare", "--runs", "RUN", "RUN", "--baseline", "RUN"],
        ["report", "power", "--effect", "0.1", "--pilot", "RUN"],
        ["report", "power", "--run-a", "RUN", "--run-b", "RUN"],
        ["report", "gate", "--config", "gate.yaml", "--baseline", "RUN", "--candidate", "RUN"],
        ["report", "gate", "--config", "gate.yaml", "--baseline", "RUN", "--plan"],
        ["replay", "RUN"],
        ["run", "--resume", "RUN"],
        ["run", "--like", "RUN"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("runs")
def test_every_command_takes_every_name(agentbench: Any, command: list[str]) -> None:
    """The error for an ambiguous name shows that the command searched for it; a short name is then found."""
    Path("gate.yaml").write_text("margin: 0.05\n")
    ambiguous = agentbench(*(word.replace("RUN", "01A") for word in command))
    assert (ambiguous.code, ambiguous.out) == (2, "")
    assert "'01A' matches 3 runs in artifacts/runs" in ambiguous.err
    found = agentbench(*(word.replace("RUN", "one-0002") for word in command))
    assert "one-0002" not in found.err


@pytest.mark.usefixtures("runs")
def test_a_damaged_run_has_only_the_name_of_its_directory(agentbench: Any) -> None:
    Path("artifacts/runs/2026-01-02__mini__two/run.json").write_text("{")
    assert _shown(agentbench, "latest")[0].endswith("0002")
    done = agentbench("runs", "show", "2026-01-02__mini__two")
    assert (done.code, "run.json is damaged" in done.err) == (2, True)
