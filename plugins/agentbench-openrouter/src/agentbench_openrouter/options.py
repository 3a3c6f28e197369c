"""Options of the llm ``openrouter``; light, because every command imports it."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option

DEFAULT_BASE_URL = "https://openrouter.ai/api/v1"
KEY_ENV_HELP = "variable that holds the key; empty: OPENROUTER_API_KEY for openrouter.ai, none elsewhere"


@attrs.frozen(kw_only=True)
class OpenRouterOptions:
    """What can be chosen about the llm ``openrouter``. The key is no option: ``key_env`` names its variable."""

    base_url: str = option(DEFAULT_BASE_URL, help="any OpenAI-compatible server")
    key_env: str = option("", help=KEY_ENV_HELP)
    dialect: Literal["auto", "openrouter", "openai"] = option(
        "auto", help="whether fields that only OpenRouter knows are sent; auto: to openrouter.ai only"
    )
    max_tokens_field: Literal["auto", "max_completion_tokens", "max_tokens"] = option(
        "auto", help="what the cap of an answer is called; auto: max_completion_tokens for OpenRouter and OpenAI"
    )
    provider_order: tuple[str, ...] = option((), help="providers to try, in this order, such as deepinfra/fp8")
    provider_only: tuple[str, ...] = option((), help="providers that may answer; empty: all")
    provider_ignore: tuple[str, ...] = option((), help="providers that must not answer")
    allow_fallbacks: bool = option(True, help="false: no provider but those of provider_order")
    require_parameters: bool = option(False, help="only providers that heed every parameter of the request")
    quantizations: tuple[str, ...] = option((), help="only these, such as fp8 or bf16; a model may declare none")
    data_collection: Literal["allow", "deny"] | None = option(
        None, help="deny: only providers that do not keep what they are sent"
    )
    provider_sort: Literal["price", "throughput", "latency", "exacto"] | None = option(
        None, help="which provider comes first, where provider_order is empty"
    )
    reasoning_effort: Literal["max", "xhigh", "high", "medium", "low", "minimal", "none"] | None = option(
        None, help="how much a reasoning model thinks; null: its own default"
    )
    timeout_sec: float = option(600.0, help="for one call, with everything that is tried again", minimum=0.001)
    exchange_timeout_sec: float = option(
        300.0, help="for one exchange; long answers of slow models need more", minimum=0.001
    )
    max_exchanges: int = option(
        6, help="requests sent for one call: the first, and what is tried again; 1: nothing is", minimum=1
    )
    usd_per_million_input: float | None = option(
        None, help="price of a million tokens read, for servers that do not say what a call cost", minimum=0
    )
    usd_per_million_output: float | None = option(None, help="price of a million tokens written, likewise", minimum=0)
    attribution: bool = option(True, help="tell OpenRouter that the app is AgentBench")
