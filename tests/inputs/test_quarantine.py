"""``flakes.yaml``: which checks are summed, when counting restarts, which tasks are quarantined, and invalid files."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

import agentbench_core
from agentbench_core.converter import load
from agentbench_core.errors import InputError
from agentbench_core.inputs.quarantine import (
    EnvironmentChecks,
    Flakes,
    Measured,
    Quarantine,
    TaskFlakes,
    quarantine,
    read_flakes,
    wilson,
)
from agentbench_core.inputs.suite import Task, read_task
from agentbench_core.schema import describe
from agentbench_tasks.flakes import CheckCounts, add_checks

TODAY = datetime.date(2026, 1, 10)


@pytest.fixture
def task(make_task: Any) -> Task:
    return read_task(make_task())


def check_counts(checks: int, flaky: int = 0, environment_failed: int = 0) -> CheckCounts:
    return CheckCounts(checks=checks, flaky=flaky, environment_checks=checks, environment_failed=environment_failed)


def add(task: Task, tally: CheckCounts, *, sandbox: str = "local", today: datetime.date = TODAY) -> Measured | None:
    suite = task.directory.parent
    return add_checks(suite, [(task, tally)], sandbox=sandbox, harness="0.1.0", today=today).get(task.spec.id)


def current_quarantine(task: Task, sandbox: str | None = "local", today: datetime.date = TODAY) -> Quarantine:
    return quarantine([task], sandbox, today)


def write(task: Task, **entry: Any) -> Path:
    path = task.directory.parent / "flakes.yaml"
    path.write_text(yaml.safe_dump({"tasks": {"one": entry}}))
    return path


@pytest.mark.parametrize(
    ("events", "of", "bounds"),
    [
        (81, 263, (0.2553, 0.3662)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
        (7, 7, (0.6457, 1)),
        (0, 0, (0, 1)),
    ],
)
def test_interval_is_the_wilson_interval(events: int, of: int, bounds: tuple[float, float]) -> None:
    """Matches examples published by Newcombe."""
    assert wilson(events, of) == pytest.approx(bounds, abs=5e-5)


@pytest.mark.parametrize(("events", "of", "confidence"), [(-1, 3, 0.95), (4, 3, 0.95), (1, 3, 0.0), (1, 3, 1.0)])
def test_invalid_interval_arguments_are_refused(events: int, of: int, confidence: float) -> None:
    with pytest.raises(ValueError, match=r"events must be|confidence"):
        wilson(events, of, confidence)


# --- writing -----------------------------------------------------------------------------------------------------


def test_entry_has_all_fields(task: Task) -> None:
    add(task, check_counts(20, 2, environment_failed=1))
    text = (task.directory.parent / "flakes.yaml").read_text()
    assert yaml.safe_load(text) == {
        "quarantine_above": 0.02,
        "expires_after_days": 90,
        "tasks": {
            "one": {
                "measured": {
                    "local": {
                        "digest": task.digest,
                        "date": "2026-01-10",
                        "expires": "2026-04-10",
                        "harness": "0.1.0",
                        "checks": 20,
                        "flaky": 2,
                        "rate": 0.1,
                        "low": pytest.approx(0.0279, abs=1e-4),
                        "high": pytest.approx(0.3010, abs=1e-4),
                        "environment": {
                            "checks": 20,
                            "failed": 1,
                            "rate": 0.05,
                            "low": pytest.approx(0.0089, abs=1e-4),
                            "high": pytest.approx(0.2361, abs=1e-4),
                        },
                        "quarantined": True,
                    }
                }
            }
        },
    }
    assert text.startswith("# Written by `agentbench validate-tasks --flakes`")
    assert current_quarantine(task).reasons == {
        "one": "2 of 20 checks flaked in local, 10.0% (95% CI 2.8% to 30.1%), 2026-01-10"
    }
    assert current_quarantine(task).notes == ()


def test_checks_accumulate_per_digest_and_sandbox(task: Task) -> None:
    """More checks can lift a quarantine; each sandbox is counted separately."""
    add(task, check_counts(20, 1))
    assert "one" in current_quarantine(task).reasons
    now = add(task, check_counts(40))
    assert now is not None
    assert (now.checks, now.flaky, now.environment.checks, now.quarantined) == (60, 1, 60, False)
    assert current_quarantine(task).reasons == {}
    other = add(task, check_counts(3, 1), sandbox="docker")
    assert other is not None
    assert (other.checks, other.quarantined) == (3, True)
    assert current_quarantine(task).reasons == {}
    assert "in docker" in current_quarantine(task, "docker").reasons["one"]
    assert "in docker" in current_quarantine(task, None).reasons["one"]


def test_changed_digest_restarts_the_count(task: Task) -> None:
    add(task, check_counts(20, 5))
    changed = attrs.evolve(task, digest="sha256:other")
    aside = current_quarantine(changed)
    assert aside.reasons == {}
    suite = task.directory.parent
    again = "agentbench validate-tasks --suite mini --times 20 --flakes"
    assert aside.notes == (f"{suite}/flakes.yaml is out of date for one: validate again ({again})",)
    now = add(changed, check_counts(10))
    assert now is not None
    assert (now.checks, now.flaky) == (10, 0)


def test_expired_entries_are_ignored(task: Task) -> None:
    """An entry counts up to its last day; later checks are not added to it."""
    add(task, check_counts(20, 5))
    last = TODAY + datetime.timedelta(days=90)
    after = last + datetime.timedelta(days=1)
    assert "one" in current_quarantine(task, today=last).reasons
    assert current_quarantine(task, today=after).reasons == {}
    assert "out of date" in current_quarantine(task, today=after).notes[0]
    assert current_quarantine(task, "docker", after).notes == ()  # the expired entry is of another sandbox
    now = add(task, check_counts(10), today=after)
    assert now is not None
    assert now.checks == 10


def test_task_that_always_fails_is_not_flaky(task: Task) -> None:
    """It is not recorded unless the task has passed before."""
    path = task.directory.parent / "flakes.yaml"
    assert add(task, check_counts(3, 3)) is None
    assert add(task, CheckCounts(checks=0, flaky=0, environment_checks=1, environment_failed=1)) is None
    assert not path.exists()
    add(task, check_counts(10))
    now = add(task, check_counts(3, 3))
    assert now is not None
    assert (now.checks, now.flaky) == (13, 3)


def test_manual_entries_are_preserved(task: Task) -> None:
    """Rate, expiry, manual quarantines and entries of other tasks are preserved; the rate applies to all tasks."""
    add(task, check_counts(20, 1))
    path = task.directory.parent / "flakes.yaml"
    plain = yaml.safe_load(path.read_text())
    plain |= {"quarantine_above": 0.1, "expires_after_days": 7}
    plain["tasks"]["gone"] = {"quarantined": True, "reason": 'waits for: "a fix" #12', "expires": "2030-01-01"}
    plain["tasks"]["one"] |= {"quarantined": True, "reason": "ja\u00efn"}
    path.write_text(yaml.safe_dump(plain))
    path.chmod(0o640)
    now = add(task, check_counts(0), sandbox="docker")
    assert now is None
    now = add(task, check_counts(1), sandbox="docker")
    assert now is not None
    assert now.expires == "2026-01-17"
    after = yaml.safe_load(path.read_text())
    assert after["quarantine_above"] == 0.1
    assert after["tasks"]["gone"] == plain["tasks"]["gone"]
    assert after["tasks"]["one"]["reason"] == "ja\u00efn"
    assert after["tasks"]["one"]["measured"]["local"]["quarantined"] is False  # 5% is not above 10%
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(".")] == []


def test_manual_quarantine_applies_to_every_sandbox(task: Task) -> None:
    write(task, quarantined=True, reason="the mirror\n goes away")
    assert current_quarantine(task, "docker").reasons == {"one": "by hand: the mirror goes away"}
    write(task, quarantined=True, reason="why", expires="2026-01-09")
    assert current_quarantine(task).reasons == {}
    assert len(current_quarantine(task).notes) == 1
    write(task, quarantined=True, reason="why", digest="sha256:other", expires="2026-01-10")
    assert (current_quarantine(task).reasons, len(current_quarantine(task).notes)) == ({}, 1)
    write(task, quarantined=True, reason="why", digest=task.digest, expires="2026-01-10")
    assert current_quarantine(task).reasons == {"one": "by hand: why"}


def test_concurrent_commands_lose_no_counts(task: Task) -> None:
    threads = [threading.Thread(target=add, args=(task, check_counts(1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_flakes(task.directory.parent).tasks["one"].measured["local"].checks == 8


# --- reading -----------------------------------------------------------------------------------------------------

FINE = {
    "digest": "sha256:x",
    "date": "2026-01-10",
    "expires": "2026-04-10",
    "harness": "0.1.0",
    "checks": 20,
    "flaky": 0,
    "rate": 0.0,
    "low": 0.0,
    "high": 0.2,
    "environment": {"checks": 1, "failed": 0, "rate": 0.0, "low": 0.0, "high": 0.8},
    "quarantined": False,
}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"quarantine_abov": 0.1}, r"quarantine_abov: unknown field \(did you mean 'quarantine_above'\?\)"),
        ({"quarantine_above": 2}, "quarantine_above: 2.0 is above 1"),
        ({"expires_after_days": 0}, "expires_after_days: 0 is below 1"),
        ({"tasks": {"one": {"quarantined": True}}}, "tasks.one.reason: missing: a quarantined task needs a reason"),
        ({"tasks": {"one": {"expires": "soon"}}}, "tasks.one.expires: 'soon' does not match"),
        ({"tasks": {"one": {"measured": {"local": FINE | {"checks": 0}}}}}, "measured.local.checks: 0 is below 1"),
        (
            {"tasks": {"one": {"measured": {"local": FINE | {"flaky": 21}}}}},
            "local.flaky: found 21, but `checks` is 20",
        ),
        (
            {"tasks": {"one": {"measured": {"local": FINE | {"date": "2026-13-01"}}}}},
            "local.date: '2026-13-01' does not",
        ),
        ({"tasks": {"one": {"measured": {"local": FINE | {"quarantined": "no"}}}}}, "expected true or false"),
        ([], "expected mapping"),
    ],
)
def test_invalid_fields_are_named(task: Task, data: Any, words: str) -> None:
    path = task.directory.parent / "flakes.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(InputError, match=words) as refused:
        current_quarantine(task)
    assert str(path) in str(refused.value)
    with pytest.raises(InputError, match=words):
        add(task, check_counts(1))
    assert yaml.safe_load(path.read_text()) == data


def test_dangling_link_is_an_error(task: Task) -> None:
    (task.directory.parent / "flakes.yaml").symlink_to("nowhere")
    with pytest.raises(InputError, match="does not exist"):
        current_quarantine(task)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(["one", "tasks", "measured", "local", "quarantined", "reason", "expires", "digest", "checks"])
WILD = st.recursive(
    SCALARS | st.just(FINE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


ONE_FIELD = st.tuples(st.sampled_from(sorted(FINE)), WILD).map(lambda field: {"local": FINE | dict([field])})
"""A measured entry with an arbitrary value in one field."""
FILES = (
    WILD
    | st.dictionaries(NAMES, WILD, max_size=3)
    | ONE_FIELD.map(lambda measured: {"tasks": {"one": {"measured": measured}}})
    | st.fixed_dictionaries({"quarantined": SCALARS, "reason": SCALARS}).map(lambda one: {"tasks": {"one": one}})
)


def read_or_refused(suite: Path) -> Flakes | None:
    """The parsed file, or ``None`` if it is refused with its path."""
    try:
        return read_flakes(suite)
    except InputError as error:
        return None if str(suite / "flakes.yaml") in str(error) else pytest.fail(f"it is not named: {error}")


@pytest.mark.long
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES)
def test_arbitrary_files_are_read_or_refused(task: Task, data: Any) -> None:
    """Only ``InputError`` is raised, and adding checks preserves everything else in a readable file."""
    suite = task.directory.parent
    (suite / "flakes.yaml").write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    before = read_or_refused(suite)
    if before is None:
        return
    current_quarantine(task, None)
    add(task, check_counts(1), sandbox="other")
    after = read_flakes(suite)
    assert (after.quarantine_above, after.expires_after_days) == (before.quarantine_above, before.expires_after_days)
    for name, entry in before.tasks.items():
        now = after.tasks[name]
        assert attrs.evolve(now, measured={}) == attrs.evolve(entry, measured={})
        kept = {sandbox: one.checks for sandbox, one in entry.measured.items() if sandbox != "other"}
        assert {sandbox: now.measured[sandbox].checks for sandbox in kept} == kept


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: f"tasks: {{one: {text}}}".encode(errors="replace"))
)
def test_arbitrary_bytes_are_read_or_refused(task: Task, data: bytes) -> None:
    (task.directory.parent / "flakes.yaml").write_bytes(data)
    found = read_or_refused(task.directory.parent)
    assert found is None or isinstance(found, Flakes)


def test_empty_file_has_no_entries(task: Task) -> None:
    (task.directory.parent / "flakes.yaml").write_text("# soon\n")
    assert read_flakes(task.directory.parent) == Flakes() == load({}, Flakes, where="")


def test_every_field_is_documented() -> None:
    """The table in ``docs/flakes.md`` matches the types, defaults and help in the code."""
    classes = {
        "": Flakes,
        "tasks.ID.": TaskFlakes,
        "tasks.ID.measured.SANDBOX.": Measured,
        "tasks.ID.measured.SANDBOX.environment.": EnvironmentChecks,
    }
    page = Path(agentbench_core.__file__).parent.parent / "docs" / "flakes.md"
    assert [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")] == [
        f"| `{prefix}{row.name}` | {row.type} | {row.default} | {row.help} |"
        for prefix, cls in classes.items()
        for row in describe(cls)
    ]
