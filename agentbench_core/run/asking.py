"""Ask a component before a run whether it can work here: it may raise anything, end the program, or never answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from agentbench_core.errors import AgentBenchError, InputError, PluginError, UnavailableError
from agentbench_core.plugin.registry import Component
from agentbench_core.run.interrupts import attend
from agentbench_core.values.limits import Deadline

T = TypeVar("T")

_GRACE_SEC = 5.0
"""What keeps to its own deadline says better than we what it waited for."""


def ask(component: Component, question: Callable[[], T], *, seconds: float) -> T:
    """What ``question``, a call of the component's ``preflight``, answers within ``seconds``.

    A thread that never answers is left behind: a thread cannot be killed, and the command ends without it.

    Raises:
        AgentBenchError: what the component raised, if it is one of these.
        PluginError: it raised anything else, or wanted to end the program.
        UnavailableError: it has not answered.
    """
    who = f"{component.kind} {component.name!r}"
    asked = attend(question, f"preflight of {who}", Deadline(seconds), grace=_GRACE_SEC)
    if not asked.done():
        raise UnavailableError(
            f"{who} of {component.source.distribution} was asked whether it can work here, "
            f"and has not answered within {seconds:g} s",
            remedy="Try again, with more time: --set run.preflight_sec=600; or choose another: agentbench plugins list",
        )
    try:
        return asked.result()
    except AgentBenchError:
        raise
    except BaseException as error:
        raise PluginError(
            f"{who} of {component.source.distribution} failed before the run: {type(error).__name__}: {error}",
            remedy=f"See what is wrong with it: agentbench plugins check {component.name}",
        ) from error


class Obstacles:
    """What is in the way of a run, gathered: a person is told of everything at once."""

    def __init__(self) -> None:
        self._errors: list[InputError | UnavailableError] = []

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """An error of these kinds ends the block, and is kept."""
        try:
            yield
        except (InputError, UnavailableError) as error:
            self._errors.append(error)

    def refuse(self) -> None:
        """Raise what was gathered, each with what to do about it; of several kinds UnavailableError."""
        if not self._errors:
            return
        first, *more = self._errors
        if not more:
            raise first
        kind = type(first) if all(type(error) is type(first) for error in more) else UnavailableError
        raise kind("\n".join([f"{len(self._errors)} things are in the way", *map(_indented, self._errors)])) from first


def _indented(error: AgentBenchError) -> str:
    return "- " + str(error).replace("\n", "\n  ")
