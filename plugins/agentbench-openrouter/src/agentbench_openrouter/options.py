"""Options of the ``openrouter`` LLM. Every command imports this module, so it must not import heavy modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from agentbench_core import option

DEFAULT_BASE_URL = "https://openrouter.ai/api/v1"
KEY_ENV_HELP = "environment variable with the key; empty: OPENROUTER_API_KEY for openrouter.ai, none elsewhere"


@attrs.frozen(kw_only=True)
class OpenRouterOptions:
    """Options of the ``openrouter`` LLM. The key is not an option: ``key_env`` names its variable."""

    base_url: str = option(DEFAULT_BASE_URL, help="URL of an OpenAI-compatible server")
    key_env: str = option("", help=KEY_ENV_HELP)
    key_header: Literal["auto", "authorization", "x-api-key"] = option(
        "auto", help="header with the key; auto: x-api-key for Anthropic, authorization (Bearer) elsewhere"
    )
    headers: Mapping[str, str] = option(
        {}, help="additional headers for every request; recorded, so do not include secrets"
    )
    secret_header: str = option("", help="name of an additional header with a secret, for example for a gateway")
    secret_header_env: str = option("", help="environment variable with the value of secret_header")
    dialect: Literal["auto", "openrouter", "openai"] = option(
        "auto", help="whether to send fields specific to OpenRouter; auto: only to openrouter.ai"
    )
    max_tokens_field: Literal["auto", "max_completion_tokens", "max_tokens"] = option(
        "auto", help="name of the field for the output limit; auto: max_completion_tokens for OpenRouter and OpenAI"
    )
    provider_order: tuple[str, ...] = option((), help="providers to try, in order, for example deepinfra/fp8")
    provider_only: tuple[str, ...] = option((), help="allowed providers; empty: all")
    provider_ignore: tuple[str, ...] = option((), help="providers to exclude")
    allow_fallbacks: bool = option(True, help="false: only use providers in provider_order")
    require_parameters: bool = option(False, help="only use providers that support every parameter of the request")
    quantizations: tuple[str, ...] = option(
        (), help="allowed quantizations, such as fp8 or bf16; some models do not declare theirs"
    )
    data_collection: Literal["allow", "deny"] | None = option(
        None, help="deny: only use providers that do not store requests"
    )
    provider_sort: Literal["price", "throughput", "latency", "exacto"] | None = option(
        None, help="how to rank providers if provider_order is empty"
    )
    reasoning_effort: Literal["max", "xhigh", "high", "medium", "low", "minimal", "none"] | None = option(
        None, help="reasoning effort; null: the model's default"
    )
    timeout_sec: float = option(600.0, help="time limit for one call, including retries", minimum=0.001)
    exchange_timeout_sec: float = option(
        300.0, help="time limit for one exchange; increase it for long responses from slow models", minimum=0.001
    )
    max_exchanges: int = option(
        6, help="maximum number of requests for one call, including retries; 1: no retries", minimum=1
    )
    usd_per_million_input: float | None = option(
        None, help="price per million input tokens, for servers that do not report the cost of a call", minimum=0
    )
    usd_per_million_output: float | None = option(
        None, help="price per million output tokens, for servers that do not report the cost of a call", minimum=0
    )
    attribution: bool = option(True, help="identify the app to OpenRouter as AgentBench")
