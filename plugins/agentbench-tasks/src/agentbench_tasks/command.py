"""``agentbench validate-tasks``: check that tasks are valid."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import agentbench_core
from agentbench_core import name_some, quantity
from agentbench_core.harness import (
    FLAKES_FILE,
    App,
    DateRange,
    date_flags,
    json_flag,
    print_json,
    print_table,
    rate_text,
    read_flakes,
    sandbox_flag,
    say,
    selected_tasks,
    set_flag,
    shortened,
    suite_flags,
    task_flag,
    variant_for_tasks,
)
from agentbench_tasks.expected_tests import write_expected_tests
from agentbench_tasks.flakes import CheckCounts, add_checks, rate_of
from agentbench_tasks.progress import Progress
from agentbench_tasks.validation import TaskReport, validate

_TIMES = 2
"""Default number of checks per task. One check cannot detect flaky tasks."""


@click.command()
@suite_flags
@task_flag
@date_flags
@click.option("--times", type=click.IntRange(min=1), help="Number of checks per task. [default: 2]")
@click.option("--workers", type=int, help="Number of tasks to check in parallel. [default: 2]")
@sandbox_flag
@set_flag
@click.option("--strict", is_flag=True, help="Treat notes, such as a missing reference solution, as errors.")
@click.option("--write", is_flag=True, help="Write the lists fail_to_pass and pass_to_pass of valid tasks.")
@click.option("--flakes", is_flag=True, help="Add the results to flakes.yaml and quarantine flaky tasks.")
@json_flag
@click.pass_obj
def validate_tasks(
    app: App,
    /,
    task_globs: tuple[str, ...],
    dates: DateRange,
    times: int | None,
    strict: bool,
    write: bool,
    flakes: bool,
    as_json: bool,
    **typed: Any,
) -> int:
    """Check that tasks are valid, without using an agent.

    \b
    agentbench validate-tasks --suite custom-dev
    agentbench validate-tasks --suite custom-dev --times 10 --flakes

    Each check uses a fresh copy: the failing command must fail, the empty patch must fail, and the reference solution
    must pass. A task whose results differ is flaky. With --times, the command reports how often each task was flaky.
    With --flakes, it also records this in flakes.yaml, and tasks that are flaky too often are quarantined in runs.
    Exit code: 1 unless all tasks are valid.

    Checks that need a reference solution are skipped for tasks without one, with a note.
    """
    if write and flakes:
        raise click.UsageError(
            "--write and --flakes cannot be used together: --write changes the tasks; use --flakes afterwards"
        )
    variant = variant_for_tasks(app, typed, "validation")
    settings = variant.settings.run
    tasks = selected_tasks(settings, task_globs, dates)
    suite = Path(settings.tasks) / settings.suite
    if flakes:
        read_flakes(suite)  # report errors in it before measuring anything
    checks = times or _TIMES
    progress = Progress(len(tasks) * checks)
    try:
        validate(tasks, variant, progress, times=checks, workers=settings.workers, per_test=write, strict=strict)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    findings = [result for task in tasks if (result := progress.findings.get(task.spec.id))]
    if as_json:
        print_json([_plain(finding) for finding in findings])
    elif findings:
        _print(findings)
        if times or flakes:
            _print_flakes(findings)
    if flakes:
        for line in _add_flakes(suite, findings, variant.sandbox.name):
            say(line, err=as_json)
    if write:
        for finding in findings:
            say(f"{finding.task.spec.id}: {_write(finding)}", err=as_json)
    if interrupted:
        say(f"interrupted after checking {len(findings)} of {quantity(len(tasks), 'task')}", err=True)
        return 130
    return 0 if all(finding.verdict == "valid" for finding in findings) else 1


def _print(findings: Sequence[TaskReport]) -> None:
    print_table(("TASK", "VERDICT", "TIMES", "SECONDS", "REASON"), [row for f in findings for row in _rows(f)])
    for finding in findings:
        for problem, times in finding.problems:
            say(f"\n{finding.task.spec.id}: {_how_often(finding, times)}{problem.reason}")
            if problem.output:
                say(textwrap.indent(problem.output, "  | "))
            say(f"  {problem.remedy}")
        for note in finding.notes:
            say(f"\n{finding.task.spec.id}: note: {note.reason}\n  {note.remedy}")
    calibrated = [f"{finding.task.spec.id}: {line}" for finding in findings for line in _calibrated(finding)]
    if calibrated:
        say("\n" + "\n".join(calibrated))
    valid = sum(finding.verdict == "valid" for finding in findings)
    say(f"\n{valid} of {quantity(len(findings), 'task')} valid")


def _calibrated(finding: TaskReport) -> Iterator[str]:
    """The scorer's notes on a task, and the reasons for weak verdicts."""
    if (result := finding.checks[0].calibration) is not None:
        yield from result.summary
        if result.weakness:
            yield f"weak_verdict: {result.weakness}"


def _print_flakes(findings: Sequence[TaskReport]) -> None:
    say()
    rows = []
    for finding in findings:
        tally = finding.tally
        flaky = "-" if tally.broken else f"{tally.flaky} of {tally.checks}"
        broke = f"{tally.environment_failed} of {tally.environment_checks}"
        rate = rate_text(tally.flaky, tally.checks) if tally.checks else "unknown"
        if tally.broken:
            rate = f"unknown: {tally.flaky} of {tally.checks} checks failed"
        rows.append((finding.task.spec.id, flaky, broke, rate))
    print_table(("TASK", "FLAKED", "ENVIRONMENT FAILED", "FLAKE RATE"), rows)


def _add_flakes(suite: Path, findings: Sequence[TaskReport], sandbox: str) -> Iterator[str]:
    """Write ``flakes.yaml``, and yield a line about each task."""
    written = add_checks(
        suite,
        [(finding.task, finding.tally) for finding in findings],
        sandbox=sandbox,
        harness=agentbench_core.__version__,
        today=datetime.date.today(),
    )
    for finding in findings:
        name = finding.task.spec.id
        now = written.get(name)
        if now is None:
            broken = "every check failed, so the task is broken rather than flaky"
            why = broken if finding.tally.checks else "no check reached a verdict"
            yield f"{name}: nothing written: {why}"
        else:
            state = "quarantined" if now.quarantined else "not quarantined"
            rate = rate_text(now.flaky, now.checks)
            yield f"{name}: {state} in {sandbox}: {now.flaky} of {now.checks} checks flaked, {rate}"
    yield f"wrote {len(written)} of {quantity(len(findings), 'task')} to {suite / FLAKES_FILE}"


def _rows(finding: TaskReport) -> Iterator[tuple[str, ...]]:
    """One row for a task, and one for each additional reason."""
    messages = [f"{_how_often(finding, n)}{p.reason}" for p, n in finding.problems]
    reasons = [shortened(reason, 100) for reason in (*messages, *(f"note: {note.reason}" for note in finding.notes))]
    first, *more = reasons or [""]
    times, seconds = str(len(finding.checks)), f"{finding.duration_sec:.1f}"
    yield finding.task.spec.id, finding.verdict, times, seconds, first
    yield from (("", "", "", "", reason) for reason in more)


def _how_often(finding: TaskReport, times: int) -> str:
    return "" if times == len(finding.checks) else f"in {times} of {len(finding.checks)} checks: "


def _plain(finding: TaskReport) -> dict[str, Any]:
    return {
        "task": finding.task.spec.id,
        "directory": str(finding.task.directory),
        "verdict": finding.verdict,
        "times": len(finding.checks),
        "duration_sec": round(finding.duration_sec, 3),
        "flakes": _plain_flakes(finding.tally),
        "calibration": list(_calibrated(finding)),
        "problems": [
            {
                "rule": problem.rule,
                "times": times,
                "reason": problem.reason,
                "remedy": problem.remedy,
                "output": problem.output,
            }
            for problem, times in finding.problems
        ],
        "notes": [{"reason": note.reason, "remedy": note.remedy} for note in finding.notes],
    }


def _plain_flakes(tally: CheckCounts) -> dict[str, Any]:
    """The counts as plain data. A task that always fails is not flaky, and has no flake rate."""
    rate = rate_of(tally.flaky, tally.checks)
    return {
        "checks": tally.checks,
        "failed_every_time": tally.broken,
        "flaky": 0 if tally.broken else tally.flaky,
        **(dict.fromkeys(rate) if tally.broken else rate),
        "environment_checks": tally.environment_checks,
        "environment_failed": tally.environment_failed,
    }


def _write(finding: TaskReport) -> str:
    """Write the expected tests of a task. Return a summary of the change, or the reason why nothing was written."""
    if not finding.task.script:
        return "nothing written: a reference solution is required to find the tests that must pass"
    if not finding.lists_can_be_written:
        return f"nothing written: the task is {finding.verdict}"
    result = finding.expected_tests()
    if result is None:
        return "nothing written: no results for individual tests; check that passing_command runs pytest to the end"
    if not result.fail_to_pass:
        return "nothing written: no test fails before the fix and passes after it"
    lists = {"fail_to_pass": result.fail_to_pass, "pass_to_pass": result.pass_to_pass}
    changes = write_expected_tests(finding.task, lists)
    excluded = ""
    if result.failing:
        tests = quantity(len(result.failing), "test")
        names = name_some(result.failing)
        excluded += f"; excluded {tests} that did not pass with the reference solution: {names}"
    if result.unsteady:
        excluded += f"; excluded {quantity(result.unsteady, 'test')} with inconsistent results"
    return f"{f'wrote {changes}' if changes else 'nothing to write'}{excluded}"
