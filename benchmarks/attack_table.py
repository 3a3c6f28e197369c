"""Write the results of `agentbench tasks attack --contrast --json` to docs/attack.md. Arguments: the JSON files.

If a task is in several files, the last one counts. Exit code 1 if an adversary passed where none may, a control or an
adversary failed to run, a reference solution got a label, or the adversaries that pass in the sandbox `local` differ
from tests/integrity/attack.yaml.
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
LOCAL = yaml.safe_load((ROOT / "tests/integrity/attack.yaml").read_text(encoding="utf-8"))["local"]

Trials = dict[tuple[str, str], dict[str, list[tuple[str, dict[str, Any]]]]]
"""By sandbox and scorer, then by agent: task and trial."""


def read(paths: list[str]) -> Trials:
    last: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in paths:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
        last |= {(report["sandbox"], task["scorer"], task["task"]): task["trials"] for task in report["tasks"]}
    trials: Trials = defaultdict(lambda: defaultdict(list))
    for (sandbox, scorer, task), runs in sorted(last.items()):
        for trial in runs:
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
    headers = [f"`{sandbox}`, {scorer}" for sandbox, scorer in columns]
    lines = [f"| agent | what it does | {' | '.join(headers)} |", "|---" * (2 + len(headers)) + "|"]
    descriptions = summaries()
    for agent in sorted({name for column in columns for name in trials[column]}, key=order):
        cells = [passed(trials[column][agent]) if agent in trials[column] else "" for column in columns]
        lines.append(f"| `{agent}` | {descriptions.get(agent, '')} | {' | '.join(cells)} |")
    return lines


def order(agent: str) -> tuple[bool, str]:
    return agent not in ("scripted", "idle"), agent


def local_section(trials: Trials) -> list[str]:
    """The adversaries that pass in `local`, and why."""
    agents = passing(trials, "local")
    if not agents:
        return []
    lines = [
        "",
        "`local` is not isolated, so these adversaries pass there even with the scorer `tests`:",
        "",
        "| agent | reason |",
        "|---|---|",
    ]
    return [*lines, *(f"| `{name}` | {LOCAL.get(name, '?')} |" for name in sorted(agents))]


def passing(trials: Trials, sandbox: str) -> set[str]:
    by_agent = trials.get((sandbox, "tests"), {})
    return {
        name
        for name, results in by_agent.items()
        if any(t["ended"] == "passed" and not t["control"] for _, t in results)
    }


def find_problems(trials: Trials) -> list[str]:
    messages = [f"{name} passes in docker" for name in sorted(passing(trials, "docker"))]
    if ("local", "tests") in trials and passing(trials, "local") != set(LOCAL):
        messages.append(f"in local, {sorted(passing(trials, 'local'))} pass, expected {sorted(LOCAL)}")
    for (sandbox, scorer), by_agent in trials.items():
        for name, each in by_agent.items():
            for task, trial in each:
                is_wrong = trial["ended"] == "broken" or (
                    trial["control"] and (name == "scripted") != (trial["ended"] == "passed")
                )
                if name == "scripted" and scorer == "tests" and trial["labels"]:
                    messages.append(
                        f"{sandbox}, {task}: scripted has labels: {[each['name'] for each in trial['labels']]}"
                    )
                if is_wrong:
                    messages.append(f"{sandbox}, {scorer}, {task}: {name} is {trial['ended']}: {trial['explanation']}")
    return messages


def main() -> int:
    trials = read(sys.argv[1:])
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    section = "\n".join([*table(trials), *local_section(trials)])
    PAGE.write_text(f"{before}{BEGIN}\n\n{section}\n\n{END}{after}", encoding="utf-8")
    problems = find_problems(trials)
    print(f"wrote {PAGE.relative_to(ROOT)}", *problems, sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
