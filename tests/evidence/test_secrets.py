"""A planted secret is neither in a run directory nor on the console, whichever way it was leaked."""

from __future__ import annotations

import base64
import json
import re
import textwrap
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ahocorasick_rs
import attrs
import pytest

FOUND = "zQ8/vT2m+Lk4X=w7Rb1N\"c5Hy9\\Jd3'Gf6Pé0T"
NAMED = "Kd83hT-2mVx9qLw5Zn7Rb4YcJ6"
TOKEN = "ghp_Zt8vQ2mLk4Xw7Rb1Nc5Hy9Jd3Gf6Ps0TuAeI"
BODY = "\n".join(["Mq7Rt2Vx9Lw5Zn8Kb4Yc6Jd3Hf1Gp0Ts" * 2] * 8)
PRIVATE = f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----"

FLOOD = """\
import sys
secret, half = sys.argv[1], int(sys.argv[2])
text = "x" * (half - len(secret) // 2) + secret + "\\n"
text += "line\\n" * 20_000 + "y" * (half * 2) + "\\n"
tail = secret + "z" * (half - len(secret) // 2)
sys.stdout.write(text + tail)
"""

LEAKY = """
    import attrs, os
    from agentbench_core import AgentResult, ToolCall, Warning_, hookimpl, option

    @attrs.frozen
    class Options:
        end: str = option("", help="how it ends")
        note: str = option("", help="is said nowhere")

    @attrs.frozen
    class Leaky:
        options: Options

        def solve(self, context):
            found, named = os.environ["SOME_API_KEY"], os.environ["PLAIN_NAME"]
            call = lambda tool, **given: context.tools.call(ToolCall(tool=tool, arguments=given))
            run = lambda command, **env: call("run", command=command, env=env)
            run("cat keys.txt; cat keys.txt >&2")
            run('python3 flood.py "$SECRET" 524288; python3 flood.py "$SECRET" 15000 >&2', SECRET=found)
            run("python3 flood.py $SECRET 15000", SECRET=named)
            run(f"cat <<'END'\\n{found}\\nEND", **{named: found})
            run('cp keys.txt copy.txt; echo "$A" >> app.txt; echo fixed $B >> app.txt', A=found, B=named)
            run('mkdir -p "deep/$B"; cp keys.txt "deep/$B/x-$B.txt"; mkdir -p locked; cp keys.txt "locked/$B"', B=named)
            diff = f"--- a/app.txt\\n+++ b/app.txt\\n@@ -1 +1,2 @@\\n-broken\\n+{found}\\n+fixed {named}\\n"
            call("apply_patch", unified_diff=diff)
            call("run", **{found: {named: 1}})
            call(found)
            call("read_file", path=named)
            call("read_file", path="keys.txt", start_line=2, end_line=9)
            context.log.emit(Warning_(message=f"{found!r} {named!a}"))
            if self.options.end == "raise":
                run("echo broken > app.txt")
                raise RuntimeError(f"no luck with {found!r} and {named}")
            return AgentResult(message=f"used {found} and {named}", prompt_version=named)

    class Tells:
        def __init__(self, options):
            pass
        def report(self, run, into):
            raise RuntimeError(f"cannot send with {os.environ['SOME_API_KEY']} {os.environ['PLAIN_NAME']}")

    @hookimpl
    def agentbench_register_agents(register):
        register("leaky", Leaky, Options, summary="tells what it knows")

    @hookimpl
    def agentbench_register_reporters(register):
        register("tells", Tells, Options, summary="fails and says why")
"""


def encodings(secret: str) -> Iterator[str]:
    """Encodings of a secret as programs print them."""
    raw = secret.encode()
    encoded = base64.b64encode(b"user:" + raw + b":rest").decode()
    yield secret
    yield json.dumps(secret)
    yield json.dumps({"said": json.dumps({"key": secret})})
    yield "".join(f"\\u{ord(char):04x}" for char in secret)
    yield urllib.parse.quote(secret, safe="")
    yield urllib.parse.quote_plus(secret).lower() if secret.islower() else urllib.parse.quote_plus(secret)
    yield from (raw.hex(), raw.hex().upper(), secret[::-1])
    yield from (base64.b64encode(bytes(offset) + raw).decode() for offset in range(3))
    yield from (base64.urlsafe_b64encode(bytes(offset) + raw).decode() for offset in range(3))
    yield "\n".join(textwrap.wrap(encoded, 16))
    yield "\r\n".join(textwrap.wrap(raw.hex(), 20))
    yield "\n".join(f"+{line}" for line in textwrap.wrap(encoded, 20))
    yield json.dumps("\n".join(textwrap.wrap(encoded, 20)))


def fragments(secret: str) -> set[bytes]:
    """Eight consecutive bytes of the secret, or twelve of one of its encodings."""
    raw = secret.encode()
    parts = {raw[at : at + 8] for at in range(len(raw) - 7)}
    for whole in (raw.hex().encode(), raw.hex().upper().encode(), raw[::-1]):
        parts |= {whole[at : at + 12] for at in range(len(whole) - 11)}
    for offset in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            digits = encode(bytes(offset) + raw)[4 if offset else 0 : -4]
            parts |= {digits[at : at + 12] for at in range(len(digits) - 11)}
    return parts


@attrs.frozen
class Run:
    """Everything that a run left behind and that can be read."""

    directory: Path
    out: str
    err: str

    def places(self) -> Iterator[tuple[str, bytes]]:
        yield "standard output", self.out.encode()
        yield "standard error", self.err.encode()
        for path in sorted(self.directory.rglob("*")):
            name = str(path.relative_to(self.directory))
            yield f"the name of {name}", name.encode()
            if path.is_file():
                yield name, path.read_bytes()

    def read(self, name: str) -> str:
        return (self.directory / name).read_text()


@pytest.fixture(params=["message", "raise"])
def run(
    request: pytest.FixtureRequest,
    make_task: Any,
    agentbench: Any,
    plugin: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Run:
    """A run whose agent, task and reporter leak everything, ended by a message or by an exception."""
    monkeypatch.setenv("SOME_API_KEY", FOUND)
    monkeypatch.setenv("PLAIN_NAME", NAMED)
    plugin("leaky", LEAKY)
    keys = "\n".join([*encodings(FOUND), *encodings(NAMED), TOKEN, PRIVATE, json.dumps(PRIVATE), ""])
    flood = f"python3 flood.py {NAMED} {1 << 19}; python3 flood.py {NAMED} {1 << 19} >&2"
    make_task(
        files={"app.txt": "broken\n", "keys.txt": keys, "flood.py": FLOOD, ".gitignore": f"{NAMED}\n"},
        artifacts={"redact": ["PLAIN_NAME"], "full_logs": True},
        setup={"commands": ["cat keys.txt; cat keys.txt >&2", flood]},
        validation={
            "failing_command": f"cat keys.txt; {flood}; grep -q fixed app.txt",
            "passing_command": f"cat keys.txt app.txt; {flood}; cat keys.txt >&2; grep -q fixed app.txt",
            "protected_globs": ["locked/**"],
        },
    )
    done = agentbench(
        *("run", "--suite", "mini", "--agent", "leaky", "--set", "reporters=[console, tells]"),
        *("--set", f"agent.end={request.param}", "--set", f"agent.note={NAMED}"),
    )
    assert done.code == 0, done.err
    (directory,) = (tmp_path / "artifacts/runs").iterdir()
    return Run(directory, done.out, done.err)


@pytest.mark.long
def test_no_secret_is_in_a_run_directory_nor_on_the_console(run: Run) -> None:
    """H32: names and contents of all files have no secret: not whole, not encoded, and no part of it at a cut."""
    check_marks(run)
    parts = [*fragments(FOUND), *fragments(NAMED), TOKEN[4:20].encode(), BODY[8:24].encode()]
    search = ahocorasick_rs.BytesAhoCorasick(parts)
    found = [
        f"{place}: {parts[hit]!r}" for place, data in run.places() for hit, _, _ in search.find_matches_as_indexes(data)
    ]
    assert not found, "\n".join(found[:20])


def check_marks(run: Run) -> None:
    """Check that secrets reached every place, by the number of redaction marks."""
    forms = len(list(encodings(FOUND)))
    conversation = run.read("tasks/one/agent/tool_calls.jsonl")
    texts = ["logs/setup_stdout_full.txt", "logs/setup_stderr_full.txt", "logs/failing_stdout.txt", "repo/copy.txt"]
    texts += ["diffs/final.patch", "logs/passing_stdout.txt", "logs/passing_stderr_full.txt"]
    for text in [*(run.read(f"tasks/one/{name}") for name in texts), conversation]:
        assert text.count("[redacted SOME_API_KEY]") >= forms
        assert text.count("[redacted PLAIN_NAME]") >= forms
        assert text.count("[redacted GitHub token]") >= 1
        assert text.count("[redacted private key]") >= 2
    # Both halves of secrets that were cut by the sandbox and by the tool run.
    cut = re.compile(r"x\[redacted PLAIN_NAME\]\n\[\.\.\. \d+ bytes left out \.\.\.\]\n\[redacted PLAIN_NAME\]z")
    assert cut.search(run.read("tasks/one/logs/setup_stdout_full.txt"))
    assert cut.search(run.read("tasks/one/logs/failing_stderr_full.txt"))
    for name in ("SOME_API_KEY", "PLAIN_NAME"):
        cut = re.compile(rf"x\[redacted {name}\]\\n\[\.\.\. \d+ characters left out \.\.\.\]\\n\[redacted {name}\]z")
        assert cut.search(conversation)
    assert (run.directory / "tasks/one/repo/deep/[redacted PLAIN_NAME]/x-[redacted PLAIN_NAME].txt").is_file()
    (record,) = [json.loads(line) for line in run.read("attempts.jsonl").splitlines()]
    assert {"name": "touched_protected", "evidence": "locked/[redacted PLAIN_NAME]"} in record["labels"]
    assert "[redacted PLAIN_NAME]" in run.read("run.json")
    assert "[redacted PLAIN_NAME]" in run.read("tasks/one/task.yaml")
    said = "used [redacted SOME_API_KEY] and [redacted PLAIN_NAME]"
    if (run.directory / "tasks/one/agent/traceback.txt").exists():
        said = "no luck with '[redacted SOME_API_KEY]' and [redacted PLAIN_NAME]"
        assert said in run.read("tasks/one/agent/traceback.txt")
        assert said in run.err
    assert said in run.read("events.jsonl")
    assert "cannot send with [redacted SOME_API_KEY] [redacted PLAIN_NAME]" in run.err
