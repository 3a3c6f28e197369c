"""How runs differ: from an earlier run that is resumed or repeated, and between the shards of one plan."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentbench_core.converter import dump
from agentbench_core.errors import AgentBenchError
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.values.record import ReproducedRun, RunManifest
from agentbench_core.values.text import shorten

_EXECUTION_SETTINGS = (
    *("run.workers", "run.out", "run.tasks", "run.min_free_mb", "run.max_cost_usd", "run.preflight_sec"),
    *("artifacts.", "reporters", "reporter.", "executor."),
)
_PLACES = ("run.out", "run.tasks", "executor.")
_WINDOW = ("context_tokens", "answer_tokens")
"""Facts about a model that agents depend on."""

Environments = Mapping[str, Mapping[str, str]]
"""The digest and the facts of environments, by task id."""

_ENVIRONMENT = "meta/environment.json"
_VARYING = frozenset({"cache"})
"""Facts about an environment that may differ between runs without any effect."""

MACHINE_FACTS = frozenset(
    {
        *("image_id", "base_image_id", "base_image_digest"),  # differ between builds of the same image
        *("cache", "layer", "user"),
        *("engine", "engine_kernel", "engine_cpus", "runc", "storage_driver", "cgroup"),
        *("supervision", "limits_not_enforced"),  # implied by the sandbox and the operating system
    }
)
"""Facts in ``meta/environment.json`` that may differ between machines for the same environment."""

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
    """All differences between the manifests of a run and of a run that repeats its plan.

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


def plan_differences(one: RunManifest, other: RunManifest) -> tuple[str, ...]:
    """Differences between the plans of two shards, which prevent merging their attempts; empty for the same plan.

    All plugins must be the same: a manifest does not record which of them were used.
    """
    plans = [
        {
            "suite": manifest.suite,
            "variant": manifest.variant,
            "agentbench": manifest.harness.shown,
            "shards": manifest.shard.count if manifest.shard else 1,
            "repeats": manifest.repeats,
        }
        for manifest in (one, other)
    ]
    result = _differences("", *plans)
    result += _differences("plugin", _plugins(one), _plugins(other))
    result += _differences("setting", *(_settings(manifest, _EXECUTION_SETTINGS) for manifest in (one, other)))
    result += _differences("model", *({name: getattr(m.model, name, None) for name in _WINDOW} for m in (one, other)))
    result += _differences("task", *(_tasks(manifest) for manifest in (one, other)))
    result += _differences("program", *(_programs(manifest) for manifest in (one, other)))
    digests = [{task.id: task.digest for task in manifest.tasks} for manifest in (one, other)]
    if not result:  # digests are shortened in the differences above
        result += _differences("task", *digests)
        result += _differences("variant", *({"digest": manifest.variant_digest} for manifest in (one, other)))
    return tuple(result)


def environment_differences(like: ReproducedRun, now: RunDirectory) -> tuple[str, ...]:
    """How the environments of a run differ from the environments of the run whose plan it repeats, if both exist.

    Compares digests and facts reported by the sandbox: image, interpreter, packages. run.json has none of these, since
    it is written before environments are prepared. An unreadable run is reported as not compared.
    """
    try:
        like_run = open_run(Path(like.directory))
        if like_run.manifest.run_id != like.run_id:
            return (f"environments: not compared, because {like.directory} now contains a different run",)
        before, made = environments(like_run), environments(now)
    except AgentBenchError as error:
        return (f"environments: not compared: {error.message}",)
    without = [task_id for task_id in made if task_id not in before]
    reason = "not compared, because the earlier run recorded none"
    missing = [f"environment for {_some(without)}: {reason}"] if without else []
    return (*missing, *environments_differ(before, made))


def environments_differ(before: Environments, now: Environments, *, machines: bool = True) -> tuple[str, ...]:
    """How the environments of the tasks in both differ, one sentence per difference.

    Without ``machines``, facts about the machine that prepared an environment are not compared.
    """
    by_text: dict[str, list[str]] = {}
    for task_id in sorted(before.keys() & now.keys()):
        pair = [
            {name: value for name, value in facts[task_id].items() if machines or name not in MACHINE_FACTS}
            for facts in (before, now)
        ]
        for text in _facts_differences(*pair):
            by_text.setdefault(text, []).append(task_id)
    return tuple(f"environment for {_some(tasks)}: {text}" for text, tasks in by_text.items())


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


def environments(run: RunDirectory) -> Environments:
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
