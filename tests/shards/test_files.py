"""The files in docs/shards are valid, fit together, and are on the page as they are."""

from __future__ import annotations

import json
import re
import subprocess
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from agentbench_core.values.task import EnvironmentSettings
from agentbench_tasks.init.files import workflow
from tests.docs.runner import Block, blocks
from tests.tasks.workflow_runner import INPUTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/shards.md"
FILES = ROOT / "docs/shards"
VERSIONS = ("1.29", "1.33", "1.37")
"""The oldest supported version of Kubernetes, and others: fields must exist in all of them."""


def workflow_of_shards() -> Any:
    return yaml.safe_load((FILES / "agentbench.yml").read_text(encoding="utf-8"))


def manifests(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FILES / name).read_text(encoding="utf-8")))


def shown() -> dict[str, Block]:
    return {Path(block.file).name: block for block in blocks(PAGE) if block.file}


@pytest.mark.parametrize("path", sorted(FILES.iterdir()), ids=lambda path: path.name)
def test_the_page_shows_each_file_word_for_word(path: Path) -> None:
    assert shown()[path.name].text == path.read_text(encoding="utf-8")
    assert f"](shards/{path.name})" in PAGE.read_text(encoding="utf-8"), "the page links to the file"


def test_the_workflow_is_valid() -> None:
    """By GitHub's schema."""
    schema = json.loads(
        resources.files("check_jsonschema").joinpath("builtin_schemas/vendor/github-workflows.json").read_text()
    )
    content = workflow_of_shards()
    content["on"] = content.pop(True)  # YAML 1.1 reads the key as a boolean
    jsonschema.Draft7Validator(schema).validate(content)
    content["jobs"]["shard"]["strategy"]["matrices"] = {}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(content)


def test_the_workflow_has_the_steps_and_versions_of_the_one_that_init_writes() -> None:
    """It replaces that workflow: triggers, variables and the installation are the same."""
    ours, of_init = workflow_of_shards(), yaml.safe_load(workflow(suite="shop"))
    for key in ("name", True, "permissions", "concurrency", "defaults"):
        assert ours[key] == of_init[key]
    assert ours["env"].keys() == of_init["env"].keys()
    every = of_init["jobs"]["gate"]["steps"]
    steps = {step.get("name"): step for step in every}
    for step in ours["jobs"]["image"]["steps"]:
        if "name" in step:
            assert step == steps[step["name"]]
    lines = steps["Install AgentBench"]["run"].splitlines()
    install = [line for line in lines if "GITHUB_OUTPUT" not in line and ":?" not in line]
    for name in ("shard", "gate"):
        (step,) = [step for step in ours["jobs"][name]["steps"] if step.get("name") == "Install AgentBench"]
        assert step["run"].splitlines() == install
        assert step["env"] == {"AGENTBENCH_REF": "${{ needs.image.outputs.commit }}"}
    known = {step["uses"] for step in every if "uses" in step}
    used = {step["uses"] for job in ours["jobs"].values() for step in job["steps"] if "uses" in step}
    assert used == {*known, "actions/download-artifact@v4"} <= INPUTS.keys()


def test_only_the_step_that_runs_agents_has_the_key_and_forks_run_nothing() -> None:
    jobs = workflow_of_shards()["jobs"]
    keyed = [step["name"] for job in jobs.values() for step in job["steps"] if "secrets." in str(step)]
    assert keyed == ["Run the shard"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in jobs["image"]["if"]
    assert jobs["shard"]["needs"] == "image"
    assert "needs.image.result != 'skipped'" in jobs["gate"]["if"]
    assert all(job["timeout-minutes"] > 0 for job in jobs.values())
    checkouts = [step for job in jobs.values() for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["kubernetes.yaml", "kubernetes-merge.yaml"])
def test_the_manifests_are_valid(name: str, version: str) -> None:
    """By the schemas of Kubernetes; unknown fields are errors."""
    for manifest in manifests(name):
        assert kubernetes_validate.validate(manifest, version, strict=True) == version


@pytest.mark.parametrize(
    ("path", "value"), [(("completionMode",), 1), (("backoffLimitPerIndexes",), 2), (("completions",), "8")]
)
def test_an_invalid_manifest_is_rejected(path: tuple[str, ...], value: object) -> None:
    job = deepcopy(manifests("kubernetes.yaml")[1])
    job["spec"][path[0]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


def test_the_manifests_fit_together() -> None:
    """What the schemas do not check: names, paths and numbers that must be the same in several places."""
    claim, job = manifests("kubernetes.yaml")
    (merge,) = manifests("kubernetes-merge.yaml")
    (engine,) = job["spec"]["template"]["spec"]["initContainers"]
    (shard,) = job["spec"]["template"]["spec"]["containers"]
    (merging,) = merge["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in shard["env"]}
    others = {each["name"]: each.get("value") for each in merging["env"]}
    assert int(variables["SHARDS"]) == job["spec"]["completions"]
    assert (others["RUNS"], merging["image"]) == (variables["RUNS"], shard["image"])
    assert {"name": "DOCKER_HOST", "value": variables["DOCKER_HOST"]} in engine["env"]
    assert f"--host={variables['DOCKER_HOST']}" in engine["args"]
    group = job["spec"]["template"]["spec"]["securityContext"]["fsGroup"]
    assert f"--group={group}" in engine["args"]
    assert group == shard["securityContext"]["runAsGroup"] == merging["securityContext"]["runAsGroup"]

    mounts = [{each["name"]: each["mountPath"] for each in one["volumeMounts"]} for one in (engine, shard, merging)]
    assert mounts[0]["scratch"] == mounts[1]["scratch"], "the engine mounts workspaces from the same path"
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        assert variables[name].startswith(f"{mounts[1]['scratch']}/")
    assert variables["RUNS"].startswith(f"{mounts[1]['runs']}/")
    assert "runs" not in mounts[0], "only the harness writes runs"
    for one, used in ((job, {*mounts[0], *mounts[1]}), (merge, {*mounts[2]})):
        volumes = {each["name"]: each for each in one["spec"]["template"]["spec"]["volumes"]}
        assert volumes.keys() == used
        assert volumes["runs"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (failing,) = [rule for rule in one["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert failing["onExitCodes"]["containerName"] == container["name"]
        assert one["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_only_the_engine_is_privileged() -> None:
    """The harness and the merge run without root, capabilities and tokens; only the shard has the key."""
    (_, job), (merge,) = manifests("kubernetes.yaml"), manifests("kubernetes-merge.yaml")
    pods = [manifest["spec"]["template"]["spec"] for manifest in (job, merge)]
    assert [pod["automountServiceAccountToken"] for pod in pods] == [False, False]
    containers = [container for pod in pods for container in pod["containers"]]
    for container in containers:
        context = container["securityContext"]
        assert (context["runAsNonRoot"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in context
    keyed = [one["name"] for one in (*pods[0]["initContainers"], *containers) if "secretKeyRef" in str(one)]
    assert keyed == ["shard"]


@pytest.mark.parametrize("name", ["shards.sbatch", "merge.sbatch"])
def test_the_scripts_are_valid(name: str) -> None:
    subprocess.run(["bash", "-n", str(FILES / name)], check=True)


def test_the_number_of_shards_is_the_same_in_each_place() -> None:
    script = (FILES / "shards.sbatch").read_text()
    assert re.findall(r"^#SBATCH --array=1-(\d+)$", script, re.MULTILINE) == re.findall(r"^shards=(\d+) ", script, re.M)
    text = (FILES / "agentbench.yml").read_text()
    content = workflow_of_shards()
    shards = content["jobs"]["shard"]["strategy"]["matrix"]["shard"]
    assert shards == list(range(1, len(shards) + 1))
    assert "--shard ${{ matrix.shard }}/${{ strategy.job-total }}" in text
    total = 2 * len(shards) * float(content["env"]["MAX_COST_USD"])
    assert f"{total:g} USD for 2 variants in {len(shards)} shards" in text


def test_the_files_name_the_image_of_tasks() -> None:
    image = EnvironmentSettings().docker_image
    assert f'docker save --output "$RUNNER_TEMP/image.tar" {image}' in (FILES / "agentbench.yml").read_text()
    assert f"docker save --output task-image.tar {image}" in PAGE.read_text()
