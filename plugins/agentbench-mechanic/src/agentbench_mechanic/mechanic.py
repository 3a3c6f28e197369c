"""A "model" that repairs programs by rules: what a run needs when there is no model, and nobody to pay for one.

A pure function from a request to an answer. It knows nothing but what the conversation says; what it does in it
is what a model would do: run the tests, try changes on a copy in the sandbox, send the one that helps as a diff.
It reads no task, and what it can mend are mistakes of common kinds (see the rooms of ``repair``). A pass of it says
something about the harness, and nothing about agents.
"""

from __future__ import annotations

import re

from agentbench_core import Request
from agentbench_mechanic.exploring import guessed, look_around
from agentbench_mechanic.failure_output import command_in
from agentbench_mechanic.shell import only_a_shell, typed, understood
from agentbench_mechanic.sub_agents import act, filled, role_of
from agentbench_mechanic.transcript import Exchange, Reply, Transcript
from agentbench_mechanic.upload import looking, pieces

_SECONDS = 40.0
"""For one look: tools may run for two minutes, and attempts for five."""
_FRUITLESS = 2
"""Looks without a result after which there is no more hope."""
_MOST_PIECES = 12
_MOST_READ = 6  # files
_LOOKS = "-m repair"
_CHANGE = re.compile(r"^repair: the change begins\n(.*?)^repair: the change ends$", re.MULTILINE | re.DOTALL)
_TRIED = re.compile(r"^repair: tried up to number (\d+), (\d+) left$", re.MULTILINE)


def next_reply(request: Request) -> Reply:
    """What the mechanic says to a request."""
    transcript = Transcript.of(request)
    if only_a_shell(transcript):
        return typed(_answer(understood(transcript)), transcript)
    return _answer(transcript)


def _answer(transcript: Transcript) -> Reply:
    if not transcript.tools:
        return Reply("I repair programs, and need tools to do it.")
    if role := role_of(transcript):
        return act(role, transcript)
    if "apply_patch" not in transcript.tools:
        return _only_what_is_asked(transcript)
    return _repair(transcript) if "run" in transcript.tools and not _search_fails(transcript) else _guess(transcript)


def _only_what_is_asked(transcript: Transcript) -> Reply:
    """Tools that nobody told the mechanic about: the first is called once, as its schema wants."""
    name = next(iter(transcript.tools))
    if transcript.exchanges:
        return Reply("There is nothing here that I can repair.")
    return Reply.call(f"I call {name}.", name, filled(transcript.tools[name]))


def _search_fails(transcript: Transcript) -> bool:
    """Whether looking for a repair in the sandbox is no use: it did not even begin."""
    looks = [one for one in transcript.made("run") if _LOOKS in one.argument("command")]
    begun = any("repair: " in one.result for one in looks)
    return len(pieces(transcript.cap)) > _MOST_PIECES or (bool(looks) and not begun)


def _repair(transcript: Transcript) -> Reply:
    """By trying, in the sandbox."""
    command = command_in(transcript.words)
    parts = pieces(transcript.cap)
    brought = [one for one in transcript.made("run") if "mechanic.packed" in one.argument("command")]
    here = sum(one.ok for one in brought if _LOOKS not in one.argument("command"))
    if here < len(parts):
        if any(not one.ok for one in brought):
            return _guess(transcript)
        return Reply.call(f"I bring my tools, part {here + 1} of {len(parts)}.", "run", {"command": parts[here]})
    last = next((one for one in reversed(transcript.exchanges) if one.tool in ("run", "apply_patch")), None)
    looks = [one for one in transcript.made("run") if _LOOKS in one.argument("command")]
    if not looks or last is None:
        return _look(command, 0, unpack=True)
    if last.tool == "apply_patch":
        if last.ok and _passes(last, command):
            return Reply("The command passes now. I am done.")
        return _look(command, 0 if last.ok else _tried(looks[-1])[0])
    if last is looks[-1] and (change := _CHANGE.search(_without_carriage(last.result))):
        return Reply.call("This makes failing tests pass, and breaks none.", "apply_patch", {"unified_diff": change[1]})
    if last is not looks[-1]:
        return _look(command, 0)
    if re.search(r"^repair: \d+ tests pass, 0 fail$", last.result, re.MULTILINE):
        return Reply("I find no test that fails.")
    number, left = _tried(last)
    fruitless = sum(not _CHANGE.search(_without_carriage(one.result)) for one in looks)
    if not left or fruitless >= _FRUITLESS:
        return Reply("I have tried what I know, and nothing helps. I give up.")
    return _look(command, number)


def _look(command: str, skip: int, *, unpack: bool = False) -> Reply:
    words = "I try small changes on a copy, and let the tests judge."
    return Reply.call(words, "run", {"command": looking(command, _SECONDS, skip, unpack=unpack)})


def _tried(look: Exchange) -> tuple[int, int]:
    found = _TRIED.search(_without_carriage(look.result))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _without_carriage(text: str) -> str:
    return text.replace("\r\n", "\n")


def _passes(patch: Exchange, command: str) -> bool:
    return f"`{command}` passes" in patch.words_after


def _guess(transcript: Transcript) -> Reply:
    """By reading: where nothing can be tried."""
    if move := look_around(transcript, _MOST_READ):
        return move
    patches = transcript.made("apply_patch")
    if patches and _passes(patches[-1], command_in(transcript.words)):
        return Reply("The command passes now. I am done.")
    guess = guessed(transcript, "apply_patch")
    if guess is None:
        return Reply("I have no idea left. I give up.")
    return Reply.call(f"Perhaps {guess.why}.", "apply_patch", {"unified_diff": guess.diff})
