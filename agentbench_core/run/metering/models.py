"""The models of a run, opened before it and closed after it, and the run's budget."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from agentbench_core.errors import Interrupted, PluginError, UnavailableError
from agentbench_core.inputs.config import Settings
from agentbench_core.plugin.llm import LLM, ExpectedCalls
from agentbench_core.plugin.registry import Component
from agentbench_core.run.variant import Variant
from agentbench_core.run.waiting import run_preflight
from agentbench_core.values.limits import CRUMBS, LOOK_EVERY_SEC, Deadline
from agentbench_core.values.messages import ModelFacts, Request, ToolSpec
from agentbench_core.values.record import ModelInfo
from agentbench_core.values.task import digest


class RunStop:
    """Whether a run must not start further attempts, and why. The first reason is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reason = ""

    def request(self, reason: str) -> None:
        """Start no further attempts; running attempts finish normally."""
        with self._lock:
            self.reason = self.reason or reason


@attrs.frozen(kw_only=True)
class OpenModel:
    """An open provider, the model that a variant uses, and the facts reported about it."""

    llm: LLM
    info: ModelInfo
    facts: ModelFacts
    longest_answer: int | None
    """Maximum tokens of a response that the model supports; ``None`` if unknown."""


@attrs.frozen(kw_only=True)
class RunModel(OpenModel):
    """An open model in a run, with the budget of the run."""

    budget: RunBudget
    stop: RunStop


@contextlib.contextmanager
def open_models(
    variants: Sequence[Variant], workers: int, max_cost_usd: float | None, stop: Deadline, note: Callable[[str], None]
) -> Iterator[Mapping[str, OpenModel]]:
    """Models by variant. Variants with equal settings share a provider, which can limit their calls together.

    Raises InputError and UnavailableError if a model cannot be used.
    """
    with contextlib.ExitStack() as stack:
        made: dict[str, tuple[LLM, ModelFacts]] = {}
        results: dict[str, OpenModel] = {}
        for variant in variants:
            if variant.llm is None or variant.model is None:
                continue
            limits = (max_cost_usd, variant.settings.limits.max_cost_usd)
            limit = min((limit for limit in limits if limit is not None), default=None)
            wanted = [
                variant.llm.identity(),
                attrs.asdict(variant.model),
                limit,
                [tool.identity() for tool in variant.tools],
                variant.forwards,
            ]
            key = digest(wanted)
            if key not in made:
                llm: LLM = variant.llm.make()
                stack.callback(_close, llm, variant.llm.name, note)
                component = variant.llm.component
                tools = [tool.make().spec for tool in variant.tools]
                settings = variant.settings
                facts = ask_model(
                    llm, component, variant.model, settings, tools, workers, limit, stop, forwards=variant.forwards
                )
                made[key] = llm, facts
            results[variant.name] = _open_model(variant, variant.model, *made[key])
            check_prices(variant.model, made[key][1], limit)
        yield results


def ask_model(
    llm: LLM,
    component: Component,
    model: ModelInfo,
    settings: Settings,
    tools: Sequence[ToolSpec],
    workers: int,
    limit: float | None,
    stop: Deadline,
    *,
    forwards: bool,
) -> ModelFacts:
    """The facts that a provider reports about a model in its preflight, within the time that the settings allow.

    Raises InputError and UnavailableError if the model cannot be used, and PluginError if the provider fails.
    """
    seconds = settings.run.preflight_sec
    expected = ExpectedCalls(
        request=Request(
            messages=(),
            tools=tuple(tools),
            model=model.name,
            # The default limit of programs is lowered to the model's maximum, so it needs no warning.
            max_tokens=settings.model.max_tokens if forwards else model.max_tokens,
            temperature=model.temperature,
            top_p=model.top_p,
        ),
        workers=workers,
        max_cost_usd=limit,
        deadline=stop.within(seconds),
        forwards=forwards,
    )
    facts: object = run_preflight(component, lambda: llm.preflight(expected), seconds=seconds)
    if not isinstance(facts, ModelFacts):
        raise PluginError(f"llm {model.provider!r} returned {facts!r} from preflight, which is not a ModelFacts")
    return facts


def _open_model(variant: Variant, model: ModelInfo, llm: LLM, facts: ModelFacts) -> OpenModel:
    longest, requested = facts.answer_tokens, model.max_tokens
    known = attrs.evolve(
        facts,
        context_tokens=facts.context_tokens or variant.settings.model.context_tokens,
        answer_tokens=min((n for n in (longest, requested) if n is not None), default=None),
    )
    return OpenModel(llm=llm, info=model, facts=known, longest_answer=longest)


def _close(llm: LLM, name: str, note: Callable[[str], None]) -> None:
    """Close a provider. Results are already on disk, so errors are just shown to the user."""
    try:
        llm.close()
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything; it is noted
        note(f"llm {name!r} failed to close: {type(error).__name__}: {error}")


def check_prices(model: ModelInfo, facts: ModelFacts, limit: float | None) -> None:
    """Raise UnavailableError if there is a limit in dollars and the model has no known price."""
    if limit is not None and None in (facts.usd_per_million_input, facts.usd_per_million_output):
        who = f"model {model.name!r} (provider {model.provider!r})"
        raise UnavailableError(
            f"no pricing is known for {who}, so --max-cost-usd cannot be enforced",
            remedy=f"Set its prices (see agentbench plugins show {model.provider}), "
            "or limit tokens: --set limits.max_tokens=N",
        )


class RunBudgetExceededError(Interrupted):
    """The rest of the run's budget is too small for the next call."""


class RunBudget:
    """The budget of a run in US dollars, never exceeded, since the worst case of each call is reserved beforehand.

    Thread-safe. ``None`` as ``max_usd`` means no limit.
    """

    def __init__(self, max_usd: float | None, spent_usd: float = 0.0) -> None:
        self.max_usd = max_usd
        self.spent_usd = spent_usd
        self._held = 0.0
        self._reservations = 0
        self._changed = threading.Condition()

    def reserve(self, usd: float, waiting: Callable[[float], None]) -> None:
        """Reserve the maximum cost of a call, waiting while other calls may still return part of their reservations.

        Before each wait, calls ``waiting`` with its seconds. Raises RunBudgetExceededError if the rest of the budget is
        too small, and anything that ``waiting`` raises.
        """
        with self._changed:
            while self.max_usd is not None and self.spent_usd + self._held + usd > self.max_usd + CRUMBS:
                if not self._reservations:
                    raise RunBudgetExceededError(
                        f"the run is limited to {self.max_usd:g} USD; {self.spent_usd:.6f} USD has been spent, "
                        f"and the next call may cost {usd:.6f} USD"
                    )
                waiting(LOOK_EVERY_SEC)
                self._changed.wait(LOOK_EVERY_SEC)
            self._held += usd
            self._reservations += 1

    def settle(self, reserved: float, spent: float) -> None:
        """Replace the reservation of a call with its actual cost."""
        with self._changed:
            self._reservations -= 1
            self._held = self._held - reserved if self._reservations else 0.0  # avoids accumulated rounding errors
            self.spent_usd += spent
            self._changed.notify_all()
