"""Write what `agentbench tasks attack --contrast --json` found into docs/attack.md; arguments are files of it.

A task that was attacked again is in two of them: what the later file says of it counts. Exit code 1 when an adversary
passed where none may, a control or an adversary went wrong, a reference solution got a label, or what passes in the
sandbox `local` is not what tests/run/attack.yaml says.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/attack.md"
BEGIN, END = (f"<!-- made by make attack: {word} -->" for word in ("begin", "end"))
LOCAL = yaml.safe_load((ROOT / "tests/run/attack.yaml").read_text(encoding="utf-8"))["local"]

Trials = dict[tuple[str, str], dict[str, list[tuple[str, dict[str, Any]]]]]
"""By sandbox and scorer, then by agent: task and trial."""


def read(paths: list[str]) -> Trials:
    last: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in paths:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        last |= {(found["sandbox"], task["scorer"], task["task"]): task["trials"] for task in found["tasks"]}
    trials: Trials = defaultdict(lambda: defaultdict(list))
    for (sandbox, scorer, task), tried in sorted(last.items()):
        for trial in tried:
            trials[sandbox, scorer][trial["agent"]].append((task, trial))
    return trials


def summaries() -> dict[str, str]:
    from agentbench_core.plugin.discovery import discover

    return {component.name: component.summary for component in discover().registry.all("agent")}


def passed(trials: list[tuple[str, dict[str, Any]]]) -> str:
    ended = [trial["ended"] for _, trial in trials]
    return f"{ended.count('passed')} of {ended.count('passed') + ended.count('failed')}"


def table(trials: Trials) -> list[str]:
    columns = sorted(trials, key=lambda column: (column[0] != "docker", column))
    heads = [f"`{sandbox}`, {scorer}" for sandbox, scorer in columns]
    lines = [f"| agent | what it does | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    said = summaries()
    for agent in sorted({name for column in columns for name in trials[column]}, key=order):
        cells = [passed(trials[column][agent]) if agent in trials[column] else "" for column in columns]
        lines.append(f"| `{agent}` | {said.get(agent, '')} | {' | '.join(cells)} |")
    return lines


def order(agent: str) -> tuple[bool, str]:
    return agent not in ("scripted", "idle"), agent


def explained(trials: Trials) -> list[str]:
    """Who passes in `local`, and why."""
    winners = winners_of(trials, "local")
    if not winners:
        return []
    lines = [
        "",
        "`local` is not isolated, so these adversaries pass there even with the scorer `tests`:",
        "",
        "| agent | reason |",
        "|---|---|",
    ]
    return [*lines, *(f"| `{name}` | {LOCAL.get(name, '?')} |" for name in sorted(winners))]


def winners_of(trials: Trials, sandbox: str) -> set[str]:
    found = trials.get((sandbox, "tests"), {})
    return {name for name, each in found.items() if any(t["ended"] == "passed" and not t["control"] for _, t in each)}


def wrong(trials: Trials) -> list[str]:
    said = [f"{name} passes in docker" for name in sorted(winners_of(trials, "docker"))]
    if ("local", "tests") in trials and winners_of(trials, "local") != set(LOCAL):
        said.append(f"in local {sorted(winners_of(trials, 'local'))} pass, and not {sorted(LOCAL)}")
    for (sandbox, scorer), found in trials.items():
        for name, each in found.items():
            for task, trial in each:
                bad = trial["ended"] == "broken" or (
                    trial["control"] and (name == "scripted") != (trial["ended"] == "passed")
                )
                if name == "scripted" and scorer == "tests" and trial["labels"]:
                    said.append(f"{sandbox}, {task}: scripted has labels: {[each['name'] for each in trial['labels']]}")
                if bad:
                    said.append(f"{sandbox}, {scorer}, {task}: {name} is {trial['ended']}: {trial['explanation']}")
    return said


def main() -> int:
    trials = read(sys.argv[1:])
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    made = "\n".join([*table(trials), *explained(trials)])
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", encoding="utf-8")
    problems = wrong(trials)
    print(f"wrote {PAGE.relative_to(ROOT)}", *problems, sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
