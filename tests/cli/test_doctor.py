"""``doctor`` says what a run needs and lacks, and a refused ``run`` lists all of it: real files, plugins and HTTP."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.run import waiting
from agentbench_core.workspace.scratch import Scratch
from agentbench_testing.chat_server import LoopbackServer, answer
from agentbench_testing.chat_server.catalogue import model

KEY = "sk-test-0123456789abcdef"


def rows(done: Any) -> Mapping[str, Mapping[str, str]]:
    """The checks of ``doctor --json`` by name; of checks with one name, the last."""
    return {row["name"]: row for row in json.loads(done.out)}


def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From now on, this machine has no git, no docker and no keys."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.delenv("DOCKER_HOST", raising=False)


WRONG = ("--suite", "mini", "--agent", "scriptd", "--sandbox", "docker", "--model", "maker/name", "--out", "file/runs")
PROBLEMS = {
    "tasks/mini/one/task.yaml: repo: required field is missing": "",
    "tasks/mini/two/task.yaml": "",
    "no agent 'scriptd' (did you mean 'scripted'?)": "Available: ",
    "no scorer 'tets' (did you mean 'tests'?)": "Available: ",
    "no run directory can be created in file/runs: ": "Choose another directory: --out DIR",
    "git was not found": "Install git 2.32 or newer.",
    "the docker command was not found on PATH": "Run: apt-get install docker.io",
    "OPENROUTER_API_KEY is not set": "Run: export OPENROUTER_API_KEY=...",
}
"""What is wrong with a run, and what the message suggests."""


def test_a_run_lists_everything_that_is_wrong_on_one_screen(
    make_task: Any, agentbench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks, names, directory, git, sandbox and key: each once, with its remedy, and nothing is created."""
    (make_task("one") / "task.yaml").write_text("id: one\nsuite: mini\n")
    (make_task("two") / "task.yaml").write_text("id: [")
    Path("file").touch()
    bare(monkeypatch, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    refused = agentbench("run", *WRONG, "--set", "scorer=tets")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.startswith(f"error: {len(PROBLEMS)} problems must be fixed first\n")
    for problem, remedy in PROBLEMS.items():
        entries = [entry for entry in refused.err.split("\n- ")[1:] if problem in entry]
        assert len(entries) == 1, problem
        assert remedy in entries[0]
    assert len(refused.err.splitlines()) <= 24
    assert sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts) == before
    told = agentbench("doctor", *WRONG, "--set", "scorer=tets", "--json")
    assert told.code == 3
    failed = [row["detail"] for row in json.loads(told.out) if row["status"] == "failed"]
    assert len(failed) == len(PROBLEMS)
    assert [problem for problem in PROBLEMS if not any(problem in detail for detail in failed)] == []


def test_input_errors_alone_are_exit_2(make_task: Any, agentbench: Any) -> None:
    """A wrong name and a wrong option are listed together."""
    make_task()
    done = agentbench("run", "--suite", "mini", "--agent", "idel", "--set", "tool.rnu.x=1", "--set", "tools=[rnu]")
    assert done.code == 2
    assert done.err.startswith("error: 2 problems must be fixed first\n- no tool 'rnu'")
    assert "\n- no agent 'idel' (did you mean 'idle'?)\n" in done.err


def test_settings_that_cannot_be_read_cause_no_false_problems(make_task: Any, agentbench: Any) -> None:
    """The model may be set in the invalid file, so it is not reported as missing; what was named is still checked."""
    make_task()
    Path("agentbench.toml").write_text("[run]\nworker = 3\n[model]\nname = 'm'\n")
    on_host = ("--sandbox", "local", "--allow-unisolated")
    done = agentbench("run", "--suite", "mini", "--agent", "baseline", *on_host, "--set", "a=1", "--set", "scorer=tets")
    assert done.code == 2
    assert "error: 3 problems must be fixed first\n" in done.err
    for problem in ("unknown field (did you mean 'workers'?)", "--set a=1: a: unknown field", "no scorer 'tets'"):
        assert problem in done.err
    assert "requires a model" not in done.err


@pytest.mark.parametrize(
    ("name", "key", "status", "words"),
    [
        ("maker/good", KEY, "ok", "context 131,072 tokens, 0.5 USD per million input tokens, 1.5 per million output"),
        ("maker/god", KEY, "failed", "did you mean 'maker/good'?"),
        ("maker/good", "sk-test-another", "failed", "401"),
        ("maker/free", KEY, "failed", "no pricing is known for model 'maker/free'"),
    ],
)
def test_doctor_asks_the_provider_about_a_model(
    make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch, name: str, key: str, status: str, words: str
) -> None:
    """It says whether the key is accepted, the model exists, and its price is known; no completion is requested."""
    monkeypatch.setenv("MY_KEY", key)
    make_task()
    models = [model("maker/good"), {**model("maker/free"), "pricing": {}}]
    with LoopbackServer(lambda body, seen: answer("unused"), models=models, require_key=KEY) as server:
        settings = {"base_url": server.base_url, "key_env": "MY_KEY", "dialect": "openrouter"}
        flags = [part for setting, value in settings.items() for part in ("--set", f"llm.{setting}={value}")]
        run = ("--suite", "mini", "--agent", "baseline", "--sandbox", "local", "--max-cost-usd", "1")
        done = agentbench("doctor", *run, "--llm", "openrouter", "--model", name, *flags, "--json")
        completions = server.model_requests
    check = rows(done)[f"model {name}"]
    assert (check["status"], words in check["detail"]) == (status, True), check
    assert key not in done.out
    assert completions == []
    assert bool(check["remedy"]) == (status != "ok")
    assert done.code == 3, "an agent with a model is refused in this sandbox"


def test_keys_are_named_and_not_shown(agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is a warning, because not every run needs one."""
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    missing = rows(agentbench("doctor", "--json"))["openrouter key"]
    assert (missing["status"], missing["remedy"]) == ("warning", "Run: export OPENROUTER_API_KEY=...")
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    done = agentbench("doctor", "--json")
    assert rows(done)["openrouter key"]["status"] == "ok"
    assert KEY not in done.out


def test_old_caches_and_leftovers_have_sizes_and_commands(
    agentbench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is old is named, and the commands remove exactly that."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    repos = tmp_path / "cache/agentbench/repos"
    for name, days in (("old.git", 60), ("new.git", 1)):
        (repos / name).mkdir(parents=True)
        (repos / name / "pack").write_bytes(os.urandom(3 << 20))
        for path in (repos / name / "pack", repos / name):
            os.utime(path, (time.time() - days * 86_400,) * 2)
    dead = tmp_path / "temporary/agentbench-run-dead"
    dead.mkdir()
    (dead / "owner.lock").touch()
    living = Scratch("run")
    assert living.path.exists()
    checks = rows(agentbench("doctor", "--json"))
    living.close()
    cache, left = checks["cache repos"], checks["leftovers"]
    assert re.fullmatch(r"cloned repositories in .*: 2, 6\.0 MiB; unchanged for 30 days: 1, 3\.0 MiB", cache["detail"])
    assert re.fullmatch(r"directories left by killed runs in .*: 1, .*", left["detail"])
    for check in (cache, left):
        assert check["status"] == "warning"
        command = check["remedy"].splitlines()[0].removeprefix("Run: ")
        subprocess.run(["sh", "-c", command], check=True)
    assert [path.name for path in repos.iterdir()] == ["new.git"]
    assert not dead.exists()


CHECKED = """
import time
from agentbench_core import Finding, NoOptions, UnavailableError, hookimpl

class Provider:
    def preflight(self, specs): raise AssertionError("doctor asks the checks instead")
    def prepare(self, spec, workspace, log, deadline): ...
    def sweep(self): return ()
    def close(self): ...
    def checks(self, specs):
        return {
            "good": lambda: Finding("ok", f"{len(specs)} environments"),
            "bad": lambda: 1 / 0,
            "odd": lambda: "fine",
            "slow": lambda: time.sleep(60),
            "lacks": self.lacks,
        }
    def lacks(self): raise UnavailableError("no moon", remedy="Wait.")

@hookimpl
def agentbench_register_sandboxes(register):
    register("checked", lambda options: Provider(), NoOptions, summary="one", capabilities=("isolated",))
"""


@pytest.mark.long
def test_each_check_of_a_plugin_fails_for_itself(
    agentbench: Any, plugin: Any, make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that raises, returns nonsense or hangs is a warning of its own; one that fails prevents only runs with it."""
    plugin("checked", CHECKED)
    monkeypatch.setattr(waiting, "_GRACE_SEC", 0.0)
    make_task()
    run = ("--suite", "mini", "--agent", "idle", "--sandbox", "checked", "--set", "run.preflight_sec=1", "--json")
    done = agentbench("doctor", *run)
    checks = rows(done)
    assert done.code == 3
    assert {name.partition(" ")[2]: row["status"] for name, row in checks.items() if name.startswith("checked ")} == {
        "good": "ok",
        "bad": "warning",
        "odd": "warning",
        "slow": "warning",
        "lacks": "failed",
    }
    assert checks["checked good"]["detail"] == "1 environments"
    assert "ZeroDivisionError" in checks["checked bad"]["detail"]
    assert "within 1 s" in checks["checked slow"]["detail"]
    assert (checks["checked lacks"]["detail"], checks["checked lacks"]["remedy"]) == ("no moon", "Wait.")
    assert checks["sandbox checked"]["detail"] == "cannot be used: checked lacks"
    assert all(row["remedy"] for row in checks.values() if row["status"] != "ok")
    Path("agentbench.toml").write_text("[run]\npreflight_sec = 1\n")
    without = agentbench("doctor", "--json")
    assert (without.code, rows(without)["checked lacks"]["status"]) == (0, "warning")


@pytest.mark.long
def test_colours_only_on_a_terminal_that_has_them() -> None:
    """NO_COLOR and dumb terminals get none; neither does a pipe."""
    script = textwrap.dedent(
        """
        import sys
        from agentbench_core.cli.doctor import print_checks
        from agentbench_core.run.readiness import Check
        print_checks([Check("a", "ok", "fine"), Check("bb", "failed", "a \\x1b[31mbad " * 9, "Do: this")])
        """
    )
    plain = "ok       a   fine\nfailed   bb  a \\u001b[31mbad"
    for extra, coloured in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)):
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "COLUMNS": "60", **extra}
        reader, writer = pty.openpty()
        subprocess.run([sys.executable, "-c", script], stdout=writer, env=environment, check=True)
        os.close(writer)
        output = os.read(reader, 65536).decode().replace("\r\n", "\n")
        os.close(reader)
        assert ("\x1b[32mok" in output) == coloured
        assert "\x1b[31mbad" not in output
        assert all(len(re.sub(r"\x1b\[\d+m", "", line)) <= 60 for line in output.splitlines())
        assert (plain in output) != coloured
    piped = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert piped.startswith(plain)
    assert len(piped.splitlines()) == 3, "one line, and the remedy"
