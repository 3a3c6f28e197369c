"""Stand-ins for ``sbatch`` and ``srun`` on one machine: the parts of Slurm that the scripts in docs/shards use.

As in Slurm, a job runs a copy of its script, in the directory of its submission; the directives in the script apply
where the command line has no such option; and a job whose dependency has failed never starts. Unlike in Slurm, `sbatch`
returns when the job has ended.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_TEXT = ("job-name", "array", "ntasks", "cpus-per-task", "mem", "time", "open-mode", "output", "dependency")
_SRUN = """\
#!/bin/bash
# Runs the job step. If $SLURM_TEST_KILL is the number of the task, the node fails when the first attempt is recorded.
[ -n "$SLURM_JOB_ID" ] || exit 1
[ "${SLURM_TEST_KILL:-}" = "${SLURM_ARRAY_TASK_ID:-none}" ] || exec "$@"
out=${!#}
"$@" &
until [ -n "$(cat "$out"/*/attempts.jsonl 2>/dev/null)" ]; do sleep 0.02; kill -0 $! || exit 1; done
kill -KILL $!
wait
exit 137
"""


def install(directory: Path) -> None:
    """Write the programs to a directory, for ``PATH``."""
    directory.mkdir()
    for name, text in (
        ("sbatch", f'#!/bin/sh\nexec {sys.executable} {Path(__file__)} {directory / "jobs"} "$@"\n'),
        ("srun", _SRUN),
    ):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    (directory / "jobs").mkdir()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sbatch", allow_abbrev=False)
    for name in _TEXT:
        parser.add_argument(f"--{name}")
    parser.add_argument("--kill-on-invalid-dep", choices=["yes"])
    parser.add_argument("--parsable", action="store_true")
    parser.add_argument("--requeue", action="store_true")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs="*")
    return parser


def _directives(script: Path) -> Sequence[str]:
    """The options in the comments before the first command."""
    head = re.match(r"(?:(?:#.*)?\n)*", script.read_text())
    assert head is not None
    return re.findall(r"^#SBATCH (\S+)$", head[0], re.MULTILINE)


def sbatch(jobs: Path, words: Sequence[str]) -> int:
    """Run a job, or the tasks of an array, and print its id."""
    script = _parser().parse_args(words).script
    options = _parser().parse_args([*_directives(script), *words])
    number = len(list(jobs.iterdir())) + 1
    job = jobs / str(number)
    job.mkdir()
    print(number if options.parsable else f"Submitted batch job {number}")
    if options.dependency:
        kind, _, other = options.dependency.partition(":")
        assert kind == "afterok"
        if not (jobs / other / "completed").exists():
            return 0
    shutil.copy(script, job / "slurm_script")
    first, _, last = (options.array or "0").partition("-")
    tasks = range(int(first), int(last or first) + 1)

    def run(task: int) -> int:
        variables = {"SLURM_JOB_ID": f"{number}{task:03}", "SLURM_SUBMIT_DIR": str(Path.cwd())}
        if options.array:
            variables |= {"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}
        if options.cpus_per_task:
            variables["SLURM_CPUS_PER_TASK"] = options.cpus_per_task
        with Path(options.output.replace("%a", str(task))).open("a" if options.open_mode == "append" else "w") as log:
            return subprocess.run(
                ["bash", str(job / "slurm_script"), *options.arguments],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode

    with ThreadPoolExecutor(2) as pool:
        if not any(list(pool.map(run, tasks))):
            (job / "completed").touch()
    return 0


if __name__ == "__main__":
    sys.exit(sbatch(Path(sys.argv[1]), sys.argv[2:]))
