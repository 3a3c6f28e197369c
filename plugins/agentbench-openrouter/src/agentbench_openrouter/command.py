"""``agentbench openrouter ...``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import click

from agentbench_core import Deadline, DeadlineExceeded, UnavailableError, dump
from agentbench_openrouter.key import key_for, no_key
from agentbench_openrouter.options import DEFAULT_BASE_URL, KEY_ENV_HELP

_KEY_FIELDS = ("label", "limit", "limit_remaining", "limit_reset", "usage", "is_free_tier", "expires_at")


def _server_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
        click.option(
            "--timeout", default=30.0, show_default=True, type=click.FloatRange(min=0.1), help="Timeout in seconds."
        ),
        click.option("--key-env", default="", help=f"{KEY_ENV_HELP[0].upper()}{KEY_ENV_HELP[1:]}."),
        click.option(
            "--base-url", default=DEFAULT_BASE_URL, show_default=True, help="URL of an OpenAI-compatible server."
        ),
    ):
        command = option(command)
    return command


@click.group()
def openrouter() -> None:
    """Show the models and your key's limits on OpenRouter or any OpenAI-compatible server."""


@openrouter.command()
@click.argument("pattern", default="")
@_server_options
def models(pattern: str, base_url: str, key_env: str, timeout: float, as_json: bool) -> None:
    """List models: context length in tokens, price in US dollars per million tokens, tool support.

    PATTERN is part of the id or name, or a glob such as 'anthropic/*'. The key is sent if it is set; many servers
    list their models without one.
    """
    from agentbench_openrouter.models import parse_models, select, table

    result = parse_models(_get("models", base_url, key_env, timeout, needs_key=False))
    if pattern:
        result = select(result, pattern)
    if as_json:
        click.echo(json.dumps([dump(model) for model in result], indent=2))
    else:
        click.echo("\n".join(table(result)))


@openrouter.command()
@_server_options
def key(base_url: str, key_env: str, timeout: float, as_json: bool) -> None:
    """Show your key's label, and its limit and remaining amount in US dollars."""
    from agentbench_openrouter.pages import MissingEndpointError

    try:
        answer = _get("key", base_url, key_env, timeout, needs_key=True)
    except MissingEndpointError:
        raise UnavailableError(
            f"{base_url} has no /key endpoint, so the key's limit is unknown",
            remedy="Only OpenRouter is known to have this endpoint. Runs do not need it.",
        ) from None
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict):
        raise UnavailableError(f"unexpected response from {base_url}/key: it does not describe a key")
    if as_json:
        click.echo(json.dumps({name: data.get(name) for name in _KEY_FIELDS}, indent=2))
        return
    for name, value in (
        ("label", data.get("label")),
        ("limit", _usd(data.get("limit"), "none")),
        ("remaining", _usd(data.get("limit_remaining"), "no limit" if data.get("limit") is None else None)),
        ("used", _usd(data.get("usage"), None)),
        ("free tier", {"True": "yes", "False": "no"}.get(str(data.get("is_free_tier")))),
    ):
        click.echo(f"{name:<11}{_plain(value)}")


def _get(path: str, base_url: str, key_env: str, timeout: float, *, needs_key: bool) -> Any:
    from agentbench_openrouter.client import Client

    variable, result = key_for(base_url, key_env, os.environ)
    if result is None and needs_key:
        raise no_key(variable, "an API key is required")
    try:
        return Client(base_url, key=result, key_env=variable).get_json(path, Deadline(timeout))
    except DeadlineExceeded:
        raise UnavailableError(
            f"{base_url} did not respond completely within {timeout:g} s",
            remedy="Try again, or pass a longer --timeout.",
        ) from None


def _usd(value: object, missing: str | None) -> str | None:
    return f"{value} USD" if isinstance(value, (int, float)) and not isinstance(value, bool) else missing


def _plain(value: object) -> str:
    return "unknown" if value is None else "".join(c if c.isprintable() else "?" for c in str(value))
