"""Tasks that leak their solution are invalid: through history, files, instructions or network access."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Deadline, ExecResult, Output
from agentbench_integrity.audit.sandbox_probes import Objects, Probe
from agentbench_integrity.audit.secret_text import Secrets, SecretText
from agentbench_integrity.audit.task_leaks import search_patterns

CANARY = "6f1d2c3b-4a59-4e68-9d7c-0b1a2c3d4e5f"
HIDDEN = "".join(f"assert clamp(value_{n}, low_{n}, high_{n}) == wanted[{n}], 'case {n}'\n" for n in range(8))
SOLUTION = "".join(f"+    return limited(value_{n}, to=(low_{n}, high_{n}), by={n}00)\n" for n in range(4))
PATCH = f"--- a/app.txt\n+++ b/app.txt\n@@ -1 +1,5 @@\n-broken\n+fixed\n{SOLUTION}"
AS_SOMEBODY = "git -c user.name=x -c user.email=x@example.org"
COMMIT_AND_BACK = f"echo fixed > app.txt; {AS_SOMEBODY} commit -qam later; git reset -q --hard HEAD~1"

Rules = Mapping[str, str]


@pytest.fixture
def broken(make_task: Any, agentbench: Any, tmp_path: Path) -> Callable[..., Rules]:
    """Create and validate a task; return the reasons by rule. The default task has no problems."""

    def check(*flags: str, hidden: str = HIDDEN, patch: str = PATCH, files: Any = None, **sections: Any) -> Rules:
        shutil.rmtree(tmp_path / "tasks", ignore_errors=True)
        make_task(hidden={"test_clamp.py": hidden}, patch=patch, files=files, **sections)
        done = agentbench("validate-tasks", "--suite", "mini", "--json", "--times", "1", *flags)
        assert done.out, done.err
        (finding,) = json.loads(done.out)
        assert finding["verdict"] == ("invalid" if finding["problems"] else "valid"), done.err
        assert all(problem["remedy"] for problem in finding["problems"])
        assert "not checked for leaks" not in done.err
        return {problem["rule"]: problem["reason"] for problem in finding["problems"]}

    return check


def test_task_without_leaks(broken: Callable[..., Rules], agentbench: Any) -> None:
    """Public tests may share lines with hidden ones; checks that cannot run are reported once."""
    public = {"app.txt": "broken\n", "tests/test_clamp.py": HIDDEN.split("assert clamp(value_7")[0]}
    assert broken(files=public) == {}
    done = agentbench("validate-tasks", "--suite", "mini", "--times", "2")
    assert done.err.count("network isolation was not checked") == 1


def test_leaks_in_the_repository(broken: Callable[..., Rules]) -> None:
    """A whole hidden test, the solution, or only a canary is found."""
    assert broken(files={"app.txt": "broken\n", "old/clamp.txt": f"x\n{HIDDEN}y\n"}) == {
        "hidden_absent": "all of checks/test_clamp.py is in the repository: old/clamp.txt"
    }
    assert broken(files={"app.txt": "broken\n", "solution.patch": PATCH}) == {
        "hidden_absent": "all of the oracle is in the repository: solution.patch"
    }
    canary = {"app.txt": "broken\n", "x.bin": f"\0{CANARY.upper()}"}
    (reason,) = broken(hidden=f"# agentbench-canary: {CANARY}\n", files=canary).values()
    assert reason.startswith("the canary of checks/test_clamp.py is in /")


@pytest.mark.parametrize("changed", [("", ""), ("# as it was\n", "# changed\n")], ids=["equal", "short lines differ"])
def test_copies_of_public_files_are_not_leaks(broken: Callable[..., Rules], changed: tuple[str, str]) -> None:
    """Hidden tests that overlay a public directory include its files, so a canary there is public, too."""
    before, after = changed
    public = {"app.txt": "broken\n", "checks/test_clamp.py": f"# agentbench-canary: {CANARY}\n{before}{HIDDEN}"}
    assert broken(files=public, hidden=f"# agentbench-canary: {CANARY}\n{after}{HIDDEN}") == {}
    elsewhere = {**public, "old/clamp.txt": HIDDEN + SOLUTION.replace("+", "")}
    assert broken(files=elsewhere, hidden=public["checks/test_clamp.py"]) == {
        "hidden_absent": "all of the oracle is in the repository: old/clamp.txt"
    }


@pytest.mark.release
def test_hidden_files_that_are_copied_to_the_root(broken: Callable[..., Rules]) -> None:
    """A hidden file may replace a public one, whose lines and canary are public; its new lines are secret."""
    at_root = {"files_at": ".", "fail_to_pass": ["test_clamp.py::test_case"]}
    old = f"# agentbench-canary: {CANARY}\n{HIDDEN.replace('clamp', 'limit')}"
    replaced = {"app.txt": "broken\n", "test_clamp.py": old}
    assert "hidden_absent" not in broken(files=replaced, hidden=old + HIDDEN, validation=at_root)
    elsewhere = {**replaced, "old/clamp.txt": old + HIDDEN}
    assert broken(files=elsewhere, hidden=old + HIDDEN, validation=at_root)["hidden_absent"] == (
        "all of test_clamp.py is in the repository: old/clamp.txt"
    )
    noted = {"commands": [f"cat > notes <<'E'\n{HIDDEN}E"]}
    said = broken(files=replaced, hidden=old + HIDDEN, validation=at_root, setup=noted)["hidden_absent"]
    assert said.startswith("8 lines of test_clamp.py are in /")
    copy = broken(files=replaced, hidden=old, validation=at_root, setup=noted)
    assert "hidden_absent" not in copy, "the hidden file is a copy of the public one"


@pytest.mark.long
def test_a_hidden_file_with_some_new_lines(broken: Callable[..., Rules]) -> None:
    """Lines that are public do not count, even if many of them end alike."""
    same = "".join(f"    assert value({n:02}) == the_same_forty_characters_at_the_end_of_all\n" for n in range(40))
    public = {"app.txt": "broken\n", "checks/test_clamp.py": same}
    assert broken(files=public, hidden=same + HIDDEN) == {}
    said = broken(files=public, hidden=same + HIDDEN, setup={"commands": [f"cat > notes <<'E'\n{HIDDEN}E"]})
    assert said["hidden_absent"].startswith("8 lines of checks/test_clamp.py are in /"), said


def test_leaks_in_text_shown_to_agents(broken: Callable[..., Rules], monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaks are found in the description, the output of the failing command, and environment variables."""
    said = {"hidden_absent": "8 lines of checks/test_clamp.py are in the instruction"}
    assert broken(description=f"Make this work:\n{HIDDEN}") == said
    shown = f"cat <<'E'\n{HIDDEN}E\ngrep -q fixed app.txt"
    assert broken(validation={"failing_command": shown}) == said
    assert broken(description=f"agentbench-canary: {CANARY}", hidden=f"# agentbench-canary: {CANARY}\n") == {
        "hidden_absent": "the canary of checks/test_clamp.py is in the instruction"
    }
    monkeypatch.setenv("NOTES", HIDDEN)
    passed = ("--set", "sandbox.pass_environment=[NOTES]")
    assert broken(*passed) == {"hidden_absent": "8 lines of checks/test_clamp.py are in the environment of commands"}


def test_leak_does_not_make_a_task_flaky(make_task: Any, agentbench: Any) -> None:
    """Leaks are checked once, and do not make the task flaky."""
    make_task(setup={"commands": [COMMIT_AND_BACK]})
    done = agentbench("validate-tasks", "--suite", "mini", "--json", "--times", "2")
    (finding,) = json.loads(done.out)
    assert (finding["verdict"], [problem["times"] for problem in finding["problems"]]) == ("invalid", [2])


@attrs.frozen
class _Shell:
    """A sandbox without isolation that runs commands in a directory."""

    directory: Path

    def exec(self, command: Any, *, deadline: Deadline, env: Any = None, cwd: Any = None) -> ExecResult:
        home = str(self.directory)
        variables = {"PATH": os.environ["PATH"], "HOME": home, "PWD": home}
        done = subprocess.run(command, cwd=home, env=variables, capture_output=True)
        return ExecResult(exit_code=done.returncode, stdout=Output(head=done.stdout))


@pytest.fixture
def probe_of_workspace(tmp_path: Path) -> Probe:
    """A probe of a repository with one commit."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "app.txt").write_text("broken\n")
    (work / "copy.txt").write_text("broken\n")
    _sh(work, f"git init -q; git add -A; {AS_SOMEBODY} commit -qm one")
    return Probe(sandbox=_Shell(work), deadline=Deadline(60), everywhere=False)  # type: ignore[arg-type]


def _sh(directory: Path, command: str) -> str:
    return subprocess.run(command, shell=True, cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("command", "blobs", "commits"),
    [
        ("true", 0, 1),
        (COMMIT_AND_BACK, 1, 2),
        (f"{COMMIT_AND_BACK}; rm -r .git/logs .git/ORIG_HEAD", 1, 2),
        (f"{COMMIT_AND_BACK}; git repack -qad; git gc -q", 1, 2),
        ("echo later | git hash-object -w --stdin", 1, 1),
        (f"echo later > app.txt; {AS_SOMEBODY} stash -q", 1, 3),
        (f"{AS_SOMEBODY} commit -q --allow-empty -m later", 0, 2),
        ("echo later > app.txt; git add -A", 1, 1),
    ],
)
def test_leaks_in_git_objects(
    probe_of_workspace: Probe, tmp_path: Path, command: str, blobs: int, commits: int
) -> None:
    """I01, I02: objects left behind by setup are found, with or without a ref; new object files are found as well."""
    before = probe_of_workspace.object_files()
    _sh(tmp_path / "work", command)
    found = probe_of_workspace.objects()
    assert found is not None
    assert (len(found.blobs), len(found.commits)) == (blobs, commits)
    assert (before == probe_of_workspace.object_files()) == (command == "true")


def test_other_repositories(probe_of_workspace: Probe, tmp_path: Path) -> None:
    """Only content that the workspace's files do not have is reported."""
    for name in ("x.git", "deep/er/.git"):
        _sh(tmp_path / "work", f"git init -q --bare {name}")
    later = _sh(tmp_path / "work", "echo later | git --git-dir=x.git hash-object -w --stdin").strip()
    public = _sh(tmp_path / "work", "git --git-dir=deep/er/.git hash-object -w app.txt").strip()
    found = probe_of_workspace.repositories_with([later, public, "0" * 40])
    assert found is not None
    assert {blob: Path(place).name for blob, place in found.items()} == {later: "x.git"}


def test_texts_in_files(probe_of_workspace: Probe, tmp_path: Path) -> None:
    """Texts are found whatever the name and other content of a file."""
    odd = tmp_path / "work/a b/-rf $(x) 'y'"
    odd.mkdir(parents=True)
    lines = HIDDEN.splitlines()
    (odd / "$HOME; x").write_bytes(b"\xff" + lines[0].encode() + b"\r\n\t" + lines[1].encode())
    (odd / "binary.pyc").write_bytes(b"\0\1\2" + lines[2].encode() + b"\0")
    (odd / "large.txt").write_text("x\n" * (3 << 20) + lines[3])
    (odd / "link").symlink_to("large.txt")
    found = probe_of_workspace.texts([*lines, "--", "-x", "'"])
    assert found is not None
    by_name = {Path(file).name: texts for file, texts in found.items()}
    wanted = {name: texts - {"--", "-x", "'"} for name, texts in by_name.items()}
    wanted = {name: texts for name, texts in wanted.items() if texts}
    assert wanted == {"$HOME; x": {*lines[:2]}, "binary.pyc": {lines[2]}, "large.txt": {lines[3]}}


@attrs.define
class _CannedSandbox:
    """A sandbox that returns the given answers in order."""

    answers: list[tuple[int, str]]
    asked: list[Sequence[str]] = attrs.field(factory=list)

    def exec(self, command: Any, *, deadline: Deadline, env: Any = None, cwd: Any = None) -> ExecResult:
        self.asked.append(command)
        code, out = self.answers.pop(0)
        return ExecResult(exit_code=code, stdout=Output(head=out.encode()))


def probe(*answers: tuple[int, str]) -> Probe:
    return Probe(sandbox=_CannedSandbox(list(answers)), deadline=Deadline(9), everywhere=True)  # type: ignore[arg-type]


def test_failed_probes_give_no_result() -> None:
    """Missing tools and truncated answers give no result."""
    for answer in ((42, ""), (42, "\1done\n"), (137, "blob abc\n"), (0, "commit x\n")):
        asking = probe(*[answer] * 6)
        assert asking.objects() is None
        assert asking.object_files() is None
        assert asking.network() is None
        assert asking.variables() is None
        assert asking.texts(["x"]) is None
        assert asking.repositories_with(["x"]) is None
    asking = probe()
    assert asking.texts([]) == {}
    assert asking.repositories_with([]) == {}


def test_an_answer_whose_middle_is_left_out() -> None:
    """The rest of the answer is used."""
    said = probe((0, f"{'a' * 40} /x.git\n[... 7000 bytes left out ...]\nbbb /y.git\n\1done\n"))
    assert said.repositories_with(["a" * 40, "b" * 40]) == {"a" * 40: "/x.git"}


def test_every_text_is_searched() -> None:
    """A text with long lines does not displace the others."""
    texts = [
        SecretText(where=where, lines=tuple(f"{where} {n:03} {filler * 900}" for n in range(400)))
        for where, filler in (("checks/a.py", "x"), ("checks/b.py", "\u00fc"), ("the oracle", "z"))
    ]
    wanted = search_patterns(Secrets(canaries={}, tests=tuple(texts[:2]), oracle=texts[2]))
    counts = [sum(each is text for each in wanted.values()) for text in texts]
    assert min(counts) >= 50, counts
    assert sum(len(piece.encode()) for piece in wanted) <= 48 << 10


def test_probe_output_is_parsed() -> None:
    """Answers are parsed line by line; files without a match are omitted."""
    assert probe((0, "commit c1\nblob b1\nblob b2\n\1done\n")).objects() == Objects(blobs=("b1", "b2"), commits=("c1",))
    files: Any = probe((0, "\1/a b\nx\ny\n\1/c\n\1/d\ny\n\1done\n")).texts(["x", "y"])
    assert files == {"/a b": {"x", "y"}, "/d": {"y"}}
    assert probe((0, "device lo 0x9\ndevice tunl0 0x80\n\1done\n")).network() == ()
    assert probe((0, "device eth0 0x1003\nconnect 192.0.2.1 was accepted\n\1done\n")).network() == (
        "device eth0",
        "a connection to 192.0.2.1 was accepted",
    )


def test_without_git_in_the_image(broken: Callable[..., Rules], monkeypatch: pytest.MonkeyPatch) -> None:
    """The object files must then be those that the harness created."""
    monkeypatch.setattr(Probe, "objects", lambda self: None)
    assert broken() == {}
    monkeypatch.setattr(Probe, "object_files", lambda self: (".git/objects/aa/bb",))
    (reason,) = broken().values()
    assert reason == "the workspace has git objects outside the commit: .git/objects/aa/bb"


@pytest.mark.long
@pytest.mark.docker
def test_in_a_container(broken: Callable[..., Rules]) -> None:
    """The whole file system of the container is searched."""
    hidden = f"# agentbench-canary: {CANARY}\n{HIDDEN}"
    commands = [
        f"cat > /opt/venv/notes.py <<'E'\n{HIDDEN}E",
        f"printf '\\0{CANARY}' > /opt/venv/notes.pyc",
        COMMIT_AND_BACK,
    ]
    rules = broken("--sandbox", "docker", hidden=hidden, patch=PATCH, setup={"commands": commands})
    assert set(rules) == {"hidden_absent", "no_history"}
    assert "/opt/venv/notes.py" in rules["hidden_absent"]


@pytest.mark.release
@pytest.mark.docker
def test_leaks_in_the_image(broken: Callable[..., Rules], monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the image and its files outside the workspace are searched."""
    value = json.dumps(HIDDEN.replace("\n", " "))
    made = f"FROM agentbench/py-runner:0.1.0\nUSER root\nRUN printf {CANARY} > /usr/lib/leak\nENV NOTES={value}"
    name = "agentbench/test-leaking-image:1"
    subprocess.run(["docker", "build", "-q", "-t", name, "-"], input=made, text=True, check=True, capture_output=True)
    try:
        hidden = f"# agentbench-canary: {CANARY}\n{HIDDEN}"
        rules = broken("--sandbox", "docker", hidden=hidden, environment={"docker_image": name})
        assert rules == {
            "hidden_absent": "8 lines of checks/test_clamp.py are in the environment of commands; "
            "the canary of checks/test_clamp.py is in /usr/lib/leak"
        }
    finally:
        subprocess.run(["docker", "rmi", "-f", name], check=True, capture_output=True)


@pytest.mark.release
@pytest.mark.docker
def test_reachable_network_is_reported(make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that does not block the network is reported, unless the task allows network access."""
    from agentbench_docker.environment import DockerEnvironment

    meant = DockerEnvironment._network
    monkeypatch.setattr(DockerEnvironment, "_network", lambda self, wanted, deadline: meant(self, True, deadline))
    monkeypatch.setattr(Probe, "texts", lambda self, wanted: {})  # slow, and not tested here
    for policy in ("none", "always"):
        make_task(policy, environment={"network_policy": policy})
    done = agentbench("validate-tasks", "--suite", "mini", "--json", "--times", "1", "--sandbox", "docker")
    problems = {finding["task"]: finding["problems"] for finding in json.loads(done.out)}
    assert problems["always"] == []
    (problem,) = problems["none"]
    assert problem["rule"] == "network_off"
    assert "device eth0" in problem["reason"]
