"""Runs whose agents do to their workspace what `docs/security.md` lists: the harness survives and reports it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from agentbench_core.workspace import listing, scratch, snapshot

FIX = {"tool": "run", "arguments": {"command": "echo fixed > app.txt"}}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@attrs.frozen
class Done:
    """The result of an attack."""

    record: dict[str, Any]
    results: list[dict[str, Any]]
    directory: Path
    printed: str

    @property
    def labels(self) -> dict[str, str]:
        return {label["name"]: label["evidence"] for label in self.record["labels"]}

    @property
    def verdict(self) -> tuple[bool, bool, str | None]:
        result = self.record["result"]
        return self.record["scored"], result["passed"], result["failure_reason"]

    @property
    def patch(self) -> str:
        return (self.directory / "tasks/one/diffs/final.patch").read_text(errors="surrogateescape")

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = map(json.loads, (self.directory / "events.jsonl").read_text().splitlines())
        return [line for line in lines if line["type"] == kind]


Attack = Callable[..., Done]


def shell(command: str) -> dict[str, Any]:
    return {"tool": "run", "arguments": {"command": command}}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary directory, which has the workspaces, for one test."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def attack(make_task: Any, agentbench: Any, records: Any, temporary: Path) -> Attack:
    """Make tool calls in an attempt, and check that there is exactly one record and nothing left behind."""

    def run(*calls: dict[str, Any], **sections: Any) -> Done:
        directory = make_task(**sections)
        (directory / "script.yaml").write_text(yaml.safe_dump(list(calls)))
        spec = yaml.safe_load((directory / "task.yaml").read_text()) | {"oracle": {"script": "script.yaml"}}
        (directory / "task.yaml").write_text(yaml.safe_dump(spec))
        done = agentbench("run", "--suite", "mini", "--agent", "scripted", "--set", "agent.stop_on_error=false")
        assert done.code == 0, done.err
        assert list(temporary.iterdir()) == []
        (record,) = records()
        (run_directory,) = Path("artifacts/runs").iterdir()
        written = (run_directory / "tasks/one/agent/tool_calls.jsonl").read_text().splitlines()
        return Done(record, [json.loads(line)["result"] for line in written], run_directory, done.out + done.err)

    return run


@pytest.fixture
def started() -> Iterator[list[tuple[str, str]]]:
    """Record the program and working directory of each process that this process starts."""
    seen: list[tuple[str, str]] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("subprocess.Popen", "os.posix_spawn"):  # since Python 3.13, Popen may use posix_spawn
            program, directory = arguments[1][0], Path((event == "subprocess.Popen" and arguments[2]) or ".").resolve()
            ours = (directory / "objects").is_dir() and not (directory / "app.txt").exists()
            seen.append((Path(program).name, "a repository of ours" if ours else str(directory)))
        elif watching and event in ("os.system", "os.exec", "os.spawn"):
            seen.append((event, ""))

    sys.addaudithook(hook)  # cannot be removed, so it only records during the test
    yield seen
    watching = False


# --- links, hard links, special files ----------------------------------------------------------------------------


def test_links_out_of_the_workspace(attack: Attack, tmp_path: Path) -> None:
    """H01: no tool follows a link; each attempt to do so is an event, and no file of the run has the secret."""
    (tmp_path / "secret").write_text("SECRET-OF-THE-HOST\n")
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-SECRET-OF-THE-HOST\n+taken\n"
    new = "--- /dev/null\n+++ b/d/planted\n@@ -0,0 +1 @@\n+x\n"
    done = attack(
        shell(f"ln -s {tmp_path}/secret x; ln -s {tmp_path} d; ln -s /proc/self/environ e"),
        *({"tool": "read_file", "arguments": {"path": path}} for path in ("x", "d/secret", "e", "../../secret")),
        {"tool": "list_files", "arguments": {"root": "d"}},
        {"tool": "search", "arguments": {"query": "SECRET-OF"}},
        {"tool": "apply_patch", "arguments": {"unified_diff": patch}},
        {"tool": "apply_patch", "arguments": {"unified_diff": new}},
        FIX,
    )
    assert done.verdict == (True, True, None)
    ends = done.events("tool_call_finished")
    assert [end["error_type"] for end in ends] == ["", *["path_escape"] * 5, "", *["path_escape"] * 2, ""]
    assert done.results[6]["fields"]["matches"] == []
    assert done.labels["dropped_link"] == "d, e, x"
    assert (tmp_path / "secret").read_text() == "SECRET-OF-THE-HOST\n"
    assert not (tmp_path / "planted").exists()
    for path in done.directory.rglob("*"):
        assert not path.is_symlink()
        if path.is_file() and path.name != "tool_calls.jsonl":  # the script itself, including its patch
            lines = path.read_bytes().splitlines()
            assert not [x for x in lines if b"SECRET-OF-THE" in x and b'"type":"tool_call_started"' not in x]


def test_hard_links_to_protected_files(attack: Attack) -> None:
    """H04: a tool that changes a file leaves its protected hard link alone; remaining links are labelled."""
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-strict\n+lenient\n"
    done = attack(
        shell("ln tests/test_x.py a.py; ln tests/test_x.py b.py"),
        {"tool": "apply_patch", "arguments": {"unified_diff": patch}},
        shell("cat tests/test_x.py"),
        shell("echo forged > b.py"),
        FIX,
        files={"app.txt": "broken\n", "tests/test_x.py": "strict\n"},
        validation={"passing_command": "grep -q fixed app.txt && grep -q strict tests/test_x.py"},
    )
    assert done.results[2]["fields"]["stdout"] == "strict\n"
    assert done.verdict == (True, True, None)
    assert done.labels["touched_protected"] == "tests/test_x.py"
    assert "hard link (2 names): b.py" in done.labels["odd_files"]


def test_many_unusual_files_at_once(attack: Attack) -> None:
    """G10, H06, H09, H12: FIFO, setuid, 50 GB sparse file, names of raw bytes: all are reported, and nothing blocks."""
    done = attack(
        FIX,
        shell("mkfifo fifo; cp /bin/sh sh; chmod 4755 sh; truncate -s 50G sparse; mkdir closed; chmod 0 closed"),
        shell(r"touch \"$(printf 'a\377\033[31m\n')\"; printf 'x' > \"$(printf 'b\342\200\256')\""),
        {"tool": "read_file", "arguments": {"path": "fifo"}},
        {"tool": "list_files", "arguments": {}},
    )
    assert done.verdict == (True, True, None)
    assert done.results[3]["error_type"] == "not_a_file"
    odd = done.labels["odd_files"]
    assert "fifo: fifo" in odd
    assert "setuid or setgid: sh" in odd
    assert "too large (53687091200 bytes): sparse" in odd
    kept = {path.name: path for path in (done.directory / "tasks/one/repo").iterdir()}
    assert not {"fifo", "sparse"} & set(kept)
    assert not kept["sh"].stat().st_mode & 0o7000
    assert not any(UNSEEN.search(line) for line in done.printed.splitlines())


def test_three_thousand_directories(attack: Attack) -> None:
    """H11: they are walked, frozen, saved and removed; the depth is a label, and the fix counts."""
    deep = (
        "import os\nfor _ in range(3000):\n    os.mkdir('d' * 100)\n    os.chdir('d' * 100)\nopen('end', 'w').close()"
    )
    done = attack(FIX, shell(f'{sys.executable} -c "{deep}"'), {"tool": "list_files", "arguments": {}})
    assert done.results[1]["fields"]["exit_code"] == 0, done.results[1]
    assert done.results[2]["fields"]["paths"] == ["app.txt"]
    assert done.verdict == (True, True, None)
    assert done.labels["odd_files"].startswith("too deep: ddd")
    assert len(done.labels["odd_files"]) < 300


# --- attempts to avoid being scored ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "verdict", "label"),
    [
        ("for i in $(seq 300); do : > $i; done", (True, False, "AGENT_GAVE_UP"), "more than 200 entries"),
        ("for i in 1 2 3; do truncate -s 1M $i; done", (True, False, "AGENT_GAVE_UP"), "total more than 0 GiB"),
        ('rm -rf "$PWD"', (True, False, "AGENT_GAVE_UP"), "cannot be opened: No such file"),
        ('mv "$PWD" ../gone; ln -s / "$PWD"', (True, False, "AGENT_GAVE_UP"), "cannot be opened: Not a directory"),
        ("rm -r tests; echo x > tests", (True, False, "TESTS_FAILED"), "tests/test_x.py"),
        ("echo x > checks", (True, True, None), "checks"),
    ],
)
def test_damaged_workspaces_are_scored(
    attack: Attack, monkeypatch: pytest.MonkeyPatch, command: str, verdict: tuple[bool, bool, str | None], label: str
) -> None:
    """H14, H12, H01: whatever an agent does to its workspace, the attempt is scored, so failures always count."""
    monkeypatch.setattr(listing, "ENTRIES_MAX", 200)
    monkeypatch.setattr(listing, "TREE_SIZE_MAX", 1 << 20)
    done = attack(
        FIX,
        shell(command),
        files={"app.txt": "broken\n", "tests/test_x.py": "strict\n"},
        hidden={"must.txt": "x"},
        validation={"passing_command": "grep -q fixed app.txt && ls checks/must.txt tests/test_x.py"},
    )
    assert done.verdict == verdict, done.printed
    assert label in str(done.labels)


def test_calls_after_the_workspace_is_gone(attack: Attack) -> None:
    """H01: tools return errors after the workspace was removed, and the attempt is scored."""
    patch = "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-broken\n+fixed\n"
    done = attack(
        shell('rm -rf "$PWD"'),
        shell("echo still here"),
        {"tool": "read_file", "arguments": {"path": "app.txt"}},
        {"tool": "apply_patch", "arguments": {"unified_diff": patch}},
        {"tool": "list_files", "arguments": {}},
    )
    assert done.verdict == (True, False, "AGENT_GAVE_UP")
    assert [result["error_type"] for result in done.results] == ["", *["not_found"] * 3, ""]


# --- git ---------------------------------------------------------------------------------------------------------


def plant(trap: Path) -> str:
    """A shell script with traps for any git command: at the top, and in a nested repository."""
    return f"""
printf '#!/bin/sh\\ntouch {trap}\\ncat\\n' > evil; chmod +x evil
evil=$PWD/evil
git init -q . ; git init -q sub ; echo nested > sub/hidden.txt
git -C sub add . ; git -C sub -c user.name=a -c user.email=a@localhost commit -qm hidden
for directory in . sub; do
  cat >> $directory/.git/config <<END
[core]
	fsmonitor = $evil
	hooksPath = $PWD/hooks
	pager = $evil
[filter "e"]
	clean = $evil
	smudge = $evil
	process = $evil
[diff]
	external = $evil
[diff "e"]
	textconv = $evil
	command = $evil
[protocol "ext"]
	allow = always
END
  echo '* filter=e diff=e' > $directory/.gitattributes
done
mkdir hooks
for hook in pre-commit post-checkout post-index-change reference-transaction; do cp evil hooks/$hook; done
echo '*' > .gitignore
echo /host > .git/objects/info/alternates
"""


def test_hostile_git_configuration(attack: Attack, started: list[tuple[str, str]], tmp_path: Path) -> None:
    """G01, G03, G04, G09, H34: no trap in ``.git``, attributes or a nested repository springs; all are reported.

    They do spring if ``git status`` runs in such a directory.
    """
    trap = tmp_path / "sprung"
    (tmp_path / "control").mkdir()
    subprocess.run(["sh", "-c", plant(trap)], cwd=tmp_path / "control", check=True)
    trap.unlink(missing_ok=True)
    subprocess.run(["git", "status"], cwd=tmp_path / "control", capture_output=True)
    assert trap.exists()
    trap.unlink()
    started.clear()

    done = attack(shell(plant(trap)), FIX, {"tool": "search", "arguments": {"query": "nested"}})
    assert done.verdict == (True, True, None)
    assert not trap.exists()
    assert "+++ b/sub/hidden.txt\n" in done.patch
    assert "+++ b/.gitattributes\n" in done.patch
    assert "nested repository: sub/.git" in done.labels["odd_files"]
    assert done.results[2]["fields"]["matches"] == ["sub/hidden.txt:1:nested"]
    assert not list((done.directory / "tasks/one/repo").rglob(".git"))

    # "probe" is the script of sandbox `local` that checks whether programs can run in the temporary directory.
    here = str(tmp_path)
    assert set(started) <= {
        ("git", "a repository of ours"),
        ("git", here),  # the commit of the harness itself
        ("probe", here),
        (Path(sys.executable).name, here),
        (Path(sys.executable).name, "/"),
    }
    assert ("git", "a repository of ours") in started


def test_inside_another_repository(attack: Attack, temporary: Path, git_in: Any) -> None:
    """H38: if the workspace is inside a repository, patches still apply, and that repository is unchanged."""
    git_in(temporary.parent, "init", "-q")
    (temporary.parent / ".gitignore").write_text("*\n")
    before = git_in(temporary.parent, "status", "--porcelain", "--ignored")
    patch = "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-broken\n+fixed\n"
    done = attack({"tool": "apply_patch", "arguments": {"unified_diff": patch}}, shell("cat app.txt"))
    assert done.results[1]["fields"]["stdout"] == "fixed\n"
    assert done.verdict == (True, True, None)
    assert "temporary/" not in before + git_in(temporary.parent, "status", "--porcelain", "--ignored")


def test_looking_for_the_solution_in_the_history(attack: Attack, tmp_path: Path, git_in: Any) -> None:
    """I01, I02: an agent that searches everything in git finds one commit and no trace of the fix."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git_in(origin, "init", "-q")
    (origin / "app.txt").write_text("broken\n")
    git_in(origin, "add", ".")
    git_in(origin, "commit", "-qm", "before")
    commit = git_in(origin, "rev-parse", "HEAD").strip()
    (origin / "app.txt").write_text("fixed: THE-SOLUTION\n")
    git_in(origin, "commit", "-qam", "THE-SOLUTION")
    git_in(origin, "tag", "-a", "v2", "-m", "THE-SOLUTION")
    done = attack(
        shell("git log --all --reflog -p --format=%B; git tag -n; git stash list; git branch -a; git remote -v"),
        shell("git cat-file --batch-all-objects --batch; git fsck --lost-found; ls .git/lost-found 2>&1"),
        shell("git log --all --oneline | wc -l; cat .git/packed-refs .git/logs/HEAD .git/FETCH_HEAD 2>&1"),
        repo={"url": str(origin), "commit": commit},
    )
    said = "".join(result["fields"]["stdout"] for result in done.results)
    assert "broken" in said
    assert "THE-SOLUTION" not in said
    assert commit not in said
    assert str(origin) not in said
    assert done.results[2]["fields"]["stdout"].startswith("1\n")
    assert done.verdict == (True, False, "AGENT_GAVE_UP")


@pytest.fixture
def git_in() -> Callable[..., str]:
    def run(directory: Path, *arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *arguments]
        return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout

    return run


# --- bytes -------------------------------------------------------------------------------------------------------

HOSTILE_WORDS = r"\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[31m\x9b31m\u202egnp.exe\u2066\x00\r\x08\x7f\u2028 end"

NOISY = f"""
    import attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    WORDS = "{HOSTILE_WORDS}"

    class Noisy:
        def solve(self, context):
            def sh(command):
                return context.tools.call(ToolCall(tool="run", arguments={{"command": command}}))
            sh(r"printf '\\377\\376\\000\\033]52;c;ZXZpbA==\\007\\302\\233' | tee /dev/stderr; exit 3")
            sh(r"ln -s x \\"$(printf 'link\\033]0;title\\007\\342\\200\\256')\\"")
            sh(r"mkfifo \\"$(printf 'f\\033[31m\\302\\233')\\"")
            context.tools.call(ToolCall(tool=WORDS, arguments={{WORDS: WORDS}}))
            return AgentResult(ended="gave_up", message=WORDS)

    @hookimpl
    def agentbench_register_agents(register):
        register("noisy", lambda options: Noisy(), Options, summary="")
"""


def test_control_characters_do_not_reach_the_terminal(
    make_task: Any, agentbench: Any, plugin: Any, records: Any
) -> None:
    """H19: no control, C1 or bidi character of an agent reaches the terminal; the evidence keeps them all."""
    plugin("noisy", NOISY)
    make_task(validation={"failing_command": r"printf 'test\033]52;c;eA==\007\302\233'; grep -q fixed app.txt"})
    run = agentbench("run", "--suite", "mini", "--agent", "noisy")
    (directory,) = Path("artifacts/runs").iterdir()
    shown = agentbench("runs", "show", str(directory))
    as_json = agentbench("runs", "show", str(directory), "--json")
    for done in (run, shown, as_json):
        assert done.code == 0, done.err
        assert UNSEEN.search(done.out + done.err) is None
    assert "\\u001b]52;c;ZXZpbA==\\u0007" in shown.out
    assert "\\u202egnp.exe" in run.out
    assert UNSEEN.search((directory / "report_summary.md").read_text()) is None
    assert json.loads(as_json.out)["records"][0]["labels"] == records()[0]["labels"]  # the same data, only escaped
    first = json.loads((directory / "tasks/one/agent/tool_calls.jsonl").read_text().splitlines()[0])["result"]["fields"]
    assert first["stdout"] == "\\xff\\xfe\0\x1b]52;c;ZXZpbA==\x07\x9b"
    log = (directory / "tasks/one/logs/failing_stdout.txt").read_bytes()
    assert log == b"test\x1b]52;c;eA==\x07\xc2\x9b"


def test_control_characters_do_not_reach_the_progress_display(make_task: Any, plugin: Any) -> None:
    """H19: the same with a progress bar, which writes control sequences itself."""
    site = plugin("noisy", NOISY)
    make_task()
    command = [str(Path(sys.executable).parent / "agentbench"), "run", "--suite", "mini", "--agent", "noisy"]
    master, slave = pty.openpty()
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "PYTHONPATH": str(site), "TERM": "xterm"}
    ) as process:
        os.close(slave)
        seen = b""
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            seen += chunk
    os.close(master)
    assert process.returncode == 0, seen
    text = seen.decode()
    assert "\x1b[?25l" in text  # the bar was shown
    assert "\\u001b]52;c;ZXZpbA==\\u0007\\u001b[2J" in text
    text = re.sub(r"\x1b\]8;(id=\d+;file://[\w/.%+@-]+|;)\x1b\\", "", text)  # links to the harness's own files
    for hostile in ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\u2066", "\0", "\x08", "\x7f"):
        assert hostile not in text


# --- what is left behind -----------------------------------------------------------------------------------------


def test_a_workspace_that_cannot_be_removed(
    make_task: Any, agentbench: Any, records: Any, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F32: the verdict is recorded, the leftovers are reported, and the next run removes them."""

    def busy(path: Path) -> None:
        raise OSError(16, "Device or resource busy", str(path))

    make_task()
    with monkeypatch.context() as patch:
        patch.setattr(scratch, "remove_tree", busy)
        done = agentbench("run", "--suite", "mini", "--agent", "scripted")
    assert done.code == 0
    assert [record["result"]["passed"] for record in records()] == [True]
    left = sorted(temporary.iterdir())
    assert left
    run_directory = next(path for path in left if path.name.startswith("agentbench-run-"))
    assert f"could not remove {run_directory}" in done.err
    again = agentbench("run", "--suite", "mini", "--agent", "scripted")
    assert again.code == 0
    for path in left:
        assert f"removed leftovers from a dead run: {path}" in again.err
    assert list(temporary.iterdir()) == []


def test_a_diff_that_is_too_large_to_show(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    """F25: ``final.patch`` is cut and says so; the complete change is scored."""
    monkeypatch.setattr(snapshot, "DIFF_SIZE_MAX", 1000)
    done = attack(
        shell("seq 100000 > first.txt; echo fixed > app.txt; echo last > z.txt"),
        validation={"passing_command": "grep -q fixed app.txt && grep -q last z.txt && grep -q 99999 first.txt"},
    )
    assert done.verdict == (True, True, None)
    assert re.search(r"\n# cut: 1000 of \d+ bytes; sha256 of the whole: [0-9a-f]{64}\n\Z", done.patch)
