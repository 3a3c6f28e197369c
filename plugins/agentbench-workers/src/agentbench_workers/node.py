"""Facts about this machine as a worker: versions, CPUs, memory and disk."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from agentbench_core.harness import App, running_harness

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


@attrs.frozen(kw_only=True)
class InstalledPlugin:
    """A plugin that works."""

    name: str  #: name of the entry point
    distribution: str  #: name of its distribution
    version: str  #: version of the distribution


@attrs.frozen(kw_only=True)
class Node:
    """A machine."""

    harness: str  #: version of agentbench-core, and its commit or origin
    python: str  #: version of Python
    platform: str  #: the operating system
    cpus: float  #: CPUs that this process may use; a quota can be fractional
    memory_bytes: int  #: memory that this process may use
    scratch: str  #: the directory for workspaces
    scratch_free_bytes: int  #: free space there
    plugins: Sequence[InstalledPlugin]  #: the plugins that work


def this_node(app: App) -> Node:
    """The facts of this machine."""
    scratch = tempfile.gettempdir()
    return Node(
        harness=running_harness().shown,
        python=platform.python_version(),
        platform=platform.platform(),
        cpus=usable_cpus(),
        memory_bytes=usable_memory(),
        scratch=scratch,
        scratch_free_bytes=shutil.disk_usage(scratch).free,
        plugins=[
            InstalledPlugin(name=source.plugin, distribution=source.distribution, version=source.version)
            for source in (plugin.source for plugin in app.plugins.plugins if plugin.status == "ok")
        ],
    )


def usable_cpus(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> float:
    """The CPUs that this process may use, according to its affinity and the quotas of its control groups."""
    allowed = float(len(os.sched_getaffinity(0)))
    for quota, period in _limits("cpu.max", proc, cgroups):
        allowed = min(allowed, int(quota) / int(period))
    return allowed


def usable_memory(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """The memory in bytes that this process can use: the machine's, or less if a control group limits it."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *(int(words[0]) for words in _limits("memory.max", proc, cgroups))])


def _limits(name: str, proc: Path, cgroups: Path) -> Iterator[Sequence[str]]:
    """The words of a limit for this process's control group and each of its parents (cgroup version 2)."""
    group = ""
    with contextlib.suppress(OSError):
        lines = (proc / "self/cgroup").read_text().splitlines()
        group = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    directory = cgroups / group
    for each in (directory, *directory.parents):
        with contextlib.suppress(OSError):
            words = (each / name).read_text().split()
            if words and words[0] != "max":
                yield words
        if each == cgroups:
            return
