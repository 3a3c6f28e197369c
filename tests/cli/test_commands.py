"""The commands, as a user types them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import write_run

ON_HOST = ("--sandbox", "local", "--allow-unisolated")


def test_plugins_show_lists_options(agentbench: Any) -> None:
    """They have type, default and help, and a sandbox without isolation is marked."""
    done = agentbench("plugins", "show", "local")
    assert done.code == 0
    assert "NOT ISOLATED" in done.out
    assert re.search(r"pass_environment +list of text +\[\] +\w", done.out)
    assert agentbench("plugins", "show", "scripted").out.count("capabilities: needs_oracle") == 1


def test_plugins_show_with_an_unknown_name(agentbench: Any) -> None:
    """The error suggests the most similar name."""
    done = agentbench("plugins", "show", "scriptd")
    assert (done.code, done.out) == (2, "")
    assert "no component or plugin is named 'scriptd' (did you mean 'scripted'?)" in done.err


def test_plugins_list_as_json_has_the_same_fields(agentbench: Any) -> None:
    """Name, kind, distribution, version, status, summary."""
    rows = json.loads(agentbench("plugins", "list", "--json").out)
    assert {"name", "kind", "distribution", "version", "status", "summary"} == set(rows[0])
    assert {"sandbox", "agent", "tool", "scorer", "reporter", "variant"} <= {row["kind"] for row in rows}


def test_all_distributions_of_the_repository_are_installed(agentbench: Any) -> None:
    """Every distribution of this repository is installed and works."""
    rows = json.loads(agentbench("plugins", "list", "--json").out)
    assert {row["status"] for row in rows if row["distribution"].startswith("agentbench-")} == {"ok"}
    family = {f"agentbench-{name}" for name in ("core", "docker", "openrouter", "subagents", "report")}
    assert family <= {row["distribution"] for row in rows}


def test_config_show_names_the_origin_of_every_value(agentbench: Any) -> None:
    """Flags override variant files, which override the project file and defaults."""
    Path("agentbench.toml").write_text("[run]\nworkers = 3\nrepeats = 2\n")
    Path("configs/variants").mkdir(parents=True)
    Path("configs/variants/mine.yaml").write_text("agent: scripted\nlimits: {max_steps: 5}\n")
    done = agentbench("config", "show", "--variant", "mine", "--repeats", "4", "--set", "limits.max_steps=6", "--json")
    leaves = json.loads(done.out)["mine"]
    assert leaves["run.workers"] == {"value": 3, "origin": "agentbench.toml"}
    assert leaves["run.repeats"] == {"value": 4, "origin": "--repeats"}
    assert leaves["limits.max_steps"] == {"value": 6, "origin": "--set limits.max_steps=6"}
    assert leaves["agent.name"] == {"value": "scripted", "origin": "configs/variants/mine.yaml"}
    assert leaves["run.out"] == {"value": "artifacts/runs", "origin": "default"}
    assert leaves["agent.stop_on_error"] == {"value": True, "origin": "default"}
    assert re.search(r"run\.workers +3 +agentbench\.toml", agentbench("config", "show").out)
    wrong = agentbench("config", "show", "--variant", "mine", "--set", "agent.stop_on_eror=false")
    assert (wrong.code, "did you mean 'stop_on_error'?" in wrong.err) == (2, True)


def test_ambiguous_variant_name_is_refused(agentbench: Any, plugin: Any) -> None:
    """It is refused because it is ambiguous, but a file can be selected by its path."""
    Path("configs/variants").mkdir(parents=True)
    Path("configs/variants/baseline.yaml").write_text("agent: baseline\nlimits: {max_steps: 5}\n")
    refused = agentbench("config", "show", "--variant", "baseline")
    assert refused.code == 2
    assert (
        "variant 'baseline' is defined both by a file (configs/variants/baseline.yaml) and by a plugin" in refused.err
    )
    by_path = agentbench("config", "show", "--variant", "configs/variants/baseline.yaml", "--json")
    assert json.loads(by_path.out)["baseline"]["limits.max_steps"]["value"] == 5
    hook = (
        "@hookimpl\ndef agentbench_register_variants(register): register('idle', {'agent': 'idle'}, summary='mine')\n"
    )
    plugin("other", f"from agentbench_core import hookimpl\n{hook}")
    twice = agentbench("config", "show", "--variant", "idle")
    assert (twice.code, "variant 'idle' is registered by agentbench-core" in twice.err) == (2, True)
    assert agentbench("config", "show", "--variant", "scripted").code == 0


def test_the_agents_of_the_core_are_variants(agentbench: Any) -> None:
    """This holds in an empty directory, too."""
    rows = json.loads(agentbench("plugins", "list", "--kind", "variant", "--json").out)
    names = {row["name"] for row in rows if row["distribution"] == "agentbench-core"}
    assert names == {"baseline", "idle", "scripted"}
    shown = agentbench("config", "show", *(f"--variant={name}" for name in sorted(names)), "--json")
    agents = {name: leaves["agent.name"] for name, leaves in json.loads(shown.out).items()}
    assert agents == {name: {"value": name, "origin": f"variant '{name}'"} for name in names}


@pytest.mark.long
def test_tasks_new_makes_a_valid_task(agentbench: Any, records: Any) -> None:
    """The reference solution passes it and the idle agent does not; it is listed and shown."""
    assert agentbench("tasks", "new", "my-task", "--suite", "own").code == 0
    done = agentbench("run", "--suite", "own", "--variant", "scripted", "--variant", "idle")
    assert done.code == 0
    assert [r["result"]["passed"] for r in records("scripted")] == [True]
    assert [r["result"]["passed"] for r in records("idle")] == [False]
    assert re.search(r"own +my-task +yes +yes +no +example", agentbench("tasks", "list").out)
    shown = agentbench("tasks", "show", "my-task", "--suite", "own").out
    assert "max_steps: 30" in shown
    assert "description: |" in shown
    again = agentbench("tasks", "new", "my-task", "--suite", "own")
    assert (again.code, "already exists" in again.err) == (2, True)
    assert "not a valid task id" in agentbench("tasks", "new", "../evil", "--suite", "own").err


def test_a_task_that_has_changed_is_pinned_again(agentbench: Any) -> None:
    """The error has both commits and the command that writes the new one, and the task then works."""
    agentbench("tasks", "new", "t", "--suite", "own")
    with Path("tasks/own/t/repo/clamp.py").open("a") as file:
        file.write("# changed\n")
    refused = agentbench("run", "--suite", "own", "--agent", "scripted")
    assert "SETUP_FAILED" in refused.err
    spec = Path("tasks/own/t/task.yaml")
    (old,) = re.findall(r'commit: "(\w+)"', spec.read_text())
    (new,) = set(re.findall(r"\b[0-9a-f]{40}\b", refused.err)) - {old}
    assert new in refused.out
    assert "agentbench tasks pin TASK_DIR" in refused.err
    assert agentbench("tasks", "pin", "tasks/own/t").out == f"t: pinned {new[:12]} (was {old[:12]})\n"
    assert f'commit: "{new}"' in spec.read_text()
    done = agentbench("run", "--suite", "own", "--agent", "scripted", "--set", "scorer=plain")
    assert "1 of 1 scored attempts passed" in done.out


def test_one_bad_suite_does_not_hide_the_others(agentbench: Any, make_task: Any) -> None:
    """The bad suite is named on standard error and by ``doctor``."""
    make_task()
    bad = make_task("bad", suite="worse")
    (bad / "task.yaml").write_text("id: [")
    done = agentbench("tasks", "list")
    assert re.search("mini +one", done.out)
    assert "skipped: suite worse" in done.err
    assert re.search(r"warning +tasks +.*worse/bad/task\.yaml", agentbench("doctor").out)


@pytest.fixture
def dated(make_task: Any) -> None:
    """A suite of three tasks: two with the dates of their fixes, one without."""
    make_task("old", provenance={"date": "2024-05-01T12:00:00Z", "commit": "a1" * 20})
    make_task("new", provenance={"date": "2025-02-28T23:00:00-05:00", "labels": ["weak_verdict"]})
    make_task("undated")


def test_tasks_list_shows_where_tasks_come_from(agentbench: Any, dated: None) -> None:
    """The columns exist only if some tasks have a date, a commit or labels."""
    lines = [line.rstrip() for line in agentbench("tasks", "list").out.splitlines()]
    assert re.fullmatch(r"SUITE .* TAGS  DATE        FIX           LABELS", lines[0])
    assert re.fullmatch(r"mini   new      .*  2025-03-01                weak_verdict", lines[1])
    assert re.fullmatch(r"mini   old      .*  2024-05-01  a1a1a1a1a1a1", lines[2])
    assert re.fullmatch(r"mini   undated .* no", lines[3])
    entries = json.loads(agentbench("tasks", "list", "--json").out)
    assert [entry["provenance"]["date"][:10] for entry in entries] == ["2025-02-28", "2024-05-01", ""]
    agentbench("tasks", "new", "plain", "--suite", "own")
    assert "DATE" not in agentbench("tasks", "list", "--suite", "own").out


@pytest.mark.parametrize(
    ("flags", "names", "note"),
    [
        (["--since", "2025-03-01"], ["new"], "--since 2025-03-01: 1 of 3 tasks left out"),
        (["--until", "2024-12-31"], ["old"], "--until 2024-12-31: 1 of 3 tasks left out"),
        (["--since", "2024-05-01", "--until", "2025-03-01"], ["new", "old"], "--until 2025-03-01: 1 of 3 tasks"),
        ([], ["new", "old", "undated"], ""),
    ],
)
def test_tasks_list_by_date(agentbench: Any, dated: None, flags: list[str], names: list[str], note: str) -> None:
    """Days are in UTC and included; tasks without a date are counted in a note."""
    done = agentbench("tasks", "list", *flags, "--json")
    assert [entry["id"] for entry in json.loads(done.out)] == names
    assert note in done.err
    assert bool(note) == bool(done.err)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--since", "2025-03-02"], "no task matches --since 2025-03-02 (different date: 2, no date: 1)"),
        (["--since", "2025-02-30"], "'2025-02-30' is not a valid date; example: 2025-03-01."),
        (["--since", "yesterday"], "'yesterday' is not a valid date"),
        (["--since", "2025-03-01", "--until", "2025-02-01"], "--since 2025-03-01 is after --until 2025-02-01"),
    ],
)
def test_dates_that_select_nothing(agentbench: Any, dated: None, flags: list[str], message: str) -> None:
    """One error, and nothing is listed."""
    done = agentbench("tasks", "list", *flags)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_plugins_show_of_a_tool_has_its_arguments(agentbench: Any) -> None:
    """Each argument has its type and whether it is required."""
    assert re.search(r"command +string +required +shell command", agentbench("plugins", "show", "run").out)


def test_tasks_schema_accepts_what_the_reader_accepts(agentbench: Any) -> None:
    """Its fields are those of the specification."""
    schema = json.loads(agentbench("tasks", "schema").out)
    assert set(schema["required"]) == {"id", "suite", "repo", "validation"}
    assert schema["properties"]["environment"]["properties"]["network_policy"]["enum"] == [
        *("none", "setup_only", "always")
    ]
    source = schema["properties"]["provenance"]
    assert (source["additionalProperties"], source["required"]) == (False, [])
    date, inside = source["properties"]["date"], schema["properties"]["validation"]["properties"]["files_at"]
    for pattern, good, bad in (
        (date["pattern"], ["", "2025-03-01", "2025-03-01T10:00:00Z", "2025-03-01T10:00:00+02:00"], ["2025", "today"]),
        (inside["pattern"], ["", ".", "tests", "src/pkg/tests/"], ["..", "/", "a/../b", "./a", "a//"]),
    ):
        assert [text for text in (*good, *bad) if re.search(pattern, text)] == good


def test_project_file_applies_to_every_command(make_task: Any, agentbench: Any) -> None:
    """It applies to all commands, not only to ``run``."""
    make_task()
    Path("tasks").rename("problems")
    Path("agentbench.toml").write_text('[run]\ntasks = "problems"\nsuite = "mini"\nout = "results"\n')
    assert agentbench("run", "--agent", "idle").code == 0
    assert "one" in agentbench("tasks", "list").out
    assert "id: one" in agentbench("tasks", "show", "one").out
    assert "idle" in agentbench("runs", "list").out


def test_runs_list_and_show(make_task: Any, agentbench: Any) -> None:
    """Runs are listed, and one is shown in full."""
    assert "no runs in artifacts/runs" in agentbench("runs", "list").out
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    (row,) = json.loads(agentbench("runs", "list", "--json").out)
    assert (row["suite"], row["variant"], row["passed"], row["scored"], row["planned"]) == ("mini", "scripted", 1, 1, 1)
    shown = agentbench("runs", "show", row["directory"])
    assert re.search(r"one +1 +passed +completed +1 +[\d.]+ +tasks/one", shown.out)
    write_run(Path("kit"), {"one": True})
    assert re.search(r"one +1 +passed .* tasks/one", agentbench("runs", "show", "kit").out)
    missing = agentbench("runs", "show", "nowhere")
    assert (missing.code, "is not a run directory" in missing.err) == (2, True)


def test_an_llm_that_is_not_installed(agentbench: Any, make_task: Any) -> None:
    """In the project file it does not affect agents without a model; ``doctor`` warns, and agents with a model fail."""
    make_task()
    Path("agentbench.toml").write_text("[llm]\nname = 'openroutr'\nbase_url = 'http://127.0.0.1:1/v1'\n")
    assert agentbench("run", "--suite", "mini", "--agent", "scripted").code == 0
    assert agentbench("run", "--like", *map(str, Path("artifacts/runs").iterdir())).code == 0
    assert "openroutr" in agentbench("config", "show").out
    told = agentbench("doctor")
    assert told.code == 0
    said = r"^warning +settings +agentbench.toml: no llm 'openroutr' \(did you mean 'openrouter'\?\)$"
    assert re.search(said, told.out, re.MULTILINE), told.out
    refused = agentbench("run", "--suite", "mini", "--agent", "baseline", "--model", "m", "--allow-unisolated")
    assert (refused.code, "no llm 'openroutr' (did you mean 'openrouter'?)" in refused.err) == (2, True)


def test_doctor_gives_a_remedy_for_every_problem(agentbench: Any, plugin: Any) -> None:
    """Every problem has a remedy, and broken plugins are problems."""
    plugin("bad", "import surely_not_there")
    done = agentbench("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.out)}
    assert done.code == 0
    assert checks["git"]["status"] == "ok"
    assert checks["sandbox local"]["status"] == "ok"
    assert checks["plugin bad"]["status"] == "warning"
    assert checks["tasks"]["status"] == "warning"
    assert all(check["remedy"] for check in checks.values() if check["status"] != "ok")
    Path("agentbench.toml").write_text("[run]\nworker = 3\n")
    broken = agentbench("doctor")
    assert broken.code == 3
    assert "unknown field (did you mean 'workers'?)" in broken.out


def test_without_any_sandbox(agentbench: Any, make_suite: Any) -> None:
    """Each command that needs a sandbox fails at once and names the distribution to install."""
    make_suite("one")
    without = ("--no-plugin", "local", "--no-plugin", "docker")
    for command in (
        ("run", "--agent", "scripted"),
        ("run", "--agent", "baseline", "--llm", "mechanic"),
        ("validate-tasks",),
    ):
        done = agentbench(*without, *command, "--suite", "mini")
        assert (done.code, done.out) == (2, "")
        assert "no sandbox 'local'\nNo installed plugin provides sandbox components.\n" in done.err
        assert "sandbox 'local' is part of agentbench-local; install it from the same source" in done.err
    looked = agentbench(*without, "doctor", "--json")
    (check,) = (check for check in json.loads(looked.out) if check["name"] == "sandbox")
    assert (looked.code, check["status"]) == (3, "failed")
    assert "sandbox 'local' is part of agentbench-local; install it from the same source" in check["remedy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "no command 'rnu' (did you mean 'run'?)"),
        (["moonbase"], "no command 'moonbase'; to list the installed plugins: agentbench plugins list"),
        (["run", "--suite", "none"], "tasks directory not found: 'tasks'"),
        (
            ["run", "--suite", "mini", "--agent", "scriptd", "--tasks", "T"],
            "no agent 'scriptd' (did you mean 'scripted'?)",
        ),
        (["run", "--suite", "mini", "--tasks", "T", "--agent", "idle", "--sandbox", "locl"], "no sandbox 'locl'"),
        (["run", "--suite", "mini", "--tasks", "T", *ON_HOST], "agent 'baseline' requires a model"),
        (["--no-plugin", "cor", "plugins", "list"], "no plugin 'cor' (did you mean 'core'?)"),
        (["run", "--suite", "mini", "--tasks", "T", "--agent", "idle", "--workers", "0"], "run.workers: 0 is below 1"),
        (["run", "--suite", "mini", "--tasks", "T", "--variant", "idel"], "no variant 'idel' (did you mean 'idle'?)"),
        (
            ["run", "--suite", "mini", "--tasks", "T", "--agent", "idle", "--set", "tool.rnu.x=1"],
            "no tool 'rnu' (did you mean 'run'?)",
        ),
        (
            ["run", "--suite", "mini", "--tasks", "T", "--variant", "idle", "--variant", "scripted", "--agent", "idle"],
            "--agent would override the agent of every variant",
        ),
        (["run", "--suite", "mini", "--tasks", "T", "--agent", "idle", "--temperature", "nan"], "found nan"),
        (["run", "--suite", "mini", "--tasks", "T/mini/one/task.yaml", "--agent", "idle"], "tasks directory not found"),
        (["runs", "show", "T/mini/one/task.yaml"], "is not a run directory"),
        (["tasks", "new", "q", "--suite", "a", "--tasks", "T/mini/one/task.yaml"], "cannot write"),
        (["run-task", "--task", "nowhere.yaml"], "nowhere.yaml does not exist"),
    ],
)
def test_bad_input_is_exit_2_with_one_clear_message(
    agentbench: Any, make_task: Any, arguments: list[str], message: str
) -> None:
    """There is no traceback and no standard output, and nothing is recorded."""
    make_task()
    Path("tasks").rename("T")
    done = agentbench(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert not Path("artifacts").exists()


def test_debug_shows_the_traceback(agentbench: Any) -> None:
    """With ``--debug`` it is printed for expected errors as well."""
    done = agentbench("--debug", "runs", "show", "nowhere")
    assert done.code == 2
    assert "Traceback (most recent call last)" in done.err


def test_a_plugin_command_is_found_and_a_broken_one_named(agentbench: Any, plugin: Any) -> None:
    """Its summary is listed, and it is only imported when it runs."""
    plugin(
        "extra",
        """
        import click
        from agentbench_core import hookimpl

        @click.command()
        def hello():
            click.echo("hello from a plugin")

        @hookimpl
        def agentbench_register_commands(register):
            register("hello", __name__ + ":hello", summary="Says hello.")
            register("gone", "surely_not_there:x", summary="Is not there.")
        """,
    )
    assert re.search(r"hello +Says hello\.", agentbench("--help").out)
    assert agentbench("hello").out == "hello from a plugin\n"
    gone = agentbench("gone")
    assert gone.code == 2
    assert "command 'gone' of agentbench-extra failed to load: ModuleNotFoundError" in gone.err


def test_a_plugin_command_below_a_group(agentbench: Any, plugin: Any) -> None:
    """It is listed with the core's commands, cannot replace them, and is only imported when it runs."""
    plugin(
        "extra",
        """
        import click
        from agentbench_core import hookimpl

        @click.command()
        def mine():
            "Make tasks."
            click.echo("mined")

        @hookimpl
        def agentbench_register_commands(register):
            register("tasks make", __name__ + ":mine", summary="makes tasks of a history")
            register("tasks list", __name__ + ":mine", summary="would replace it")
            register("runs gone", "surely_not_there:x", summary="is not there")
        """,
    )
    shown = agentbench("tasks", "--help").out
    assert re.search(r"list +List tasks by suite\.\n +make +Makes tasks of a history\.\n +mine ", shown)
    assert agentbench("tasks", "make").out == "mined\n"
    assert "no command 'tasks maek' (did you mean 'make'?)" in agentbench("tasks", "maek").err
    assert "command 'runs gone' of agentbench-extra failed to load" in agentbench("runs", "gone").err
    assert "tasks list" in agentbench("plugins", "check", "extra").out
    assert "the 'tasks list' command cannot be used" in agentbench("plugins", "check", "extra").out
    assert "try: agentbench tasks make --help" in agentbench("plugins", "show", "tasks make").out


def test_a_command_of_a_distribution_that_is_not_installed(agentbench: Any) -> None:
    """The error names the distribution from a fixed table, not one guessed from the command."""
    done = agentbench("--no-plugin", "report", "report", "summary")
    assert done.code == 2
    assert "no command 'report'; command 'report' is part of agentbench-report; install it" in done.err


def test_unusable_output_directory_is_refused(agentbench: Any, make_task: Any) -> None:
    """A file in the way or a dangling link is exit code 2 with a remedy."""
    make_task()
    Path("artifacts").write_text("in the way")
    Path("dangling").symlink_to("nowhere/at/all")
    for out in ("artifacts/runs", "dangling"):
        done = agentbench("run", "--suite", "mini", "--agent", "idle", "--out", out)
        assert done.code == 2
        assert "--out DIR" in done.err


@pytest.mark.parametrize(
    ("redirected", "code"),
    [(">&- 2>&- <&-", 0), ("2>/dev/full", 0), (">/dev/full", 3), (">/dev/full 2>/dev/full", 3)],
)
def test_closed_or_full_standard_streams(make_task: Any, redirected: str, code: int) -> None:
    """Results are kept, terminal output goes to no run file, and no internal error is reported."""
    make_task()
    agentbench = Path(sys.executable).with_name("agentbench")
    command = f"{agentbench} run --suite mini --agent scripted --sandbox local {redirected}"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, env=buffered)
    assert done.returncode == code
    assert "internal error" not in done.stderr
    assert ("cannot write to standard output: No space left" in done.stderr) == (redirected == ">/dev/full")
    (run,) = Path("artifacts/runs").iterdir()
    assert len((run / "attempts.jsonl").read_text().splitlines()) == 1
    assert all(line.startswith("{") for line in (run / "events.jsonl").read_text().splitlines())
