"""Cheaters of the core do what every cheater must do: the controls, and one of each way to work."""

from __future__ import annotations

from typing import ClassVar, Literal

from agentbench_core import Cheater, NoOptions
from agentbench_core.builtin.cheaters import endings
from agentbench_core.builtin.cheaters.controls import Empty, Oracle
from agentbench_core.builtin.cheaters.script import ScriptedCheater
from agentbench_core.testing import CheaterConformance

SCRIPTS = {script.name: script for script in endings.SCRIPTS}


class TestOracle(CheaterConformance):
    """The upper control."""

    control: ClassVar[Literal["", "upper", "lower"]] = "upper"

    @classmethod
    def make_cheater(cls) -> Cheater:
        return Oracle(NoOptions())


class TestEmpty(CheaterConformance):
    """The lower control."""

    control: ClassVar[Literal["", "upper", "lower"]] = "lower"

    @classmethod
    def make_cheater(cls) -> Cheater:
        return Empty(NoOptions())


class TestExitAtImport(CheaterConformance):
    """A script, as all others are."""

    @classmethod
    def make_cheater(cls) -> Cheater:
        return ScriptedCheater(SCRIPTS["c08-exit-at-import"])
