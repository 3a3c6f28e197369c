"""One commit: from its environment to a validated task, or the reason why it does not become one."""

from __future__ import annotations

import datetime
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version as distribution_version
from pathlib import Path

import attrs

from agentbench_core import (
    AgentBenchError,
    Deadline,
    Interrupted,
    SetupError,
    UnavailableError,
    name_some,
    quantity,
)
from agentbench_core.harness import (
    RunStoppedError,
    Task,
    WarningLog,
    version_from_tags,
)
from agentbench_tasks.mining.acceptance import attacked, checked, count_proposals, is_weak, unsteady_tests
from agentbench_tasks.mining.commit_tree import CommitTree
from agentbench_tasks.mining.dependencies.pytest_settings import overrides
from agentbench_tasks.mining.description import describe_commit, instruction
from agentbench_tasks.mining.environments import Chosen
from agentbench_tasks.mining.ledger import Entry
from agentbench_tasks.mining.new_names import new_names
from agentbench_tasks.mining.pins import classify
from agentbench_tasks.mining.splitting import PROTECTED, Split, split
from agentbench_tasks.mining.task_files import (
    TaskText,
    install_task,
    portable_url,
    remove_staged,
    rewrite_task,
    write_task,
)
from agentbench_tasks.mining.trials import Outcomes, Trials, sample, test_command
from agentbench_tasks.mining.values import OF_TEXT, Code, Commit, Description, RejectedError
from agentbench_tasks.mining.workshop import Workshop

_ENVIRONMENTAL = frozenset({Code.ENVIRONMENT_FAILED, Code.NO_TESTS_FOUND})
"""Results of tests that another environment may change."""
_MOST_FAILING = 2000
"""Maximum number of fail-to-pass tests that a task lists."""
_MOST_PASSING = 500
"""Maximum number of pass-to-pass tests that a task lists."""
_GIT_SECONDS = 600.0
_FRAMES = 8
"""Parts of a traceback that the ledger contains, for `--explain`."""


@attrs.define(kw_only=True)
class Candidate:
    """The work on one commit."""

    shop: Workshop
    commit: Commit
    task_id: str = ""  #: the id to use; empty to choose one
    text: str = ""  #: the description to use; empty to find one
    hidden_paths: Sequence[str] | None = None  #: the files to hide; ``None`` to choose them by their role
    watch: Callable[[str], None] = lambda step: None  #: receives each step
    steps: list[str] = attrs.field(factory=list)
    labels: list[str] = attrs.field(factory=list)
    outcomes: Outcomes | None = None
    proposals: int = 0

    def work(self) -> Entry:
        """Do everything, and return the result. Only an interrupt and missing requirements are raised."""
        started = time.monotonic()
        staged = self.shop.staging / self.commit.id
        code, reason, task_id = "", "", ""
        try:
            remove_staged(staged)
            task_id, reason = self._make(staged)
        except RejectedError as error:
            code, reason = error.rejection.code, error.rejection.reason
        except (Interrupted, UnavailableError, RunStoppedError):
            raise
        except AgentBenchError as error:
            code, reason = Code.INTERNAL, error.message
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one broken candidate must not end the command
            code, reason = Code.INTERNAL, f"{type(error).__name__}: {error}"
            self.steps.append("".join(traceback.format_exception(error)[-_FRAMES:]).rstrip())
        finally:
            remove_staged(staged)
        found = self.outcomes
        return Entry(
            commit=self.commit.id,
            date=self.commit.date,
            subject=self.commit.subject[:200],
            task=task_id,
            code=code,
            reason=" ".join(reason.split())[:500],
            labels=tuple(self.labels),
            steps=tuple(self.steps),
            fail_to_pass=len(found.fail_to_pass) if found else 0,
            pass_to_pass=len(found.pass_to_pass) if found else 0,
            proposals=self.proposals,
            seconds=round(time.monotonic() - started, 1),
            settings=self.shop.texts_digest if code in OF_TEXT else self.shop.settings_digest,
            at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )

    def _step(self, message: str) -> None:
        self.steps.append(message)
        self.watch(message)

    def _make(self, staged: Path) -> tuple[str, str]:
        """The id of the new task, and one sentence about it."""
        shop, commit = self.shop, self.commit
        deadline = shop.session.stop.within(shop.settings.setup_timeout_sec)
        tree = CommitTree(shop.history.git, commit.parent, deadline)
        parts = split(shop.history.git, commit, deadline, hidden_paths=self.hidden_paths)
        self._step(f"hidden: {name_some(list(parts.hidden))}; reference patch: {name_some(list(parts.changed))}")
        described = self._described(parts)
        self._step(f"description: {described.source}")
        command = shop.settings.test_command or test_command(parts, frozenset(tree.paths()), overrides(tree))
        task_id = self.task_id or shop.name_task(described.text.strip().partition("\n")[0])
        task, text, trials, outcomes = self._set_up(staged, task_id, parts, command, tree, deadline)
        try:
            self.outcomes = outcomes
            self._step(
                f"tests: {len(outcomes.fail_to_pass)} fail-to-pass (fail before the fix, pass after it), "
                f"{len(outcomes.pass_to_pass)} pass-to-pass (pass before and after it)"
            )
            names = self._new_names(parts, tree, described.text)
            public = trials.public_command(outcomes)
            self._step(f"public command: {public.command}")
            final = attrs.evolve(
                text,
                description=instruction(
                    described, public_command=public.command, passes=public.passes, new_names=names
                ),
                failing_command=public.command,
                passing_command=outcomes.command,
                fail_to_pass=() if shop.settings.test_command else sample(outcomes.fail_to_pass, _MOST_FAILING),
                pass_to_pass=() if shop.settings.test_command else sample(outcomes.pass_to_pass, _MOST_PASSING),
                writable=outcomes.writable,
                provenance=self._provenance(text, described, outcomes),
            )
            task = rewrite_task(staged, task_id, shop.settings.suite, final)
            report = checked(shop, task)
            if unsteady := unsteady_tests(report):
                self._step(f"tests left out because they do not always pass: {name_some(unsteady)}")
                final = attrs.evolve(final, pass_to_pass=[t for t in final.pass_to_pass if t not in unsteady])
                task = rewrite_task(staged, task_id, shop.settings.suite, final)
                report = checked(shop, task)
            if is_weak(report, self._step):
                self.labels.append("weak_verdict")
                self.proposals = count_proposals(shop, task, outcomes.fail_to_pass, self._step)
            else:
                attacked(shop, task, self._step)
            url = portable_url(text.url, shop.root / task_id)
            final = attrs.evolve(final, url=url, provenance=self._provenance(text, described, outcomes))
            rewrite_task(staged, task_id, shop.settings.suite, final)
            install_task(staged, shop.root, task_id)
            count = len(report.checks)
            return task_id, f"valid in {count} of {quantity(count, 'check')}"
        finally:
            shop.session.shared.forget(task)

    def _described(self, parts: Split) -> Description:
        if self.text:
            return Description(text=self.text, source="author")
        hidden = {path: file.data for path, file in parts.hidden.items()}
        return describe_commit(self.commit, self.shop.discussions, patch=parts.patch, hidden=hidden)

    def _set_up(
        self, staged: Path, task_id: str, parts: Split, command: str, tree: CommitTree, deadline: Deadline
    ) -> tuple[Task, TaskText, Trials, Outcomes]:
        """Write the task with the first setup in which its tests can run, and run them without and with the fix."""
        shop = self.shop
        failure: RejectedError | None = None
        for chosen in self._setups(tree, deadline):
            text = self._text(chosen, command, tree)
            remove_staged(staged)
            task = write_task(staged, task_id, shop.settings.suite, text, parts)
            log = WarningLog(shop.session.observer.note)
            try:
                prepared = shop.session.shared.environment(task, shop.session.shared.source(task), log)
            except SetupError as error:
                shop.session.shared.forget(task)
                rejection = classify(error.message)
                self._step(f"setup failed: {rejection.reason}")
                failure = failure or RejectedError(rejection.code, rejection.reason)
                continue
            trials = Trials(
                session=shop.session,
                task=task,
                prepared=prepared,
                split=parts,
                public=frozenset(tree.paths()),
                timeout_sec=shop.settings.timeout_sec,
                options=overrides(tree),
                junit=shop.settings.junit,
                custom=bool(shop.settings.test_command),
            )
            try:
                outcomes = trials.compare(command)
            except BaseException as error:
                shop.session.shared.forget(task)
                if not isinstance(error, RejectedError) or error.rejection.code not in _ENVIRONMENTAL:
                    raise
                self._step(f"tests did not run: {error.rejection.reason}")
                failure = failure or error
                continue
            if chosen.neighbor:
                self.labels.append("neighbor_environment")
                self._step(chosen.source)
            return task, text, trials, outcomes
        assert failure is not None, "there must be at least one setup"
        raise failure

    def _setups(self, tree: CommitTree, deadline: Deadline) -> Iterable[Chosen]:
        shop = self.shop
        if shop.settings.setup or shop.settings.test_command:
            python, image = next(iter(shop.settings.images.items()))
            return [Chosen(commands=shop.settings.setup, python=python, image=image, source="commands of the author")]
        version = version_from_tags(shop.history, self.commit.parent, deadline)
        return shop.environments.choose(self.commit, tree, version, self._step)

    def _text(self, chosen: Chosen, command: str, tree: CommitTree) -> TaskText:
        settings = self.shop.settings
        return TaskText(
            url=self.shop.history.url,
            base=self.commit.parent,
            omits_submodules=tree.has_submodules,
            description="to be written",
            tags=("mined",),
            environment={
                "python": chosen.python,
                "timeout_sec": max(900.0, 3 * settings.timeout_sec),
                **({"docker_image": chosen.image} if chosen.image else {}),
            },
            setup=chosen.commands,
            failing_command=command,
            passing_command=command,
            protected_globs=PROTECTED,
            provenance={"recipe": chosen.source},
        )

    def _new_names(self, parts: Split, tree: CommitTree, text: str) -> Sequence[str]:
        """Names that tests require and only the fix introduces, and that do not occur in the description."""
        deadline = self.shop.session.stop.within(_GIT_SECONDS)  # the first one may be over after a long setup
        tree = CommitTree(tree.git, tree.commit, deadline)
        before = {path: data for path in (*parts.hidden, *parts.changed) if (data := tree.read(path)) is not None}
        names = new_names(
            text,
            tests_before={path: before[path] for path in parts.hidden if path in before},
            tests_after={path: file.data for path, file in parts.hidden.items()},
            source_before={path: before[path] for path in parts.changed if path in before},
            source_after={path: file.data for path, file in parts.changed.items() if file is not None},
            in_base=tree.contains_word,
        )
        if names:
            message = f"the tests require names that only the fix introduces: {name_some(names)}"
            self._step(message)
            if self.shop.settings.strict_names:
                raise RejectedError(Code.NEW_NAMES, message)
            self.labels.append("new_names")
        return names

    def _provenance(self, text: TaskText, described: Description, outcomes: Outcomes) -> dict[str, object]:
        commit, settings = self.commit, self.shop.settings
        figures: dict[str, float] = {
            "fail_to_pass": len(outcomes.fail_to_pass),
            "pass_to_pass": len(outcomes.pass_to_pass),
            "checks": settings.times,
        }
        if "weak_verdict" in self.labels:
            figures["proposals"] = self.proposals
        return {
            **({"commit": commit.id} if self.hidden_paths is None else {}),  # otherwise, no repository contains it
            "date": commit.date,
            "author_date": commit.author_date,
            "text": described.source,
            "recipe": text.provenance["recipe"],
            **({"labels": list(self.labels)} if self.labels else {}),
            "figures": figures,
            "tool": f"agentbench-tasks {distribution_version('agentbench-tasks')}",
        }
