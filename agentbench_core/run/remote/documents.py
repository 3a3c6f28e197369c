"""The messages between a worker and the process that writes the run (the coordinator): JSON documents, read strictly.

A worker makes *calls*: a method, one document, and one or more documents in answer. The transport is not part of this
package; see :class:`agentbench_core.RemoteWork`. The methods:

==========  ===========================================  ==========================================================
``hello``   :class:`Hello`                               :class:`Welcome`, or ``{"refused": why}``
``take``    :class:`Take`                                :class:`Order`, ``{"wait": true}`` or ``{"ended": true}``
``run``     ``{worker, digest}``                         :class:`RunDocument` of an order
``task``    ``{worker, digest}``                         :class:`TaskDocument` of an order
``source``  ``{worker, digest}``                         ``{"commit": id}``, ``{"data": base64}`` ...: a git pack
``beat``    ``{worker, leases}``                         ``{"lost": [lease, ...], "stop": why}``
``bye``     ``{worker}``                                 ``{}``: the worker has ended
``send``    :class:`Message`                             ``{}``, ``{"lost": true}`` or ``{"refused": why}``
``model``   :class:`ModelCall`                           :class:`Answer` ..., the last one with a result or an error
``finish``  :class:`Finish`                              ``{}`` or ``{"lost": true}``
==========  ===========================================  ==========================================================

Every call may be repeated after a broken connection; repeating one has no effect.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError
from agentbench_core.run.attempt.record import Conclusion
from agentbench_core.values.messages import Completion, ModelFacts, Request, ToolCall
from agentbench_core.values.record import HarnessInfo, ModelInfo, PluginEntry, Setting

PROTOCOL = 1
"""Version of these documents. Both sides must have the same one."""

ALIVE_SEC = 5.0
"""Maximum seconds between two documents of a slow answer, so that a broken connection is noticed."""

MOST_LEVELS = 100
"""Maximum nesting of a document, so that recursive functions do not run out of stack."""

MOST_CALLS = 64
"""Maximum number of concurrent model calls of one attempt; on a worker, additional calls wait."""

PART_BYTES = 1 << 20
"""Maximum bytes of data in one document; larger files are split."""

_PLAIN = frozenset({str, int, float, bool, type(None)})  # types of values that have no parts

T = TypeVar("T")
Document = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Hello:
    """A worker introduces itself."""

    protocol: int
    name: str
    """Name of the worker, such as its host and process."""
    places: int
    """Number of attempts that it runs concurrently."""
    harness: HarnessInfo
    plugins: tuple[PluginEntry, ...]
    python: str
    platform: str
    nonce: str
    """Random text chosen by the worker, so that a repeated call gets the same answer."""


@attrs.frozen(kw_only=True)
class Welcome:
    """A worker is accepted."""

    worker: str
    """The secret that its further calls contain."""
    name: str
    """Its name in this run."""
    beat_sec: float
    """Seconds between two calls of ``beat``."""


@attrs.frozen(kw_only=True)
class Take:
    """A worker requests an attempt."""

    worker: str
    number: int
    """Number of the request, from 1. A repeated request gets the same attempt."""


@attrs.frozen(kw_only=True)
class Order:
    """An attempt to run, lent to a worker until it is finished or lost."""

    lease: int
    token: str
    run: str
    """Digest of the facts of its run."""
    task: str
    """Digest of the facts of its task."""
    attempt_id: str
    repeat: int
    supersedes: str | None
    flaky: str


@attrs.frozen(kw_only=True)
class RunDocument:
    """The facts that the attempts of a run share."""

    run_id: str
    variant: str
    variant_digest: str
    config: Mapping[str, Setting]
    """Every setting of the variant; secrets are redacted."""
    agents: tuple[str, ...]
    programs: Mapping[str, Mapping[str, str]]
    model: ModelInfo | None
    model_facts: ModelFacts | None
    harness: HarnessInfo
    plugins: tuple[PluginEntry, ...]
    """The plugins that the variant uses."""


@attrs.frozen(kw_only=True)
class HiddenTest:
    """A hidden test file; ``data`` is base64."""

    path: str
    data: str
    executable: bool


@attrs.frozen(kw_only=True)
class TaskDocument:
    """A task, without its source."""

    name: str
    """Name of its directory."""
    digest: str
    text: str
    """Text of ``task.yaml``."""
    hidden: tuple[HiddenTest, ...]
    script: tuple[ToolCall, ...]


@attrs.frozen(kw_only=True)
class Message:
    """Everything new in an attempt since the last message: entries in order, each with one of these keys.

    ``event`` (an event with its ``type``), ``phase`` (a name), ``file`` or ``append`` (a name, with ``data`` in base64,
    ``executable``, and ``more`` if further parts follow), ``environment`` (``digest`` and ``facts``).
    """

    lease: int
    token: str
    number: int
    """Number of the message in the attempt, from 1."""
    entries: tuple[Mapping[str, Any], ...]


@attrs.frozen(kw_only=True)
class Share:
    """The limits of a sub-agent's budget, or of the attempt's budget (without limits, since they are known)."""

    id: int
    max_tokens: int | None = None
    max_cost_usd: float | None = None


@attrs.frozen(kw_only=True)
class NativeRequest:
    """A request of a program's own client, as the agent on the worker forwards it; ``body`` is base64."""

    path: str
    headers: Mapping[str, str]
    body: str


@attrs.frozen(kw_only=True)
class ModelCall:
    """A model call of an agent."""

    lease: int
    token: str
    id: int
    """Number of the call in the attempt, from 1. A repeated call gets the same answer."""
    after: int
    """Number of the last message that must have arrived before."""
    agent: str
    budgets: tuple[Share, ...]
    """The agent's budget and its parents; the last one is the attempt's budget."""
    remaining_sec: float
    """The remaining time of the attempt."""
    own_sec: float | None
    """The agent's own deadline for this call; ``None`` if it has none."""
    request: Request | None = None
    """``None`` for a native request, which the other side parses itself."""
    like: int = 0
    """Id of an earlier call of the same agent. The first messages of both requests are the same, and are left out of
    ``request``. 0 if nothing is left out."""
    left_out: int = 0
    """Number of messages that are left out."""
    native: NativeRequest | None = None


@attrs.frozen(kw_only=True)
class Spent:
    """The used part of a budget."""

    tokens: int
    cost_usd: float


@attrs.frozen(kw_only=True)
class Failure:
    """The error that a model call raises."""

    kind: str
    """``interrupted``, ``deadline``, ``budget``, ``llm`` or ``input``."""
    message: str
    ends_attempt: bool
    what: str = ""
    """The resource of the budget that is used up."""
    budget: int = 0
    """The budget of the call that is used up."""
    stops_run: bool = False


@attrs.frozen(kw_only=True)
class Answer:
    """A part of the answer to a model call; each has one of these fields. ``completion`` and ``failure`` end it."""

    extended_sec: float | None = None
    """Total seconds by which waiting for the provider has extended the attempt so far; sent during long waits."""
    number: int = 0
    """Number of this part of a native response, from 1; a repeated call gets them all again."""
    status: int | None = None
    """The native response begins, with ``headers``."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    data: str | None = None
    """The next bytes of the native response, in base64."""
    unknown: bool = False
    """The call was not made, since the messages that it leaves out are no longer known. Nothing follows."""
    completion: Completion | None = None
    failure: Failure | None = None
    spent: tuple[Spent, ...] = ()
    """The used part of each budget of the call at its end."""
    calls: int = 0
    """Number of model calls of the attempt so far."""

    @property
    def is_last(self) -> bool:
        """Whether no further part follows."""
        return self.completion is not None or self.failure is not None


@attrs.frozen(kw_only=True)
class Finish:
    """An attempt has ended."""

    lease: int
    token: str
    after: int
    """Number of its last message."""
    conclusion: Conclusion | None
    """``None`` if the worker could not run it, because of ``problem``."""
    problem: str = ""


def check_shape(document: object) -> None:
    """Raise InputError if something that was received is not a mapping, or is nested too deeply."""
    if not isinstance(document, Mapping):
        raise InputError("a document must be a mapping")
    level: list[object] = [document]
    for _ in range(1, MOST_LEVELS):  # the last level contains only plain values
        level = [part for each in level for part in _parts(each) if type(part) not in _PLAIN]
        if not level:
            return
    raise InputError(f"a document may have at most {MOST_LEVELS} levels")


def _parts(value: object) -> Iterable[object]:
    """The values in a mapping or a list."""
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def read(document: Document, cls: type[T]) -> T:
    """A document as a value. Raises InputError if it is invalid."""
    return load(document, cls, where=f"a document of type {cls.__name__}")


def written(value: object) -> dict[str, Any]:
    """A value as a document."""
    plain: dict[str, Any] = dump(value)
    return plain


def encoded(data: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(data).decode("ascii")


def decoded(text: object) -> bytes:
    """The bytes of base64. Raises InputError if it is invalid."""
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        raise InputError("invalid base64") from None


def parts(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Data in parts of at most ``PART_BYTES``, each with a flag for whether more follow; one empty part for no data."""
    for start in range(0, max(len(data), 1), PART_BYTES):
        yield data[start : start + PART_BYTES], start + PART_BYTES < len(data)
