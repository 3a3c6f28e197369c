"""Repairs programs by rules, for runs without a model.

The mechanic is a pure function from a request to a response. Like a model, it sees only the conversation. It runs the
tests, tries changes on a copy in the sandbox, and sends the change that helps as a diff. It does not read task files.
It fixes only common mistakes; see the modules of ``repair``. A passed task shows that the harness works, but does not
measure agents.
"""

from __future__ import annotations

import re

from agentbench_core import Request
from agentbench_mechanic.exploring import explore, guess_from
from agentbench_mechanic.failure_output import command_in
from agentbench_mechanic.shell import from_shell, shell_in, to_shell
from agentbench_mechanic.sub_agents import act, minimal_arguments, role_of
from agentbench_mechanic.transcript import Exchange, Reply, Transcript
from agentbench_mechanic.upload import search_command, upload_commands

_FRUITLESS_SECONDS = 80.0
"""The mechanic gives up after searching for this many seconds without a result."""
_MAX_PARTS = 12
_MAX_READS = 6  # files
_SEARCH = "-m repair"
_CHANGE = re.compile(r"^repair: the change begins\n(.*?)^repair: the change ends$", re.MULTILINE | re.DOTALL)
_PROGRESS = re.compile(r"^repair: tried up to number (\d+), (\d+) left$", re.MULTILINE)


def next_reply(request: Request) -> Reply:
    """The mechanic's response to a request."""
    transcript = Transcript.of(request)
    if shell := shell_in(transcript):
        return to_shell(_next(from_shell(transcript, shell)), transcript, shell)
    return _next(transcript)


def _next(transcript: Transcript) -> Reply:
    if not transcript.tools:
        return Reply("I need tools to fix programs.")
    if role := role_of(transcript):
        return act(role, transcript)
    if "apply_patch" not in transcript.tools:
        return _call_unknown_tool(transcript)
    return _repair(transcript) if "run" in transcript.tools and not _cannot_search(transcript) else _guess(transcript)


def _call_unknown_tool(transcript: Transcript) -> Reply:
    """Call the first offered tool once, with arguments that match its schema, then give up."""
    name = next(iter(transcript.tools))
    if transcript.exchanges:
        return Reply("There is nothing here that I can fix.")
    return Reply.call(f"Calling {name}.", name, minimal_arguments(transcript.tools[name]))


def _cannot_search(transcript: Transcript) -> bool:
    """Whether a search is impossible, because the upload needs too many commands or every search failed to start."""
    searches = [one for one in transcript.calls_of("run") if _SEARCH in one.argument("command")]
    started = any("repair: " in one.result for one in searches)
    return len(upload_commands(transcript.max_tokens)) > _MAX_PARTS or (bool(searches) and not started)


def _repair(transcript: Transcript) -> Reply:
    """The next step of a search in the sandbox: upload the program, run it, apply the change found, or give up."""
    command, seconds = command_in(transcript.text), transcript.search_seconds
    parts = upload_commands(transcript.max_tokens)
    uploads = [one for one in transcript.calls_of("run") if "mechanic.packed" in one.argument("command")]
    uploaded = sum(one.ok for one in uploads if _SEARCH not in one.argument("command"))
    if uploaded < len(parts):
        if any(not one.ok for one in uploads):
            return _guess(transcript)
        text = f"Uploading the search, part {uploaded + 1} of {len(parts)}."
        return Reply.call(text, "run", {"command": parts[uploaded]})
    last = next((one for one in reversed(transcript.exchanges) if one.tool in ("run", "apply_patch")), None)
    searches = [one for one in transcript.calls_of("run") if _SEARCH in one.argument("command")]
    if not searches or last is None:
        return _search(command, seconds, 0, unpack=True)
    if last.tool == "apply_patch":
        if last.ok and _passes(last, command):
            return Reply("The command passes now.")
        return _search(command, seconds, 0 if last.ok else _progress(searches[-1])[0])
    if last is searches[-1] and (change := _CHANGE.search(_with_unix_lines(last.result))):
        return Reply.call("This makes failing tests pass and breaks none.", "apply_patch", {"unified_diff": change[1]})
    if last is not searches[-1]:
        return _search(command, seconds, 0)
    if re.search(r"^repair: \d+ tests pass, 0 fail$", last.result, re.MULTILINE):
        return Reply("No test fails.")
    number, left = _progress(last)
    fruitless = sum(not _CHANGE.search(_with_unix_lines(one.result)) for one in searches)
    if not left or fruitless * seconds >= _FRUITLESS_SECONDS:
        return Reply("No change that I know helps. I give up.")
    return _search(command, seconds, number)


def _search(command: str, seconds: float, skip: int, *, unpack: bool = False) -> Reply:
    text = "Trying small changes on a copy, and running the tests."
    return Reply.call(text, "run", {"command": search_command(command, seconds, skip, unpack=unpack)})


def _progress(search: Exchange) -> tuple[int, int]:
    match = _PROGRESS.search(_with_unix_lines(search.result))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _with_unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _passes(patch: Exchange, command: str) -> bool:
    return f"`{command}` passes" in patch.text_after


def _guess(transcript: Transcript) -> Reply:
    """The next step without a search: read a file, apply a change guessed from the files read, or give up."""
    if reply := explore(transcript, _MAX_READS):
        return reply
    patches = transcript.calls_of("apply_patch")
    if patches and _passes(patches[-1], command_in(transcript.text)):
        return Reply("The command passes now.")
    guess = guess_from(transcript, "apply_patch")
    if guess is None:
        return Reply("I have no ideas left. I give up.")
    return Reply.call(f"Perhaps {guess.why}.", "apply_patch", {"unified_diff": guess.diff})
