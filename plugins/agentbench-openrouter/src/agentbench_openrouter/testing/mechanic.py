"""A "model" that repairs programs by rules: what a run needs when there is no model, and nobody to pay for one.

A pure function from a request to an answer. It knows nothing but what the conversation says; what it does in it
is what a model would do: run the tests, try changes on a copy in the sandbox, send the one that helps as a diff.
It reads no task, and what it can mend are mistakes of common kinds (see the rooms of ``workshop``). A pass of it says
something about the harness, and nothing about agents.
"""

from __future__ import annotations

import re

from agentbench_core import Request
from agentbench_openrouter.testing.bringing import looking, pieces
from agentbench_openrouter.testing.clues import command_in
from agentbench_openrouter.testing.reading import guessed, look_around
from agentbench_openrouter.testing.roles import act, filled, role_of
from agentbench_openrouter.testing.said import Said
from agentbench_openrouter.testing.shell import only_a_shell, typed, understood
from agentbench_openrouter.testing.talk import Exchange, Talk

_SECONDS = 40.0
"""For one look: tools may run for two minutes, and attempts for five."""
_FRUITLESS = 2
"""Looks without a result after which there is no more hope."""
_MOST_PIECES = 12
_MOST_READ = 6  # files
_LOOKS = "-m workshop"
_CHANGE = re.compile(r"^workshop: the change begins\n(.*?)^workshop: the change ends$", re.MULTILINE | re.DOTALL)
_TRIED = re.compile(r"^workshop: tried up to number (\d+), (\d+) left$", re.MULTILINE)


def next_answer(request: Request) -> Said:
    """What the mechanic says to a request."""
    talk = Talk.of(request)
    if only_a_shell(talk):
        return typed(_answer(understood(talk)), talk)
    return _answer(talk)


def _answer(talk: Talk) -> Said:
    if not talk.tools:
        return Said("I repair programs, and need tools to do it.")
    if role := role_of(talk):
        return act(role, talk)
    if "apply_patch" not in talk.tools:
        return _only_what_is_asked(talk)
    return _repair(talk) if "run" in talk.tools and not _workshop_fails(talk) else _guess(talk)


def _only_what_is_asked(talk: Talk) -> Said:
    """Tools that nobody told the mechanic about: the first is called once, as its schema wants."""
    name = next(iter(talk.tools))
    if talk.exchanges:
        return Said("There is nothing here that I can repair.")
    return Said.call(f"I call {name}.", name, filled(talk.tools[name]))


def _workshop_fails(talk: Talk) -> bool:
    """Whether looking for a repair in the sandbox is no use: it did not even begin."""
    looks = [one for one in talk.made("run") if _LOOKS in one.argument("command")]
    begun = any("workshop: " in one.result for one in looks)
    return len(pieces(talk.cap)) > _MOST_PIECES or (bool(looks) and not begun)


def _repair(talk: Talk) -> Said:
    """By trying, in the sandbox."""
    command = command_in(talk.words)
    parts = pieces(talk.cap)
    brought = [one for one in talk.made("run") if "mechanic.packed" in one.argument("command")]
    here = sum(one.ok for one in brought if _LOOKS not in one.argument("command"))
    if here < len(parts):
        if any(not one.ok for one in brought):
            return _guess(talk)
        return Said.call(f"I bring my tools, part {here + 1} of {len(parts)}.", "run", {"command": parts[here]})
    last = next((one for one in reversed(talk.exchanges) if one.tool in ("run", "apply_patch")), None)
    looks = [one for one in talk.made("run") if _LOOKS in one.argument("command")]
    if not looks or last is None:
        return _look(command, 0, unpack=True)
    if last.tool == "apply_patch":
        if last.ok and _passes(last, command):
            return Said("The command passes now. I am done.")
        return _look(command, 0 if last.ok else _tried(looks[-1])[0])
    if last is looks[-1] and (change := _CHANGE.search(_without_carriage(last.result))):
        return Said.call("This makes failing tests pass, and breaks none.", "apply_patch", {"unified_diff": change[1]})
    if last is not looks[-1]:
        return _look(command, 0)
    if re.search(r"^workshop: \d+ tests pass, 0 fail$", last.result, re.MULTILINE):
        return Said("I find no test that fails.")
    number, left = _tried(last)
    fruitless = sum(not _CHANGE.search(_without_carriage(one.result)) for one in looks)
    if not left or fruitless >= _FRUITLESS:
        return Said("I have tried what I know, and nothing helps. I give up.")
    return _look(command, number)


def _look(command: str, skip: int, *, unpack: bool = False) -> Said:
    words = "I try small changes on a copy, and let the tests judge."
    return Said.call(words, "run", {"command": looking(command, _SECONDS, skip, unpack=unpack)})


def _tried(look: Exchange) -> tuple[int, int]:
    found = _TRIED.search(_without_carriage(look.result))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _without_carriage(text: str) -> str:
    return text.replace("\r\n", "\n")


def _passes(patch: Exchange, command: str) -> bool:
    return f"`{command}` passes" in patch.words_after


def _guess(talk: Talk) -> Said:
    """By reading: where nothing can be tried."""
    if move := look_around(talk, _MOST_READ):
        return move
    patches = talk.made("apply_patch")
    if patches and _passes(patches[-1], command_in(talk.words)):
        return Said("The command passes now. I am done.")
    guess = guessed(talk, "apply_patch")
    if guess is None:
        return Said("I have no idea left. I give up.")
    return Said.call(f"Perhaps {guess.why}.", "apply_patch", {"unified_diff": guess.diff})
