"""Warnings about two runs that are comparable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from agentbench_core import RunManifest, dump, quantity
from agentbench_report.counts import RunCounts

LABEL_WARNINGS = {
    "oracle": "were given the reference solution",
    "adversary": "used an adversarial agent, which tries to pass without solving the task",
    "tamper_suspected": "are suspected of tampering with their verdict",
    "leak_suspected": "are suspected of using leaked information",
    "under_pressure": "timed out while the machine was overloaded",
}
"""Labels of attempts that cause a warning, with the predicate of the warning."""

_MACHINE = ("system", "machine", "python", "cpus")
_MAX_DIFFERENCES = 5
_EXECUTION_SETTINGS = ("run.", "artifacts.", "reporters", "reporter.")
"""Settings, or prefixes ending with a dot, that affect the execution of a run but not its results."""


def run_warnings(a: RunCounts, b: RunCounts) -> Iterator[str]:
    """Warnings about each run: untrusted text, one line each, without a full stop."""
    for side, run in (("A", a), ("B", b)):
        yield from _side_warnings(side, run)


def difference_warnings(a: RunCounts, b: RunCounts) -> Iterator[str]:
    """Differences between the runs that may affect results, in the same format."""
    first, second = a.manifest, b.manifest
    both = (first, second)
    if first.suite != second.suite:
        yield f"the suite names differ: {first.suite} in A, {second.suite} in B"
    if first.harness.version == second.harness.version and first.harness.git_sha != second.harness.git_sha:
        commits = [manifest.harness.git_sha[:12] or "no commit" for manifest in both]
        yield f"the AgentBench {first.harness.version} commits differ: {commits[0]} in A, {commits[1]} in B"
    yield from _differences("plugin", *map(_plugins, both))
    yield from _differences("machine", *({name: one.platform.get(name, "") for name in _MACHINE} for one in both))
    settings = _settings(first), _settings(second)
    if first.variant == second.variant and first.variant_digest != second.variant_digest:
        yield f"the {first.variant} variant is configured differently in the two runs"
        yield from _differences("setting", *settings)
    else:  # the scorer is not part of the variant
        scorer = ({k: v for k, v in one.items() if k.startswith("scorer.")} for one in settings)
        yield from _differences("setting", *scorer)
    if first.variant_digest == second.variant_digest and first.model != second.model:
        yield from _differences("model", *map(_model, both))


def _side_warnings(side: str, run: RunCounts) -> Iterator[str]:
    if run.selection:
        yield f"{side} is limited to tasks that match {run.selection}"
    if run.manifest.shard:
        yield f"{side} is shard {run.manifest.shard} of a plan and contains only part of its attempts"
    for name in _MACHINE:
        values = sorted({part.platform.get(name, "unknown") for part in run.manifest.merged})
        if len(values) > 1:
            yield f"{side} was merged from runs on different machines: {name} {', '.join(values[:_MAX_DIFFERENCES])}"
    status = run.status
    if status != "completed":
        yield f"{side} is {status}, so its results are incomplete"
    if run.unsealed:
        records = "1 record that is" if run.unsealed == 1 else f"{run.unsealed} records that are"
        yield f"{side} has {records} not in its event log and cannot be verified"
    for resumption in run.manifest.resumed:
        for change in resumption.changes:
            yield f"{side} was resumed on {resumption.at[:10]} after a change: {change}"
    for name, meaning in LABEL_WARNINGS.items():
        attempts = run.labels.get(name, 0)
        if attempts:
            yield f"{side} has attempts that {meaning} (label {name}): {attempts} of {run.planned}"
    invalid = sum(task.invalid for task in run.tasks)
    if invalid:
        tasks = quantity(invalid, "invalid task")
        yield f"{side} has {tasks}, whose failing command passed before the agent started"


def _plugins(manifest: RunManifest) -> Mapping[str, str]:
    return {plugin.name: f"{plugin.distribution} {plugin.version}" for plugin in manifest.plugins}


def _settings(manifest: RunManifest) -> Mapping[str, str]:
    return {
        key: json.dumps(dump(setting.value))
        for key, setting in manifest.config.items()
        if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in _EXECUTION_SETTINGS)
    }


def _model(manifest: RunManifest) -> Mapping[str, str]:
    return {name: json.dumps(value) for name, value in dump(manifest.model).items()} if manifest.model else {}


def _differences(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    different = [name for name in sorted({*a, *b}) if a.get(name) != b.get(name)]
    for name in different[:_MAX_DIFFERENCES]:
        yield f"{kind} {name}: {a.get(name, 'absent')} in A, {b.get(name, 'absent')} in B"
    more = len(different) - _MAX_DIFFERENCES
    if more > 0:
        yield f"{more} more {kind} difference{'s' * (more != 1)}"
