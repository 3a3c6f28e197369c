"""The workflow that ``agentbench init`` writes, and docs/gate.md shows, works as it stands on 30 tasks."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from agentbench_report.gate.checks import least_pairs
from agentbench_report.gate.config import read_gate_config
from agentbench_tasks.init.files import LEAST_PAIRS, gate, workflow
from agentbench_testing.fixtures import RunAgentbench
from tests.shop import make_shop
from tests.tasks.workflow_runner import INPUTS, Workflow, source_repository

ROOT = Path(__file__).parents[2]
TASKS = 30


@pytest.mark.parametrize("prefix", ["", "services/shop app/"])
def test_the_workflow_is_valid(prefix: str) -> None:
    """By GitHub's schema."""
    schema = json.loads(
        resources.files("check_jsonschema").joinpath("builtin_schemas/vendor/github-workflows.json").read_text()
    )
    text = workflow(suite="shop", prefix=prefix, source="https://git.example.com/agentbench.git", ref="v1")
    content = yaml.safe_load(text)
    content["on"] = content.pop(True)  # YAML 1.1 reads the key as a boolean
    jsonschema.Draft7Validator(schema).validate(content)
    assert content["defaults"]["run"]["working-directory"] == (prefix.rstrip("/") or ".")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({**content, "permissions": {"contents": "all"}})


def test_keys_are_secrets_of_two_steps_and_never_of_forks() -> None:
    content = yaml.safe_load(workflow(suite="shop"))
    job = content["jobs"]["gate"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]
    assert content["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in str(content)
    keyed = [step["name"] for step in job["steps"] if "secrets." in str(step)]
    assert keyed == ["Run the current configuration", "Run the candidate"]
    assert job["timeout-minutes"] > 0
    assert {step["uses"] for step in job["steps"] if "uses" in step} <= INPUTS.keys()


def test_docs_show_the_workflow_and_the_gate_that_init_writes() -> None:
    page = (ROOT / "docs/gate.md").read_text(encoding="utf-8").partition("\n## In CI\n")[2].partition("\n## ")[0]
    shown = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [workflow(suite="shop"), gate(TASKS, "shop")]
    assert f"{TASKS} tasks" in page


@pytest.mark.parametrize("tasks", [0, 11, 25, 30, 52, 500])
def test_the_gate_has_a_margin_that_its_tasks_can_satisfy(tmp_path: Path, tasks: int) -> None:
    (tmp_path / "gate.yaml").write_text(gate(tasks, "shop"))
    rules = read_gate_config(tmp_path / "gate.yaml").rules("shop")
    assert rules.margin is not None
    assert rules.min_pairs == least_pairs(rules.margin, 0.05) == LEAST_PAIRS[rules.margin]
    assert rules.min_pairs <= tasks or tasks == 0


@pytest.fixture
def shop(tmp_path: Path, run_agentbench: RunAgentbench) -> Path:
    return make_shop(tmp_path / "shop", run_agentbench, TASKS)


@pytest.mark.release
@pytest.mark.docker
def test_the_workflow_passes_a_good_candidate_and_fails_a_bad_one(shop: Path, tmp_path: Path) -> None:
    """Every step runs in order in a new clone; AgentBench is installed from a git URL, as the workflow says."""
    place = tmp_path / "runner"
    place.mkdir()
    source = source_repository(ROOT, tmp_path / "agentbench")
    job = Workflow(
        text=(shop / ".github/workflows/agentbench.yml").read_text(),
        origin=shop,
        place=place,
        variables={"AGENTBENCH_SOURCE": str(source)},
        environment={"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    job.run()
    assert (job.failed, job.unmatched) == ([], []), "\n".join(job.log)
    (place / "temp/image.tar").unlink()
    assert job.summary.startswith("# Gate: PASS")
    assert {"gate.md", "gate.xml", "report.html"} <= set(job.uploaded)
    kept = {path.partition("/tasks/")[2].partition("/")[2] for path in job.uploaded if path.startswith("artifacts/")}
    assert {"meta/environment.json", "diffs/final.patch", "task.yaml"} <= kept
    assert any(path.startswith("repo/") for path in kept), "runs workspace needs the changed files"
    records = [path for path in job.uploaded if path.endswith("/attempts.jsonl")]
    assert len(records) == 2
    assert all((job.checkout / path).read_text().count("\n") == TASKS for path in records)

    (job.checkout / "configs/variants/candidate.yaml").write_text("agent: {name: idle}\n")
    for path in ("artifacts/candidate", "gate.md", "gate.xml", "report.html"):
        (job.checkout / path).rename(place / f"first-{Path(path).name}")
    (place / "summary.md").unlink()
    job.run(first="Run the candidate")
    assert job.failed == ["Gate"], "\n".join(job.log)
    assert job.log[-3].startswith("Gate: exit 1\n")
    assert job.summary.startswith("# Gate: FAIL")
    suite = ElementTree.parse(job.checkout / "gate.xml").getroot()[0]
    assert int(suite.get("failures", 0)) > 0
    assert job.unmatched == []
