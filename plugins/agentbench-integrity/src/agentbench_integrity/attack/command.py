"""``agentbench tasks attack``: can an agent pass a task without solving it?"""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Sequence
from typing import Any, Literal

import click

from agentbench_core import InputError, quantity
from agentbench_core.harness import (
    App,
    ConfiguredComponent,
    DateRange,
    Registry,
    RunObserver,
    date_flags,
    json_flag,
    names_of,
    print_json,
    print_table,
    sandbox_flag,
    say,
    selected_tasks,
    set_flag,
    shortened,
    suite_flags,
    task_flag,
    variant_for_tasks,
)
from agentbench_integrity.attack.findings import TaskAttack, by_task
from agentbench_integrity.attack.registered import adversaries, controls
from agentbench_integrity.attack.sampling import every_pair, sampled_pairs
from agentbench_integrity.attack.text import plain, table_of_agents
from agentbench_integrity.attack.trials import Trial, TrialOutcome, run_trials

_PLAIN = "plain"


@click.command("attack")
@suite_flags
@task_flag
@date_flags
@click.option(
    "--adversary",
    "adversary_globs",
    metavar="GLOB",
    multiple=True,
    shell_complete=names_of("agent", adversaries=True),
    help="Use only the adversarial agents that match GLOB, and the controls. Repeatable.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    help="Minimum number of tasks per agent, and of agents per task. [default: all]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for selecting the sample.")
@click.option("--contrast", is_flag=True, help="Also score with the `plain` scorer, for comparison.")
@click.option("--workers", type=int, help="Number of trials to run in parallel. [default: 2]")
@sandbox_flag
@set_flag
@json_flag
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md"]),
    default="text",
    show_default=True,
    help="Plain text, or Markdown.",
)
@click.pass_obj
def attack_tasks(
    app: App,
    /,
    task_globs: tuple[str, ...],
    dates: DateRange,
    adversary_globs: tuple[str, ...],
    sample: int | None,
    seed: int,
    contrast: bool,
    as_json: bool,
    form: Literal["text", "md"],
    **typed: Any,
) -> int:
    """Run adversarial agents that try to pass tasks without solving them.

    \b
    agentbench tasks attack --suite custom-dev --sandbox docker --sample 5

    Each agent is run and scored like any other, and receives the paths of the hidden tests. A task that an adversary
    passes is forgeable. A task is robust if every adversary runs without passing, and the controls end as expected:
    scripted passes, idle fails. Exit code: 1 unless every task is robust.
    """
    variant = variant_for_tasks(app, typed, "attack")
    settings = variant.settings.run
    tasks = selected_tasks(settings, task_globs, dates)
    agents = [*controls(app.registry), *adversaries(app.registry, adversary_globs)]
    pairs = sampled_pairs(tasks, agents, sample, seed) if sample else every_pair(tasks, agents)
    scorers = [variant.scorer, *([_plain_scorer(app.registry, variant.scorer)] if contrast else [])]
    progress = _Progress(len(pairs))
    trials = run_trials(pairs, variant, scorers, progress, workers=settings.workers, tried=progress.tried)
    findings = {scorer.name: by_task([t for t in trials if t.scorer is scorer]) for scorer in scorers}
    judged = findings[variant.scorer.name]
    if as_json:
        print_json(plain(findings, suite=settings.suite, sandbox=variant.sandbox.name, sample=sample, seed=seed))
    elif form == "md":
        say(table_of_agents(findings, markdown=True))
    else:
        _print(findings)
    return 0 if all(result.verdict == "robust" for result in judged) else 1


def _plain_scorer(registry: Registry, scorer: ConfiguredComponent) -> ConfiguredComponent:
    """The scorer to compare with. Raises InputError if it is already the configured scorer."""
    if scorer.name == _PLAIN:
        raise InputError(f"--contrast requires a scorer other than {_PLAIN}", remedy="Remove --contrast.")
    component = registry.find("scorer", _PLAIN)
    assert component.options is not None
    return ConfiguredComponent(component=component, options=component.options())


class _Progress(RunObserver):
    """Prints one line per pair of task and agent."""

    def __init__(self, trials: int) -> None:
        self._trials = trials
        self._finished = 0
        self._lock = threading.Lock()

    def tried(self, trials: Sequence[Trial]) -> None:
        """Print one line with the result of each scorer."""
        first = trials[0]
        ended = ", ".join(f"{t.scorer.name}: {t.ended}" if len(trials) > 1 else t.ended for t in trials)
        untried = [trial for trial in trials if trial.ended in (TrialOutcome.SKIPPED, TrialOutcome.BROKEN)]
        message = untried[0].explanation if untried else ""
        with self._lock:
            self._finished += 1
            progress = f"[{self._finished}/{self._trials}]"
            name = f"{first.task.spec.id}  {first.agent.name}"
            say(
                f"{progress} {name}  {ended}  {trials[-1].duration_sec:.1f} s  {shortened(message, 200)}".rstrip(),
                err=True,
            )

    def note(self, message: str) -> None:
        """Print a note on one line."""
        say(f"note: {message}", err=True)


def _print(findings: dict[str, Sequence[TaskAttack]]) -> None:
    mode, judged = next(iter(findings.items()))
    heads = ("TASK", "VERDICT", "ADVERSARIES", "PASSED", "SKIPPED", "BROKEN", "SECONDS")
    print_table(heads, [_row(result) for result in judged])
    for result in judged:
        for problem in result.problems:
            say(f"\n{result.task.spec.id}: {problem.reason.strip()}")
            if problem.trial.printed:
                say(textwrap.indent(problem.trial.printed, "  | "))
            say(f"  {problem.remedy}")
    if len(findings) > 1:
        say()
        say(table_of_agents(findings, markdown=False))
    holding = sum(result.verdict == "robust" for result in judged)
    say(f"\n{holding} of {quantity(len(judged), 'task')} robust with the `{mode}` scorer")


def _row(attack: TaskAttack) -> tuple[str, ...]:
    tried = sum(not trial.control for trial in attack.trials)
    numbers = (
        tried,
        *(attack.ended(ended) for ended in (TrialOutcome.PASSED, TrialOutcome.SKIPPED, TrialOutcome.BROKEN)),
    )
    return attack.task.spec.id, attack.verdict, *map(str, numbers), f"{attack.duration_sec:.1f}"
