"""A mistyped name: the error suggests the right one, wherever the name is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PLUGIN = """
    import attrs, click
    from agentbench_core import hookimpl

    @click.group()
    def garden():
        "A plugin's own commands."

    @garden.command()
    @click.option("--flowers", help="How many.")
    def plant(flowers):
        "Plant."

    @hookimpl
    def agentbench_register_commands(register):
        register("garden", f"{__name__}:garden", summary="")
"""

ON_HOST = ("--sandbox", "local", "--allow-unisolated", "--model", "m")
RUN = ("run", "--suite", "mini", "--agent", "idle")


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        # commands, and their options
        (["rnu"], "'run'"),
        (["plugins", "lsit"], "'list'"),
        (["report", "piared"], "'paired'"),
        (["garden", "plnat"], "'plant'"),
        (["garden", "plant", "--flowrs", "1"], "'--flowers'"),
        (["run", "--siute", "mini"], "'--suite'"),
        # suites, tasks, variants
        (["run", "--suite", "mni", "--agent", "idle"], "'mini'"),
        (["run", "--suite", "mini", "--tasks", "tsaks", "--agent", "idle"], "'tasks'"),
        ([*RUN, "--task", "oen"], "'one'"),
        (["tasks", "list", "--suite", "mni"], "'mini'"),
        (["tasks", "show", "oen", "--suite", "mini"], "'one'"),
        (["validate-tasks", "--suite", "mini", "--task", "oen"], "'one'"),
        (["run-task", "--task", "tasks/mini/oen", "--agent", "idle"], "'tasks/mini/one'"),
        (["run-task", "--task", "tasks/mni/one/task.yaml", "--agent", "idle"], "'tasks/mini'"),
        (["run", "--suite", "mini", "--variant", "scriptd"], "'scripted'"),
        (["run", "--suite", "mini", "--variant", "mnie.yaml"], "'mine.yaml'"),
        # components of each kind
        (["run", "--suite", "mini", "--agent", "scriptd"], "'scripted'"),
        ([*RUN, "--sandbox", "locl"], "'local'"),
        ([*RUN[:-1], "baseline", *ON_HOST, "--llm", "repaly"], "'replay'"),
        ([*RUN, "--set", "tools=[rnu]"], "'run'"),
        ([*RUN, "--set", "scorer=tets"], "'tests'"),
        ([*RUN, "--set", "reporters=[consoel]"], "'console'"),
        (["tasks", "attack", "--suite", "mini", "--adversary", "rewrite-test"], "'c01-rewrite-tests'"),
        (["plugins", "list", "--kind", "agnet"], "'agent'"),
        (["plugins", "new", "mine", "--kind", "scoerr"], "'scorer'"),
        # settings, and options of components
        ([*RUN, "--set", "limits.max_step=1"], "'max_steps'"),
        ([*RUN, "--set", "workers=1"], "'run.workers'"),
        ([*RUN, "--set", "limit.max_steps=1"], "'limits"),
        (["run", "--suite", "mini", "--agent", "scripted", "--set", "agent.stop_on_eror=true"], "'stop_on_error'"),
        ([*RUN, "--set", "sandbox.pass_enviroment=[]"], "'pass_environment'"),
        ([*RUN, "--set", "tool.rnu.max_chars=1"], "'run'"),
        ([*RUN, "--set", "tool.run.max_char=1"], "'max_chars'"),
        # plugins, and run directories
        (["--no-plugin", "cor", "plugins", "list"], "'core'"),
        (["plugins", "show", "scriptd"], "'scripted'"),
        (["runs", "show", "artifacts/runs/2026__mini__idel"], "'artifacts/runs/2026__mini__idle'"),
        (["runs", "show", "2026__mini__idel"], "'artifacts/runs/2026__mini__idle'"),
        (["runs", "rebuild", "2026__mini__idel"], "'artifacts/runs/2026__mini__idle'"),
        (["run", "--resume", "artifacts/runs/2026__mini__idel"], "'artifacts/runs/2026__mini__idle'"),
        (["run", "--like", "artifacts/runs/2026__mini__idel"], "'artifacts/runs/2026__mini__idle'"),
        (["replay", "artifacts/runs/2026__mini__idel"], "'artifacts/runs/2026__mini__idle'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_every_name_has_a_suggestion(
    agentbench: Any, make_task: Any, plugin: Any, typed: list[str], suggested: str
) -> None:
    """The exit code is 2 and nothing is done."""
    plugin("garden", PLUGIN)
    make_task()
    Path("mine.yaml").write_text("agent: idle\n")
    run = Path("artifacts/runs/2026__mini__idle")
    run.mkdir(parents=True)
    (run / "run.json").touch()
    done = agentbench(*typed)
    assert (done.code, done.out) == (2, "")
    hint = done.err.lower().partition("did you mean ")[2]
    assert suggested in hint, done.err
    assert len(list(Path("artifacts/runs").iterdir())) == 1


@pytest.mark.parametrize(
    ("file", "text", "suggested"),
    [
        ("agentbench.toml", "[run]\nworker = 3\n", "run.worker: unknown field (did you mean 'workers'?)"),
        ("agentbench.toml", "[limit]\nmax_steps = 3\n", "limit: unknown field (did you mean 'limits'?)"),
        ("agentbench.toml", "workers = 3\n", "workers: unknown field (did you mean 'run.workers'?)"),
        ("configs/variants/idle2.yaml", "agnet: idle\n", "agnet: not allowed here (did you mean 'agent'?)"),
        (
            "configs/variants/idle2.yaml",
            "limits: {max_step: 1}\n",
            "max_step: unknown field (did you mean 'max_steps'?)",
        ),
        (
            "configs/variants/idle2.yaml",
            "agent: {name: scripted, stop_on_eror: true}\n",
            "options of agent 'scripted': stop_on_eror: unknown field (did you mean 'stop_on_error'?)",
        ),
        ("agentbench.toml", "[tool.run]\nmax_char = 1\n", "max_char: unknown field (did you mean 'max_chars'?)"),
        ("configs/models.yaml", "version: '1'\nmodel: {}\n", "model: unknown field (did you mean 'models'?)"),
    ],
)
def test_fields_of_a_file_have_suggestions(
    agentbench: Any, make_task: Any, file: str, text: str, suggested: str
) -> None:
    """The error names the file and the path of the field."""
    make_task()
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text)
    done = agentbench("run", "--suite", "mini", "--variant", "idle2" if "variants" in file else "idle")
    assert done.code == 2
    assert file in done.err
    assert suggested in done.err


@pytest.mark.parametrize(
    ("old", "new", "suggested"),
    [
        ("network_policy: none", "network_polici: none", "environment.network_polici: unknown field (did you mean "),
        ("network_policy: none", "network_policy: non", "(did you mean 'none'?)"),
        ("patch: solution.patch", "patch: soluton.patch", "'soluton.patch' does not exist (did you mean "),
        ("validation:", "valdation:", "valdation: unknown field (did you mean 'validation'?)"),
    ],
)
def test_fields_of_a_task_have_suggestions(agentbench: Any, make_task: Any, old: str, new: str, suggested: str) -> None:
    """Unknown fields, bad values and missing files."""
    path = make_task() / "task.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    done = agentbench("run", "--suite", "mini", "--agent", "idle")
    assert done.code == 2
    assert "one/task.yaml" in done.err
    assert suggested in done.err


def test_unknown_disabled_plugin_is_a_warning(agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is only a warning, since the variable may be set for other environments, too."""
    monkeypatch.setenv("AGENTBENCH_DISABLE_PLUGINS", "dokcer")
    done = agentbench("plugins", "list")
    assert done.code == 0
    assert "lists 'dokcer', which is not installed (did you mean 'docker'?)" in done.err


def test_a_model_that_is_almost_a_preset(agentbench: Any) -> None:
    """It is only a note, since the provider may know the name."""
    Path("configs").mkdir()
    Path("configs/models.yaml").write_text("version: '1'\nmodels: {sonnet: {model: {temperature: 0.5}}}\n")
    done = agentbench("config", "show", "--model", "sonet")
    assert done.code == 0
    assert "no preset is named 'sonet' (did you mean 'sonnet'?)" in done.err
    assert "preset" not in agentbench("config", "show", "--model", "sonnet").err
    assert "preset" not in agentbench("config", "show", "--model", "someone/sonet").err
    assert "preset" not in agentbench("config", "show").err


def test_dissimilar_name_gets_no_suggestion(agentbench: Any, make_task: Any) -> None:
    """The available names are listed instead."""
    make_task()
    done = agentbench("run", "--suite", "qqqqqqqqqqqq", "--agent", "idle")
    assert (done.code, "did you mean" in done.err) == (2, False)
    assert "Suites there: mini" in done.err
