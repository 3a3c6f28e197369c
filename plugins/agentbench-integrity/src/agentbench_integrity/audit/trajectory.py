"""Compare the inputs and actions of an agent with the secrets of the task. A suspicion, never a verdict."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_integrity.audit.history_commands import find_history_command
from agentbench_integrity.audit.secret_text import ENOUGH, Lines, Secrets, canaries_in, texts_in

_CONVERSATION = "agent/conversation.jsonl"
_TOOL_CALLS = "agent/tool_calls.jsonl"
_LONGEST = 16 << 20
"""Maximum bytes of a trajectory line to parse. Longer lines are searched as text, in parts."""
_CHUNK = 1 << 20
_OVERLAP = 64  # bytes, longer than a canary
_PATH = re.compile(r"[^\s'\"`()\[\]{}<>|&;,:=]+")
_SEARCH_ARGUMENT = "query"
"""The argument of read-only tools with the text to search for. A command in it is not run."""
_WRITES = (">", "tee", "touch")
_BEFORE = 8  # characters that show whether a path is written to
_MAX_PATHS = 200
_MAX_COMMANDS = 20  # per kind

Side = Literal["saw", "wrote"]


@attrs.frozen(kw_only=True)
class KnownToAgent:
    """An agent's knowledge at the start, and facts about its tools.

    ``effects`` maps tool names to effects, and ``names`` are the project's names. ``has`` tests whether the
    repository has a file or directory at a path, and ``public`` returns which of some lines it contains.
    """

    instruction: str
    effects: Mapping[str, str]
    names: Collection[str]
    has: Callable[[str], bool]
    public: Callable[[Collection[str]], Collection[str]]


def suspicious_steps(directory: Path, secrets: Secrets, hidden: Sequence[str], known: KnownToAgent) -> list[str]:
    """Evidence of leaks, each with its step or call, found by reading an attempt's files line by line.

    Args:
        directory: directory of the attempt.
        secrets: secrets that the agent must not see.
        hidden: paths of hidden tests.
        known: the facts that the agent may know.
    """
    reader = _TrajectoryReader(secrets, hidden, known)
    for location, side, text in _conversation(directory / _CONVERSATION):
        reader.text(location, side, text)
    # Tool calls are read last, because evidence with a step number is the most useful and replaces other evidence.
    for step in _steps(directory / _TOOL_CALLS):
        reader.step(step)
    return reader.evidence()


@attrs.frozen(kw_only=True)
class _Step:
    location: str
    tool: str = ""
    arguments: object = None
    fields: object = None
    raw: str = ""
    """Part of a line that is too long to be parsed, or is not a JSON object."""


class _TrajectoryReader:
    def __init__(self, secrets: Secrets, hidden: Sequence[str], known: KnownToAgent) -> None:
        self._secrets = secrets
        self._known = known
        self._hidden = hidden[:_MAX_PATHS]
        self._names = {posixpath.basename(path) for path in self._hidden}
        self._lines = Lines([line for text in secrets.tests for line in text.lines])
        self._canaries: dict[str, str] = {}
        self._own: set[str] = set(self._lines.matches(known.instruction))
        self._seen: dict[str, str] = {}
        self._shown = {path for path, _ in self._paths(known.instruction)}
        self._named: dict[str, str] = {}
        self._history: list[str] = []

    def text(self, location: str, side: Side, text: str) -> None:
        """Read text sent to or by the agent. Lines that the agent wrote before seeing them are its own."""
        for canary in canaries_in(text, self._secrets.canaries):
            _add_location(self._canaries, canary, location)
        for line in self._lines.matches(text):
            if line in self._own:
                continue
            if side == "saw":
                _add_location(self._seen, line, location)
            elif line not in self._seen:
                self._own.add(line)

    def step(self, step: _Step) -> None:
        """A tool call and its result."""
        self.text(step.location, "wrote", step.raw)
        for text in texts_in(step.arguments):
            self.text(step.location, "wrote", text)
            self._call(step, text)
        for argv in _argvs(step.arguments):
            self._call(step, argv)
        for text in texts_in(step.fields):
            self.text(step.location, "saw", text)
            self._shown.update(path for path, _ in self._paths(text))

    def _call(self, step: _Step, text: str) -> None:
        effect = self._known.effects.get(step.tool, "")
        if effect == "edits":
            self._shown.update(path for path, _ in self._paths(text))
            return
        is_search = effect == "reads" and text == _get(step.arguments, _SEARCH_ARGUMENT)
        command = None if is_search else find_history_command(text, self._known.names)
        if command and len(self._history) < _MAX_COMMANDS:
            self._history.append(f"{step.location}: {command}")
        for path, written in self._paths(text):
            if written:
                self._shown.add(path)
            elif path not in self._shown:
                self._named.setdefault(path, step.location)

    def _paths(self, text: str) -> Iterator[tuple[str, bool]]:
        """Hidden paths in a text, and whether a shell would write to them."""
        if not any(name in text for name in self._names):
            return
        for match in _PATH.finditer(text):
            word = match.group()
            if posixpath.basename(word) not in self._names:
                continue
            written = text[max(0, match.start() - _BEFORE) : match.start()].rstrip(" '\"").endswith(_WRITES)
            for path in self._hidden:
                if word == path or word.endswith(f"/{path}"):
                    yield path, written

    def evidence(self) -> list[str]:
        """The evidence as text."""
        where = self._secrets.canaries
        messages = [f"{location}: the canary of {where[canary]}" for canary, location in sorted(self._canaries.items())]
        return [*messages, *self._lines_seen(), *self._paths_named(), *dict.fromkeys(self._history)]

    def _lines_seen(self) -> Iterator[str]:
        if len(self._seen) < ENOUGH:
            return
        public = self._known.public(list(self._seen))
        secret_lines = {line: location for line, location in self._seen.items() if line not in public}
        if len(secret_lines) < ENOUGH:
            return
        for text in self._secrets.tests:
            locations = [secret_lines[line] for line in text.lines if line in secret_lines]
            if locations:
                yield f"{locations[0]}: {len(locations)} line{'s' * (len(locations) > 1)} of {text.where}"

    def _paths_named(self) -> Iterator[str]:
        for path, location in self._named.items():
            if not self._known.has(posixpath.dirname(path)):  # otherwise the path can be guessed
                yield f"{location}: refers to {path}, which is not public"


def _conversation(path: Path) -> Iterator[tuple[str, Side, str]]:
    for line in _records(path):
        if isinstance(line, str):
            yield "a long message", "saw", line
            continue
        location = f"model call {line.get('call')}"
        for message in _list(line.get("messages")):
            side: Side = "wrote" if _get(message, "role") == "assistant" else "saw"
            for text in texts_in(message):
                yield location, side, text
        for text in texts_in(_get(line.get("completion"), "message")):
            yield location, "wrote", text


def _steps(path: Path) -> Iterator[_Step]:
    for line in _records(path):
        if isinstance(line, str):
            yield _Step(location="a long step", raw=line)
            continue
        call, result = line.get("call"), line.get("result")
        yield _Step(
            location=f"step {line.get('step')}",
            tool=str(_get(call, "tool")),
            arguments=_get(call, "arguments"),
            fields=[_get(result, "fields"), _get(result, "error_message")],
        )


def _records(path: Path) -> Iterator[dict[str, Any] | str]:
    """Each line as an object, or as overlapping texts (to keep canaries whole) if it is too long or not an object."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while line := file.readline(_LONGEST):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                yield value
                continue
            while line:
                yield line.decode("utf-8", "backslashreplace")
                if line.endswith(b"\n"):
                    break
                line = line[-_OVERLAP:] + rest if (rest := file.readline(_CHUNK)) else b""


def _add_location(locations: dict[str, str], what: str, location: str) -> None:
    """Keep the first position, but prefer a step to a model call."""
    if not locations.get(what, "").startswith("step") and (what not in locations or location.startswith("step")):
        locations[what] = location


def _argvs(value: object) -> Iterator[str]:
    """Lists of words, joined as commands."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            rest.extend(value.values())
        elif isinstance(value, (list, tuple)):
            if all(isinstance(each, str) for each in value):
                yield " ".join(value)
            else:
                rest.extend(value)


def _get(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
