"""``tasks refresh`` retires tasks that no longer work, unless the machine may be the cause."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SUITE = ("--suite", "mini")
ROTTEN = {"validation": {"failing_command": "true"}}


@pytest.fixture
def refresh(agentbench: Any) -> Callable[..., tuple[int, dict[str, tuple[str, str]]]]:
    """Refresh the suite with one check per task; return the exit code, and verdict and action by task."""

    def run(*flags: str) -> tuple[int, dict[str, tuple[str, str]]]:
        times = () if "--times" in flags else ("--times", "1")
        done = agentbench("tasks", "refresh", *SUITE, *times, "--json", *flags)
        return done.code, {task["task"]: (task["verdict"], task["action"]) for task in json.loads(done.out)}

    return run


@pytest.fixture
def index() -> Iterator[str]:
    """The address of a package index that has one version of a package, and no other."""

    class Index(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<a href='/x/agentbench_sample-2.0-py3-none-any.whl'>agentbench_sample-2.0-py3-none-any.whl</a>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_rotten_task_is_moved_out_of_the_suite(make_task: Any, agentbench: Any) -> None:
    """With the reasons; nothing is lost, and it can be moved back."""
    make_task("good")
    rotten = make_task("rotten", **ROTTEN)
    before = {path.relative_to(rotten): path.read_bytes() for path in rotten.rglob("*") if path.is_file()}
    done = agentbench("tasks", "refresh", *SUITE, "--times", "2")
    assert done.code == 0, done.err
    assert re.search(r"^good +valid +kept$", done.out, re.MULTILINE)
    assert re.search(r"^rotten +invalid +retired +the failing command exits with 0", done.out, re.MULTILINE)
    assert "2 tasks: 1 kept, 1 retired\n" in done.out
    retired = rotten.parent / ".retired/rotten"
    after = {path.relative_to(retired): path.read_bytes() for path in retired.rglob("*") if path.is_file()}
    record = json.loads(after.pop(Path("retired.json")))
    assert after == before
    assert (record["task"], record["checks"], record["sandbox"]) == ("rotten", 2, "local")
    assert {reason["rule"]: reason["times"] for reason in record["reasons"]}["baseline_fails"] == 2
    assert "rotten" not in agentbench("tasks", "list", *SUITE).out
    retired.rename(rotten)
    assert "rotten" in agentbench("tasks", "list", *SUITE).out
    make_task("rotten", **ROTTEN, description="another one")
    assert agentbench("tasks", "refresh", *SUITE, "--times", "1").code == 0
    make_task("rotten", **ROTTEN)
    assert agentbench("tasks", "refresh", *SUITE, "--times", "1").code == 0
    assert {path.name for path in retired.parent.iterdir()} == {"rotten", "rotten@2"}


def test_a_dry_run_changes_nothing(make_task: Any, agentbench: Any) -> None:
    """The exit code tells that something would be retired."""
    make_task("good")
    rotten = make_task("rotten", **ROTTEN)
    done = agentbench("tasks", "refresh", *SUITE, "--times", "1", "--dry-run")
    assert (done.code, "would retire" in done.out) == (1, True)
    assert sorted(path.name for path in rotten.parent.iterdir()) == ["good", "rotten"]
    assert not (rotten / "retired.json").exists()


def test_a_flaky_task_is_kept(
    make_task: Any, refresh: Callable[..., tuple[int, dict[str, tuple[str, str]]]], tmp_path: Path
) -> None:
    """Its results differ, which the quarantine is for."""
    make_task("good")
    counter = tmp_path / "counter"
    command = f"n=$(cat {counter} || echo 0); echo $((n + 1)) > {counter}; test $((n % 2)) -eq 1"
    make_task("flaky", validation={"failing_command": command})
    assert refresh("--times", "2") == (1, {"flaky": ("flaky", "kept"), "good": ("valid", "kept")})


@pytest.mark.parametrize(
    "sections",
    [
        {"setup": {"commands": ["echo 'Temporary failure in name resolution' >&2; false"]}},
        {"environment": {"timeout_sec": 1}, "validation": {"failing_command": "sleep 30"}},
        {"repo": {"commit": "0" * 40}},
    ],
    ids=["network", "time", "edited"],
)
def test_the_machine_may_be_the_cause(
    make_task: Any, refresh: Callable[..., tuple[int, dict[str, tuple[str, str]]]], sections: dict[str, Any]
) -> None:
    """Then the task is unknown, and stays where it is."""
    make_task("good")
    directory = make_task("odd", **sections)
    assert refresh() == (3, {"good": ("valid", "kept"), "odd": ("invalid", "unknown")})
    assert (directory / "task.yaml").exists()


def test_a_suite_is_never_emptied(
    make_task: Any, refresh: Callable[..., tuple[int, dict[str, tuple[str, str]]]]
) -> None:
    """If no task is valid, the machine or the image may be the cause."""
    make_task("one", **ROTTEN)
    make_task("two", **ROTTEN)
    assert refresh() == (3, {"one": ("invalid", "unknown"), "two": ("invalid", "unknown")})


@pytest.mark.long
def test_a_version_that_no_longer_exists(
    make_task: Any, refresh: Callable[..., tuple[int, dict[str, tuple[str, str]]]], index: str
) -> None:
    """If the index answers with other versions, the task has rotted; without an answer, that is unknown."""
    install = "python -m pip install --isolated --no-cache-dir --retries 0 --index-url {} agentbench-sample==1.0"
    make_task("good")
    make_task("gone", setup={"commands": [install.format(index)]})
    make_task("offline", setup={"commands": [install.format("http://127.0.0.1:9/simple")]})
    expected = {"gone": ("invalid", "retired"), "good": ("valid", "kept"), "offline": ("invalid", "unknown")}
    assert refresh() == (3, expected)


def test_a_task_that_cannot_be_moved(make_task: Any, agentbench: Any) -> None:
    """It is reported and stays in the suite."""
    make_task("good")
    rotten = make_task("rotten", **ROTTEN)
    (rotten.parent / ".retired").write_text("in the way\n")
    done = agentbench("tasks", "refresh", *SUITE, "--times", "1")
    assert done.code == 1
    assert re.search(r"not retired: .*rotten cannot be moved to", done.err)
    assert re.search(r"^rotten +invalid +not retired", done.out, re.MULTILINE)
    assert (rotten / "task.yaml").exists()


def test_a_task_that_changed_during_its_checks_is_kept(make_task: Any, agentbench: Any, tmp_path: Path) -> None:
    """Its author may just have repaired it."""
    make_task("good")
    rotten = tmp_path / "tasks/mini/rotten/task.yaml"
    make_task("rotten", validation={"failing_command": f"echo 'description: new' >> {rotten}"})
    done = agentbench("tasks", "refresh", *SUITE, "--times", "1")
    assert done.code == 1
    assert "has changed since it was checked" in done.err
    assert rotten.exists()
    assert not (rotten.parent.parent / ".retired").exists()
