"""The facts of attempts that a worker needs: made where the run is written, rebuilt and compared on the worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError, UnavailableError
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.inputs.config import recorded, resolve
from agentbench_core.inputs.documents import parse_yaml
from agentbench_core.inputs.suite import HiddenFile, Task, task_digest
from agentbench_core.plugin.registry import Provenance, Registry
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.remote.documents import HiddenTest, Order, RunDocument, TaskDocument, decoded, encoded, written
from agentbench_core.run.variant import Variant, make_variant
from agentbench_core.values.messages import ModelFacts
from agentbench_core.values.record import HarnessInfo, PluginEntry, Setting
from agentbench_core.values.task import TaskSpec, digest

_NOT_SENT = ("reporters", "reporter.", "executor.", "run.")
"""Settings that only matter where the run is written."""


def run_document(
    run_id: str,
    variant: Variant,
    facts: ModelFacts | None,
    harness: HarnessInfo,
    plugins: Sequence[Provenance],
    redactor: Redactor,
) -> RunDocument:
    """The facts that workers need about a run. Secrets in its settings are redacted."""
    config = {key: setting for key, setting in variant.settings_with_origins.items() if not key.startswith(_NOT_SENT)}
    cleaned = redactor.clean_value(dump(config))
    return RunDocument(
        run_id=run_id,
        variant=variant.name,
        variant_digest=variant.digest,
        config=load(cleaned, dict[str, Setting], where="settings"),
        agents=tuple(sorted(variant.agents)),
        programs=variant.programs,
        model=variant.model,
        model_facts=facts,
        harness=harness,
        plugins=tuple(entry(source) for source in plugins if source.plugin in variant.plugins),
    )


def entry(source: Provenance) -> PluginEntry:
    """A plugin as written to documents."""
    return PluginEntry(name=source.plugin, distribution=source.distribution, version=source.version)


def task_document(task: Task) -> TaskDocument:
    """The facts that workers need about a task."""
    return TaskDocument(
        name=task.directory.name,
        digest=task.digest,
        text=task.text,
        hidden=tuple(
            HiddenTest(path=file.path, data=encoded(file.data), executable=file.executable) for file in task.hidden
        ),
        script=task.script,
    )


def document_digest(document: RunDocument | TaskDocument) -> str:
    """Digest that identifies a document."""
    return digest(written(document))


def received_task(document: TaskDocument, directory: Path) -> Task:
    """The task of a document, with an empty directory. Raises InputError if its digest is wrong."""
    where = f"task {document.name}"
    spec = load(parse_yaml(document.text, where), TaskSpec, where=where)
    hidden = tuple(
        HiddenFile(path=file.path, data=decoded(file.data), executable=file.executable) for file in document.hidden
    )
    if (found := task_digest(spec, hidden)) != document.digest:
        raise InputError(f"{where} is different here: its digest is {found}, not {document.digest}")
    return Task(
        spec=spec,
        directory=directory,
        text=document.text,
        hidden=hidden,
        script=document.script,
        digest=document.digest,
    )


def received_variant(document: RunDocument, registry: Registry, *, allow_unisolated: bool) -> Variant:
    """The variant of a run, made from the components installed here.

    Raises InputError and PluginError if it cannot be made, and UnavailableError if it differs.
    """
    for key, setting in document.config.items():
        if "[redacted " in repr(setting.value):
            raise InputError(
                f"setting {key} contains a secret, which is not sent to workers",
                remedy="Remove it, or run without workers: --executor threads",
            )
    resolved = resolve([recorded("the run", document.config)], registry.name_of)
    variant = make_variant(document.variant, resolved, document.agents, registry, allow_unisolated=allow_unisolated)
    for agent, identity in document.programs.items():
        here = dict(variant.programs.get(agent, {}))
        if here != dict(identity):
            raise UnavailableError(
                f"agent {agent!r} has a different program here: {_listed(here)} instead of {_listed(identity)}",
                remedy="Install the same version: agentbench agents install",
            )
    if variant.digest != document.variant_digest:
        raise UnavailableError(
            f"variant {document.variant!r} is different here: its digest is {variant.digest}, not "
            f"{document.variant_digest}",
            remedy="Install the same versions of all plugins.",
        )
    return variant


def _listed(identity: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(identity.items())) or "none"


def version_differences(
    harness: HarnessInfo, plugins: Sequence[PluginEntry], here: HarnessInfo, installed: Sequence[PluginEntry]
) -> Sequence[str]:
    """How the versions that a run uses differ from a worker's versions; one sentence per difference."""
    results = []
    if attrs.evolve(harness, source="") != attrs.evolve(here, source=""):
        results.append(f"agentbench-core is {here.shown}; this run uses {harness.shown}")
    versions = {plugin.name: f"{plugin.distribution} {plugin.version}" for plugin in installed}
    for plugin in plugins:
        wanted, found = f"{plugin.distribution} {plugin.version}", versions.get(plugin.name)
        if found is None:
            results.append(f"plugin {plugin.name!r} is not installed; this run uses {wanted}")
        elif found != wanted:
            results.append(f"plugin {plugin.name!r} is {found}; this run uses {wanted}")
    return results


def received_plan(order: Order, run: RunDocument, variant: Variant, task: Task) -> AttemptPlan:
    """The plan of a lent attempt. Its environment is compared where the run is written."""
    return AttemptPlan(
        run_id=run.run_id,
        attempt_id=order.attempt_id,
        task=task,
        variant=variant,
        agent=variant.agent_for(task),
        scorer=variant.scorer,
        repeat=order.repeat,
        supersedes=order.supersedes,
        flaky=order.flaky,
    )
