"""What hardening the scorer costs: the score phase of every bundled task's solution, in both modes, in turns.

``python benchmarks/scoring.py [--sandbox docker] [--suite NAME ...] [--times N]``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODES = {"hardened": "true", "plain": "false"}


def score_seconds(suite: str, sandbox: str, hardened: str, out: Path) -> float:
    """Seconds of all score phases of a run of the solutions, one task at a time. Raises if one does not pass."""
    command = [str(Path(sys.executable).with_name("agentbench")), "run", "--suite", suite, "--agent", "scripted"]
    flags = ["--sandbox", sandbox, "--workers", "1", "--set", f"scorer.hardened={hardened}", "--out", str(out)]
    subprocess.run([*command, *flags], check=True, capture_output=True)
    (run,) = out.iterdir()
    records = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    failed = [record["task_id"] for record in records if not record["result"]["passed"]]
    if failed:
        raise SystemExit(f"{suite}: the solution does not pass: {', '.join(failed)}")
    timings = [json.loads(path.read_text()) for path in run.glob("tasks/*/meta/timings.json")]
    return sum(float(timing["phases_sec"]["score"]) for timing in timings)


def main() -> None:
    """Print both sums for each suite, and the ratio of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandbox", default="local")
    parser.add_argument("--suite", action="append")
    parser.add_argument("--times", type=int, default=2)
    typed = parser.parse_args()
    total = dict.fromkeys(MODES, 0.0)
    print(f"score phases of the solutions in {typed.sandbox}, the faster of {typed.times}")
    for suite in typed.suite or ["custom-dev", "custom-heldout"]:
        best = dict.fromkeys(MODES, float("inf"))
        for _ in range(typed.times):
            for mode, hardened in MODES.items():
                with tempfile.TemporaryDirectory() as out:
                    best[mode] = min(best[mode], score_seconds(suite, typed.sandbox, hardened, Path(out)))
        print(f"  {suite:<16} hardened {best['hardened']:6.2f} s   plain {best['plain']:6.2f} s")
        for mode, seconds in best.items():
            total[mode] += seconds
    print(f"  hardened / plain   {total['hardened'] / total['plain']:.2f} x   (at most 1.3x)")


if __name__ == "__main__":
    main()
