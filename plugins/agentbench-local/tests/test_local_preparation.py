"""Setup: once per environment, in a copy, and with clear errors."""

from __future__ import annotations

import os
import platform
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Command, Deadline, DeadlineExceeded, Interrupted, SandboxError, SetupError
from agentbench_local import interpreters
from agentbench_local.environment import LocalEnvironment
from agentbench_local.plugin import LocalOptions
from agentbench_local.preparation import Preparation
from agentbench_local.provider import LocalProvider
from agentbench_local.virtualenv import pytest_closure

Log = Make = SpecOf = Any
"""Types from conftest.py, which test modules cannot import."""
SOON = 60.0
RUNNING = ".".join(map(str, sys.version_info[:2]))


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setup commands use the Python of the tests, since creating a virtual environment takes most of a second."""
    monkeypatch.setattr(Preparation, "_make_venv", lambda _: None)


def once(environment: LocalEnvironment, command: str, workspace: Path, **given: Any) -> tuple[int | None, str]:
    result = environment.run_once(Command(command, **given), workspace, Deadline(SOON))
    return result.exit_code, result.stdout.text + result.stderr.text


def test_without_setup(make: Make, pristine: Path, log: Log) -> None:
    """The environment is a copy that keeps symlinks, and only captures run."""
    environment = make()
    assert environment.workspace != pristine
    assert (environment.workspace / "pkg/module.py").read_text() == "ANSWER = 41\n"
    assert (environment.workspace / "link").is_symlink()
    assert log.commands == []
    facts = environment.facts
    assert (facts["isolation"], facts["cache"], facts["python"].rpartition(".")[0]) == ("none", "miss", RUNNING)
    assert "network" in facts["limits_not_enforced"]


def test_python_mismatch_without_setup_is_recorded(make: Make) -> None:
    """The suite still runs, and its records have the version."""
    assert make(python="3.2").facts["python"].endswith("(required: 3.2)")


def test_captures_of_the_interpreter_are_cached(make: Make, log: Log, pristine: Path) -> None:
    """Captures of the interpreter are cached, so six tasks without setup run ``pip freeze`` once."""
    first = make(capture=("python -V", "cat pkg/module.py"))
    (pristine / "pkg/module.py").write_text("ANSWER = 42\n")
    second = make(capture=("python -V", "cat pkg/module.py"), cpu_limit=1)
    assert log.commands == ["python -V", "cat pkg/module.py"] * 2
    assert log.results[0] is log.results[2]
    assert first.facts["python_v"] == second.facts["python_v"] == f"Python {sys.version.split()[0]}"
    assert (first.facts["cat_pkg_module_py"], second.facts["cat_pkg_module_py"]) == ("ANSWER = 41", "ANSWER = 42")


@pytest.mark.usefixtures("light")
def test_setups_without_a_shared_cache(provider: LocalProvider, pristine: Path, spec_of: SpecOf, log: Log) -> None:
    """pip has no cache in such a setup, and the environment is another one."""
    spec = spec_of("echo $PIP_NO_CACHE_DIR-$PIP_CACHE_DIR")
    separate = attrs.evolve(spec, setup=attrs.evolve(spec.setup, shared_cache=False))
    made = [provider.prepare(each, pristine, log, Deadline(SOON)) for each in (spec, separate)]
    assert made[0].digest != made[1].digest
    assert log.results[0].stdout.text.startswith("-/")
    assert log.results[1].stdout.text == "1-\n"


@pytest.mark.usefixtures("light")
def test_equal_specs_are_prepared_once(provider: LocalProvider, pristine: Path, spec_of: SpecOf, log: Log) -> None:
    """Concurrent callers wait for the first, and get the same environment."""
    spec = spec_of("sleep 0.3; date +%N > made")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: provider.prepare(spec, pristine, log, Deadline(SOON)), range(4)))
    assert log.commands == ["sleep 0.3; date +%N > made"]
    assert len({(each.digest, each.workspace) for each in made}) == 1
    assert sorted(each.facts["cache"] for each in made) == ["hit", "hit", "hit", "miss"]
    assert not (pristine / "made").exists()


@pytest.mark.usefixtures("light")
def test_waiting_ends_with_the_deadline(
    provider: LocalProvider, pristine: Path, spec_of: SpecOf, log: Log, tmp_path: Path
) -> None:
    """If the first caller is interrupted, the next one prepares the environment."""
    at_work = tmp_path / "at work"
    spec = spec_of(f"echo x >> made; if mkdir '{at_work}'; then sleep 600; fi")
    deadline = Deadline(SOON)
    stopped: list[BaseException] = []

    def first() -> None:
        try:
            provider.prepare(spec, pristine, log, deadline)
        except Interrupted as error:
            stopped.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    while not at_work.exists():
        time.sleep(0.005)
    with pytest.raises(DeadlineExceeded):
        provider.prepare(spec, pristine, log, Deadline(0.1))
    deadline.end(Interrupted("stop"))
    environment = provider.prepare(spec, pristine, log, Deadline(SOON))
    thread.join()
    assert len(stopped) == 1
    assert (environment.workspace / "made").read_text() == "x\n"


@pytest.mark.usefixtures("light")
def test_failing_setup(make: Make, log: Log, scratch: Path) -> None:
    """The first failure ends it, with the command, exit code and output in the message."""
    with pytest.raises(SetupError) as caught:
        make("echo fine", "echo a line; echo the reason >&2; exit 7", "touch never")
    assert str(caught.value).splitlines() == [
        "the setup command 'echo a line; echo the reason >&2; exit 7' ended with exit code 7",
        "a line",
        "the reason",
    ]
    assert [result.exit_code for result in log.results] == [0, 7]
    assert not list(scratch.glob("*/environment-*"))


@pytest.mark.usefixtures("light")
def test_setup_that_takes_too_long(
    provider: LocalProvider, pristine: Path, spec_of: SpecOf, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is killed, and the error names it."""
    deadline = Deadline(SOON)
    monkeypatch.setattr(type(log), "started", lambda *_: deadline.end(DeadlineExceeded("over")))
    monkeypatch.setattr(type(log), "finished", lambda *_: None)
    with pytest.raises(SetupError, match="'sleep 60' timed out"):
        provider.prepare(spec_of("sleep 60"), pristine, log, deadline)


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """AgentBench runs on another Python than these tasks require, which is on PATH."""
    running = attrs.evolve(interpreters.running(), version="3.2.0")
    monkeypatch.setattr(interpreters, "running", lambda: running)


@pytest.mark.usefixtures("older")
def test_setup_with_the_python_required_by_the_task(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found on PATH. A task without setup uses the Python of AgentBench."""
    (tmp_path / f"python{RUNNING}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    environment = make("python -m pip --version > pip")
    assert environment.facts["python"] == platform.python_version()
    assert str(environment.workspace.parent) in (environment.workspace / "pip").read_text()
    assert make().facts["python"] == f"3.2.0 (required: {RUNNING})"


def test_setup_with_the_python_named_by_the_user(
    pristine: Path, spec_of: SpecOf, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option applies to all tasks, so PATH is not searched."""
    (tmp_path / "python3.2").write_text("#!/bin/sh\necho 3.2.0 True True; echo\n")
    (tmp_path / "python3.2").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    provider = LocalProvider(LocalOptions(python=sys.executable))
    with pytest.raises(SetupError, match=rf"requires Python 3\.2, but .* has {RUNNING}"):
        provider.prepare(spec_of("true", python="3.2"), pristine, log, Deadline(SOON))
    provider.close()


def test_setup_for_another_python(make: Make, log: Log) -> None:
    """It fails before installing, and the error has both versions and a remedy."""
    with pytest.raises(SetupError, match=rf"requires Python 3\.2, but .* has {RUNNING}.*\n.*`python`.*`python3\.2`"):
        make("touch never", python="3.2")
    assert log.commands == []


def test_setup_has_a_separate_virtual_environment(
    make: Make, workspace: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has pip and, without an index, pytest, and is separate from the harness."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    environment = make('pip --version && python -c \'import sys; open("prefix", "w").write(sys.prefix)\'')
    prefix = (environment.workspace / "prefix").read_text()
    assert prefix != sys.prefix
    assert f"from {prefix}" in log.results[0].stdout.text
    (workspace / "test_it.py").write_text("def test_it(): pass\n")
    plugins = "${PYTEST_DISABLE_PLUGIN_AUTOLOAD:-plugins are its own}"
    code, output = once(environment, f'echo "$VIRTUAL_ENV {plugins}"; pytest -q -p no:cacheprovider', workspace)
    assert code == 0, output
    assert output.startswith(f"{prefix} plugins are its own\n.")
    assert once(environment, "python -c 'import attrs'", workspace)[0] == 1
    assert once(environment, "python -m pytest --version", workspace) == (0, f"pytest {pytest.__version__}\n")


def test_editable_installations_use_the_fork(make: Make, workspace: Path) -> None:
    """Otherwise an editable installation would test the prepared tree, which agents never change."""
    link = "import site, os; open(site.getsitepackages()[0] + '/{name}', 'w').write({text})"
    path = link.format(name="__editable__.demo.pth", text="os.getcwd() + '/pkg'")
    hook = link.format(name="__editable___demo_finder.py", text="'M = ' + repr({'lib': os.getcwd() + '/src/lib'})")
    environment = make(f'mkdir -p src/lib; python -c "{path}"; python -c "{hook}"')
    assert environment.facts["installed_in_place"] == "pkg, src"
    (workspace / "pkg").mkdir()
    (workspace / "pkg/module.py").write_text("ANSWER = 42\n")
    (workspace / "src/lib").mkdir(parents=True)
    (workspace / "src/lib/__init__.py").write_text("ANSWER = 43\n")
    command = "cd /; python -I -c 'import module, lib; print(module.ANSWER, lib.ANSWER)'"
    assert once(environment, command, workspace) == (0, "42 43\n")
    assert once(environment, "python -c 'import module; print(module.ANSWER)'", environment.workspace)[1] == "41\n"


def test_the_closure_of_pytest() -> None:
    """It is computed; markers are evaluated for the given Python."""
    assert {"pytest", "pluggy", "iniconfig", "packaging", "pygments"} <= set(pytest_closure("3.11.7"))
    assert "colorama" not in pytest_closure("3.11.7")


def test_inputs_and_results(make: Make, workspace: Path, tmp_path: Path) -> None:
    """Inputs are available by name, and results are written to a directory."""
    (tmp_path / "given").write_text("input\n")
    (tmp_path / "results").mkdir()
    code, output = once(
        make(),
        'cat "$AGENTBENCH_INPUTS/sub/name"; touch "$AGENTBENCH_RESULTS/out"; ls "$HOME"',
        workspace,
        inputs={"sub/name": tmp_path / "given"},
        results=tmp_path / "results",
    )
    assert (code, output) == (0, "input\n")
    assert (tmp_path / "results/out").exists()


def test_a_read_only_workspace_has_no_write_bits(make: Make, workspace: Path) -> None:
    """Only while the command runs. (Root can write anyway, and the facts state that.)"""
    (workspace / "file").touch(mode=0o644)
    (workspace / "directory").mkdir(mode=0o755)
    (workspace / "link").symlink_to("/etc/passwd")
    environment = make()
    code, output = once(environment, "stat -c %a file directory .", workspace, read_only=True)
    assert (code, [int(mode, 8) & 0o222 for mode in output.split()]) == (0, [0, 0, 0])
    modes = [stat.S_IMODE((workspace / name).stat().st_mode) for name in ("file", "directory")]
    assert modes == [0o644, 0o755]
    assert "read-only" in environment.facts["limits_not_enforced"]


def test_closing_the_provider_ends_everything(
    provider: LocalProvider, pristine: Path, spec_of: SpecOf, log: Log, workspace: Path
) -> None:
    """Also sandboxes that were left open; afterwards, nothing can be started."""
    environment = provider.prepare(spec_of(), pristine, log, Deadline(SOON))
    sandbox = environment.start(workspace, read_only=False, network=False, deadline=Deadline(SOON))
    sandbox.exec("sleep 60 & true", deadline=Deadline(SOON))
    provider.close()
    provider.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.exec("true", deadline=Deadline(SOON))
    with pytest.raises(SandboxError, match="closed"):
        environment.start(workspace, read_only=False, network=False, deadline=Deadline(SOON))
    with pytest.raises(SandboxError, match="closed"):
        provider.prepare(spec_of(), pristine, log, Deadline(SOON))
