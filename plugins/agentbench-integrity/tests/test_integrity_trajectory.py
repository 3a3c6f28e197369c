"""What in an agent's trajectory counts as evidence of a leak, and what does not."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Collection
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from agentbench_core import Tree
from agentbench_integrity.audit.history_commands import find_history_command, project_names
from agentbench_integrity.audit.secret_text import Lines, Secrets, SecretText, canaries_in
from agentbench_integrity.audit.trajectory import KnownToAgent, suspicious_steps

CANARY = "6f1d2c3b-4a59-4e68-9d7c-0b1a2c3d4e5f"
LINES = [f"    assert clamp(value_{n}, low_{n}, high_{n}) == wanted[{n}], 'case {n}'" for n in range(6)]
HIDDEN = ("checks/test_clamp.py",)
SECRETS = Secrets(
    canaries={CANARY: HIDDEN[0]},
    tests=(SecretText(where=HIDDEN[0], lines=tuple(line.strip() for line in LINES)),),
    oracle=SecretText(where="the oracle", lines=()),
)


def known(instruction: str = "", has: Collection[str] = (), public: Collection[str] = ()) -> KnownToAgent:
    return KnownToAgent(
        instruction=instruction,
        effects={"apply_patch": "edits", "read_file": "reads", "run": "runs", "search": "reads"},
        names={"clamp-tool"},
        has=lambda path: path in has,
        public=lambda lines: [line for line in lines if line in public],
    )


def step(number: int, command: object, out: str = "", tool: str = "run") -> dict[str, Any]:
    """Return a line of the tool calls."""
    return {
        "step": number,
        "call": {"tool": tool, "arguments": {"command": command}, "id": "", "problem": ""},
        "result": {"ok": True, "fields": {"stdout": out}, "error_type": "", "error_message": ""},
    }


def call(number: int, *messages: tuple[str, str], answer: str = "") -> dict[str, Any]:
    """Return a line of the conversation."""
    said = [{"role": role, "content": text, "tool_calls": [], "opaque": {}} for role, text in messages]
    message = {"role": "assistant", "content": answer, "tool_calls": [], "opaque": {}}
    return {"call": number, "since": 0, "messages": said, "completion": {"message": message}}


@attrs.frozen
class Attempt:
    """The files of one attempt."""

    directory: Path

    def suspicions(self, *steps: Any, calls: Collection[Any] = (), known: KnownToAgent = known()) -> list[str]:  # noqa: B008
        (self.directory / "agent").mkdir(exist_ok=True)
        for name, lines in (("agent/tool_calls.jsonl", steps), ("agent/conversation.jsonl", calls)):
            (self.directory / name).write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        return suspicious_steps(self.directory, SECRETS, HIDDEN, known)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """An attempt without files."""
    return Attempt(tmp_path)


def test_an_attempt_without_files(tmp_path: Path) -> None:
    """An attempt whose agent did nothing is not suspicious."""
    assert suspicious_steps(tmp_path, SECRETS, HIDDEN, known()) == []


@pytest.mark.parametrize("text", [CANARY, f"# agentbench-canary: {CANARY.upper()}", f"x{{'{CANARY}'}}"])
def test_a_canary_anywhere(attempt: Attempt, text: str) -> None:
    """A canary is found in tool calls and model calls, read or written; its step is named if there is one."""
    where = "the canary of checks/test_clamp.py"
    assert attempt.suspicions(step(1, "ls"), step(2, "cat x", text)) == [f"step 2: {where}"]
    assert attempt.suspicions(step(3, f"grep {text}")) == [f"step 3: {where}"]
    assert attempt.suspicions(calls=[call(1), call(2, ("tool", text))]) == [f"model call 2: {where}"]
    assert attempt.suspicions(calls=[call(1, answer=text)]) == [f"model call 1: {where}"]
    assert attempt.suspicions(step(1, "cat x", text), calls=[call(1, ("tool", text))]) == [f"step 1: {where}"]


@pytest.mark.parametrize("before", ["", "12\t", "  7: ", "+", "checks/x.py:12:", "E   > "])
def test_lines_of_hidden_tests(attempt: Attempt, before: str) -> None:
    """Three distinct lines are suspicious in any output format; two, or one repeated, may be a coincidence."""
    text = "\n".join(before + line for line in LINES[:3])
    assert attempt.suspicions(step(4, "cat x", text)) == ["step 4: 3 lines of checks/test_clamp.py"]
    assert attempt.suspicions(step(4, "cat x", repr(f"{text}\n"))) == ["step 4: 3 lines of checks/test_clamp.py"]
    assert attempt.suspicions(step(1, "cat x", "\n".join([LINES[0]] * 3 + [LINES[1]]))) == []
    assert attempt.suspicions(*(step(n, "cat x", line) for n, line in enumerate(LINES[:3], start=1))) == [
        "step 1: 3 lines of checks/test_clamp.py"
    ]


def test_known_lines_are_allowed(attempt: Attempt) -> None:
    """Lines that are public, given, or written by the agent before they were shown are allowed."""
    text = "\n".join(LINES)
    public = {line.strip() for line in LINES[:4]}
    assert attempt.suspicions(step(1, "cat x", text), known=known(public=public)) == []
    assert attempt.suspicions(step(1, "cat x", text), known=known(text)) == []
    assert attempt.suspicions(step(1, f"cat > mine.py <<E\n{text}\nE"), step(2, "cat mine.py", text)) == []
    own = call(1, ("user", "fix it"), answer=text)
    assert attempt.suspicions(step(1, "cat mine.py", text), calls=[own, call(2, ("tool", text))]) == []
    shown = [call(1, ("tool", text), answer=text)]
    assert attempt.suspicions(step(1, "cat x", text), step(2, f"echo {text}"), calls=shown) == [
        "step 1: 6 lines of checks/test_clamp.py"
    ]


def test_the_path_of_a_hidden_test(attempt: Attempt) -> None:
    """A path used before it was shown is suspicious in any form, unless it is in a public directory."""
    said = ["step 2: refers to checks/test_clamp.py, which is not public"]
    for command in (
        "cat checks/test_clamp.py",
        "python -m pytest -q ./checks/test_clamp.py::test_a",
        "sh -c 'cat /workspace/checks/test_clamp.py'",
        ["cat", "checks/test_clamp.py"],
    ):
        assert attempt.suspicions(step(1, "ls"), step(2, command)) == said
    honest = "cat checks/test_clamp.py"
    assert attempt.suspicions(step(1, "ls -R", "./checks/test_clamp.py"), step(2, honest)) == []
    assert attempt.suspicions(step(1, honest), known=known("see checks/test_clamp.py")) == []
    assert attempt.suspicions(step(1, honest), known=known(has={"checks"})) == []
    assert attempt.suspicions(step(1, "echo > checks/test_clamp.py"), step(2, honest)) == []
    assert attempt.suspicions(step(1, "+++ b/checks/test_clamp.py", tool="apply_patch"), step(2, honest)) == []
    assert attempt.suspicions(step(1, "cat tests/test_clamp.py mychecks/test_clamp.py test_clamp.py")) == []


@pytest.mark.parametrize(
    "command",
    [
        "git log --all --oneline",
        "cd /workspace && git -C . --no-pager log -p --all",
        "git reflog",
        "git log -g",
        "git fsck --lost-found",
        "git cat-file --batch-all-objects --batch-check | grep blob",
        "git rev-list --all | head",
        "git show HEAD@{1}",
        "git fetch origin",
        "git clone https://example.org/clamp-tool.git /tmp/x",
        "/usr/bin/git diff origin/main",
        'python -c \'import subprocess; subprocess.run(["git", "log", "--all"])\'',
        "ls .git/objects/pack",
        "cat .git/packed-refs",
        "grep -rn v2 .git/packed-refs",
        "git checkout upstream/main -- app.py",
        "cat > notes.md <<'E'\ngit log\nE\ngit log --all",
        "cat > /dev/null <<'E E'\nE E\ngit log --all",
        "cat > notes.md <<< E; git log --all",
        "python - <<'E'\nrun('git log --all')\nE",
        "cat <<'E' | sh\ngit log --all\nE",
        "cat > notes.md <<E\n$(\ngit log --all\n)\nE",
        "pip download clamp-tool",
        "python3 -m pip install 'Clamp_Tool==2.0' --target /tmp/x",
        "uv pip install clamp.tool",
        "curl -sL https://index.example/project/clamp-tool/json",
        "wget https://files.example/Clamp_Tool-2.0.tar.gz",
    ],
)
def test_history_and_release_commands_are_found(attempt: Attempt, command: str) -> None:
    """C26: commands that look for the history or a release of the project are found."""
    assert find_history_command(command, {"clamp-tool"})
    (said,) = attempt.suspicions(step(3, command))
    assert said.startswith("step 3: ")
    assert attempt.suspicions(step(3, command, tool="apply_patch")) == []


@pytest.mark.parametrize(
    "command",
    [
        "git log",
        "curl -s http://localhost:8000/clamp-tool/health",
        "git log --oneline -5 && git status && git diff HEAD",
        "git show HEAD:app.py",
        "git stash; python -m pytest; git stash pop",
        "git commit -m 'all tags --all'",
        "grep -rn 'def log' src --include=*.py",
        "find . -type f -not -path './.git/objects/*'",
        "find . -path .git/objects -prune -o -print",
        "pip install .",
        "pip install -e clamp-tool",
        "pip install ./clamp-tool pytest",
        "pip list; pip show clamp-tool",
        "echo reflog fsck --all",
        "grep -rn 'git fetch' src",
        "rg 'git log --all' src | grep https://example.org/clamp-tool",
        "git add upstream/client.py && git commit -m 'mend upstream/client.py'",
        "git diff -- upstream/client.py",
        "curl https://docs.example/clamp-toolkit/x",
        "tar c --exclude .git/objects .",
        "cat > README.md <<'E'\npip install clamp-tool\nhttps://example.org/clamp-tool\ngit log --all\nE\nls",
        'tee README.md <<-"E"\n\tpip install clamp-tool\n\tE\nls',
        "",
    ],
)
def test_ordinary_commands_are_allowed(command: str) -> None:
    """Commands that look at one's own work are allowed."""
    assert find_history_command(command, {"clamp-tool"}) is None


def test_searching_for_the_text_of_a_command_is_allowed(attempt: Attempt) -> None:
    """Searching for the text of a command is allowed; searching git internals is not."""
    search = step(1, "", tool="search")
    search["call"]["arguments"] = {"query": "git fetch"}
    assert attempt.suspicions(search) == []
    search["call"]["arguments"] |= {"glob": ".git/packed-refs"}
    assert attempt.suspicions(search) == ["step 1: .git/packed-refs"]


def test_a_tool_without_a_declared_effect_may_run_anything(attempt: Attempt) -> None:
    """The arguments of a plugin's tool without a declared effect count as commands."""
    asks = step(1, "", tool="ask")
    asks["call"]["arguments"] = {"query": "git fetch"}
    assert attempt.suspicions(asks) == ["step 1: git fetch"]


def test_the_names_of_a_project(tmp_path: Path) -> None:
    """Names are read from the project's files and normalized; malformed files give none."""
    with Tree(tmp_path) as tree:
        assert project_names(tree) == frozenset()
        (tmp_path / "pyproject.toml").write_text(
            '[project]\nname = "Clamp_Tool"\n[tool.poetry]\nname = "clamp.other"\n'
        )
        (tmp_path / "setup.cfg").write_text("[metadata]\nname = third\n")
        assert project_names(tree) == {"clamp-tool", "clamp-other", "third"}
        for odd in (b"\xff\xfe", b"project = 3\ntool = []", b"[project]\nname = 3", b"x = " + b"[" * 100_000):
            (tmp_path / "pyproject.toml").write_bytes(odd)
            (tmp_path / "setup.cfg").write_bytes(odd)
            assert project_names(tree) == frozenset()


def test_damaged_and_endless_lines(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged and very long lines are searched for canaries in chunks, and later lines are still read."""
    monkeypatch.setattr("agentbench_integrity.audit.trajectory._LONGEST", 1 << 16)
    monkeypatch.setattr("agentbench_integrity.audit.trajectory._CHUNK", 1 << 12)
    canary = "the canary of checks/test_clamp.py"
    (attempt.directory / "agent").mkdir()
    calls = attempt.directory / "agent/tool_calls.jsonl"
    end = json.dumps(step(9, "git reflog")).encode() + b"\n"
    for at in (0, 65_536 - 40, 65_536 - 10, 65_536, 70_000, 69_632 - 20):
        line = json.dumps(step(8, "x", "a" * at + CANARY + "b" * 200_000)).encode()
        calls.write_bytes(line + b"\n" + end)
        said = suspicious_steps(attempt.directory, SECRETS, HIDDEN, known())
        assert said == [f"a long step: {canary}", "step 9: git reflog"]
    for odd in (b"\xff\xfe\n", b"{}\n", b"[]\n", b'{"call": 3, "result": []}\n', b"[" * 60_000 + b"\n", b'{"step":\n'):
        calls.write_bytes(odd + end)
        assert suspicious_steps(attempt.directory, SECRETS, HIDDEN, known()) == ["step 9: git reflog"]


def test_memory_depends_on_the_longest_line(attempt: Attempt) -> None:
    """Memory use depends on the longest line, not on the file."""
    lines = [step(n, "cat x", "x" * 200_000) for n in range(100)]
    attempt.suspicions(*lines)
    size = (attempt.directory / "agent/tool_calls.jsonl").stat().st_size
    tracemalloc.start()
    assert suspicious_steps(attempt.directory, SECRETS, HIDDEN, known()) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 20_000_000
    assert peak < 8_000_000


WILD = st.recursive(
    st.none() | st.integers() | st.text(max_size=50) | st.sampled_from([CANARY, *LINES, "git", "log", "--all"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.fixed_dictionaries({"step": WILD, "call": WILD, "result": WILD, "messages": WILD}), max_size=4))
@settings(max_examples=100, deadline=None)
def test_arbitrary_content_raises_nothing(tmp_path_factory: pytest.TempPathFactory, lines: list[Any]) -> None:
    """Arbitrary content raises nothing, and later lines are still read."""
    attempt = Attempt(tmp_path_factory.mktemp("wild"))
    good = [*lines, step(99, "cat", CANARY)]
    assert any("the canary of" in each for each in attempt.suspicions(*good, calls=lines))


@given(st.lists(st.text("ab", min_size=1, max_size=6), max_size=40), st.text("ab\n\\ ", max_size=120))
@settings(max_examples=200, deadline=None)
def test_lines_that_are_suffixes_of_others_are_found(lines: list[str], text: str) -> None:
    """The same lines are found as by trying each, even if one is a suffix of another."""
    pieces = [piece.rstrip() for line in text.splitlines() for piece in {line, *line.split("\\n")}]
    assert set(Lines(lines).matches(text)) == {line for line in lines for piece in pieces if piece.endswith(line)}


SAME_END = " == the_same_forty_characters_at_the_end_of_all"


def test_lines_with_the_same_end() -> None:
    """Lines with a common suffix, as in a table of cases, are all found, also after a prefix."""
    lines = [f"assert value({n:05}){SAME_END}" for n in range(5000)]
    assert set(Lines(lines).matches("\n".join(f"{n}:  {line}" for n, line in enumerate(lines)))) == set(lines)


@pytest.mark.parametrize(
    "piece",
    [
        f"x{SAME_END}\n",
        f"assert value(1){SAME_END}\n",
        f"assert value(00001){SAME_END}\\n",
        f"{SAME_END} ",
        "a" * 990 + "\n",
    ],
    ids=["no line", "nearly a line", "a line", "one long line", "as long as a line"],
)
def test_search_time_is_linear_in_the_text(piece: str) -> None:
    """Four times the text takes about four times as long, however many lines have the same suffix."""
    nested = ["a" * length for length in range(40, 1000)]
    few = Lines([*nested, *(f"assert value({n:05}){SAME_END}" for n in range(1000))])
    many = Lines([*nested, *(f"assert value({n:05}){SAME_END}" for n in range(64_000))])

    def seconds(lines: Lines, size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        for _ in lines.matches(text):
            pass
        return time.process_time() - started

    assert seconds(many, 1_200_000) < 12 * seconds(many, 300_000) + 0.5
    assert seconds(many, 1_200_000) < 8 * seconds(few, 1_200_000) + 0.5


@given(st.text(max_size=2000), st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_matches_equal_those_of_a_plain_search(text: str, before: str) -> None:
    """The same lines and canaries are found as by a plain search."""
    line = LINES[0].strip()
    lines = Lines([line, LINES[1].strip()])
    whole = f"{text}\n{before}{line}\n{text}"
    assert line in set(lines.matches(whole))
    for found in lines.matches(text):
        assert found in text
    assert canaries_in(f"{text}{CANARY}", {CANARY}) == {CANARY} or text[-1:].isalnum()


@pytest.mark.parametrize(
    "text",
    ["a" * 3_000_000, "git\n" * 150_000, "0-" * 1_500_000, "git " * 500_000, "\\n" * 1_000_000, "'" * 3_000_000],
    ids=["letters", "lines", "dashes", "gits", "literals", "quotes"],
)
def test_pathological_texts_are_searched_in_one_pass(attempt: Attempt, text: str) -> None:
    """The text is searched in one pass; a backtracking expression would not finish."""
    assert attempt.suspicions(step(1, text, text), step(2, "git reflog"))[-1] == "step 2: git reflog"
