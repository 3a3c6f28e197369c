"""What does not forbid a comparison of two runs, and should be known beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from agentbench_core import RunManifest, dump
from agentbench_report.counts import RunCounts

WORTH_A_WARNING = {
    "oracle": "were given the reference solution",
    "adversary": "are of an agent that tries to pass without solving the task",
    "tamper_suspected": "are suspected of having attacked their verdict",
    "leak_suspected": "are suspected of having seen what they must not",
    "under_pressure": "ran out of time while the machine was under pressure",
}
"""Labels of attempts that a comparison names."""

_MACHINE = ("system", "machine", "python", "cpus")
_SETTINGS_SHOWN = 5
_HOW_NOT_WHAT = ("run.", "reporters", "reporter.")
"""Settings of how a run is made, not of what is measured."""


def cautions(a: RunCounts, b: RunCounts) -> Iterator[str]:
    """What is to be known of each run by itself: a line each, without a full stop, text from outside until escaped."""
    for side, run in (("A", a), ("B", b)):
        yield from _of_one(side, run)


def differing(a: RunCounts, b: RunCounts) -> Iterator[str]:
    """What is not the same in both, and may be why results differ; lines as above."""
    first, second = a.manifest, b.manifest
    if first.suite != second.suite:
        yield f"the suites have two names: {first.suite} in A, {second.suite} in B"
    if first.harness.version == second.harness.version and first.harness.git_sha != second.harness.git_sha:
        commits = [harness.git_sha[:12] or "no commit" for harness in (first.harness, second.harness)]
        yield f"AgentBench {first.harness.version} was at two commits: {commits[0]} in A, {commits[1]} in B"
    yield from _apart("plugin", *(_plugins(one) for one in (first, second)))
    yield from _apart("machine", *({name: one.platform.get(name, "") for name in _MACHINE} for one in (first, second)))
    settings = _settings(first), _settings(second)
    if first.variant == second.variant and first.variant_digest != second.variant_digest:
        yield f"variant {first.variant} is not the same in both runs"
        yield from _apart("setting", *settings)
    else:  # the scorer is no part of what is compared
        yield from _apart("setting", *({k: v for k, v in one.items() if k.startswith("scorer.")} for one in settings))
    if first.variant_digest == second.variant_digest and first.model != second.model:
        yield from _apart("model", *(_model(one) for one in (first, second)))


def _of_one(side: str, run: RunCounts) -> Iterator[str]:
    status = run.status
    if status != "completed":
        yield f"{side} is not complete: its status is {status}"
    if run.unsealed:
        doubt = "nothing says that they are as they were written"
        yield f"{run.unsealed} records of {side} are carried by no event: {doubt}"
    for again in run.manifest.resumed:
        for change in again.changes:
            yield f"{side} was resumed on {again.at[:10]} with something changed: {change}"
    for name, meaning in WORTH_A_WARNING.items():
        attempts = run.labels.get(name, 0)
        if attempts:
            yield f"{attempts} of {run.planned} attempts of {side} {meaning} (label {name})"
    invalid = sum(task.invalid for task in run.tasks)
    if invalid:
        yield f"{side} found {invalid} of its tasks invalid (their tests do not fail beforehand)"


def _plugins(manifest: RunManifest) -> Mapping[str, str]:
    return {plugin.name: f"{plugin.distribution} {plugin.version}" for plugin in manifest.plugins}


def _settings(manifest: RunManifest) -> Mapping[str, str]:
    return {
        key: json.dumps(dump(setting.value))
        for key, setting in manifest.config.items()
        if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in _HOW_NOT_WHAT)
    }


def _model(manifest: RunManifest) -> Mapping[str, str]:
    return {name: json.dumps(value) for name, value in dump(manifest.model).items()} if manifest.model else {}


def _apart(what: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    different = [name for name in sorted({*a, *b}) if a.get(name) != b.get(name)]
    for name in different[:_SETTINGS_SHOWN]:
        yield f"{what} {name}: {a.get(name, 'not there')} in A, {b.get(name, 'not there')} in B"
    if len(different) > _SETTINGS_SHOWN:
        yield f"{len(different) - _SETTINGS_SHOWN} more of this kind differ ({what})"
