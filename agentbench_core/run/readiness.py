"""The requirements of a run on this machine, sandbox and model provider, as checks that do not stop early.

``doctor`` shows all of them. A run that is refused anyway adds the failed ones to its error.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.errors import AgentBenchError, InputError, PluginError, UnavailableError
from agentbench_core.inputs.config import Resolved
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.checks import Checks, Finding, Status
from agentbench_core.plugin.registry import NEEDS_SANDBOX, Registry
from agentbench_core.run.metering.models import ask_model, check_prices
from agentbench_core.run.signals import FOR_EVER
from agentbench_core.run.variant import ConfiguredComponent, agent_names, chosen_llm, configured, model_info
from agentbench_core.run.waiting import run_preflight
from agentbench_core.values.limits import Deadline
from agentbench_core.values.messages import ModelFacts
from agentbench_core.values.task import EnvironmentSettings, EnvironmentSpec, Setup

_OLDEST_GIT = (2, 32)
_ANSWER_SEC = 10.0
BY_DEFAULT = EnvironmentSpec(commit="0" * 40, settings=EnvironmentSettings(), setup=Setup())
"""The environment of a task that configures nothing."""


@attrs.frozen
class Check:
    """The result of one check. ``failed`` prevents the run, or every run; ``warning`` may prevent some runs."""

    name: str  #: name of the check
    status: Status  #: whether there is a problem
    detail: str  #: the finding
    remedy: str = ""  #: the remedy; empty if there is no problem
    error: AgentBenchError | None = attrs.field(default=None, repr=False, eq=False)
    """The error that a run would end with; ``None`` if this check does not prevent it."""

    @classmethod
    def failure(cls, name: str, error: AgentBenchError) -> Check:
        """The check that found the problem described by an error."""
        return cls(name, "failed", error.message, error.remedy, error)


def check_git() -> str:
    """The version of git. Raises UnavailableError if it is missing or too old."""
    remedy = f"Install git {'.'.join(map(str, _OLDEST_GIT))} or newer."
    try:
        command = ["git", "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SEC, check=True).stdout.strip()
        version = tuple(int(part) for part in answer.split()[2].split(".")[:2])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        raise UnavailableError("git was not found or cannot be used", remedy=remedy) from None
    if version < _OLDEST_GIT:
        raise UnavailableError(f"{answer} is too old", remedy=remedy)
    return answer


def check_out(out: Path) -> str:
    """A description of the directory for runs. Raises InputError if it cannot be created or written to."""
    existing = next(path for path in (out, *out.parents) if path.exists() or path.is_symlink())
    problem = "" if existing.is_dir() else f"{existing} is not a directory"
    if not problem and not os.access(existing, os.W_OK | os.X_OK):
        problem = f"{existing} is not writable"
    if problem:
        raise InputError(
            f"no run directory can be created in {out}: {problem}", remedy="Choose another directory: --out DIR"
        )
    return f"{out} is writable"


def checked(name: str, question: Callable[[], str]) -> Check:
    """The check with the answer to a question, or with the error that it raises."""
    try:
        return Check(name, "ok", question())
    except AgentBenchError as error:
        return Check.failure(name, error)


def run_checks(
    resolved: Resolved, tasks: Sequence[Task], registry: Registry, *, complete: bool = True, ask: bool = False
) -> Iterator[Check]:
    """Everything that a variant's run needs, except for what ``make_variant`` checks.

    Args:
        resolved: the settings of the variant.
        tasks: the tasks of the run; empty if they are invalid.
        registry: the installed components.
        complete: whether all settings are known; otherwise only named components are checked.
        ask: whether to query the model even if no agent is known to need it.
    """
    settings = resolved.settings
    yield checked("git", check_git)
    yield checked("results", lambda: check_out(Path(settings.run.out)))
    if complete or resolved.leaves["sandbox.name"].origin != "default":
        with contextlib.suppress(InputError, PluginError):  # reported by make_variant
            sandbox = configured(registry, resolved, "sandbox", settings.sandbox.name)
            specs = [task.spec.environment_spec() for task in tasks]
            yield from sandbox_checks(sandbox, specs, settings.run.preflight_sec)
    names = set(agent_names(settings, tasks))
    agents = [agent for agent in registry.all("agent") if names & agent.names]  # sorted, as make_variant's are
    uncertain = len(agents) < len(names) or not names
    users = [f"agent {agent.name!r}" for agent in agents if "needs_llm" in agent.capabilities]
    if complete and (users or ((ask or uncertain) and settings.model.name)):
        program = any(NEEDS_SANDBOX in agent.capabilities for agent in agents)
        yield from _model_checks(resolved, registry, next(iter(users), "this run"), forwards=program)


def sandbox_checks(sandbox: ConfiguredComponent, specs: Sequence[EnvironmentSpec], seconds: float) -> Iterator[Check]:
    """The checks of a sandbox, or its preflight if it has none; the first one is whether it can be used."""
    name, component = f"sandbox {sandbox.name}", sandbox.component
    good = "isolates" if sandbox.can("isolated") else "works, but is not isolated"
    try:
        with closing(sandbox) as provider:
            if callable(getattr(provider, "checks", None)):
                results = list(_own_checks(sandbox, lambda: provider.checks(specs), seconds))
                wrong = [check.name for check in results if check.status == "failed"]
                see = "See the remedies below."
                yield (
                    Check(name, "failed", f"cannot be used: {', '.join(wrong)}", see)
                    if wrong
                    else Check(name, "ok", good)
                )
                yield from results
                return
            warnings = list(run_preflight(component, lambda: provider.preflight(specs), seconds=seconds) or ())
    except AgentBenchError as error:
        yield Check.failure(name, error)
        return
    yield Check(name, "ok", good)
    for warning in warnings:
        detail, _, remedy = warning.partition("\n")
        yield Check(name, "warning", detail, remedy)


def llm_checks(llm: ConfiguredComponent, seconds: float) -> Iterator[Check]:
    """The checks of a model provider that need no model, including whether the provider can be created."""
    try:
        with closing(llm) as provider:
            if callable(getattr(provider, "checks", None)):
                yield from _own_checks(llm, provider.checks, seconds)
    except AgentBenchError as error:
        yield Check.failure(f"llm {llm.name}", error)


@contextlib.contextmanager
def closing(ready: ConfiguredComponent) -> Iterator[Any]:
    """A new instance of a component, closed at the end. Raises AgentBenchError for anything that it raises."""
    made = ready.make()
    try:
        yield made
    finally:
        try:
            made.close()
        except Exception as error:
            raise PluginError(
                f"{ready.component.kind} {ready.name!r} failed to close: {type(error).__name__}: {error}",
                remedy=f"Contact the author of {ready.component.source.distribution}.",
            ) from error


def _own_checks(ready: ConfiguredComponent, checks: Callable[[], Checks], seconds: float) -> Iterator[Check]:
    """The results of a component's own checks. Raises whatever ``checks`` raises."""
    component = ready.component
    for key, question in run_preflight(component, lambda: dict(checks()), seconds=seconds, what="checks").items():
        name, what = f"{ready.name} {key}", f"check {key!r}"
        try:
            found = run_preflight(component, partial(_finding, question), seconds=seconds, what=what)
        except AgentBenchError as error:  # it took too long, or is defective: nothing is known about runs
            report = f"Report it to the author of {component.source.distribution}, unless this machine is just slow."
            yield Check(name, "warning", error.message, report)
            continue
        failed = found.status == "failed"
        error_of_run = UnavailableError(found.detail, remedy=found.remedy) if failed else None
        yield Check(name, found.status, found.detail, "" if found.status == "ok" else found.remedy, error_of_run)


def _finding(question: Callable[[], Finding]) -> Finding:
    try:
        found: object = question()
    except UnavailableError as error:
        return Finding("failed", error.message, error.remedy)
    if not isinstance(found, Finding):
        raise PluginError(f"the check returned {found!r}, which is not a Finding")
    return found


def _model_checks(resolved: Resolved, registry: Registry, user: str, *, forwards: bool) -> Iterator[Check]:
    """Whether the provider can be used with the model: its key, the model, its price if there is a cost limit."""
    settings = resolved.settings
    name = f"model {settings.model.name}".strip()
    limits = [n for n in (settings.run.max_cost_usd, settings.limits.max_cost_usd) if n is not None]
    try:
        llm = chosen_llm(resolved, registry, user)
        model = model_info(llm.name, settings.model, forwards=forwards)
        tools = [configured(registry, resolved, "tool", tool).make().spec for tool in settings.tools]
        limit, stop = min(limits, default=None), Deadline(FOR_EVER)
        with closing(llm) as provider:
            facts = ask_model(
                provider, llm.component, model, settings, tools, settings.run.workers, limit, stop, forwards=forwards
            )
        check_prices(model, facts, limit)
    except AgentBenchError as error:
        yield Check.failure(name, error)
        return
    yield Check(name, "ok", f"{llm.name}: {_in_words(facts)}")
    for warning in facts.warnings:
        detail, _, remedy = warning.partition("\n")
        yield Check(name, "warning", detail, remedy or f"See: agentbench plugins show {llm.name}")


def _in_words(facts: ModelFacts) -> str:
    context = f"context {facts.context_tokens:,} tokens" if facts.context_tokens else "context unknown"
    prices = (facts.usd_per_million_input, facts.usd_per_million_output)
    if None in prices:
        return f"{context}, price unknown"
    return f"{context}, {prices[0]:g} USD per million input tokens, {prices[1]:g} per million output tokens"
