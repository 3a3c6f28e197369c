"""What is written down of a run before it begins."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import agentbench_core
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.registry import Provenance
from agentbench_core.run.records import local_time
from agentbench_core.run.variant import Variant
from agentbench_core.values.messages import ModelFacts
from agentbench_core.values.record import HarnessInfo, PluginEntry, RunManifest, TaskEntry


def make_manifest(
    *,
    run_id: str,
    group_id: str,
    argv: Sequence[str],
    suite: str,
    variant: Variant,
    repeats: int,
    tasks: Sequence[Task],
    plugins: Sequence[Provenance],
    quarantined: Mapping[str, str],
    presets: str,
    model: ModelFacts | None = None,
) -> RunManifest:
    """The manifest of a run that begins now, on this machine. ``quarantined`` has a reason by the id of a task.

    ``presets`` is the version of the presets of models that the settings were made with.
    """
    return RunManifest(
        run_id=run_id,
        group_id=group_id,
        created_at=local_time(),
        harness=harness_info(Path(agentbench_core.__file__).parent.parent),
        argv=tuple(argv),
        suite=suite,
        variant=variant.name,
        variant_digest=variant.digest,
        agent=variant.agent_names,
        presets=presets,
        repeats=repeats,
        config=variant.leaves,
        tasks=tuple(
            TaskEntry(
                id=task.spec.id,
                digest=task.digest,
                path=str(task.directory.resolve()),
                commit=task.spec.repo.commit,
                quarantined=quarantined.get(task.spec.id, ""),
            )
            for task in tasks
        ),
        plugins=tuple(
            PluginEntry(name=source.plugin, distribution=source.distribution, version=source.version)
            for source in plugins
        ),
        model=model,
        platform={
            "system": platform.platform(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": str(os.cpu_count()),
        },
    )


def harness_info(home: Path) -> HarnessInfo:
    """The harness that runs: from a checkout, or installed by pip."""
    version = agentbench_core.__version__
    if (home / ".git").exists():
        changed = _git(home, "status", "--porcelain", "--", "agentbench_core", "plugins")
        return HarnessInfo(
            version=version, git_sha=_git(home, "rev-parse", "HEAD"), dirty=bool(changed), source="checkout"
        )
    try:
        told = importlib.metadata.distribution("agentbench-core").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return HarnessInfo(version=version, git_sha="", source="not installed")
    if told is None:  # as pip leaves it for what was named, and not given by an address
        return HarnessInfo(version=version, git_sha="", source="package index")
    origin = json.loads(told)
    commit = origin.get("vcs_info", {}).get("commit_id", "")
    return HarnessInfo(version=version, git_sha=commit, source=str(origin.get("url", "")))


def _git(home: Path, *arguments: str) -> str:
    """What git says of a checkout; nothing where it cannot be asked."""
    command = ["git", "-C", str(home), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
