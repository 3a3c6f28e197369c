"""``agentbench plugins new``: generated plugins install with pip, type-check, pass their tests and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from agentbench_core.errors import InputError
from agentbench_testing.authoring.scaffold import PLUGIN_KINDS, write_plugin
from agentbench_testing.fixtures import MakeTask
from tests.environments import ROOT

KINDS = list(PLUGIN_KINDS)
BIN = Path(sys.executable).parent

Command = Callable[..., Any]

SLOW_SANDBOX_CHECKS = (
    "setup or equal_specs or another_environment or sweep or deadline or host_stay or once_exit_codes or background"
    " or closing_while or load_is or floods"
)
"""Slow checks of sandboxes: the generated plugin wraps the sandbox `local`, whose own tests include them."""


@attrs.frozen
class Made:
    """Generated plugins of each kind, named ``my-KIND``, and the directory where pip installed them."""

    place: Path
    site: Path

    def directories(self) -> list[str]:
        return [f"agentbench-my-{kind}" for kind in KINDS]

    def run(self, *command: str) -> str:
        """Run a program of this environment that finds the plugins; return its output."""
        variables = {**os.environ, "PYTHONPATH": str(self.site)}
        done = subprocess.run(command, cwd=self.place, env=variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """All plugins, installed with one call of pip from wheels, so that files missing from a wheel are noticed."""
    place = tmp_path_factory.mktemp("new")
    for kind in KINDS:
        write_plugin(place, f"my-{kind}", kind)
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*pip, *(str(place / f"agentbench-my-{kind}") for kind in KINDS)], check=True, timeout=300)
    return Made(place, site)


@pytest.fixture
def installed(made: Made, monkeypatch: pytest.MonkeyPatch) -> Made:
    """The installed plugins, importable in this process and its children."""
    monkeypatch.syspath_prepend(str(made.site))
    monkeypatch.setenv("PYTHONPATH", str(made.site))  # for child processes
    return made


@pytest.fixture
def new(agentbench: Command) -> Command:
    """Run ``agentbench plugins new``."""

    def run(*arguments: str) -> Any:
        return agentbench("plugins", "new", *arguments)

    return run


# --- generated files ---------------------------------------------------------------------------------------------


@pytest.mark.release
def test_new_plugins_are_listed(made: Made) -> None:
    """Each has its kind, distribution and summary."""
    rows = json.loads(made.run(str(BIN / "agentbench"), "plugins", "list", "--json"))
    found = {row["name"]: row for row in rows if row["name"].startswith("my-")}
    assert sorted(found) == sorted(f"my-{kind}" for kind in KINDS)
    for kind in KINDS:
        row = found[f"my-{kind}"]
        assert (row["kind"], row["distribution"], row["version"]) == (kind, f"agentbench-my-{kind}", "0.1.0")
        assert (row["status"], row["summary"]) == ("ok", PLUGIN_KINDS[kind].summary)


@pytest.mark.parametrize("kind", KINDS)
def test_new_plugins_have_no_findings(installed: Made, agentbench: Command, kind: str) -> None:
    """``plugins check`` reports nothing except possibly a slow import, which depends on the machine."""
    done = agentbench("plugins", "check", f"my-{kind}")
    assert (done.code, done.err) == (0, "")
    assert "checked 1 plugin: 0 errors, " in done.out
    assert [line for line in done.out.splitlines() if "advice" in line and "loading it takes" not in line] == []


@pytest.mark.release
def test_tests_of_new_plugins_pass(made: Made) -> None:
    """The conformance class of each kind and the generated tests pass, with warnings as errors."""
    pytest_ = [str(BIN / "pytest"), "-q", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib"]
    said = made.run(*pytest_, "-rA", "-k", f"not (my_sandbox and ({SLOW_SANDBOX_CHECKS}))", *made.directories())
    for kind in KINDS:
        assert re.search(rf"^PASSED \S*tests/test_my_{kind}\.py::TestConformance::", said, re.MULTILINE), kind


@pytest.mark.release
def test_new_plugins_pass_mypy(made: Made) -> None:
    """Code and tests pass mypy --strict; one call checks all and reuses its cache of the core."""
    settings = made.place / "mypy.ini"
    settings.write_text("[mypy]\nstrict = true\n")
    mypy = [str(BIN / "mypy"), "--config-file", str(settings), "--cache-dir", str(ROOT / ".mypy_cache/new-plugins")]
    places = [f"{directory}/{part}" for directory in made.directories() for part in ("src", "tests")]
    assert "no issues found" in made.run(*mypy, *places)


@pytest.mark.parametrize("filler", ["x", "y" * 64], ids=["short names", "long names"])
def test_new_plugins_pass_ruff(tmp_path: Path, filler: str) -> None:
    """The code passes ruff with the generated settings, for short and long names."""
    for kind in KINDS:
        write_plugin(tmp_path, f"{kind}-{filler}"[:64], kind)
    for arguments in (("check",), ("format", "--check")):
        ruff = [str(BIN / "ruff"), *arguments, "--no-cache", "."]
        done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_generated_files_are_complete(made: Made, kind: str) -> None:
    """All files of a distribution are there, without unfilled placeholders."""
    directory = made.place / f"agentbench-my-{kind}"
    paths = [path for path in directory.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    files = {str(path.relative_to(directory)): path.read_text() for path in paths}
    package = f"src/agentbench_my_{kind}"
    wanted = {"pyproject.toml", "README.md", ".gitignore", ".github/workflows/ci.yml", f"tests/test_my_{kind}.py"}
    assert wanted | {f"{package}/{name}" for name in ("__init__.py", "plugin.py", "py.typed")} <= set(files)
    assert "AGENTBENCH_API = 1\n" in files[f"{package}/plugin.py"]
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["entry-points"] == {"agentbench": {f"my-{kind}": f"agentbench_my_{kind}.plugin"}}
    assert project["dependencies"][0] == "agentbench-core>=0.1,<0.2"
    (steps,) = (job["steps"] for job in yaml.safe_load(files[".github/workflows/ci.yml"])["jobs"].values())
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == ['pip install -e ".[test]"', f"agentbench plugins check my-{kind}", "pytest"]
    assert [name for name, text in files.items() if re.search(r"\$\w|\$\{(?!\{ matrix\.python \}\})", text)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_readme_command_of_new_plugins_works(
    installed: Made, agentbench: Command, make_task: MakeTask, records: Any, kind: str
) -> None:
    """The README's command works on a small task."""
    make_task(python=kind == "agent", suite="custom-dev")  # the generated agent repairs Python programs
    readme = (installed.place / f"agentbench-my-{kind}/README.md").read_text()
    (line,) = re.findall(r"^agentbench run .*$", readme, re.MULTILINE)
    arguments = [word.strip("\"'") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", line)][1:]
    if kind == "llm":
        arguments = [*arguments[: arguments.index("--set")], "--allow-unisolated"]  # ./my-model is a placeholder
    done = agentbench(*arguments, "--sandbox", "local") if kind != "sandbox" else agentbench(*arguments)
    assert done.code == 0, done.err
    (record,) = records()
    assert record["result"]["passed"] == (kind != "llm")
    if kind == "agent":
        assert record["agent"] == "my-agent"
    elif kind == "sandbox":
        assert record["sandbox"]["name"] == "my-sandbox"
    elif kind == "llm":
        assert (record["model"]["provider"], record["outcome"]) == ("my-llm", "gave_up")
    elif kind == "scorer":
        assert [label["name"] for label in record["labels"]] == ["oracle", "weak_verdict"]
    elif kind == "auditor":
        assert "large_change" in [label["name"] for label in record["labels"]]
    elif kind == "reporter":
        (badge,) = Path("artifacts/runs").glob("*/**/badge.json")
        assert json.loads(badge.read_text())["message"] == "1 of 1 passed"
    elif kind == "executor":
        (manifest,) = Path("artifacts/runs").glob("*/run.json")
        assert json.loads(manifest.read_text())["config"]["executor.name"]["value"] == "my-executor"


# --- the command -------------------------------------------------------------------------------------------------


def test_next_steps_are_printed(new: Command, monkeypatch: pytest.MonkeyPatch, make_task: MakeTask) -> None:
    """Commands are relative to the current directory and use an existing task. The agents page runs them."""
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    done = new("my-fixer", "--kind", "agent")
    assert (done.code, done.err) == (0, "")
    assert [line.strip() for line in done.out.splitlines() if line.startswith("  ")] == [
        "pip install -e './agentbench-my-fixer[test]'",
        "agentbench plugins check my-fixer",
        "pytest ./agentbench-my-fixer",
        "agentbench tasks new first --suite mine",
        "agentbench run-task --task tasks/mine/first --agent my-fixer",
    ]
    assert Path("agentbench-my-fixer/src/agentbench_my_fixer/plugin.py").is_file()
    make_task("one", suite="other")
    make_task("two", suite="custom-dev")
    Path("some where").mkdir()
    done = new("shown", "--kind", "tool", "--into", "some where")
    lines = [line.strip() for line in done.out.splitlines() if line.startswith("  ")]
    assert lines[0] == "pip install -e 'some where/agentbench-shown[test]'"
    tools = '"tools=[read_file,apply_patch,run,shown]"'
    assert lines[3:] == [f"agentbench run-task --task tasks/custom-dev/two --agent scripted --set {tools}"]


def test_programs_not_on_path_are_printed_with_their_full_path(new: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an activated environment, ``pip`` could be a different one."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = new("my-fixer", "--kind", "agent")
    assert f"  {BIN / 'agentbench'} plugins check my-fixer\n" in done.out


@pytest.mark.parametrize(
    ("name", "why", "remedy"),
    [
        ("My.Fixer", "is not a valid plugin name", "Try: my-fixer"),
        ("größe", "is not a valid plugin name", "Try: gr-e"),
        ("fixer-", "is not a valid plugin name", "Try: fixer"),
        ("", "is not a valid plugin name", "For example: my-agent"),
        ("x" * 65, "is not a valid plugin name", f"Try: {'x' * 64}"),
        ("../up", "is not a valid plugin name", "Try: up"),
        ("123", "does not parse it as a string", "Try: my-123"),
        ("123-", "is not a valid plugin name", "Try: my-123"),
        ("on", "does not parse it as a string", "Try: my-on"),
        ("idle", "a component named 'idle' of kind agent already exists", "Choose another name"),
        ("core", "agentbench-core is already installed", "Choose another name"),
        ("agentbench-core", "agentbench-core is already installed", "Choose another name"),
        ("report_", "is not a valid plugin name", "Try: report"),
        ("taken", "agentbench-taken already exists", "another directory: --into DIR"),
    ],
)
def test_invalid_names_are_refused(new: Command, name: str, why: str, remedy: str) -> None:
    """The message suggests an alternative; nothing is written."""
    Path("agentbench-taken").mkdir()
    done = new("--kind", "agent", "--", name)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
    assert remedy in done.err
    assert [str(path) for path in Path().rglob("*") if path.name not in ("agentbench-taken", "cache")] == []


def test_equivalent_name_counts_as_taken(installed: Made, tmp_path: Path) -> None:
    """pip treats ``agentbench_my__agent`` and ``agentbench-my-agent`` as equal."""
    for name in ("my_agent", "my--agent", "agentbench_my_agent"):
        with pytest.raises(InputError, match="agentbench-my-agent is already installed"):
            write_plugin(tmp_path, name, "tool")


def test_an_unknown_kind(new: Command) -> None:
    """The message lists the kinds."""
    done = new("mine", "--kind", "agnet")
    assert done.code == 2
    assert "'agent', 'sandbox', 'llm', 'tool', 'scorer', 'auditor', 'reporter', 'executor'" in done.err


@pytest.mark.parametrize(
    ("into", "why"),
    [("nowhere", "directory not found"), ("file", "directory not found: file"), ("/proc", "cannot write")],
)
def test_invalid_directories_are_refused(new: Command, into: str, why: str) -> None:
    """The message has a remedy; the exit code is that of bad input."""
    Path("file").touch()
    done = new("mine", "--kind", "scorer", "--into", into)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
    assert len(done.err.splitlines()) == 2
