"""Checks of whether two runs are comparable: refusals, their overrides, and warnings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from agentbench_core import AttemptRecord, FailureReason, InputError, Label
from agentbench_report.command import report
from agentbench_report.commands.options import allowed
from agentbench_report.comparison.environments import FILE
from agentbench_report.comparison.refusal_reasons import FLAGS, RefusalReason
from agentbench_report.comparison.refusals import Comparability, Refusal, check, require
from agentbench_report.counts import RunCounts
from agentbench_report.reading import read
from agentbench_testing import write_run

ENDINGS = {f"task-{n}": n % 2 == 0 for n in range(8)}
FACTS = {
    "image": "agentbench/py-runner",
    "image_id": "sha256:one",
    "base_image_id": "sha256:base",
    "python": "3.11.7",
    "os": "Debian GNU/Linux 12",
    "pip_freeze": "attrs==23.2\nclick==8.1\npytest==8.0",
    "isolation": "container",
    "engine": "26.1",
    "engine_kernel": "6.1",
    "cache": "miss",
}

Change = Callable[[AttemptRecord], AttemptRecord]


def made(directory: Path, endings: Mapping[str, Any] = ENDINGS, **how: Any) -> RunCounts:
    """Write a run of a variant named like its directory."""
    fields = {"variant": directory.name, "variant_digest": f"sha256:{directory.name}", **how.pop("run", {})}
    return read(write_run(directory, endings, run=fields, **how).directory)


def compared(a: RunCounts, b: RunCounts, *flags: str) -> Result:
    places = ["--run-a", str(a.view.directory), "--run-b", str(b.view.directory)]
    return CliRunner().invoke(report, ["paired", *places, *flags])


def only(found: Comparability) -> Refusal:
    assert len(found.refusals) == 1, found.refusals
    return found.refusals[0]


def refused(a: RunCounts, b: RunCounts, ground: RefusalReason, *evidence: str) -> None:
    """Check that there is one refusal, with evidence, and that its flag overrides it and is reported."""
    refusal = only(check(a, b))
    assert refusal.ground is ground
    result = compared(a, b)
    assert isinstance(result.exception, InputError)
    assert result.exception.exit_code == 2
    message = str(result.exception)
    assert result.output == ""
    for text in (refusal.reason, refusal.a, refusal.b, str(refusal.flag), *evidence):
        assert text in message
    result = compared(a, b, str(refusal.flag))
    assert result.exit_code == 0, result.exception
    assert f"**Not comparable (overridden by flags):**\n\n- `{refusal.flag}`: {refusal.reason}" in result.output
    said = json.loads(compared(a, b, str(refusal.flag), "--format", "json").output)["overridden"]
    assert [(one["ground"], one["a"], one["b"]) for one in said] == [(str(ground), refusal.a, refusal.b)]
    others = [str(other.flag) for other in FLAGS if other is not ground]
    assert isinstance(compared(a, b, *others).exception, InputError)


def test_runs_under_equal_conditions_have_no_warnings(tmp_path: Path) -> None:
    found = check(made(tmp_path / "a"), made(tmp_path / "b"))
    assert found == Comparability(refusals=(), overridden=(), warnings=(), same_variant=False, same_terms=True)


def test_a_a_comparison_is_allowed(tmp_path: Path) -> None:
    same = {"variant": "x", "variant_digest": "sha256:x"}
    a, b = made(tmp_path / "a", run=same), made(tmp_path / "b", run=same)
    found = check(a, b)
    assert found.same_variant
    assert not found.refusals
    assert not found.warnings
    assert "Both runs use the same variant, so differences are noise" in compared(a, b).output


@pytest.mark.parametrize(
    "run",
    [
        {"harness": {"version": "0.1.0", "git_sha": "other"}},
        {"plugins": [{"name": "core", "distribution": "agentbench-core", "version": "9"}]},
        {"model": {"known": {"revision": "2"}}},
        {"resumed": [{"at": "2026-01-03T00:00:00+00:00", "argv": [], "changes": ["setting agent.x: 1 -> 2"]}]},
    ],
    ids=["harness", "plugins", "model", "resumed"],
)
def test_differences_are_noise_only_under_equal_conditions(tmp_path: Path, run: Mapping[str, Any]) -> None:
    same = {"variant": "x", "variant_digest": "sha256:x"}
    a, b = made(tmp_path / "a", run=same | {"model": {"known": {}}}), made(tmp_path / "b", run=same | run)
    page = compared(a, b).output
    assert not check(a, b).same_terms
    assert "so differences are noise" not in page
    assert "Both runs use the same variant, but other conditions differ" in page


def test_overridden_refusals_are_different_conditions(tmp_path: Path) -> None:
    same = {"variant": "x", "variant_digest": "sha256:x"}
    a, b = made(tmp_path / "a", run=same), made(tmp_path / "b", {**ENDINGS, "more": True}, run=same)
    assert "but other conditions differ" in compared(a, b, "--allow-different-tasks").output


def test_significant_difference_of_one_variant_is_not_noise(tmp_path: Path) -> None:
    same = {"variant": "x", "variant_digest": "sha256:x"}
    a, b = made(tmp_path / "a", run=same), made(tmp_path / "b", dict.fromkeys(ENDINGS, True), run=same)
    c = made(tmp_path / "c", dict.fromkeys(ENDINGS, False), run=same)
    page = compared(c, b).output
    assert "so a significant difference means that something else changed." in page
    assert "noise" not in page
    assert "noise" in compared(a, b).output


# --- refusals ----------------------------------------------------------------------------------------------------


def test_other_tasks_in_the_same_positions(tmp_path: Path) -> None:
    a = made(tmp_path / "a")
    b = made(tmp_path / "b", {f"other-{n}": True for n in range(8)})
    refused(
        a,
        b,
        RefusalReason.TASKS,
        "Tasks with the same digest in both runs: 0.",
        "8 tasks only in this run: task-0 (sha256:",
        "task-4",
        "and 3 more",
    )
    assert (
        "No comparison is possible: no task has a score in both runs."
        in compared(a, b, "--allow-different-tasks").output
    )


def test_tasks_with_the_same_name_but_different_content(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b", digests={"task-3": "sha256:changed"})
    refused(
        a,
        b,
        RefusalReason.TASKS,
        "Tasks with the same digest in both runs: 7.",
        "Tasks with the same name but a different digest: task-3.",
        "task-3 (sha256:changed)",
    )
    found = json.loads(compared(a, b, "--allow-different-tasks", "--format", "json").output)
    assert (found["pairs"], found["only_a"], found["only_b"]) == (7, ["task-3"], ["task-3"])


def test_a_subset_of_the_tasks(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b", dict(list(ENDINGS.items())[:5]))
    refused(a, b, RefusalReason.TASKS, "3 tasks only in this run: task-5", "all tasks are also in the other run")


@pytest.mark.parametrize("field", ["timeout_sec", "tool_timeout_sec", "max_steps"])
def test_other_limits(tmp_path: Path, field: str) -> None:
    def more(record: AttemptRecord) -> AttemptRecord:
        if record.task_id not in ("task-1", "task-2"):
            return record
        return attrs.evolve(record, limits=attrs.evolve(record.limits, **{field: 77}))

    a, b = made(tmp_path / "a"), made(tmp_path / "b", record=more)
    refused(a, b, RefusalReason.LIMITS, "900 s, 120 s per tool call, 30 steps", "77", "tasks: task-1, task-2\n")


def test_limits_that_changed_within_one_run(tmp_path: Path) -> None:
    """A run with several limits is refused even if one of them equals the other run's."""
    endings = {"task": [True, True, False]}

    def later(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, limits=attrs.evolve(record.limits, max_steps=29 + record.repeat))

    a, b = made(tmp_path / "a", endings), made(tmp_path / "b", endings, record=later)
    refusal = only(check(a, b))
    assert refusal.ground is RefusalReason.LIMITS
    assert refusal.b == "; ".join(f"900 s, 120 s per tool call, {steps} steps" for steps in (30, 31, 32))


def test_another_version_of_the_harness(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b", run={"harness": {"version": "0.2.0", "git_sha": ""}})
    refused(a, b, RefusalReason.HARNESS, "A: 0.1.0", "B: 0.2.0")


def test_replayed_attempts(tmp_path: Path) -> None:
    def replayed(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, replayed=record.task_id == "task-3")

    a, b = made(tmp_path / "a"), made(tmp_path / "b", record=replayed)
    refused(a, b, RefusalReason.REPLAYED, "A: 0 of 8 attempts", "B: 1 of 8 attempts")
    refused(b, a, RefusalReason.REPLAYED, "A: 1 of 8 attempts", "B: 0 of 8 attempts")


def test_confirmed_tampering_by_reason(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b", {**ENDINGS, "task-4": FailureReason.TAMPERED})
    refused(a, b, RefusalReason.TAMPERED, "A: none", "B: task-4")


def test_confirmed_tampering_by_label(tmp_path: Path) -> None:
    def labelled(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, labels=(Label(name="tamper_confirmed", evidence="it rewrote a test"),))

    refused(
        made(tmp_path / "a", record=labelled), made(tmp_path / "b"), RefusalReason.TAMPERED, "and 3 more", "B: none"
    )


def test_refusal_of_the_same_run_twice_cannot_be_overridden(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b", run={"run_id": "run-a"})
    refusal = only(check(a, b, list(RefusalReason)))
    assert (refusal.ground, refusal.flag) == (RefusalReason.SAME_RUN, None)
    result = compared(a, b, *(str(ground.flag) for ground in FLAGS))
    assert isinstance(result.exception, InputError)
    assert "A and B are the same run." in str(result.exception)
    assert "this cannot be overridden" in str(result.exception)
    assert str(a.view.directory) in str(result.exception)


# --- environments ------------------------------------------------------------------------------------------------


def environment(facts: Mapping[str, Any] = FACTS, **settings: Any) -> Callable[[AttemptRecord], Mapping[str, str]]:
    value = {"sandbox": "docker", "isolated": True, "network_policy": "none", "limits": {"cpu": 2}, "facts": facts}
    return lambda record: {FILE: json.dumps(value | settings)}


def rebuilt(record: AttemptRecord) -> AttemptRecord:
    digest = f"sha256:again-{record.task_id}"
    return attrs.evolve(record, sandbox=attrs.evolve(record.sandbox, environment_digest=digest))


def test_a_rebuilt_image_only_warns(tmp_path: Path) -> None:
    """Image ids, the engine and cache hits may differ between machines."""
    other = FACTS | {"image_id": "sha256:two", "base_image_id": "sha256:2", "engine": "27.0", "cache": "hit"}
    a = made(tmp_path / "a", files=environment())
    b = made(tmp_path / "b", files=environment(other | {"base_image_digest": "sha256:x"}), record=rebuilt)
    found = check(a, b)
    assert not found.refusals
    (warning,) = found.warnings
    assert (
        "the environments for 8 tasks (task-0, task-1, task-2, task-3, task-4 and 3 more) were built separately"
        in warning
    )
    assert "these facts match: image, isolated, isolation, limits, network_policy, os, pip_freeze, python" in warning
    assert "were built separately" in compared(a, b).output


def test_other_packages_are_another_environment(tmp_path: Path) -> None:
    freeze = "attrs==23.2\nclick==8.2\npytest==8.0\nrich==13"
    a = made(tmp_path / "a", files=environment())
    b = made(tmp_path / "b", files=environment(FACTS | {"pip_freeze": freeze}), record=rebuilt)
    refused(
        a,
        b,
        RefusalReason.ENVIRONMENTS,
        "The environments differ: pip_freeze",
        "A: click==8.1\n",
        "B: click==8.2, rich==13\n",
    )


@pytest.mark.parametrize(
    ("fact", "value"), [("image", "debian:12"), ("os", "Alpine 3.19"), ("python", "3.12.1"), ("isolation", "none")]
)
def test_another_base_system_or_python_is_another_environment(tmp_path: Path, fact: str, value: str) -> None:
    a = made(tmp_path / "a", files=environment())
    b = made(tmp_path / "b", files=environment(FACTS | {fact: value}), record=rebuilt)
    refused(a, b, RefusalReason.ENVIRONMENTS, fact, f"A: {FACTS[fact]}\n", f"B: {value}\n", "and 3 more")


def test_another_sandbox_is_another_environment(tmp_path: Path) -> None:
    def contained(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, sandbox=attrs.evolve(record.sandbox, name="docker"))

    a, b = made(tmp_path / "a"), made(tmp_path / "b", record=contained)
    refused(a, b, RefusalReason.ENVIRONMENTS, "The environments differ: sandbox", "A: local", "B: docker")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "missing"),
        *((bad, "unreadable") for bad in ("", "{", "[]", '{"facts": 1}', "[" * 100_000)),
        (json.dumps({"facts": {"pip_freeze": "x" * (1 << 20)}}), "unreadable"),
    ],
    ids=["absent", "empty", "torn", "list", "no-facts", "deep", "cut"],
)
def test_unknown_environments_are_not_considered_equal(tmp_path: Path, content: str | None, found: str) -> None:
    a = made(tmp_path / "a", files=environment())
    b = made(tmp_path / "b", files=lambda record: {} if content is None else {FILE: content}, record=rebuilt)
    refused(a, b, RefusalReason.ENVIRONMENTS, FILE, "A: readable", f"B: {found}")


@pytest.mark.parametrize(
    ("change", "evidence"),
    [
        ({"isolated": True}, ["The environments differ: sandbox isolation", "A: not isolated", "B: isolated"]),
        ({"network": "host"}, ["The environments differ: sandbox network", "B: host"]),
    ],
)
def test_another_isolation_or_network_is_another_environment(
    tmp_path: Path, change: Mapping[str, Any], evidence: list[str]
) -> None:
    """Isolation and network count even if the environment digests are equal."""

    def held(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, sandbox=attrs.evolve(record.sandbox, **change))

    refused(made(tmp_path / "a"), made(tmp_path / "b", record=held), RefusalReason.ENVIRONMENTS, *evidence)


def test_all_sandbox_differences_are_reported(tmp_path: Path) -> None:
    def held(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, sandbox=attrs.evolve(record.sandbox, isolated=True, network="host"))

    found = check(made(tmp_path / "a"), made(tmp_path / "b", record=held)).refusals
    assert [refusal.reason.split(": ")[1] for refusal in found] == [
        "sandbox isolation.",
        "sandbox network.",
    ]


def test_sandboxes_with_other_combinations_of_settings_differ(tmp_path: Path) -> None:
    def held(*, turned: bool) -> Change:
        def change(record: AttemptRecord) -> AttemptRecord:
            first = (record.repeat == 1) != turned
            sandbox = attrs.evolve(record.sandbox, isolated=record.repeat == 1, network="none" if first else "host")
            return attrs.evolve(record, sandbox=sandbox)

        return change

    endings = {"task": [True, False]}
    a, b = (made(tmp_path / name, endings, record=held(turned=name == "b")) for name in "ab")
    refusal = only(check(a, b))
    assert (refusal.a, refusal.b) == (
        "local, isolated, none; local, not isolated, host",
        "local, isolated, host; local, not isolated, none",
    )


def test_a_digest_in_one_run_only_is_a_warning(tmp_path: Path) -> None:
    def unknown(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, sandbox=attrs.evolve(record.sandbox, environment_digest=None))

    a, b = made(tmp_path / "a"), made(tmp_path / "b", record=unknown)
    (warning,) = warned(a, b)
    assert warning.startswith("the environments for 8 tasks (task-0, ")
    assert warning.endswith("have a digest in only one run and cannot be compared")
    assert not check(a, b).same_terms
    assert not warned(made(tmp_path / "c", record=unknown), b)


def test_equal_digests_need_no_facts(tmp_path: Path) -> None:
    other = environment(FACTS | {"python": "3.12"})
    assert not check(made(tmp_path / "a", files=environment()), made(tmp_path / "b", files=other)).refusals


@pytest.mark.parametrize(("last", "differs"), [({"os": "elsewhere"}, "differ: os."), (None, FILE)])
def test_run_resumed_in_another_environment_has_two_environments(
    tmp_path: Path, last: Mapping[str, str] | None, differs: str
) -> None:
    """Every attempt is checked. Only the last one has a different environment."""
    endings = {"task": [True, True, False]}

    def moved(record: AttemptRecord) -> AttemptRecord:
        return rebuilt(record) if record.repeat == 3 else record

    def files(record: AttemptRecord) -> Mapping[str, str]:
        if record.repeat < 3:
            return environment()(record)
        return {} if last is None else environment({**FACTS, **last})(record)

    a, b = made(tmp_path / "a", endings, files=environment()), made(tmp_path / "b", endings, files=files, record=moved)
    refusal = only(check(a, b))
    assert refusal.ground is RefusalReason.ENVIRONMENTS
    assert differs in refusal.reason


# --- all at once -------------------------------------------------------------------------------------------------


def test_all_refusals_are_reported_at_once(tmp_path: Path) -> None:
    def worse(record: AttemptRecord) -> AttemptRecord:
        record = attrs.evolve(rebuilt(record), limits=attrs.evolve(record.limits, max_steps=5), replayed=True)
        return attrs.evolve(record, labels=(Label(name="tamper_confirmed"),))

    a = made(tmp_path / "a")
    harness = {"harness": {"version": "9", "git_sha": ""}}
    b = made(tmp_path / "b", {**ENDINGS, "more": True}, record=worse, run=harness)
    message = str(compared(a, b).exception)
    flags = [str(ground.flag) for ground in FLAGS]
    assert all(f"override with: {flag}\n" in message for flag in flags)
    assert message.endswith(f"Flags that override these refusals: {' '.join(sorted(flags))}")
    result = compared(a, b, *flags)
    assert result.exit_code == 0
    assert all(f"- `{flag}`: " in result.output for flag in flags)
    assert isinstance(compared(a, b, *flags[1:]).exception, InputError)


def test_all_refusal_reasons_but_one_have_an_override_flag() -> None:
    assert set(FLAGS) == set(RefusalReason) - {RefusalReason.SAME_RUN}
    for name in ("paired", "compare"):
        options = {option for parameter in report.commands[name].params for option in parameter.opts}
        assert {ground.flag for ground in FLAGS} <= options


def test_flags_allow_refusal_reasons() -> None:
    flags = {
        f"allow_{ground.replace('-', '_')}": ground in (RefusalReason.TASKS, RefusalReason.REPLAYED) for ground in FLAGS
    }
    assert list(allowed(flags)) == [RefusalReason.TASKS, RefusalReason.REPLAYED]


def test_newlines_in_names_are_escaped(tmp_path: Path) -> None:
    name = "x\n- a reason of mine\x1b[2J\u202e"
    a, b = made(tmp_path / "a", {name: True}), made(tmp_path / "b", {"y": True})
    with pytest.raises(InputError) as error:
        require(("These runs", check(a, b)))
    assert "\\n- a reason of mine\\x1b[2J\\u202e" in str(error.value)
    assert "\x1b" not in str(error.value)
    assert sum(line.startswith("- ") for line in str(error.value).splitlines()) == 1


# --- warnings ----------------------------------------------------------------------------------------------------


def warned(a: RunCounts, b: RunCounts) -> tuple[str, ...]:
    """Return the warnings of a comparison, which must also be in the report."""
    found = check(a, b)
    assert not found.refusals
    assert compared(a, b).output.count("\n- ") >= len(found.warnings)
    return found.warnings


def test_a_run_that_is_not_complete(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a"), made(tmp_path / "b")
    events = tmp_path / "b" / "events.jsonl"
    events.write_text("".join(events.read_text().splitlines(keepends=True)[:-1]))
    assert warned(a, b) == ("B is unfinished, so its results are incomplete",)


def test_a_run_that_was_resumed_with_something_changed(tmp_path: Path) -> None:
    again = [{"at": "2026-01-03T00:00:00+00:00", "argv": [], "changes": ["setting agent.x: 1 -> 2"]}]
    plain = [{"at": "2026-01-03T00:00:00+00:00", "argv": [], "changes": []}]
    a, b = made(tmp_path / "a", run={"resumed": plain}), made(tmp_path / "b", run={"resumed": again})
    assert warned(a, b) == ("B was resumed on 2026-01-03 after a change: setting agent.x: 1 -> 2",)


def test_a_run_that_was_merged_from_different_machines(tmp_path: Path) -> None:
    """Its run.json has the platform of only one of the machines."""
    shards = [
        {
            "run_id": f"run-{index}",
            "group_id": f"group-{index}",
            "shard": {"index": index, "count": 2},
            "created_at": "2026-01-03T00:00:00+00:00",
            "argv": [],
            "platform": {"python": python, "cpus": "8"},
            "status": "completed",
            "records": "sha256:records",
        }
        for index, python in ((1, "3.11.7"), (2, "3.12.1"))
    ]
    a, b = made(tmp_path / "a", run={"merged": shards[:1]}), made(tmp_path / "b", run={"merged": shards})
    assert warned(a, b) == ("B was merged from runs on different machines: python 3.11.7, 3.12.1",)


def test_plugins_of_other_versions(tmp_path: Path) -> None:
    plugins = [[{"name": "core", "distribution": "agentbench-core", "version": v}] for v in ("0.1", "0.2")]
    a, b = (made(tmp_path / name, run={"plugins": one}) for name, one in zip("ab", plugins, strict=True))
    assert warned(a, b) == ("plugin core: agentbench-core 0.1 in A, agentbench-core 0.2 in B",)


def test_other_commits_of_one_version(tmp_path: Path) -> None:
    a, b = (made(tmp_path / sha, run={"harness": {"version": "0.1.0", "git_sha": sha}}) for sha in ("aaa", "bbb"))
    assert warned(a, b) == ("the AgentBench 0.1.0 commits differ: aaa in A, bbb in B",)


def test_other_machines(tmp_path: Path) -> None:
    machines = [{"system": "Linux", "cpus": cpus, "hostname": cpus} for cpus in ("2", "64")]
    a, b = (made(tmp_path / name, run={"platform": one}) for name, one in zip("ab", machines, strict=True))
    assert warned(a, b) == ("machine cpus: 2 in A, 64 in B",)


def test_one_name_for_two_variants(tmp_path: Path) -> None:
    """Settings of the run itself, such as workers, and of saved files do not count."""
    configs = [
        {key: {"value": value, "origin": "x"} for key, value in one.items()}
        for one in (
            {"model.name": "m1", "run.workers": 1, "agent.x": 1, "artifacts.keep_workspace": False},
            {"model.name": "m2", "run.workers": 2},
        )
    ]
    a, b = (
        made(tmp_path / name, run={"variant": "same", "config": one}) for name, one in zip("ab", configs, strict=True)
    )
    assert warned(a, b) == (
        "the same variant is configured differently in the two runs",
        "setting agent.x: 1 in A, absent in B",
        'setting model.name: "m1" in A, "m2" in B',
    )


def test_another_scorer(tmp_path: Path) -> None:
    configs = [{"scorer.name": {"value": name, "origin": "x"}} for name in ("tests", "other")]
    a, b = (made(tmp_path / name, run={"config": one}) for name, one in zip("ab", configs, strict=True))
    assert warned(a, b) == ('setting scorer.name: "tests" in A, "other" in B',)


def test_a_model_that_its_provider_changed(tmp_path: Path) -> None:
    facts = [{"known": {"revision": revision}} for revision in ("1", "2")]
    a, b = (
        made(tmp_path / name, run={"variant_digest": "sha256:same", "model": one})
        for name, one in zip("ab", facts, strict=True)
    )
    assert warned(a, b) == ('model known: {"revision": "1"} in A, {"revision": "2"} in B',)


@pytest.mark.parametrize("name", ["oracle", "tamper_suspected", "leak_suspected"])
def test_warning_for_suspicious_labels(tmp_path: Path, name: str) -> None:
    def labelled(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, labels=(Label(name=name),) if record.task_id == "task-1" else ())

    (warning,) = warned(made(tmp_path / "a"), made(tmp_path / "b", record=labelled))
    assert warning.startswith("B has attempts that ")
    assert warning.endswith(f"(label {name}): 1 of 8")


def test_an_invalid_task(tmp_path: Path) -> None:
    a = made(tmp_path / "a", {"x": True, "y": FailureReason.BASELINE_NOT_FAILING})
    b = made(tmp_path / "b", {"x": True, "y": False})
    assert warned(a, b) == ("A has 1 invalid task, whose failing command passed before the agent started",)


def test_one_task_with_two_names_is_a_warning(tmp_path: Path) -> None:
    def somewhere(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, sandbox=attrs.evolve(record.sandbox, environment_digest="sha256:somewhere"))

    a, b = (
        made(tmp_path / run, {name: True}, digests={name: "sha256:one"}, record=somewhere)
        for run, name in (("a", "x"), ("b", "z"))
    )
    assert warned(a, b) == ("1 task (x and z) has the same digest but different names in the two runs",)
