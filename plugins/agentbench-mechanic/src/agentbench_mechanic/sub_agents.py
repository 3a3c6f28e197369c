"""The mechanic as one of several that share a repair: each hands in a result of a given form, by a tool.

A role is known by the form: by the arguments of the tool that takes the result, whatever the tool is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentbench_mechanic.exploring import guessed, look_around, look_at_findings
from agentbench_mechanic.failure_output import failures_in
from agentbench_mechanic.guessing import Idea, ideas
from agentbench_mechanic.transcript import Reply, Transcript

_FORMS: Mapping[str, frozenset[str]] = {
    "router": frozenset({"action", "task"}),
    "searcher": frozenset({"files"}),
    "patcher": frozenset({"unified_diff"}),
    "tester": frozenset({"verdict", "advice"}),
}
_MOST_READ = {"searcher": 7, "patcher": 3}  # files
_MOST_PATCHES = 8
_DEEPEST = 20  # levels of a schema
_NO_RESULT = "ended without a result"
_AROUND = 3  # lines
_BEFORE_AND_NOW = re.compile(
    r"(?:Output before the last change|Before the last change it printed):(.*)\n(?:Output now|Now it prints):(.*)",
    re.DOTALL,
)
"""Prompt versions v2 and v1."""


@dataclass(frozen=True)
class Role:
    """Who the mechanic is, and by which tool it hands in."""

    name: Literal["router", "searcher", "patcher", "tester"]
    tool: str


def role_of(transcript: Transcript) -> Role | None:
    """The role that the tools on offer ask for; nothing where the mechanic works alone."""
    for tool in transcript.tools:
        if tool in ("apply_patch", "run", "list_files", "read_file", "search"):
            continue
        for name, form in _FORMS.items():
            if form <= transcript.properties(tool).keys():
                return Role(name, tool)  # type: ignore[arg-type]  # its keys are the names
    return None


def act(role: Role, transcript: Transcript) -> Reply:
    """The next move of a role."""
    look = look_at_findings if role.name == "patcher" else look_around
    if role.name in _MOST_READ and (move := look(transcript, _MOST_READ[role.name])):
        return move
    result = _MOVES[role.name](role, transcript)
    if result is None:
        return Reply("I have no idea left.")
    return Reply.call("This is what I have.", role.tool, {**filled(transcript.tools[role.tool]), **result})


def _decision(role: Role, transcript: Transcript) -> Mapping[str, Any]:
    """Search once; then patch, and patch again as long as there are ideas."""
    decided = transcript.made(role.tool)
    patches = [one for one in decided if one.argument("action") == "patch"]
    if not decided:
        return {"action": "search", "task": "Find the functions that the failing tests call."}
    if len(patches) >= _MOST_PATCHES or any(_NO_RESULT in one.result for one in patches):
        return {"action": "stop", "task": "No idea is left."}
    if patches and decided[-1] is patches[-1] and len(patches) % 3 == 0:
        return {"action": "test", "task": "Say whether the last change helped."}
    again = " Take back what was changed before: it does not help." if patches else ""
    return {"action": "patch", "task": f"Mend the most suspicious place.{again}"}


def _findings(role: Role, transcript: Transcript) -> Mapping[str, Any]:
    """The files that were read, and what is suspicious in each."""
    read = transcript.read()
    found = []
    best = {path: ideas({path: text}, transcript.words)[:2] for path, text in read.items()}
    for path in sorted(read, key=lambda path: -max((idea.weight for idea in best[path]), default=0.0)):
        suspicious = best[path]
        why = "; ".join(f"{idea.repair.kind} at line {idea.repair.line}" for idea in suspicious)
        snippets = [_snippet(read[path], idea) for idea in suspicious[:1]]
        found.append({"path": path, "why": why or "the failing tests may use it", "snippets": snippets})
    return {"files": found, "summary": f"{len(found)} files may have to do with it."}


def _snippet(text: str, idea: Idea) -> Mapping[str, Any]:
    lines = text.splitlines()
    first = max(idea.repair.line - _AROUND, 1)
    return {"first_line": first, "text": "\n".join(lines[first - 1 : idea.repair.line + _AROUND])}


def _patch(role: Role, transcript: Transcript) -> Mapping[str, Any] | None:
    guess = guessed(transcript, role.tool)
    if guess is None:
        return None
    return {"unified_diff": guess.diff, "explanation": f"perhaps {guess.why}"}


def _judgement(role: Role, transcript: Transcript) -> Mapping[str, Any]:
    """Counts, held against each other."""
    outputs = _BEFORE_AND_NOW.search(transcript.words)
    before, now = (failures_in(output) for output in outputs.groups()) if outputs else (None, None)
    if now is None:
        verdict = "same" if before is None else "passes"
    elif before is None or now == before:
        verdict = "same"
    else:
        verdict = "progress" if now < before else "worse"
    advice = {"passes": "Stop.", "progress": "Go on from here."}.get(verdict, "Take the change back, and try another.")
    return {"verdict": verdict, "advice": advice}


_MOVES: Mapping[str, Callable[[Role, Transcript], Mapping[str, Any] | None]] = {
    "router": _decision,
    "searcher": _findings,
    "patcher": _patch,
    "tester": _judgement,
}


def filled(schema: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """The least that fits a JSON schema of an object: a value of the right type for everything that is required."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list) or depth > _DEEPEST:
        return {}
    return {name: _value(properties.get(name), depth) for name in required if isinstance(name, str)}


def _value(schema: object, depth: int) -> Any:
    schema = schema if isinstance(schema, Mapping) else {}
    choices, kind, least = schema.get("enum"), schema.get("type"), schema.get("minimum")
    if isinstance(choices, list) and choices:
        return choices[0]
    if kind == "object":
        return filled(schema, depth + 1)
    values: Mapping[str, Any] = {
        "integer": least or 0,
        "number": least or 0,
        "boolean": False,
        "array": [],
        "null": None,
    }
    return values.get(kind, "-") if isinstance(kind, str) else "-"
