"""``agentbench tasks strengthen``: propose assertions for a task with weak verdicts, and add accepted ones."""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from agentbench_core import Calibration, InputError, quantity
from agentbench_core.harness import (
    App,
    Task,
    Variant,
    json_flag,
    print_json,
    read_suite,
    read_task,
    sandbox_flag,
    say,
    select,
    set_flag,
    shortened,
    suite_flags,
    variant_for_tasks,
)
from agentbench_tasks.checks import TaskCheck
from agentbench_tasks.strengthen.examining import Examined, examine
from agentbench_tasks.strengthen.finding import require
from agentbench_tasks.strengthen.proposals import Proposal
from agentbench_tasks.strengthen.staging import additions, apply, new_text, staged
from agentbench_tasks.validation import Watcher, validate

_SAFE = re.compile(r"\((\d+) safe values in (\d+) test functions\)")
_REMINDER = """\
The values come from the reference solution. Accept an assertion only if the description of the task or the
documentation in its repository specifies these values: a correct solution must not fail because of it."""
_MAX_SKIPPED = 12


@click.command("strengthen")
@click.argument("task_name", metavar="TASK")
@suite_flags
@click.option("--times", type=click.IntRange(min=2), default=3, show_default=True, help="Number of runs and checks.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of proposals.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for selecting the inputs.")
@click.option("--accept", metavar="N,N|all", help="Add these proposals to the hidden tests.")
@sandbox_flag
@set_flag
@json_flag
@click.pass_obj
def strengthen_task(
    app: App,
    /,
    task_name: str,
    times: int,
    limit: int,
    seed: int,
    accept: str | None,
    as_json: bool,
    **typed: Any,
) -> int:
    """Propose assertions for a task whose verdicts are weak, and add the ones that you accept.

    \b
    agentbench tasks strengthen my-task --suite my-suite --sandbox docker
    agentbench tasks strengthen my-task --suite my-suite --sandbox docker --accept 1,3

    TASK is its id or directory. The calls in failing tests are repeated with other inputs, without and with the
    reference solution. A value is proposed if it was the same in all runs and the unfixed program does not return it.
    Check that the description or the documentation specifies the values before you accept them. Accepted assertions are
    written into a new hidden test file if the task is then valid and stronger.

    Without --accept and --json, an interactive command prompts for each proposal. With the same seed and task,
    proposals always have the same numbers. Exit code: 1 if there are no proposals, or if accepted ones were not added.
    """
    wanted = _numbers(accept)
    variant = variant_for_tasks(app, typed, "strengthening")
    settings = variant.settings.run
    is_path = Path(task_name).exists()
    task = (
        read_task(Path(task_name))
        if is_path
        else select(read_suite(Path(settings.tasks), settings.suite), [task_name])[0]
    )
    require(task)
    with tempfile.TemporaryDirectory(prefix="agentbench-strengthen-") as directory:
        examined = examine(task, variant, _Progress(), Path(directory), times=times, limit=limit, seed=seed)
        if not as_json:
            _print(task, examined)
        if accept is None and not as_json and examined.proposals and is_terminal():
            wanted = _asked(examined.proposals)
        chosen = _chosen(examined.proposals, wanted)
        result = _add(task, variant, examined, chosen, Path(directory) / "accepted", times) if chosen else None
    if as_json:
        print_json(_plain(task, examined, chosen, result))
    elif result is not None:
        _print_result(examined, result)
    elif examined.proposals:
        say(f"\nto add proposals: agentbench tasks strengthen {task.directory} --accept N,N")
    if result is not None:
        return 0 if result.written else 1
    return 0 if examined.proposals else 1


@attrs.frozen(kw_only=True)
class _Result:
    """The result for accepted proposals. ``problem`` is the reason why nothing was written."""

    after: Calibration | None = None
    written: Sequence[Path] = ()
    problem: str = ""


class _Progress(Watcher):
    """Prints the result of each check."""

    def checked(self, task: Task, number: int, check: TaskCheck) -> None:
        """Print one line."""
        problem = check.problems[0] if check.problems else None
        how = f"broken: {problem.rule}: {shortened(problem.reason)}" if problem else "valid"
        say(f"[check {number}] {task.spec.id}  {how}  {check.duration_sec:.1f} s", err=True)

    def note(self, message: str) -> None:
        """Print one line."""
        say(f"note: {message}", err=True)


def is_terminal() -> bool:
    """Whether the command can prompt the user."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _numbers(accept: str | None) -> frozenset[int] | None:
    """The accepted numbers; ``None`` for all."""
    if accept is None:
        return frozenset()
    if accept.strip() == "all":
        return None
    parts = [part.strip() for part in accept.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdecimal() for part in parts):
        raise click.BadParameter(
            f"must be `all` or a list of numbers (example: 1,3), not {accept!r}", param_hint="--accept"
        )
    return frozenset(map(int, parts))


def _chosen(proposals: Sequence[Proposal], wanted: frozenset[int] | None) -> Sequence[Proposal]:
    known = {proposal.number for proposal in proposals}
    if wanted and (unknown := sorted(wanted - known)):
        has = f"{len(known) or 'no'} proposal{'s' * (len(known) != 1)}"
        raise InputError(f"--accept: no proposal has the number {unknown[0]} ({has} found)")
    return [proposal for proposal in proposals if wanted is None or proposal.number in wanted]


def _asked(proposals: Sequence[Proposal]) -> frozenset[int]:
    say()
    return frozenset(
        proposal.number
        for proposal in proposals
        if click.confirm(f"add proposal {proposal.number}? (only if its values are specified)", default=False)
    )


def _add(
    task: Task, variant: Variant, examined: Examined, chosen: Sequence[Proposal], directory: Path, times: int
) -> _Result:
    """Validate a copy of the task with the chosen proposals, and write them if it is valid and stronger."""
    added = additions(task, chosen)
    text = new_text(task, added, examined.lists)
    (report,) = validate(
        [staged(task, directory, text, added)], variant, _Progress(), times=times, workers=1, per_test=True
    )
    after = report.checks[0].calibration
    if report.problems:
        problem, count = report.problems[0]
        often = "" if count == len(report.checks) else f" in {count} of {len(report.checks)} checks"
        return _Result(after=after, problem=f"the task would not be valid{often}: {problem.reason}")
    if not _is_stronger(examined.before, after):
        return _Result(after=after, problem="verdicts on the task would not be stronger")
    return _Result(after=after, written=apply(task, text, added))


def _is_stronger(before: Calibration, after: Calibration | None) -> bool:
    if after is None or (after.weakness and not before.weakness):
        return False
    return bool(before.weakness and not after.weakness) or _safe(after) > _safe(before)


def _safe(calibration: Calibration) -> tuple[int, int]:
    """Numbers of test functions and of values that are safe, from the scorer's summary."""
    found = _SAFE.search("\n".join(calibration.summary))
    return (int(found[2]), int(found[1])) if found else (0, 0)


# --- output ------------------------------------------------------------------------------------------------------


def _print(task: Task, examined: Examined) -> None:
    name = task.spec.id
    for line in _strength(examined.before):
        say(f"{name}: {line}")
    if not examined.before.weakness:
        say(f"{name}: verdicts are not weak; more assertions are optional")
    if not task.spec.validation.expected_tests:
        say(f"{name}: task.yaml lists no expected tests; they are added with the first accepted proposal")
    for proposal in examined.proposals:
        say(f"\n[{proposal.number}] repeats the assertion at {proposal.call.where} with different inputs")
        say(textwrap.indent(proposal.assertion, "    "))
        say(f"    unfixed program: {', '.join(proposal.unfixed)}")
    for skipped in examined.skipped[:_MAX_SKIPPED]:
        say(f"\nnot proposed: {skipped.where}: {skipped.reason}")
    if len(examined.skipped) > _MAX_SKIPPED:
        say(f"\nnot proposed: {len(examined.skipped) - _MAX_SKIPPED} more (--json lists all)")
    if not examined.proposals:
        calls = quantity(examined.calls, "call")
        say(f"\n{name}: no proposals from {calls}; add tests that compare exact values")
        return
    say(f"\n{_REMINDER}")
    if examined.with_all is not None:
        say(f"\nwith all proposals ({len(examined.proposals)}):")
        for line in _strength(examined.with_all):
            say(f"  {line}")
        if not examined.with_all.weakness:
            say("  verdicts would not be weak")


def _strength(calibration: Calibration) -> Sequence[str]:
    return [*calibration.summary, *([f"weak_verdict: {calibration.weakness}"] if calibration.weakness else [])]


def _print_result(examined: Examined, result: _Result) -> None:
    for when, calibration in (("before", examined.before), ("after", result.after)):
        for line in _strength(calibration) if calibration else ():
            say(f"{when}: {line}")
        if calibration and not calibration.weakness:
            say(f"{when}: verdicts are not weak")
    if result.problem:
        say(f"nothing was written: {result.problem}", err=True)
    for path in result.written:
        say(f"wrote {path}")


def _plain(task: Task, examined: Examined, chosen: Sequence[Proposal], result: _Result | None) -> Mapping[str, Any]:
    return {
        "task": task.spec.id,
        "directory": str(task.directory),
        "before": _plain_strength(examined.before),
        "with_all": _plain_strength(examined.with_all),
        "calls": examined.calls,
        "proposals": [
            {
                "number": proposal.number,
                "repeats": proposal.call.where,
                "test": proposal.name,
                "code": proposal.code,
                "calls": list(proposal.sources),
                "values": list(proposal.values),
                "unfixed": list(proposal.unfixed),
            }
            for proposal in examined.proposals
        ],
        "not_proposed": [attrs.asdict(skipped) for skipped in examined.skipped],
        "accepted": [proposal.number for proposal in chosen],
        "after": _plain_strength(result.after if result else None),
        "written": [str(path) for path in result.written] if result else [],
        "problem": result.problem if result else "",
    }


def _plain_strength(calibration: Calibration | None) -> Mapping[str, Any] | None:
    if calibration is None:
        return None
    return {"summary": list(calibration.summary), "weakness": calibration.weakness}
