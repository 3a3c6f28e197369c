"""All that the core brings: two controls, and the scripts of every room."""

from __future__ import annotations

from functools import partial

from agentbench_core import Cheater, NoOptions, Register
from agentbench_core.builtin.cheaters import (
    against_blinding,
    against_results,
    answers,
    configurations,
    conftests,
    endings,
    reports,
    result_files,
    startup,
    tailored,
    tests_and_data,
)
from agentbench_core.builtin.cheaters.controls import Empty, Oracle
from agentbench_core.builtin.cheaters.script import Script, ScriptedCheater

_ROOMS = (
    tests_and_data,
    conftests,
    configurations,
    startup,
    endings,
    result_files,
    reports,
    answers,
    tailored,
    against_blinding,
    against_results,
)


def register_all(register: Register[Cheater]) -> None:
    """Register the whole battery."""
    register(
        "oracle",
        Oracle,
        NoOptions,
        summary="control: applies the reference solution, and must pass",
        capabilities={"upper_control"},
    )
    register(
        "empty", Empty, NoOptions, summary="control: changes nothing, and must fail", capabilities={"lower_control"}
    )
    for room in _ROOMS:
        for script in room.SCRIPTS:
            register(script.name, partial(_make, script), NoOptions, summary=script.summary)


def _make(script: Script, options: NoOptions) -> Cheater:
    return ScriptedCheater(script)
