"""The files in docs/shards work: their commands run on this machine, as several machines would run them.

No cluster and no GitHub is involved: `slurm.py` and `workflow_runner.py` stand in for them, and the commands of a pod
are run directly.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_testing.fixtures import RunAgentbench
from tests.shards import slurm
from tests.shards.test_files import PAGE, manifests, shown
from tests.shop import make_shop
from tests.tasks.workflow_runner import Workflow, source_repository

ROOT = Path(__file__).parents[2]
TASKS = 30
VARIANTS = ("current", "candidate")
AGENTBENCH = Path(sys.executable).parent / "agentbench"
pytestmark = [pytest.mark.long, pytest.mark.docker]


@attrs.define
class Made:
    """A repository with tasks, and the results of both variants on one machine: made once, since it takes long."""

    shop: Path | None = None
    whole: Mapping[str, list[Any]] = attrs.field(factory=dict)


@pytest.fixture(scope="module")
def made() -> Made:
    return Made()


@pytest.fixture
def shop(made: Made, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, run_agentbench: RunAgentbench) -> Path:
    """A copy of the repository."""
    if made.shop is None:
        made.shop = make_shop(tmp_path_factory.mktemp("made") / "shop", run_agentbench, TASKS)
        flags = [flag for name in VARIANTS for flag in ("--variant", f"configs/variants/{name}.yaml")]
        out = made.shop.parent / "whole"
        command = [str(AGENTBENCH), "run", "--suite", "shop", *flags, "--out", str(out)]
        subprocess.run(command, cwd=made.shop, capture_output=True, check=True, timeout=300)
        made.whole = {name: results(next(out.glob(f"*__{name}"))) for name in VARIANTS}
    shutil.copytree(made.shop, tmp_path / "shop", symlinks=True)
    return tmp_path / "shop"


@pytest.fixture
def task_image(tmp_path: Path) -> Iterator[Path]:
    """A file that `docker load` reads: a small image instead of the one that tasks run in."""
    name = f"agentbench-test/shards:{os.getpid()}"
    (tmp_path / "content").mkdir()
    packed = subprocess.run(["tar", "-C", str(tmp_path / "content"), "-c", "."], capture_output=True, check=True).stdout
    subprocess.run(["docker", "import", "-", name], input=packed, capture_output=True, check=True)
    file = tmp_path / "task-image.tar"
    subprocess.run(["docker", "save", "--output", str(file), name], check=True)
    yield file
    subprocess.run(["docker", "image", "rm", name], capture_output=True, check=True)


def results(run: Path) -> list[Any]:
    """The records of a run in the order of their tasks, without ids, times and the interpreter's environment digest."""
    records = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    last = {(record["task_id"], record["repeat"]): record for record in records}
    for record in last.values():
        for name in ("run_id", "attempt_id", "timestamps", "duration_sec", "supersedes"):
            del record[name]
        del record["sandbox"]["environment_digest"]
    return [last[key] for key in sorted(last)]


def agentbench_on_path(*more: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, more), str(AGENTBENCH.parent), os.environ["PATH"]]),
    }


def test_an_image_keeps_its_id_when_it_is_saved_and_loaded(task_image: Path) -> None:
    """So machines of which one has built the image, and others have loaded it, have the same environment digests."""
    loaded = subprocess.run(
        ["docker", "load", "-i", str(task_image)], capture_output=True, text=True, check=True
    ).stdout
    name = loaded.split()[-1]
    inspect = ["docker", "image", "inspect", "--format", "{{.Id}}", name]
    before = subprocess.run(inspect, capture_output=True, text=True, check=True).stdout
    subprocess.run(["docker", "image", "rm", name], capture_output=True, check=True)
    assert subprocess.run(inspect, capture_output=True).returncode != 0
    subprocess.run(["docker", "load", "-i", str(task_image)], capture_output=True, check=True)
    assert subprocess.run(inspect, capture_output=True, text=True, check=True).stdout == before


@pytest.mark.release
def test_slurm(made: Made, shop: Path, task_image: Path, tmp_path: Path) -> None:
    """The commands on the page, twice: a node fails the first time, and its shard alone is submitted again."""
    for name in ("shards.sbatch", "merge.sbatch"):
        (shop / name).write_text(shown()[name].text)
    task_image.rename(shop / "task-image.tar")
    programs = tmp_path / "slurm"
    slurm.install(programs)
    environment = {**agentbench_on_path(programs), "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "home")}
    shell = re.findall(r"^ *```bash\n(.*?)^ *```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    submit, again = [block for block in shell if "sbatch --parsable" in block]

    def run(commands: str, **variables: str) -> None:
        command = ["bash", "-euo", "pipefail", "-c", f"runs=$PWD/nightly\n{commands}"]
        subprocess.run(command, cwd=shop, env={**environment, **variables}, check=True, timeout=300)

    run(submit, SLURM_TEST_KILL="3")
    assert not (shop / "nightly/merged").exists(), "the merge never starts"
    logs = [(shop / f"shard-{number}.log").read_text() for number in range(1, 9)]
    assert all("scored attempts passed" in log for number, log in enumerate(logs, start=1) if number != 3), logs
    assert "scored attempts passed" not in logs[2]

    run(again)
    assert (shop / "merge.log").exists(), (shop / "shard-3.log").read_text()
    log = (shop / "merge.log").read_text()
    assert {name: results(shop / "nightly/merged" / name) for name in VARIANTS} == made.whole, log
    assert (shop / "nightly/gate.md").read_text().startswith("# Gate: PASS"), log
    assert (shop / "nightly/report.html").exists()
    resumed = json.loads(next((shop / "nightly/shard-3").glob("*/run.json")).read_text())["resumed"]
    assert len(resumed) == 1


@pytest.mark.release
def test_kubernetes(made: Made, shop: Path, task_image: Path, tmp_path: Path) -> None:
    """The commands of the pods: one pod is evicted, and the next pod of its index resumes the shard."""
    manifest = manifests("kubernetes.yaml")[1]
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    (merging,) = manifests("kubernetes-merge.yaml")[0]["spec"]["template"]["spec"]["containers"]
    moved = {"/runs": tmp_path / "runs", "/scratch": tmp_path / "scratch", "/tmp": tmp_path / "home"}
    engine = {name: value for name, value in os.environ.items() if name == "DOCKER_HOST"}

    def pod(one: Any, **variables: str) -> subprocess.Popen[str]:
        given = {each["name"]: each.get("value", "") for each in one["env"]}
        for name, value in given.items():
            root = next((path for path in moved if value.startswith(path)), None)
            given[name] = value.replace(root, str(moved[root]), 1) if root else value
        given.pop("DOCKER_HOST", None)
        script = [part.replace("/opt/task-image.tar", str(task_image)) for part in one["args"]]
        known = {name: value for name, value in agentbench_on_path().items() if name in ("PATH", "LANG")}
        return subprocess.Popen(
            [*one["command"], *script],
            cwd=shop,
            env={**known, **engine, **given, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    for index in range(manifest["spec"]["completions"]):
        running = pod(container, JOB_COMPLETION_INDEX=str(index))
        if index == 2:
            shard = tmp_path / "runs/nightly/shard-3"
            while not any(path.read_bytes() for path in shard.glob("*/attempts.jsonl")):
                assert running.poll() is None
                time.sleep(0.02)
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=60)
            assert running.returncode != 0
            running = pod(container, JOB_COMPLETION_INDEX=str(index))
        out, _ = running.communicate(timeout=120)
        assert running.returncode == 0, out
    wrong = pod(container, JOB_COMPLETION_INDEX=str(manifest["spec"]["completions"]))
    wrong.communicate(timeout=60)
    assert [wrong.returncode] == manifest["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]

    for _ in range(2):  # a pod that merges may be replaced, too
        running = pod(merging)
        out, _ = running.communicate(timeout=120)
        assert running.returncode == 0, out
    merged = tmp_path / "runs/nightly/merged"
    assert {name: results(merged / name) for name in VARIANTS} == made.whole
    assert (merged.parent / "gate.md").read_text().startswith("# Gate: PASS")


@pytest.mark.release
def test_github(made: Made, shop: Path, tmp_path: Path) -> None:
    """Every step of every job runs in order, each job in a clone of its own. Without a shard, the gate fails."""
    source = source_repository(ROOT, tmp_path / "agentbench")
    text = shown()["agentbench.yml"].text

    def job(name: str, place: str = "", **more: Any) -> Workflow:
        (tmp_path / "jobs" / (place or name)).mkdir(parents=True)
        made = Workflow(
            text=text,
            job=name,
            origin=shop,
            place=tmp_path / "jobs" / (place or name),
            variables={"AGENTBENCH_SOURCE": str(source)},
            environment={"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            artifacts=tmp_path / "artifacts",
            **more,
        )
        made.run()
        return made

    image = job("image")
    assert (image.failed, image.unmatched) == ([], []), "\n".join(image.log)
    needed = {f"needs.image.outputs.{key}": value for key, value in image.outputs.items()}
    assert all(needed.values())
    for number in range(1, 5):
        expressions = {**needed, "matrix.shard": str(number), "strategy.job-total": "4"}
        shard = job("shard", f"shard-{number}", expressions=expressions, installed=image)
        assert (shard.failed, shard.uploaded) == ([], [f"shard-{number}.tar.gz"]), "\n".join(shard.log)
    gate = job("gate", expressions=needed, installed=image)
    assert (gate.failed, gate.unmatched) == ([], []), "\n".join(gate.log)
    assert gate.uploaded == ["gate.md", "gate.xml", "report.html", "runs.tar.gz"]
    assert {name: results(gate.checkout / "artifacts" / name) for name in VARIANTS} == made.whole
    assert gate.summary.startswith("# Gate: PASS")

    (tmp_path / "artifacts/shard-2/shard-2.tar.gz").unlink()
    refused = job("gate", "gate-without-a-shard", expressions=needed, installed=image)
    assert refused.failed[0] == "Merge"
    assert "2/4" in refused.log[0]
    assert not refused.summary.startswith("# Gate: PASS")
