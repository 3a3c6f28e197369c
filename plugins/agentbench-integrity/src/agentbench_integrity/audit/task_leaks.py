"""Check that agents cannot find the secrets of a task: in the sandbox and in the instruction, before a run."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from agentbench_core import TaskAudit, TaskProblem, Tree, name_some, quantity
from agentbench_integrity.audit.sandbox_probes import Probe
from agentbench_integrity.audit.secret_text import (
    ENOUGH,
    Lines,
    Secrets,
    SecretText,
    canaries_in,
    data_at,
    lines_by_file,
    secrets_of,
)

_PARTS = 10  # at least a tenth of a text's lines must be found
_PATTERNS = 300
_PATTERN_BYTES = 48 << 10  # of all, since they are arguments of a command
_PATTERN = 200  # characters of one
_SMALLEST = 64  # bytes; smaller hidden files are not searched for in git repositories
_BLOBS = 200
_REASONS = 5  # per message

_Reason = tuple[str, str]
"""A rule, and how it is violated."""


_REMEDIES = {
    "no_history": "Do not fetch or commit with git in the setup, and remove repositories from the image.",
    "hidden_absent": "Remove the hidden content from the repo, setup, image or description.",
    "network_off": "The sandbox gives agents network access: set network_policy to always, or fix the sandbox.",
}
"""The rules with their remedies."""


@attrs.frozen
class LeakCheck:
    """The check of one task."""

    audit: TaskAudit

    def problems(self) -> Sequence[TaskProblem]:
        """The problems, at most one per rule. Raises SandboxError if the sandbox fails, and Interrupted."""
        reasons: dict[str, list[str]] = {}
        for rule, reason in self._problems():
            reasons.setdefault(rule, []).append(reason)
        return [
            TaskProblem(rule=rule, reason=_together(each), remedy=_REMEDIES[rule]) for rule, each in reasons.items()
        ]

    def _problems(self) -> Iterator[_Reason]:
        audit = self.audit
        with Tree(audit.tree) as tree:
            secrets = secrets_of(audit, tree)
            shared_lines = dict(lines_by_file(tree, Lines([line for text in secrets.texts for line in text.lines])))
        yield from self._in_the_repository(secrets, shared_lines)
        secrets = _without(secrets, frozenset(line for lines in shared_lines.values() for line in lines))
        yield from _in_text("the instruction", f"{audit.instruction}\n{audit.failure_output}", secrets)
        with audit.open_sandbox() as sandbox:
            probe = Probe(sandbox=sandbox, deadline=audit.deadline, everywhere=audit.isolated)
            yield from self._history(probe)
            yield from self._texts(probe, secrets)
            if audit.isolated and not audit.network:
                yield from self._network(probe)

    def _in_the_repository(self, secrets: Secrets, lines_by_path: Mapping[str, set[str]]) -> Iterator[_Reason]:
        """Report whole files only, because public tests can share lines with hidden ones."""
        for text in secrets.texts:
            if len(text.lines) < ENOUGH or not self._decides(text, secrets):
                continue
            for path, lines in lines_by_path.items():
                if lines.issuperset(text.lines):
                    yield _absent(f"all of {text.where} is in the repository: {path}")
                    break

    def _decides(self, text: SecretText, secrets: Secrets) -> bool:
        """Whether a text must be hidden: the solution, and fail-to-pass tests or, if none are listed, all tests."""
        if text is secrets.oracle:
            return True
        failing = self.audit.validation.fail_to_pass
        if failing:
            return any(name.startswith(f"{text.where}::") for name in failing)
        return "test" in text.where.rpartition("/")[2].lower()

    def _history(self, probe: Probe) -> Iterator[_Reason]:
        wanted = dict(self._blobs())
        objects = probe.objects()
        if objects is None:
            yield from self._object_files(probe)
            return
        if objects.blobs:
            count = len(objects.blobs)
            message = f"git can read {quantity(count, 'blob')} outside the commit"
            secret = sorted({wanted[blob] for blob in objects.blobs if blob in wanted})
            yield _history(
                f"{message}, including {name_some(secret)}" if secret else f"{message}: {name_some(objects.blobs)}"
            )
        elif len(objects.commits) > 1:
            yield _history(f"git can read {len(objects.commits)} commits instead of one")
        elsewhere = probe.repositories_with(list(wanted)[:_BLOBS])
        if elsewhere is None:
            self._unchecked("other repositories in the sandbox")
        for blob, path in (elsewhere or {}).items():
            yield _history(f"the repository {path} contains {wanted[blob]}")

    def _object_files(self, probe: Probe) -> Iterator[_Reason]:
        """Check images without git for objects that the harness did not create. An object's path contains its id."""
        files = probe.object_files()
        if files is None:
            self._unchecked("git objects in the workspace")
            return
        root = self.audit.tree
        made = {path.relative_to(root).as_posix() for path in (root / ".git/objects").rglob("*")}
        more = [path for path in files if path not in made]
        if more:
            yield _history(f"the workspace has git objects outside the commit: {name_some(more)}")

    def _blobs(self) -> Iterator[tuple[str, str]]:
        """Ids of secret blobs, with descriptions; copies of public files are excluded."""
        with Tree(self.audit.tree) as tree:
            for path, data in self.audit.hidden_files.items():
                if len(data) >= _SMALLEST and data != data_at(tree, path, at_least=len(data)):
                    yield _blob_id(data), path
        for change in self.audit.solved:
            if change.new_blob:
                yield change.new_blob, f"{change.path} after the reference solution"

    def _texts(self, probe: Probe, secrets: Secrets) -> Iterator[_Reason]:
        variables = probe.variables()
        if variables is None:
            self._unchecked("environment variables")
        else:
            yield from _in_text("the environment of commands", variables, secrets)
        wanted = search_patterns(secrets)
        result = probe.texts([*wanted, *(each for name in secrets.canaries for each in (name, name.upper()))])
        if result is None:
            self._unchecked("text in the sandbox's files")
            return
        for file, pieces in result.items():
            canaries = {secrets.canaries[piece.lower()] for piece in pieces if piece.lower() in secrets.canaries}
            for where in sorted(canaries):
                yield _absent(f"the canary of {where} is in {file}")
            for text in secrets.texts:
                chosen = [piece for piece in wanted if wanted[piece] is text]
                count = len(pieces.intersection(chosen))
                if count >= ENOUGH and count * _PARTS >= len(chosen) and text.where not in canaries:
                    yield _absent(f"{count} lines of {text.where} are in {file}")

    def _network(self, probe: Probe) -> Iterator[_Reason]:
        result = probe.network()
        if result is None:
            self._unchecked("the network")
        elif result:
            yield "network_off", f"the network is not disabled: {', '.join(result)}"

    def _unchecked(self, what: str) -> None:
        self.audit.note(
            f"{self.audit.task_id}: not checked for leaks: {what} (tools are missing, or the check timed out)"
        )


def _in_text(what: str, text: str, secrets: Secrets) -> Iterator[_Reason]:
    shown = {secrets.canaries[canary] for canary in canaries_in(text, secrets.canaries)}
    for where in sorted(shown):
        yield _absent(f"the canary of {where} is in {what}")
    for secret in secrets.texts:
        count = sum(line in text for line in secret.lines)
        if count >= ENOUGH and count * _PARTS >= len(secret.lines) and secret.where not in shown:
            yield _absent(f"{count} lines of {secret.where} are in {what}")


def search_patterns(secrets: Secrets) -> dict[str, SecretText]:
    """Beginnings of lines to search for, with their texts: evenly from each text, since all of them might not fit."""
    texts = secrets.texts
    each = max(ENOUGH, _PATTERNS // max(1, len(texts)))
    few = [text.lines[:: max(1, len(text.lines) // each)][:each] for text in texts]
    wanted: dict[str, SecretText] = {}
    remaining = _PATTERN_BYTES
    for row in itertools.zip_longest(*few):  # round-robin: a text with long lines must not use up the space of others
        for text, line in zip(texts, row, strict=True):
            pattern = (line or "")[:_PATTERN]
            remaining -= len(pattern.encode())
            if pattern and remaining > 0:
                wanted.setdefault(pattern, text)
    return wanted


def _without(secrets: Secrets, known: Collection[str]) -> Secrets:
    """The secrets without public lines."""
    tests, oracle = secrets.tests, secrets.oracle

    def remaining(text: SecretText) -> SecretText:
        return attrs.evolve(text, lines=tuple(line for line in text.lines if line not in known))

    return attrs.evolve(secrets, tests=tuple(map(remaining, tests)), oracle=remaining(oracle))


def _together(reasons: Sequence[str]) -> str:
    more = len(reasons) - _REASONS
    return "; ".join(reasons[:_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _absent(reason: str) -> _Reason:
    return "hidden_absent", reason


def _history(reason: str) -> _Reason:
    return "no_history", reason


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
