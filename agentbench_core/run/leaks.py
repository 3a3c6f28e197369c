"""What an agent must not find: looked for where it would look, and in what it is told, before there is one."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core.run.agent_phase import instruction, shown_output
from agentbench_core.run.change import some
from agentbench_core.run.leak_probes import Probe
from agentbench_core.run.leak_text import (
    ENOUGH,
    Lines,
    Secrets,
    SecretText,
    canaries_in,
    data_at,
    found_in,
    secrets_of,
)
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.preparation import Baseline, Preparations, Prepared, hidden_paths
from agentbench_core.run.recording import AttemptEvents, MemoryEvidence, Recording
from agentbench_core.run.rules import Problem, Rule
from agentbench_core.run.toolbox import Stop, open_toolbox
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.snapshot import Change
from agentbench_core.workspace.tree import Tree

_SECONDS = 300.0
_PARTS = 10  # a tenth of a text's lines is a part of it
_PATTERNS = 300
_PATTERN_BYTES = 48 << 10  # of all, since they are arguments of a command
_PATTERN = 200  # characters of one
_SMALLEST = 64  # bytes of a file that is worth looking for as a whole
_BLOBS = 200
_REASONS = 5  # that are told


@attrs.frozen(kw_only=True)
class LeakCheck:
    """The check of one task. ``solved`` is what its oracle changes, if that is known."""

    plan: AttemptPlan
    shared: Preparations
    prepared: Prepared
    baseline: Baseline
    solved: Sequence[Change]
    log: AttemptEvents
    note: Callable[[str], None]

    def problems(self, stop: Deadline) -> Sequence[Problem]:
        """What is wrong, one problem per rule at most. Raises SandboxError, Interrupted."""
        deadline = stop.within(_SECONDS)  # the task's own time is for its agents
        reasons: dict[Rule, list[str]] = {}
        for problem in self._problems(deadline):
            reasons.setdefault(problem.rule, []).append(problem.reason)
        return [Problem(rule=rule, reason=_together(each)) for rule, each in reasons.items()]

    def _problems(self, deadline: Deadline) -> Iterator[Problem]:
        task = self.plan.task
        pristine = self.shared.source(task)
        with Tree(pristine) as tree:
            secrets = secrets_of(task, tree)
            shared_lines = dict(found_in(tree, Lines([line for text in secrets.texts for line in text.lines])))
        yield from self._in_the_repository(secrets, shared_lines)
        secrets = _without(secrets, frozenset(line for lines in shared_lines.values() for line in lines))
        output = shown_output(self.baseline)
        yield from _in_text("what an agent is told", f"{instruction(task, output)}\n{output}", secrets)
        workspace = self.shared.fork(task, self.prepared.environment, "workspace", hidden=False)
        try:
            with open_toolbox(
                self.plan,
                self.prepared.environment,
                workspace,
                deadline=deadline,
                recording=Recording(log=self.log, files=MemoryEvidence()),
                stop=Stop(),
            ) as toolbox:
                assert toolbox.sandbox is not None
                isolated = self.plan.variant.sandbox.can("isolated")
                probe = Probe(sandbox=toolbox.sandbox, deadline=deadline, everywhere=isolated)
                yield from self._history(probe, pristine)
                yield from self._texts(probe, secrets)
                if isolated and task.spec.environment.network_policy != "always":
                    yield from self._network(probe)
        finally:
            self.shared.discard(workspace)

    def _in_the_repository(self, secrets: Secrets, found: Mapping[str, set[str]]) -> Iterator[Problem]:
        """Public tests may share lines with hidden ones: they tell nothing unless all of a file is there."""
        for text in secrets.texts:
            if len(text.lines) < ENOUGH or not self._decides(text, secrets):
                continue
            for path, lines in found.items():
                if lines.issuperset(text.lines):
                    yield _absent(f"all of {text.where} stands in the repository: {path}")
                    break

    def _decides(self, text: SecretText, secrets: Secrets) -> bool:
        """Whether it is worth hiding: the oracle, and tests that fail today as far as that is known."""
        if text is secrets.oracle:
            return True
        failing = self.plan.task.spec.validation.fail_to_pass
        if failing:
            return any(name.startswith(f"{text.where}::") for name in failing)
        return "test" in text.where.rpartition("/")[2].lower()

    def _history(self, probe: Probe, pristine: Path) -> Iterator[Problem]:
        wanted = dict(self._blobs(pristine))
        objects = probe.objects()
        if objects is None:
            yield from self._object_files(probe, pristine)
            return
        if objects.blobs:
            said = f"git can read {len(objects.blobs)} blobs that are in no file of the commit"
            secret = sorted({wanted[blob] for blob in objects.blobs if blob in wanted})
            yield _history(f"{said}, among them {some(secret)}" if secret else f"{said}: {some(objects.blobs)}")
        elif len(objects.commits) > 1:
            yield _history(f"git can read {len(objects.commits)} commits; one is what an agent may see")
        elsewhere = probe.repositories_with(list(wanted)[:_BLOBS])
        if elsewhere is None:
            self._unchecked("other repositories in the sandbox")
        for blob, place in (elsewhere or {}).items():
            yield _history(f"the repository {place} has {wanted[blob]}")

    def _object_files(self, probe: Probe, pristine: Path) -> Iterator[Problem]:
        """Without git in the image: nothing but what the harness made. A file's name is the object's id."""
        files = probe.object_files()
        if files is None:
            self._unchecked("what git keeps in the workspace")
            return
        made = {path.relative_to(pristine).as_posix() for path in (pristine / ".git/objects").rglob("*")}
        more = [path for path in files if path not in made]
        if more:
            yield _history(f"the workspace has objects of git that are not of the commit: {some(more)}")

    def _blobs(self, pristine: Path) -> Iterator[tuple[str, str]]:
        """Ids of what must not be read, and what each is; copies of public files may be."""
        with Tree(pristine) as tree:
            for path, file in zip(hidden_paths(self.plan.task), self.plan.task.hidden, strict=True):
                data = file.data
                if len(data) >= _SMALLEST and data != data_at(tree, path, at_least=len(data)):
                    yield _blob_id(data), path
        for change in self.solved:
            if change.new_blob:
                yield change.new_blob, f"{change.path} as the oracle leaves it"

    def _texts(self, probe: Probe, secrets: Secrets) -> Iterator[Problem]:
        variables = probe.variables()
        if variables is None:
            self._unchecked("environment variables")
        else:
            yield from _in_text("the environment of commands", variables, secrets)
        wanted = sought(secrets)
        found = probe.texts([*wanted, *(each for name in secrets.canaries for each in (name, name.upper()))])
        if found is None:
            self._unchecked("text in the sandbox's files")
            return
        for file, pieces in found.items():
            canaries = {secrets.canaries[piece.lower()] for piece in pieces if piece.lower() in secrets.canaries}
            for where in sorted(canaries):
                yield _absent(f"the canary of {where} stands in {file}")
            for text in secrets.texts:
                chosen = [piece for piece in wanted if wanted[piece] is text]
                here = len(pieces.intersection(chosen))
                if here >= ENOUGH and here * _PARTS >= len(chosen) and text.where not in canaries:
                    yield _absent(f"{here} lines of {text.where} stand in {file}")

    def _network(self, probe: Probe) -> Iterator[Problem]:
        found = probe.network()
        if found is None:
            self._unchecked("the network")
        elif found:
            yield Problem(rule=Rule.NETWORK_OFF, reason=f"the network is not off: {', '.join(found)}")

    def _unchecked(self, what: str) -> None:
        self.note(f"{self.plan.task.spec.id}: not checked for leaks: {what} (no tools for it, or no time)")


def _in_text(what: str, text: str, secrets: Secrets) -> Iterator[Problem]:
    told = {secrets.canaries[canary] for canary in canaries_in(text, secrets.canaries)}
    for where in sorted(told):
        yield _absent(f"the canary of {where} stands in {what}")
    for secret in secrets.texts:
        here = sum(line in text for line in secret.lines)
        if here >= ENOUGH and here * _PARTS >= len(secret.lines) and secret.where not in told:
            yield _absent(f"{here} lines of {secret.where} stand in {what}")


def sought(secrets: Secrets) -> dict[str, SecretText]:
    """Beginnings of lines that are looked for, evenly out of each text, since not all may fit."""
    texts = secrets.texts
    each = max(ENOUGH, _PATTERNS // max(1, len(texts)))
    few = [text.lines[:: max(1, len(text.lines) // each)][:each] for text in texts]
    wanted: dict[str, SecretText] = {}
    room = _PATTERN_BYTES
    for row in itertools.zip_longest(*few):  # in turns: a text of long lines must not take the room of others
        for text, line in zip(texts, row, strict=True):
            pattern = (line or "")[:_PATTERN]
            room -= len(pattern.encode())
            if pattern and room > 0:
                wanted.setdefault(pattern, text)
    return wanted


def _without(secrets: Secrets, known: Collection[str]) -> Secrets:
    """The same, but for lines that are public."""
    tests, oracle = secrets.tests, secrets.oracle

    def left(text: SecretText) -> SecretText:
        return attrs.evolve(text, lines=tuple(line for line in text.lines if line not in known))

    return attrs.evolve(secrets, tests=tuple(map(left, tests)), oracle=left(oracle))


def _together(reasons: Sequence[str]) -> str:
    more = len(reasons) - _REASONS
    return "; ".join(reasons[:_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _absent(reason: str) -> Problem:
    return Problem(rule=Rule.HIDDEN_ABSENT, reason=reason)


def _history(reason: str) -> Problem:
    return Problem(rule=Rule.NO_HISTORY, reason=reason)


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
