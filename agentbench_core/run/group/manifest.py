"""``run.json``: the description of a run, and its differences from an earlier run."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import agentbench_core
from agentbench_core.converter import dump
from agentbench_core.errors import AgentBenchError
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.registry import Provenance
from agentbench_core.run.attempt.record import local_time
from agentbench_core.run.variant import Variant
from agentbench_core.values.messages import ModelFacts
from agentbench_core.values.record import HarnessInfo, PluginEntry, ReproducedRun, RunManifest, TaskEntry
from agentbench_core.values.text import shorten


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
    """The manifest of a run that starts now, on this machine. ``quarantined`` maps task ids to reasons.

    ``presets`` is the version of the model presets that the settings use.
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
        platform={
            "system": platform.platform(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": str(os.cpu_count()),
        },
    )


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


_EXECUTION_SETTINGS = (
    *("run.workers", "run.out", "run.tasks", "run.min_free_mb", "run.max_cost_usd", "run.preflight_sec"),
    *("artifacts.", "reporters", "reporter."),
)
_PLACES = ("run.out", "run.tasks")
_WINDOW = ("context_tokens", "answer_tokens")
"""Facts about a model that agents depend on."""

_ENVIRONMENT = "meta/environment.json"
_VARYING = frozenset({"cache"})
"""Facts about an environment that may differ between runs without any effect."""

_LONGEST = 200  # maximum characters of a value in one difference
_LINES = 5  # maximum items listed in one difference, such as installed packages
_SHOWN = 20  # maximum differences shown on the console


def blocking_changes(before: RunManifest, now: RunManifest, used: Collection[str]) -> tuple[str, ...]:
    """Changes since the run started that can affect results.

    Args:
        before: the manifest of the run.
        now: the manifest that the run would get if it started now.
        used: names of the plugins that the variant uses; others are ignored.
    """
    results = []
    if before.harness != now.harness:
        results.append(f"agentbench: {before.harness.shown} -> {now.harness.shown}")
    plugins = [
        {plugin.name: f"{plugin.distribution} {plugin.version}" for plugin in manifest.plugins if plugin.name in used}
        for manifest in (before, now)
    ]
    results += _differences("plugin", *plugins)
    results += _differences("setting", *(_settings(manifest, _EXECUTION_SETTINGS) for manifest in (before, now)))
    results += _differences("model", *({name: getattr(m.model, name, None) for name in _WINDOW} for m in (before, now)))
    results += _differences("task", *({task.id: task.digest[:19] for task in m.tasks} for m in (before, now)))
    results += _differences("program", *(_programs(manifest) for manifest in (before, now)))
    if not results and before.variant_digest != now.variant_digest:
        results.append(f"variant {now.variant}: {before.variant_digest} -> {now.variant_digest}")
    return tuple(results)


def differences(before: RunManifest, now: RunManifest, used: Collection[str]) -> tuple[str, ...]:
    """All differences between the manifest of a run and that of a run that repeats its plan.

    Unlike :func:`blocking_changes`, this includes differences that should not affect results; the reader decides.

    Args:
        before: the manifest of the run.
        now: the manifest of the run that repeats its plan.
        used: names of the plugins that the variant uses.
    """
    result = [f"agentbench: {before.harness.shown} -> {now.harness.shown}"] if before.harness != now.harness else []
    for line in _differences("plugin", _plugins(before), _plugins(now)):
        name = line.removeprefix("plugin ").partition(":")[0]
        result.append(line if name in used else f"{line} (not used here)")
    result += _differences("setting", *(_settings(manifest, _PLACES) for manifest in (before, now)))
    result += _differences("model", *(_model(manifest) for manifest in (before, now)))
    result += _differences("task", *(_tasks(manifest) for manifest in (before, now)))
    result += _differences("program", *(_programs(manifest) for manifest in (before, now)))
    result += _differences("platform", before.platform, now.platform)
    if not result and before.variant_digest != now.variant_digest:
        result.append(f"variant {now.variant}: {before.variant_digest} -> {now.variant_digest}")
    return tuple(result)


def environment_differences(like: ReproducedRun, now: RunDirectory) -> tuple[str, ...]:
    """How the environments of a run differ from those of the run whose plan it repeats, as far as both exist.

    Compares digests and facts reported by the sandbox: image, interpreter, packages. run.json has none of these, since
    it is written before environments are prepared. An unreadable run is reported as not compared.
    """
    try:
        like_run = open_run(Path(like.directory))
        if like_run.manifest.run_id != like.run_id:
            return (f"environments: not compared, because a different run is now in {like.directory}",)
        before, made = _environments(like_run), _environments(now)
    except AgentBenchError as error:
        return (f"environments: not compared: {error.message}",)
    by_text: dict[str, list[str]] = {}
    for task_id, facts in made.items():
        if task_id not in before:
            by_text.setdefault("not compared, because the earlier run has none", []).append(task_id)
            continue
        for text in _facts_differences(before[task_id], facts):
            by_text.setdefault(text, []).append(task_id)
    return tuple(f"environment of {_some(tasks)}: {text}" for text, tasks in by_text.items())


def in_words(like: ReproducedRun) -> str:
    """The note printed before a run that repeats an earlier plan."""
    if not like.differences:
        return f"the same plan as {like.directory}, with no recorded difference"
    lines = like.differences[:_SHOWN]
    more = len(like.differences) - len(lines)
    rest = [f"and {more} more, in run.json"] if more else []
    return "\n  ".join([f"the same plan as {like.directory}, with these differences:", *lines, *rest])


def _plugins(manifest: RunManifest) -> Mapping[str, str]:
    return {plugin.name: f"{plugin.distribution} {plugin.version}" for plugin in manifest.plugins}


def _programs(manifest: RunManifest) -> Mapping[str, str]:
    return {
        agent: " ".join(value for _, value in sorted(identity.items())) for agent, identity in manifest.programs.items()
    }


def _settings(manifest: RunManifest, without: Sequence[str]) -> Mapping[str, Any]:
    return {
        key: dump(leaf.value)
        for key, leaf in manifest.config.items()
        if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in without)
    }


def _model(manifest: RunManifest) -> Mapping[str, Any]:
    facts = dump(manifest.model) if manifest.model else {}
    return {name: value for name, value in facts.items() if name != "warnings"}


def _tasks(manifest: RunManifest) -> Mapping[str, str]:
    return {
        task.id: f"{task.digest[:19]} at commit {task.commit[:12]}"
        + (f", quarantined: {task.quarantined}" if task.quarantined else "")
        for task in manifest.tasks
    }


def _environments(run: RunDirectory) -> Mapping[str, Mapping[str, str]]:
    """The digest and the facts of each task's environment, by task id."""
    results: dict[str, Mapping[str, str]] = {}
    for record in run.records():
        digest = record.sandbox.environment_digest
        if digest is not None and record.task_id not in results:
            data = run.file(record.task_id, record.repeat, _ENVIRONMENT)
            results[record.task_id] = {"digest": f"{record.sandbox.name} {digest}", **_facts(data)}
    return results


def _facts(data: bytes | None) -> Mapping[str, str]:
    """The facts in an attempt's ``meta/environment.json``; empty if that file is missing or damaged."""
    try:
        plain = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    facts = plain.get("facts") if isinstance(plain, dict) else None
    return {key: str(value) for key, value in facts.items() if key not in _VARYING} if isinstance(facts, dict) else {}


def _facts_differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys(), key=lambda name: (name != "digest", name)):
        old, new = before.get(name, ""), now.get(name, "")
        lines = [set(old.splitlines()), set(new.splitlines())]
        if max(map(len, lines)) <= 1:
            yield from _differences("", {name: old.strip() or "missing"}, {name: new.strip() or "missing"})
        elif lines[0] != lines[1]:
            removed, added = (_some(sorted(one - other)) or "nothing" for one, other in (lines, reversed(lines)))
            yield f"{name}: {_short(removed)} -> {_short(added)}"


def _differences(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"{what} {name}: {_short(before.get(name, 'absent'))} -> {_short(now.get(name, 'absent'))}".lstrip()
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _LINES
    return ", ".join(names[:_LINES]) + (f" and {more} more" if more > 0 else "")


def _short(value: object) -> str:
    return shorten(str(value), _LONGEST)
