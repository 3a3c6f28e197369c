"""All adversarial agents that the core brings: the scripts of every room."""

from __future__ import annotations

from functools import partial

from agentbench_core import Agent, NoOptions, Register
from agentbench_integrity.adversaries import (
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
from agentbench_integrity.adversaries.script import Script, ScriptedAdversary

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


def register_all(register: Register[Agent]) -> None:
    """Register the whole battery."""
    for room in _ROOMS:
        for script in room.SCRIPTS:
            make = partial(_make, script)
            register(script.name, make, NoOptions, summary=script.summary, capabilities={"adversary"})


def _make(script: Script, options: NoOptions) -> Agent:
    return ScriptedAdversary(script)
