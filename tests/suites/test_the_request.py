"""The task.yaml and commands of the request that this project began with, unchanged except for placeholders."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench_core.workspace.repos import directory_commit
from agentbench_testing.chat_server import LoopbackServer
from tests.chat_server import mechanic
from tests.docs.runner import run_page

pytestmark = [pytest.mark.docker, pytest.mark.index]

TASK = """\
id: "pytest-bugfix-requests-parse"
suite: "custom-dev"

repo:
  url: "https://github.com/your-org/your-repo.git"
  commit: "a1b2c3d4e5f6..."

environment:
  docker_image: "ghcr.io/agentbench/py-runner:0.1.0"
  python: "3.11"
  workdir: "/workspace"
  network_policy: "setup_only"    # none | setup_only | always
  cpu_limit: 2
  mem_limit_mb: 4096
  timeout_sec: 900                # whole task budget
  tool_timeout_sec: 120           # per tool call command timeout

setup:
  commands:
    - "python -m pip install -U pip"
    - "pip install -r requirements.txt"
  capture:                        # commands to run after setup for logging
    - "python -V"
    - "pip -V"
    - "pip freeze"

validation:
  failing_command: "pytest -q"
  passing_command: "pytest -q"

agent:
  entrypoint: "llm_v0"            # or scripted
  max_steps: 30                   # tool-call budget
  allow_file_write: true
  editable_globs:                 # optional: paths to constrain edits
    - "**/*.py"
    - "pyproject.toml"

artifacts:
  keep_workspace: true            # store final repo state snapshot
  redact:
    - "OPENROUTER_API_KEY"
"""
COMMANDS = """\
# Run a suite with a variant + model
ab run \\
  --suite custom-dev \\
  --variant baseline \\
  --model anthropic/claude-3.5-sonnet \\
  --max-steps 30 \\
  --workers 4 \\
  --out artifacts/runs

# Run single task (fast iteration)
ab run-task --task tasks/custom-dev/.../task.yaml

# Validate tasks (baseline should fail)
ab validate-tasks --suite custom-dev --workers 4

# Generate summary report
ab report summary --run artifacts/runs/<run-dir>

# Paired comparison
ab report paired \\
  --run-a artifacts/runs/<baseline-run> \\
  --run-b artifacts/runs/<variant-run> \\
  --method mcnemar

# Environment check
ab doctor
"""
PASSED = "1 of 1 scored attempts passed (100%)"
SHOWN = {
    "ab run ": f"note: using the docker sandbox, because the agent uses a model...\n...\n...variant baseline: {PASSED}",
    "ab run-task": f"note: using model sonnet (configs/models.yaml version 1, de...\n...\n...variant default: {PASSED}",
    "agentbench run": f"# custom-dev, variant subagents: {PASSED}",
    "ab validate-tasks": "...valid 2 ... note: no reference solution, so ...\n...\n1 of 1 task valid",
    "ab report summary": "...custom-dev...",
    "ab report paired": "...McNemar...",
    "ab doctor": "ok sandbox docker isolates",
}
"""Expected output by the start of the command."""
SUBAGENTS = "agentbench run --agent subagents --sandbox docker"

IMAGE = "ghcr.io/agentbench/py-runner:0.1.0"
KEY = "sk-or-v1-" + "c0ffee" * 10 + "beef"
REPO = {
    "shop/__init__.py": "",
    "shop/prices.py": '"""Prices in cents."""\n\n\ndef affordable(price, money):\n    return price < money\n',
    "tests/test_prices.py": "from shop.prices import affordable\n\n\ndef test_enough():\n    assert affordable(5, 5)\n"
    "    assert not affordable(6, 5)\n",
    "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    "requirements.txt": "pytest\n",
}

MODELS = """\
version: "1"
default: sonnet
models:
  anthropic/claude-3.5-sonnet:
    llm: {name: openrouter, base_url: SERVER, key_env: OPENROUTER_API_KEY}
  sonnet:
    model: anthropic/claude-3.5-sonnet
    llm: {name: openrouter, base_url: SERVER, key_env: OPENROUTER_API_KEY}
"""


@pytest.fixture
def image() -> Iterator[None]:
    """Build the image that the task names; setup finds its packages there and needs no index."""
    made = "FROM agentbench/py-runner:0.1.0\nENV PIP_NO_INDEX=1\n"
    build = ["docker", "build", "--quiet", "--tag", IMAGE, "-"]
    subprocess.run(
        build, input=made, text=True, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"}
    )
    yield
    subprocess.run(["docker", "rmi", IMAGE], check=True, capture_output=True)


@pytest.mark.release
@pytest.mark.usefixtures("image")
def test_the_commands_of_the_request(tmp_path: Path) -> None:
    """With an engine, the image and a key, each command works as written: sandbox and model are selected."""
    repo = tmp_path / "repo"
    for name, text in REPO.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    typed = [line for line in re.split(r"\n(?!  )", COMMANDS) if line and not line.startswith("#")]
    typed = [*typed[:2], SUBAGENTS, *typed[2:]]
    shown = [next(text for start, text in SHOWN.items() if line.startswith(start)) for line in typed]
    console = "".join(f"$ {line}\n...\n{text}\n...\n" for line, text in zip(typed, shown, strict=True))
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ rm -r tasks/*\n```\n"
        f"`configs/models.yaml`:\n```yaml\n{MODELS}```\n"
        f"`tasks/custom-dev/parse/task.yaml`:\n```yaml\n{TASK}```\n"
        f"```console\n{console}```\n"
    )
    with LoopbackServer(mechanic, models=["anthropic/claude-3.5-sonnet"], require_key=KEY) as server:
        run_page(
            page,
            tmp_path / "page",
            cache=tmp_path / "cache",
            instead={
                "SERVER": server.base_url,
                "/.../": "/parse/",
                "https://github.com/your-org/your-repo.git": str(repo),
                "a1b2c3d4e5f6...": directory_commit(repo),
                "<run-dir>": "*__baseline__anthropic*",
                "<baseline-run>": "*__baseline__anthropic*",
                "<variant-run>": "*__subagents__*",
            },
            OPENROUTER_API_KEY=KEY,
        )
