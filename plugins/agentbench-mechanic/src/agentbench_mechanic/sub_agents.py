"""The mechanic as a sub-agent, which submits its result as the arguments of a tool.

The role is recognized by the arguments of that tool, not by the tool's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentbench_mechanic.exploring import explore, explore_findings, guess_from
from agentbench_mechanic.failure_output import failures_in
from agentbench_mechanic.guessing import Idea, ideas
from agentbench_mechanic.transcript import Reply, Transcript

_FIELDS: Mapping[str, frozenset[str]] = {
    "router": frozenset({"action", "task"}),
    "searcher": frozenset({"files"}),
    "patcher": frozenset({"unified_diff"}),
    "tester": frozenset({"verdict", "advice"}),
}
_MAX_READS = {"searcher": 7, "patcher": 3}  # files
_MAX_PATCHES = 8
_MAX_DEPTH = 20  # levels of a schema
_NO_RESULT = "ended without a result"
_CONTEXT = 3  # lines
_BEFORE_AND_NOW = re.compile(
    r"(?:Output before the last change|Before the last change it printed):(.*)\n(?:Output now|Now it prints):(.*)",
    re.DOTALL,
)
"""Matches the texts of prompt versions v2 and v1."""


@dataclass(frozen=True)
class Role:
    """The role of the mechanic, and the tool that submits its result."""

    name: Literal["router", "searcher", "patcher", "tester"]
    tool: str


def role_of(transcript: Transcript) -> Role | None:
    """The role that the offered tools require; ``None`` if the mechanic works alone."""
    for tool in transcript.tools:
        if tool in ("apply_patch", "run", "list_files", "read_file", "search"):
            continue
        for name, fields in _FIELDS.items():
            if fields <= transcript.properties(tool).keys():
                return Role(name, tool)  # type: ignore[arg-type]  # its keys are the names
    return None


def act(role: Role, transcript: Transcript) -> Reply:
    """The next reply in a role."""
    explore_next = explore_findings if role.name == "patcher" else explore
    if role.name in _MAX_READS and (reply := explore_next(transcript, _MAX_READS[role.name])):
        return reply
    result = _MOVES[role.name](role, transcript)
    if result is None:
        return Reply("I have no ideas left.")
    return Reply.call("My result.", role.tool, {**minimal_arguments(transcript.tools[role.tool]), **result})


def _decision(role: Role, transcript: Transcript) -> Mapping[str, Any]:
    """Search once, then patch until no ideas are left or ``_MAX_PATCHES`` is reached. Test after every third patch."""
    decisions = transcript.calls_of(role.tool)
    patches = [one for one in decisions if one.argument("action") == "patch"]
    if not decisions:
        return {"action": "search", "task": "Find the functions that the failing tests call."}
    if len(patches) >= _MAX_PATCHES or any(_NO_RESULT in one.result for one in patches):
        return {"action": "stop", "task": "No ideas are left."}
    if patches and decisions[-1] is patches[-1] and len(patches) % 3 == 0:
        return {"action": "test", "task": "Report whether the last change helped."}
    again = " Revert the earlier change: it does not help." if patches else ""
    return {"action": "patch", "task": f"Fix the most suspicious code.{again}"}


def _findings(role: Role, transcript: Transcript) -> Mapping[str, Any]:
    """The files read, the most suspicious first, with their most suspicious lines."""
    read = transcript.read()
    files = []
    best = {path: ideas({path: text}, transcript.text)[:2] for path, text in read.items()}
    for path in sorted(read, key=lambda path: -max((idea.weight for idea in best[path]), default=0.0)):
        suspicious = best[path]
        why = "; ".join(f"{idea.repair.kind} at line {idea.repair.line}" for idea in suspicious)
        snippets = [_snippet(read[path], idea) for idea in suspicious[:1]]
        files.append({"path": path, "why": why or "the failing tests may use it", "snippets": snippets})
    return {"files": files, "summary": f"{len(files)} files may be related."}


def _snippet(text: str, idea: Idea) -> Mapping[str, Any]:
    lines = text.splitlines()
    first = max(idea.repair.line - _CONTEXT, 1)
    return {"first_line": first, "text": "\n".join(lines[first - 1 : idea.repair.line + _CONTEXT])}


def _patch(role: Role, transcript: Transcript) -> Mapping[str, Any] | None:
    guess = guess_from(transcript, role.tool)
    if guess is None:
        return None
    return {"unified_diff": guess.diff, "explanation": f"perhaps {guess.why}"}


def _evaluation(role: Role, transcript: Transcript) -> Mapping[str, Any]:
    """Compare the numbers of failures before and after the last change."""
    outputs = _BEFORE_AND_NOW.search(transcript.text)
    before, now = (failures_in(output) for output in outputs.groups()) if outputs else (None, None)
    if now is None:
        verdict = "same" if before is None else "passes"
    elif before is None or now == before:
        verdict = "same"
    else:
        verdict = "progress" if now < before else "worse"
    advice = {"passes": "Stop.", "progress": "Continue from here."}.get(verdict, "Revert the change, and try another.")
    return {"verdict": verdict, "advice": advice}


_MOVES: Mapping[str, Callable[[Role, Transcript], Mapping[str, Any] | None]] = {
    "router": _decision,
    "searcher": _findings,
    "patcher": _patch,
    "tester": _evaluation,
}


def minimal_arguments(schema: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """A small object with the required properties of a JSON schema. Supports only simple types, enums and minima."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list) or depth > _MAX_DEPTH:
        return {}
    return {name: _value(properties.get(name), depth) for name in required if isinstance(name, str)}


def _value(schema: object, depth: int) -> Any:
    schema = schema if isinstance(schema, Mapping) else {}
    choices, kind, least = schema.get("enum"), schema.get("type"), schema.get("minimum")
    if isinstance(choices, list) and choices:
        return choices[0]
    if kind == "object":
        return minimal_arguments(schema, depth + 1)
    values: Mapping[str, Any] = {
        "integer": least or 0,
        "number": least or 0,
        "boolean": False,
        "array": [],
        "null": None,
    }
    return values.get(kind, "-") if isinstance(kind, str) else "-"
