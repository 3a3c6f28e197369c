"""The one file that knows httpx: JSON from an OpenAI-compatible server."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx

from agentbench_core import Deadline, DeadlineExceeded, InputError, UnavailableError
from agentbench_openrouter.exchange import Line, under
from agentbench_openrouter.key import Key, no_key

MAX_BODY_BYTES = 32 << 20
"""Where reading an answer ends; the list of all models of OpenRouter is about 1 MB."""

_NO_SUCH_ENDPOINT = (404, 405, 501)


class MissingEndpointError(UnavailableError):
    """The server has no such endpoint; many have only part of what OpenRouter has."""


@attrs.frozen(kw_only=True)
class _Answer:
    status: int
    content_type: str
    location: str
    body: bytes


class Client:
    """Talks to one server. Thread-safe; each call has a connection of its own."""

    def __init__(self, base_url: str, *, key: Key | None, key_env: str) -> None:
        """Take a base URL such as ``https://openrouter.ai/api/v1``, and the key if there is one.

        Args:
            base_url: http or https, without user name and password.
            key: sent with every request; ``None`` sends none.
            key_env: the variable to name when the server wants a key.

        Raises:
            InputError: ``base_url`` is no such URL.
        """
        self.base_url = _checked(base_url)
        self._key = key
        self._key_env = key_env

    def __repr__(self) -> str:
        return f"Client({self.base_url!r}, key={self._key!r})"

    def get_json(self, path: str, deadline: Deadline) -> Any:
        """The JSON that ``GET base_url/path`` answers, read completely before the deadline.

        Raises:
            AttemptStop: the deadline is over (DeadlineExceeded), or somebody ended it.
            MissingEndpointError: the server has no such endpoint.
            UnavailableError: unreachable, key refused, an error (also one inside an HTTP 200), or no JSON.
        """
        line = Line()
        try:
            answer = under(deadline, line, lambda: self._exchange(path, deadline, line))
        except httpx.TimeoutException:
            raise DeadlineExceeded(f"{self.base_url} did not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnavailableError(
                f"cannot reach {self.base_url}: {self._shown(str(error)) or type(error).__name__}",
                remedy="Check the base URL, the network and HTTPS_PROXY.",
            ) from None
        return self._read(path, answer)

    def _exchange(self, path: str, deadline: Deadline, line: Line) -> _Answer:
        headers = {"accept": "application/json", "user-agent": "agentbench-openrouter"}
        if self._key is not None:
            headers["authorization"] = self._key.header()
        body = bytearray()
        with (
            httpx.Client(timeout=max(deadline.remaining(), 0.001), headers=headers) as http,
            http.stream("GET", f"{self.base_url}/{path}", extensions={"trace": line.watch}) as response,
        ):
            for chunk in response.iter_bytes():
                deadline.check()
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise UnavailableError(f"{self.base_url}/{path} answers more than {MAX_BODY_BYTES >> 20} MiB")
            return _Answer(
                status=response.status_code,
                content_type=response.headers.get("content-type", "an unnamed type"),
                location=response.headers.get("location", ""),
                body=bytes(body),
            )

    def _read(self, path: str, answer: _Answer) -> Any:
        try:
            data = json.loads(answer.body)
        except (ValueError, RecursionError):
            data, is_json = None, False
        else:
            is_json = True
        error = data.get("error") if isinstance(data, dict) else None
        status = answer.status if answer.status >= 400 else _code_of(error)
        if answer.status >= 300 or error:
            raise self._problem(path, status, answer, _message_of(error))
        if not is_json:
            start = self._shown(answer.body[:200].decode("utf-8", "replace"))
            raise UnavailableError(
                f"{self.base_url}/{path} answers {self._shown(answer.content_type)}, not JSON: {start or 'nothing'}",
                remedy="Check the base URL; it usually ends in /v1.",
            )
        return data

    def _problem(self, path: str, status: int | None, answer: _Answer, message: str) -> UnavailableError:
        where, detail = f"{self.base_url}/{path}", self._shown(message)
        said = f": {detail}" if detail else ""
        if 300 <= answer.status < 400:
            target = self._shown(answer.location)
            return UnavailableError(f"{where} redirects to {target or 'nowhere'}", remedy="Use that as the base URL.")
        if status == 401 and self._key is None:
            return no_key(self._key_env, f"{self.base_url} wants a key (401{said})")
        if status == 401:
            return UnavailableError(
                f"{self.base_url} does not accept the key in {self._key_env} (401{said})",
                remedy=f"Set the right one: export {self._key_env}=...",
            )
        if status in _NO_SUCH_ENDPOINT:
            return MissingEndpointError(f"{where} does not exist ({status}{said})", remedy="Check the base URL.")
        return UnavailableError(f"{where} answers an error ({status or 'no code'}{said})", remedy="Try again later.")

    def _shown(self, text: str) -> str:
        """A server's words on one line: no control characters, not endless, and never the key."""
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        text = text if self._key is None else self._key.redact(text)
        return text if len(text) <= 300 else text[:297] + "..."


def _checked(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if parts.username is not None:
        raise InputError("a base URL must not hold a user name or a password", remedy="Put the key into a variable.")
    if not usable or parts.query or parts.fragment:
        raise InputError(f"{base_url!r} is no base URL", remedy="Give one like https://openrouter.ai/api/v1")
    return base_url.rstrip("/")


def _code_of(error: object) -> int | None:
    """OpenRouter answers 200 once a provider was asked; the status is then in the body, as a number or as text."""
    code = error.get("code", error.get("http_status")) if isinstance(error, dict) else None
    return int(str(code)) if re.fullmatch(r"[1-5][0-9]{2}", str(code)) else None


def _message_of(error: object) -> str:
    if not isinstance(error, dict):
        return str(error or "")
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    message = str(error.get("message") or "")
    return f"{message} {raw}".strip() if raw else message
