"""Parses the response to a GET request as JSON, or raises an error that describes it."""

from __future__ import annotations

import json
from typing import Any

import attrs

from agentbench_core import UnavailableError
from agentbench_openrouter.answers import Response
from agentbench_openrouter.key import Credentials, no_key
from agentbench_openrouter.server_errors import server_error

_SHOWN_OF = 4000
"""Maximum characters of a server's message that are processed; at most 300 are shown."""
_NO_SUCH_ENDPOINT = (404, 405, 501)


class OddAnswerError(UnavailableError):
    """The server responded with something unexpected."""


class SettingError(UnavailableError):
    """A setting in the environment prevents all requests."""


class MissingEndpointError(OddAnswerError):
    """The server has no such endpoint; many servers have only some of OpenRouter's endpoints."""


@attrs.frozen(kw_only=True)
class Pages:
    """Reads the responses of one server."""

    base_url: str
    credentials: Credentials
    key_env: str

    def read(self, path: str, answer: Response) -> Any:
        """The JSON of a response.

        Raises MissingEndpointError, OddAnswerError, or UnavailableError if the key is missing or rejected.
        """
        try:
            data = json.loads(answer.body)
        except (ValueError, RecursionError):
            data, is_json = None, False
        else:
            is_json = True
        error = data.get("error") if isinstance(data, dict) else None
        if answer.status >= 300 or error:
            try:
                message = server_error(error, answer.status, {})
                text, code = message.text, message.code
            except RecursionError:
                text, code = "", None
            raise self._problem(path, answer.status if answer.status >= 400 else code, answer, text)
        if not is_json:
            kind = self.shown(answer.headers.get("content-type", "an unknown content type"))
            start = self.shown(answer.body[: 2 * _SHOWN_OF].decode("utf-8", "replace"))
            raise OddAnswerError(
                f"{self.base_url}/{path} returned {kind} instead of JSON: {start or 'nothing'}",
                remedy="Check the base URL; it usually ends in /v1.",
            )
        return data

    def _problem(self, path: str, status: int | None, answer: Response, message: str) -> UnavailableError:
        where, detail = f"{self.base_url}/{path}", self.shown(message)
        text = f": {detail}" if detail else ""
        if 300 <= answer.status < 400:
            target = self.shown(answer.headers.get("location", ""))
            return OddAnswerError(
                f"{where} redirects to {target or 'an empty location'}", remedy="Use that URL as the base URL."
            )
        if status == 401 and self.credentials.key is None:
            return no_key(self.key_env, f"{self.base_url} requires a key (401{text})")
        if status == 401:
            return UnavailableError(
                f"{self.base_url} rejected the key in {self.key_env} (401{text})",
                remedy=f"Set a valid key: export {self.key_env}=...",
            )
        if status in _NO_SUCH_ENDPOINT:
            return MissingEndpointError(f"{where} does not exist ({status}{text})", remedy="Check the base URL.")
        return OddAnswerError(f"{where} returned an error ({status or 'no code'}{text})", remedy="Try again later.")

    def shown(self, text: str) -> str:
        """A server's text on one line, shortened, without control characters and without secrets."""
        redact = self.credentials.redact
        text = redact(text)[:_SHOWN_OF]  # in this order: part of a key must not be shown either
        text = redact(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
        return text if len(text) <= 300 else text[:297] + "..."
