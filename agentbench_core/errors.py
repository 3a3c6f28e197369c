"""Everything AgentBench raises on purpose.

::

    AgentBenchError                 what, which one, where, and what to do next
    ├── InputError                  exit 2: bad input: a file, a flag, a name
    │   └── UnknownNameError        nothing is registered under that name
    ├── UnavailableError            exit 3: the environment cannot do it (no Docker, no key, no git)
    ├── RunStoppedError             exit 4: the run ended early; what was recorded is kept
    ├── SandboxError                infrastructure: the sandbox broke, not the agent; attempt unscored
    ├── SetupError                  infrastructure: a task's set-up failed; attempt unscored
    ├── CalibrationError            a scorer cannot calibrate itself on a task; its verdicts there are weak
    ├── LLMError                    infrastructure: rate limit, outage, credentials; attempt unscored
    ├── PluginError                 a plugin cannot be used; names plugin and distribution
    ├── AttemptStop                 control flow inside an attempt; an agent lets it pass
    │   ├── DeadlineExceeded        time is over
    │   ├── BudgetExceeded          steps, tokens or money are used up
    │   └── Interrupted             somebody stopped the run
    └── ToolError                   a tool refuses; becomes `error_type` and `error_message` of its result
        └── PathEscapeError         a path would leave the workspace (`path_escape`)

Exit codes of the command: 0 done, 1 the thing checked did not hold, 2 to 4 as above, 70 a mistake of ours,
130 interrupted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import ClassVar


class AgentBenchError(Exception):
    """Base of the tree. ``str(error)`` is the whole message; ``remedy`` says what to do next, or is empty."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class InputError(AgentBenchError):
    """Bad input: a file, a flag, a value. Nothing was changed."""

    exit_code = 2


class UnknownNameError(InputError):
    """Nothing is known under a name."""


class UnavailableError(AgentBenchError):
    """This machine or account cannot do what was asked."""

    exit_code = 3


class RunStoppedError(AgentBenchError):
    """The run ended before all attempts were made."""

    exit_code = 4


class SandboxError(AgentBenchError):
    """The sandbox broke for a reason that lies outside the agent's reach."""

    exit_code = 3


class SetupError(AgentBenchError):
    """A task's set-up failed, so nothing could be measured.

    ``facts`` is what the sandbox knows of the environment all the same, such as the id of its image.
    """

    def __init__(self, message: str, *, remedy: str = "", facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.facts: Mapping[str, str] = dict(facts or {})


class CalibrationError(AgentBenchError):
    """A scorer cannot find out from the reference solution what to expect; it judges without that."""


class LLMError(AgentBenchError):
    """The model's provider failed (rate limit, outage, credentials); never the model's own answer.

    ``stops_run``: no other call can do better (a key that is refused, no credit), so the run ends.
    """

    def __init__(self, message: str, *, remedy: str = "", stops_run: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.stops_run = stops_run


class PluginError(AgentBenchError):
    """A plugin cannot be used."""

    exit_code = 2


class AttemptStop(AgentBenchError):  # noqa: N818 - control flow, like StopIteration
    """Ends an agent from outside. Agents must not swallow it: every further call raises it again."""


class DeadlineExceeded(AttemptStop):
    """The time for this piece of work is over."""


class BudgetExceeded(AttemptStop):
    """Steps, tokens or money are used up.

    ``budget`` is the budget that had no more, the agent's or its parent's; ``what`` is one of ``steps``, ``tokens`` and
    ``money``.
    """

    def __init__(self, message: str, *, budget: object = None, what: str = "") -> None:
        super().__init__(message)
        self.budget = budget
        self.what = what


class Interrupted(AttemptStop):
    """The run was stopped from outside."""


class ToolError(AgentBenchError):
    """A tool refuses to do what the agent asked for.

    ``error_type`` is the short code that the agent sees, for instance ``not_found`` or ``patch_conflict``.
    """

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class PathEscapeError(ToolError):
    """A path would lead out of the workspace, or through a link."""

    def __init__(self, message: str) -> None:
        super().__init__("path_escape", message)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint `` (did you mean 'x'?)`` for the nearest of ``known``, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
