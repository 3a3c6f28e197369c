"""All bundled adversarial agents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentbench_core import NoOptions
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
from agentbench_integrity.adversaries.script import Script

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import Agent, Register

_MODULES = (
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
    """Register all adversarial agents."""
    for module in _MODULES:
        for script in module.SCRIPTS:
            make = partial(_make, script)
            register(script.name, make, NoOptions, summary=script.summary, capabilities={"adversary"})


def _make(script: Script, options: NoOptions) -> Agent:
    from agentbench_integrity.adversaries.agent import ScriptedAdversary

    return ScriptedAdversary(script)
