"""The models of a run: asked whether they can work before anything is recorded, and closed at its end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

import attrs

from agentbench_core.errors import UnavailableError
from agentbench_core.plugin.llm import LLM, ExpectedCalls
from agentbench_core.run.purse import Purse
from agentbench_core.run.variant import Ready, Variant
from agentbench_core.values.limits import Deadline
from agentbench_core.values.messages import ModelFacts, Request
from agentbench_core.values.record import ModelInfo
from agentbench_core.values.task import digest

_PREFLIGHT_SEC = 60.0


class Halt:
    """Whether a run makes no further attempts, and why. The first reason stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reason = ""

    def because(self, reason: str) -> None:
        """No attempt begins from here on; those that have begun end as they can."""
        with self._lock:
            self.reason = self.reason or reason


@attrs.frozen(kw_only=True)
class RunModel:
    """The model of one variant's run, with the money of that run."""

    llm: LLM
    info: ModelInfo
    facts: ModelFacts
    purse: Purse
    halt: Halt


@attrs.frozen(kw_only=True)
class OpenModel:
    """A provider at work, and what it says of its model."""

    llm: LLM
    info: ModelInfo
    facts: ModelFacts


@contextlib.contextmanager
def open_models(
    variants: Sequence[Variant], workers: int, max_cost_usd: float | None, stop: Deadline
) -> Iterator[Mapping[str, OpenModel]]:
    """Providers and what they say of their models, by variant; equal ones are shared, so that they know of each other.

    Raises InputError and UnavailableError when a model cannot be used so.
    """
    with contextlib.ExitStack() as stack:
        made: dict[str, OpenModel] = {}
        found: dict[str, OpenModel] = {}
        for variant in variants:
            if variant.llm is None or variant.model is None:
                continue
            key = digest([variant.llm.identity(), attrs.asdict(variant.model), [tool.name for tool in variant.tools]])
            if key not in made:
                made[key] = _open(variant, variant.llm, variant.model, workers, max_cost_usd, stop)
                stack.callback(made[key].llm.close)
            _check_prices(variant, made[key], max_cost_usd)
            found[variant.name] = made[key]
        yield found


def _open(
    variant: Variant, ready: Ready, model: ModelInfo, workers: int, max_cost_usd: float | None, stop: Deadline
) -> OpenModel:
    llm: LLM = ready.make()
    limits = [limit for limit in (max_cost_usd, variant.settings.limits.max_cost_usd) if limit is not None]
    expected = ExpectedCalls(
        request=Request(
            messages=(),
            tools=tuple(tool.make().spec for tool in variant.tools),
            model=model.name,
            max_tokens=model.max_tokens,
            temperature=model.temperature,
            top_p=model.top_p,
        ),
        workers=workers,
        max_cost_usd=min(limits, default=None),
        deadline=stop.within(_PREFLIGHT_SEC),
    )
    try:
        facts = llm.preflight(expected)
    except BaseException:
        llm.close()
        raise
    window = facts.context_tokens or variant.settings.model.context_tokens
    return OpenModel(
        llm=llm, info=model, facts=attrs.evolve(facts, context_tokens=window, answer_tokens=model.max_tokens)
    )


def _check_prices(variant: Variant, model: OpenModel, max_cost_usd: float | None) -> None:
    """A limit in dollars means nothing for a model without a price."""
    limited = max_cost_usd is not None or variant.settings.limits.max_cost_usd is not None
    if limited and None in (model.facts.usd_per_million_input, model.facts.usd_per_million_output):
        who = f"model {model.info.name!r} of {model.info.provider!r}"
        raise UnavailableError(
            f"nobody says what {who} costs, so no limit in USD can hold",
            remedy=f"Give its prices (agentbench plugins show {model.info.provider} says how), "
            "or limit tokens: --set limits.max_tokens=N",
        )
