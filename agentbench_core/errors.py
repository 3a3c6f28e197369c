"""All exceptions that AgentBench raises.

::

    AgentBenchError                 the problem, its location, and the next step
    ├── InputError                  exit 2: invalid input (a file, a flag, a name)
    │   └── UnknownNameError        nothing is registered under that name
    ├── UnavailableError            exit 3: the environment lacks something (Docker, a key, git)
    ├── RunStoppedError             exit 4: the run ended early; recorded attempts are kept
    ├── SandboxError                infrastructure: the sandbox failed, not the agent; attempt unscored
    ├── SetupError                  infrastructure: the setup of a task failed; attempt unscored
    ├── CalibrationError            a scorer cannot be calibrated on a task, so its verdicts on that task are weak
    ├── LLMError                    infrastructure: rate limit, outage, credentials; attempt unscored
    ├── PluginError                 exit 2: a plugin, or something that it registers, cannot be used
    ├── AttemptStop                 control flow inside an attempt; agents must not catch it
    │   ├── DeadlineExceeded        the time is used up
    │   ├── BudgetExceeded          steps, tokens or money are used up
    │   └── Interrupted             the run was stopped by the user
    └── ToolError                   a tool call fails; becomes `error_type` and `error_message` of its result
        └── PathEscapeError         a path outside the workspace (`path_escape`)

Exit codes of the command: 0 success, 1 a failed check, 2 to 4 as above, 70 an internal error, 130 an interruption.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar


class AgentBenchError(Exception):
    """Base class. ``str(error)`` is the whole message, including the remedy."""

    exit_code: ClassVar[int] = 1  #: exit code of the command

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message  #: the problem
        self.remedy = remedy  #: the next step, or empty
        self.parts: Sequence[AgentBenchError] = ()  #: the errors that this one lists, if it combines several

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class InputError(AgentBenchError):
    """Invalid input, such as a file, a flag or a value. Nothing was changed."""

    exit_code = 2  #: exit code of the command


class UnknownNameError(InputError):
    """Nothing is registered under the given name."""


class UnavailableError(AgentBenchError):
    """This machine or account lacks something that is required."""

    exit_code = 3  #: exit code of the command


class RunStoppedError(AgentBenchError):
    """The run ended before all attempts had run."""

    exit_code = 4  #: exit code of the command


class SandboxError(AgentBenchError):
    """The sandbox failed for a reason outside the agent's control."""

    exit_code = 3  #: exit code of the command


class SetupError(AgentBenchError):
    """The setup of a task failed, so nothing was measured."""

    def __init__(self, message: str, *, remedy: str = "", facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.facts: Mapping[str, str] = dict(facts or {})  #: facts reported despite the failure, such as an image id


class CalibrationError(AgentBenchError):
    """A scorer cannot derive its expectations from the reference solution; it scores without them."""


class LLMError(AgentBenchError):
    """The model provider failed (rate limit, outage, credentials). Never raised for the content of a response."""

    def __init__(self, message: str, *, remedy: str = "", stops_run: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.stops_run = stops_run  #: whether to end the run, since no call can succeed (rejected key, no credit)


class PluginError(AgentBenchError):
    """A plugin, or something that it registers, cannot be used."""

    exit_code = 2  #: exit code of the command


class AttemptStop(AgentBenchError):  # noqa: N818 - control flow, like StopIteration
    """Stops an agent from outside. If an agent catches it, every further call raises it again."""


class DeadlineExceeded(AttemptStop):
    """The time for this operation is used up."""


class BudgetExceeded(AttemptStop):
    """Steps, tokens or money are used up."""

    def __init__(self, message: str, *, budget: object = None, what: str = "") -> None:
        super().__init__(message)
        self.budget = budget  #: the exhausted budget: the agent's own or a parent's
        self.what = what  #: `steps`, `tokens` or `money`


class Interrupted(AttemptStop):
    """The run was stopped from outside."""


class ToolError(AgentBenchError):
    """A tool call failed, and the agent is told why."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type  #: short code shown to the agent, such as `not_found` or `patch_conflict`


class PathEscapeError(ToolError):
    """A path leads outside the workspace, or through a symbolic link."""

    def __init__(self, message: str) -> None:
        super().__init__("path_escape", message)


class Obstacles:
    """Collects all problems that prevent something, so that they are reported together."""

    def __init__(self) -> None:
        self._errors: dict[str, AgentBenchError] = {}  # by their text, since variants share problems

    def __bool__(self) -> bool:
        return bool(self._errors)

    @property
    def errors(self) -> Sequence[AgentBenchError]:
        """The collected errors, without duplicates."""
        return list(self._errors.values())

    def add(self, error: AgentBenchError) -> None:
        """Collect an error, or the errors that it lists."""
        for part in error.parts or (error,):
            self._errors.setdefault(str(part), part)

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Collect an InputError, PluginError, UnavailableError or SandboxError raised in the block."""
        try:
            yield
        except (InputError, PluginError, UnavailableError, SandboxError) as error:
            self.add(error)

    def refuse(self) -> None:
        """Raise the collected errors, each with its remedy; UnavailableError if the machine also lacks something."""
        if not self._errors:
            return
        first, *more = self.errors
        if not more:
            raise first
        lacks = any(error.exit_code == UnavailableError.exit_code for error in self.errors)
        text = "\n".join([f"{len(self._errors)} problems must be fixed first", *map(_indented, self.errors)])
        together = UnavailableError(text) if lacks else InputError(text)
        together.parts = self.errors
        raise together from first


def _indented(error: AgentBenchError) -> str:
    return "- " + str(error).replace("\n", "\n  ")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint `` (did you mean 'x'?)`` for the closest of ``known``, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
