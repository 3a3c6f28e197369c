"""What is written down of a run before it begins."""

from __future__ import annotations

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
    model: ModelFacts | None = None,
) -> RunManifest:
    """The manifest of a run that begins now, on this machine. ``quarantined`` has a reason by the id of a task."""
    return RunManifest(
        run_id=run_id,
        group_id=group_id,
        created_at=local_time(),
        harness=HarnessInfo(version=agentbench_core.__version__, git_sha=_git_sha()),
        argv=tuple(argv),
        suite=suite,
        variant=variant.name,
        variant_digest=variant.digest,
        agent=variant.agent_names,
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


def _git_sha() -> str:
    """Commit of the harness's own checkout; empty when it is installed from a package."""
    home = Path(agentbench_core.__file__).parent.parent
    if not (home / ".git").exists():
        return ""
    command = ["git", "-C", str(home), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
