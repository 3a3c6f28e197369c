"""A scorer that passes all checks, and variants that are each broken in one respect."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import attrs

from agentbench_core import (
    AgentBenchError,
    Command,
    CommandResult,
    Deadline,
    ExecResult,
    Label,
    Output,
    SandboxError,
    Score,
    Scorer,
    ScoringContext,
    ToolError,
    option,
)
from agentbench_testing import ScorerConformance

SAID = "said.txt"
_RUN = '{command} > "$AGENTBENCH_RESULTS/said.txt" 2>&1; code=$?; cat "$AGENTBENCH_RESULTS/said.txt"; exit $code'
_TEST = re.compile(r"^\w+ \((?P<id>[\w.]+)\) \.\.\. (?P<ended>ok|FAIL|ERROR)$", re.MULTILINE)
_WORDS = {"ok": "passed", "FAIL": "failed", "ERROR": "error"}


@attrs.frozen(kw_only=True)
class Options:
    label: str = option("weak_verdict", help="how it calls what a program can forge")


class Careful:
    """Reads the output of unittest. It is correct; doubles override one method each."""

    patience: ClassVar[float] = 20.0

    def __init__(self) -> None:
        self.options = Options()

    def score(self, context: ScoringContext) -> Score:
        context.deadline.check()
        result = self.run(context, self.workspace(context))
        self.keep(context, result)
        if result.timed_out:
            return self.timed_out(context)
        return self.verdict(context, result, self.read(result))

    def workspace(self, context: ScoringContext) -> Path:
        return context.fork()

    def run(self, context: ScoringContext, workspace: Path) -> CommandResult:
        context = attrs.evolve(context, network=self.network(context))
        return context.run(self.command(context), workspace, files=[SAID])

    def command(self, context: ScoringContext) -> Command:
        return Command(_RUN.format(command=context.validation.passing_command))

    def network(self, context: ScoringContext) -> bool:
        return context.network

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        context.save_output(result)

    def timed_out(self, context: ScoringContext) -> Score:
        context.deadline.check()
        return Score(passed=False, exit_code=None, timed_out=True)

    def read(self, result: CommandResult) -> str:
        return result.files.get(SAID, b"").decode("utf-8", "replace")

    def verdict(self, context: ScoringContext, result: ExecResult, said: str) -> Score:
        tests = {found["id"]: _WORDS[found["ended"]] for found in _TEST.finditer(said)}
        missing = [name for name in self.expected(context) if tests.get(name) != "passed"]
        return Score(
            passed=self.passes(context, result, said) and not missing,
            exit_code=result.exit_code,
            labels=(Label(name=self.options.label, evidence="unittest shares a process with the program"),),
            explanation=self.explanation(result),
            tests=tests if context.per_test else None,
        )

    def expected(self, context: ScoringContext) -> Sequence[str]:
        return context.validation.expected_tests

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return result.ok

    def explanation(self, result: ExecResult) -> str:
        return f"exit code {result.exit_code}"


class NeverSatisfied(Careful):
    """Passes only with 1000 tests."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return result.ok and "1000 tests" in said


class PassesUnlessTimedOut(Careful):
    """Passes unless the tests time out."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return not result.timed_out


class PassesUnchanged(Careful):
    """Passes attempts without a change."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return result.ok or self.untouched

    def run(self, context: ScoringContext, workspace: Path) -> CommandResult:
        self.untouched = "left - right" in (workspace / "adding.py").read_text()
        return super().run(context, workspace)


class CountsFailures(Careful):
    """Counts failures but not errors."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return "FAIL" not in said


class FailsForever(Careful):
    """Fails everything after the first failure."""

    disappointed = False

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        self.disappointed = self.disappointed or not result.ok
        return not self.disappointed


class SharesItsWorkspace(Careful):
    """Stores the current workspace in an attribute."""

    def run(self, context: ScoringContext, workspace: Path) -> CommandResult:
        self.current = workspace
        time.sleep(0.3)
        return super().run(context, self.current)


class ReportsNoTests(Careful):
    """Never reports single tests."""

    def verdict(self, context: ScoringContext, result: ExecResult, said: str) -> Score:
        return attrs.evolve(super().verdict(context, result, said), tests=None)


class ReportsAllPassed(Careful):
    """Reports every test as passed."""

    def verdict(self, context: ScoringContext, result: ExecResult, said: str) -> Score:
        score = super().verdict(context, result, said)
        return attrs.evolve(score, tests=score.tests and dict.fromkeys(score.tests, "passed"))


class IgnoresMissingTests(Careful):
    """Ignores missing tests."""

    def expected(self, context: ScoringContext) -> Sequence[str]:
        return ()


class AddsNoLabel(Careful):
    """Adds no label to verdicts that can be forged."""

    def verdict(self, context: ScoringContext, result: ExecResult, said: str) -> Score:
        return attrs.evolve(super().verdict(context, result, said), labels=())


class Quoting(Careful):
    """Explains with raw program output."""

    def explanation(self, result: ExecResult) -> str:
        return result.stdout.data.decode("utf-8", "surrogateescape")


class Adjustable(Careful):
    """Has mutable options."""

    @attrs.define
    class Options:
        label: str = "weak_verdict"

    def __init__(self) -> None:
        self.options = self.Options()  # type: ignore[assignment]


class PassesMissingCommands(Careful):
    """Passes if the command does not exist."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return result.exit_code in (0, 127)


class ReadsWords(Careful):
    """Trusts printed output instead of the exit code."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return "\nOK\n" in result.stdout.text


class HidesTimeouts(Careful):
    """Reports a timeout as an ordinary failure."""

    def score(self, context: ScoringContext) -> Score:
        return attrs.evolve(super().score(context), timed_out=False)

    def timed_out(self, context: ScoringContext) -> Score:
        return Score(passed=False, exit_code=None, timed_out=True)


class UsesItsOwnDeadline(Careful):
    """Uses its own deadline."""

    patience = 2.5

    def score(self, context: ScoringContext) -> Score:
        return super().score(attrs.evolve(context, deadline=Deadline(10.0)))


class CatchesAll(Careful):
    """Turns every error into a failed verdict."""

    def score(self, context: ScoringContext) -> Score:
        try:
            return super().score(context)
        except AgentBenchError as error:
            return Score(passed=False, exit_code=None, explanation=str(error))


class ReportsInterruptsAsTimeouts(Careful):
    """Reports an interrupt as a timeout."""

    def timed_out(self, context: ScoringContext) -> Score:
        return Score(passed=False, exit_code=None, timed_out=True)


class BlamesTheChange(Careful):
    """Reports a sandbox error as a failed change."""

    def run(self, context: ScoringContext, workspace: Path) -> CommandResult:
        try:
            return super().run(context, workspace)
        except SandboxError:
            return CommandResult(exit_code=1)


class BlamesTheSandbox(Careful):
    """Reports an inapplicable change as a sandbox error."""

    def workspace(self, context: ScoringContext) -> Path:
        try:
            return super().workspace(context)
        except ToolError as error:
            raise SandboxError(str(error)) from error


class NotesInThePreparedTree(Careful):
    """Writes into the prepared tree."""

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        super().keep(context, result)
        with (context.environment.workspace / "judged.txt").open("a") as notes:
            notes.write("once more\n")


class Litters(Careful):
    """Writes into the current directory."""

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        super().keep(context, result)
        Path("score.txt").write_bytes(result.stdout.data)


class CopiesByItself(Careful):
    """Copies the tree with its own code."""

    def workspace(self, context: ScoringContext) -> Path:
        return Path(shutil.copytree(super().workspace(context), context.scratch("mine") / "copy"))


class SavesNothing(Careful):
    """Does not save output."""

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        pass


class SavesTwice(Careful):
    """Saves output twice."""

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        super().keep(context, result)
        super().keep(context, result)


class SavesASummary(Careful):
    """Saves a summary instead of the output."""

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        super().keep(context, attrs.evolve(result, stdout=Output(head=b"it went well\n")))


class SavesNoTimeouts(Careful):
    """Does not save output of timed-out tests."""

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        if not result.timed_out:
            super().keep(context, result)


class LeavesItOpen(Careful):
    """Starts a sandbox without closing it."""

    def workspace(self, context: ScoringContext) -> Path:
        workspace = super().workspace(context)
        sandbox = context.environment.start(
            workspace, read_only=False, network=context.network, deadline=context.deadline
        )
        sandbox.exec("true", deadline=context.deadline)
        return workspace


class ClosesOnSuccessOnly(Careful):
    """Does not close its sandbox after an error."""

    def workspace(self, context: ScoringContext) -> Path:
        workspace = super().workspace(context)
        sandbox = context.environment.start(
            workspace, read_only=False, network=context.network, deadline=context.deadline
        )
        sandbox.exec("true", deadline=context.deadline)
        sandbox.close()
        return workspace


class Lingers(Careful):
    """Leaves a thread running."""

    def keep(self, context: ScoringContext, result: ExecResult) -> None:
        threading.Thread(target=LEFT.wait, name="lingering", daemon=True).start()
        super().keep(context, result)


class Online(Careful):
    """Always has network access."""

    def network(self, context: ScoringContext) -> bool:
        return True


class Offline(Careful):
    """Never has network access."""

    def network(self, context: ScoringContext) -> bool:
        return False


class Decodes(Careful):
    """Decodes results as strict UTF-8."""

    def read(self, result: CommandResult) -> str:
        return result.files.get(SAID, b"").decode("utf-8")


class OpensWhatIsThere(Careful):
    """Opens results without checking the file type."""

    patience = 1.0

    def run(self, context: ScoringContext, workspace: Path) -> CommandResult:
        results = context.scratch("mine")
        result = context.run(attrs.evolve(self.command(context), results=results), workspace)
        return attrs.evolve(result, files={SAID: (results / SAID).read_bytes()})


class BelievesFiles(Careful):
    """Passes unless the results file reports a failure."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return "FAIL" not in said and "Error" not in said


class BelievesFilesAndEnds(BelievesFiles):
    """Trusts results without a label if the exit code is 0."""

    def passes(self, context: ScoringContext, result: ExecResult, said: str) -> bool:
        return result.ok and super().passes(context, result, said)

    def verdict(self, context: ScoringContext, result: ExecResult, said: str) -> Score:
        return attrs.evolve(super().verdict(context, result, said), labels=())


LEFT = threading.Event()

DOUBLES: Mapping[str, type[Careful]] = {
    "test_the_fix_passes": NeverSatisfied,
    "test_a_wrong_change_fails": PassesUnlessTimedOut,
    "test_no_change_fails": PassesUnchanged,
    "test_a_program_that_cannot_be_read_fails": CountsFailures,
    "test_the_same_verdict_again": FailsForever,
    "test_two_at_once": SharesItsWorkspace,
    "test_each_test": ReportsNoTests,
    "test_a_test_that_is_missing": IgnoresMissingTests,
    "test_forged_passes_are_weak": AddsNoLabel,
    "test_it_fits_into_a_record": Quoting,
    "test_its_options_stay": Adjustable,
    "test_a_command_that_cannot_start": PassesMissingCommands,
    "test_tests_that_are_killed": ReadsWords,
    "test_a_command_that_is_killed": ReadsWords,
    "test_the_time_is_over": HidesTimeouts,
    "test_no_time_left": UsesItsOwnDeadline,
    "test_interrupted": CatchesAll,
    "test_a_sandbox_that_fails": BlamesTheChange,
    "test_a_change_that_fits_nowhere": BlamesTheSandbox,
    "test_it_writes_only_where_it_may": NotesInThePreparedTree,
    "test_it_scores_copies": CopiesByItself,
    "test_output_is_kept_once": SavesNothing,
    "test_nothing_keeps_running": LeavesItOpen,
    "test_network_access_is_set_by_the_task": Online,
    "test_hostile_results": Decodes,
}

MORE: Sequence[tuple[str, type[Careful]]] = (
    ("test_each_test", ReportsAllPassed),
    ("test_the_time_is_over", UsesItsOwnDeadline),
    ("test_interrupted", ReportsInterruptsAsTimeouts),
    ("test_a_sandbox_that_fails", CatchesAll),
    ("test_it_writes_only_where_it_may", Litters),
    ("test_output_is_kept_once", SavesTwice),
    ("test_output_is_kept_once", SavesASummary),
    ("test_output_is_kept_once", SavesNoTimeouts),
    ("test_nothing_keeps_running", ClosesOnSuccessOnly),
    ("test_nothing_keeps_running", Lingers),
    ("test_network_access_is_set_by_the_task", Offline),
    ("test_hostile_results", OpensWhatIsThere),
    ("test_hostile_results", BelievesFiles),
    ("test_hostile_results", BelievesFilesAndEnds),
)
"""More doubles, for checks of several things."""


def on(scorer_type: type[Careful]) -> type[ScorerConformance]:
    """The checks for such a scorer."""

    class OnDouble(ScorerConformance):
        patience = scorer_type.patience
        tests = ("checks.test_adding.TestAdd.test_two_numbers",)

        @classmethod
        def make_scorer(cls) -> Scorer:
            return scorer_type()

    return OnDouble
