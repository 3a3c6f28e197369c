"""Shared by the work on all commits of one command: its settings, the sandbox, and the destination of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from agentbench_core.harness import History, Session, Task, Variant
from agentbench_tasks.mining.discussions import Discussion
from agentbench_tasks.mining.environments import Environments


@attrs.frozen(kw_only=True)
class MiningSettings:
    """Settings that the result of a commit depends on."""

    suite: str  #: name of the suite
    times: int = 3  #: number of validations
    strict_names: bool = False  #: whether to reject commits whose tests require names that only the fix introduces
    test_command: str = ""  #: the project's own test command; empty for pytest
    junit: str = ""  #: the JUnit report that the test command writes
    setup: tuple[str, ...] = ()  #: setup commands instead of the detected ones
    timeout_sec: float = 300.0  #: time limit for one run of the tests
    setup_timeout_sec: float = 1800.0  #: time limit for one setup
    attack_sample: int = 3  #: number of adversarial agents that a task with safe witnesses must resist
    images: Mapping[str, str] = {"3.11": ""}  #: image by Python version; an empty name is the default image


@attrs.frozen(kw_only=True)
class Workshop:
    """Shared by the work on all commits of one command."""

    history: History
    root: Path  #: directory of the suite
    staging: Path
    session: Session
    variant: Variant
    environments: Environments
    settings: MiningSettings
    settings_digest: str
    texts_digest: str  #: of the settings and the discussions
    discussions: Mapping[str, Discussion] = {}
    name_task: Callable[[str], str]  #: an unused task id for a title
    resists: Callable[[Task], str] | None = None
    """Attacks a task, and returns why it is forgeable, or an empty string; ``None`` if attacks are impossible here."""
