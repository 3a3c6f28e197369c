"""``run.json``: the description of a run."""

from __future__ import annotations

import functools
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
from agentbench_core.run.attempt.record import local_time
from agentbench_core.run.variant import Variant
from agentbench_core.values.messages import ModelFacts
from agentbench_core.values.record import HarnessInfo, PluginEntry, RunManifest, TaskEntry
from agentbench_core.values.shard import Shard


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
    shard: Shard | None = None,
) -> RunManifest:
    """The manifest of a run that starts now, on this machine. ``quarantined`` maps task ids to reasons.

    ``presets`` is the version of the model presets that the settings use.
    """
    return RunManifest(
        run_id=run_id,
        group_id=group_id,
        created_at=local_time(),
        harness=running_harness(),
        argv=tuple(argv),
        suite=suite,
        variant=variant.name,
        variant_digest=variant.digest,
        agent=variant.agent_names,
        programs=variant.programs,
        presets=presets,
        repeats=repeats,
        config=variant.settings_with_origins,
        tasks=tuple(
            TaskEntry(
                id=task.spec.id,
                digest=task.digest,
                path=str(task.directory.resolve()),
                commit=task.spec.repo.commit,
                quarantined=quarantined.get(task.spec.id, ""),
                date=task.spec.provenance.date,
            )
            for task in tasks
        ),
        plugins=tuple(
            PluginEntry(name=source.plugin, distribution=source.distribution, version=source.version)
            for source in plugins
        ),
        model=model,
        shard=shard,
        platform={
            "system": platform.platform(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": str(os.cpu_count()),
        },
    )


@functools.cache
def running_harness() -> HarnessInfo:
    """The version that this process has loaded; later changes to its files have no effect."""
    return harness_info(Path(agentbench_core.__file__).parent.parent)


def harness_info(home: Path) -> HarnessInfo:
    """The version and origin of the running harness: a checkout, or an installed package."""
    version = agentbench_core.__version__
    if (home / ".git").exists():
        changed = _git(home, "status", "--porcelain", "--", "agentbench_core", "plugins")
        return HarnessInfo(
            version=version, git_sha=_git(home, "rev-parse", "HEAD"), dirty=bool(changed), source="checkout"
        )
    try:
        shown = importlib.metadata.distribution("agentbench-core").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return HarnessInfo(version=version, git_sha="", source="not installed")
    if shown is None:  # pip writes no direct_url.json for a package from an index
        return HarnessInfo(version=version, git_sha="", source="package index")
    origin = json.loads(shown)
    commit = origin.get("vcs_info", {}).get("commit_id", "")
    return HarnessInfo(version=version, git_sha=commit, source=str(origin.get("url", "")))


def _git(home: Path, *arguments: str) -> str:
    """The output of a git command in a checkout; empty if the command fails."""
    command = ["git", "-C", str(home), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
