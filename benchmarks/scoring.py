"""The cost of the hardened scorer in score phases of the bundled tasks' solutions, compared with the `plain` scorer.

``python benchmarks/scoring.py [--sandbox docker] [--suite NAME ...] [--times N]``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODES = {"hardened": "tests", "plain": "plain"}


def score_seconds(suite: str, sandbox: str, scorer: str, out: Path) -> dict[str, float]:
    """Seconds of each score phase in a run of the solutions. Raises SystemExit if a solution does not pass."""
    command = [str(Path(sys.executable).with_name("agentbench")), "run", "--suite", suite, "--agent", "scripted"]
    flags = ["--sandbox", sandbox, "--workers", "1", "--set", f"scorer={scorer}", "--out", str(out)]
    subprocess.run([*command, *flags], check=True, capture_output=True)
    (run,) = out.iterdir()
    records = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    failed = [record["task_id"] for record in records if not record["result"]["passed"]]
    if failed:
        raise SystemExit(f"{suite}: the solution does not pass: {', '.join(failed)}")
    timings = {path.parts[-3]: json.loads(path.read_text()) for path in run.glob("tasks/*/meta/timings.json")}
    return {task: float(timing["phases_sec"]["score"]) for task, timing in timings.items()}


def main() -> None:
    """Print both sums for each suite, the overall ratio, and the task with the worst ratio.

    The first run calibrates tasks that are not yet calibrated in this sandbox. For each task, the fastest run is used.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandbox", default="local")
    parser.add_argument("--suite", action="append")
    parser.add_argument("--times", type=int, default=3)
    typed = parser.parse_args()
    best: dict[str, dict[str, float]] = {mode: {} for mode in MODES}
    print(f"score phases of the solutions in {typed.sandbox}, the fastest of {typed.times}")
    for suite in typed.suite or ["custom-dev", "custom-heldout"]:
        tasks: set[str] = set()
        for _ in range(typed.times):
            for mode, scorer in MODES.items():
                with tempfile.TemporaryDirectory() as out:
                    for task, seconds in score_seconds(suite, typed.sandbox, scorer, Path(out)).items():
                        best[mode][task] = min(best[mode].get(task, seconds), seconds)
                        tasks.add(task)
        sums = {mode: sum(best[mode][task] for task in tasks) for mode in MODES}
        print(f"  {suite:<16} hardened {sums['hardened']:6.2f} s   plain {sums['plain']:6.2f} s")
    ratios = {task: seconds / best["plain"][task] for task, seconds in best["hardened"].items()}
    worst = max(ratios, key=ratios.__getitem__)
    ratio = sum(best["hardened"].values()) / sum(best["plain"].values())
    print(f"  hardened / plain   {ratio:.2f} x   (at most 1.15x)   worst: {worst} {ratios[worst]:.2f} x")


if __name__ == "__main__":
    main()
