"""The only module that uses httpx: JSON from an OpenAI-compatible server, and completions."""

from __future__ import annotations

import functools
import os
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from typing import Any

import httpx

from agentbench_core import AttemptStop, Deadline, DeadlineExceeded, UnavailableError
from agentbench_openrouter.addresses import checked, is_loopback
from agentbench_openrouter.answers import Response
from agentbench_openrouter.exchange import ExchangeError, Line, under
from agentbench_openrouter.key import Key
from agentbench_openrouter.pages import Pages, SettingError
from agentbench_openrouter.watchdog import AbandonedError, Watchdog, Watched

MAX_BODY_BYTES = 32 << 20
"""Maximum size of a response; OpenRouter's list of models is about 1 MB."""

_KEEP_ALIVE_SEC = 15.0
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_TLS_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_KEPT_HEADERS = frozenset(
    ("content-type", "location", "retry-after", "retry-after-ms", "x-generation-id", "x-ratelimit-reset")
)


class _Sign(httpx.Auth):
    """Adds the key to a request at the last moment, so that no variable contains it."""

    def __init__(self, key: Key | None) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._key is not None:
            request.headers["authorization"] = self._key.header()
        yield request


class _Lane:
    """One persistent connection, used by one exchange at a time."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.line = Line()
        self.used_at: float | None = None
        """Time of the last exchange; ``None`` if there is no open connection."""
        self.warm = False
        """Whether the current exchange uses an existing connection."""
        self.sent = self.answered = False
        """In the current exchange: whether sending has begun, and whether the response headers have arrived."""
        self._watched: Watched | None = None

    def begin(self, watched: Watched) -> None:
        self._watched = watched
        self.warm = self.used_at is not None
        self.sent = self.answered = False

    @property
    def usable(self) -> bool:
        """Whether there is a connection that seems to be open at both ends."""
        return self.used_at is not None and time.monotonic() - self.used_at < _KEEP_ALIVE_SEC and self.line.silent

    def watch(self, name: str, info: Mapping[str, Any]) -> None:
        """The trace callback of httpx for an exchange."""
        if name == "http11.send_request_headers.started":
            if self._watched is None or self._watched.over:  # connected too late: the caller has given up
                raise ExchangeError("connect", "connection timed out")
            self.sent = info["request"].method != b"CONNECT"  # CONNECT goes to the proxy, not to the server
        elif name == "http11.receive_response_headers.complete":
            self.answered = self.sent
        elif name.endswith("connect_tcp.started"):
            if self.warm:  # httpx has found it closed, and would reconnect without a timeout
                raise ExchangeError("cold", "the idle connection was closed")
        else:
            self.line.watch(name, info)


class Client:
    """A client of one server. Thread-safe."""

    def __init__(
        self, base_url: str, *, key: Key | None, key_env: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Create a client for a base URL such as ``https://openrouter.ai/api/v1``.

        Args:
            base_url: http or https, without user name and password.
            key: sent with every request; ``None`` for no key.
            key_env: the variable to name in the error if the server requires a key.
            headers: additional headers for every request.

        Raises:
            InputError: ``base_url`` is invalid.
        """
        self.base_url = checked(base_url)
        self._key = key
        self.pages = Pages(base_url=self.base_url, key=key, key_env=key_env)
        self._headers = {"accept": "application/json", "user-agent": "agentbench-openrouter", **(headers or {})}
        self._sign = _Sign(key)
        self._lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_Lane] = []
        self._alone = is_loopback(self.base_url)
        """Whether proxies are bypassed: they cannot reach a server on this machine."""
        self._watchdog = Watchdog()

    def __repr__(self) -> str:
        return f"Client({self.base_url!r}, key={self._key!r})"

    def get_json(self, path: str, deadline: Deadline) -> Any:
        """The JSON of ``GET base_url/path``, read completely before the deadline.

        Raises:
            AttemptStop: the deadline has passed (DeadlineExceeded), or was ended.
            MissingEndpointError: the server has no such endpoint.
            UnavailableError: the server is unreachable, rejected the key, or returned an error (including inside an
                HTTP 200) or invalid JSON.
        """
        line = Line()
        problem: AttemptStop | UnavailableError
        try:
            answer = under(deadline, line, lambda: self._exchange(path, deadline, line))
        except httpx.TimeoutException:
            problem = DeadlineExceeded(f"{self.base_url} did not respond in time")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = UnavailableError(
                f"cannot reach {self.base_url}: {self.pages.shown(str(error)) or type(error).__name__}",
                remedy="Check the base URL, the network and HTTPS_PROXY.",
            )
        else:
            return self.pages.read(path, answer)
        raise problem  # here and not above: exceptions of httpx contain the request, and with it the key

    def post(self, path: str, body: bytes, *, seconds: float, deadline: Deadline) -> Response:
        """The response of ``POST base_url/path``, read completely; server errors are returned as responses.

        Args:
            path: relative to the base URL.
            body: JSON.
            seconds: time limit for the whole exchange.
            deadline: may end the exchange sooner.

        Raises:
            ExchangeError: no complete and usable response arrived in time.
            SettingError: nothing was sent; no request can succeed.
        """
        end = time.monotonic() + seconds
        lane = self._take()
        try:
            return self._post_on(lane or self._new_lane(), path, body, seconds=seconds, deadline=deadline)
        except ExchangeError as error:
            if error.kind != "cold":
                raise
        remaining = max(end - time.monotonic(), 0.001)
        return self._post_on(self._new_lane(), path, body, seconds=remaining, deadline=deadline)

    def _post_on(self, lane: _Lane, path: str, body: bytes, *, seconds: float, deadline: Deadline) -> Response:
        problem: ExchangeError | None = None
        answer: Response | None = None
        abandoned = False
        with self._watchdog.watching(lane.line, seconds, deadline) as watched:
            lane.begin(watched)
            try:
                if lane.warm:
                    answer = self._post(lane, path, body, seconds)
                else:
                    answer = watched.apart(lambda: self._post(lane, path, body, seconds), abandoned=lane.http.close)
            except AbandonedError as error:
                abandoned, problem = True, self._problem_of(error, lane, watched)
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
                problem = self._problem_of(error, lane, watched)
            except ExchangeError as error:
                problem = error
        if answer is not None:
            self._give_back(lane)
            return answer
        if not abandoned:
            lane.http.close()
        if problem is None or self._watchdog.closed:
            problem = ExchangeError("closed", "this provider was closed")
        if problem.kind == "stale":
            self._drop_idle()  # the server has probably closed them as well
        raise problem  # as in get_json

    def close(self) -> None:
        """End all exchanges, and close all connections. Idempotent."""
        self._watchdog.close()
        self._drop_idle()

    def _new_lane(self) -> _Lane:
        return _Lane(self._connection(None))

    def _take(self) -> _Lane | None:
        """The most recently used lane with an open connection, if any; closed connections are dropped."""
        taken: _Lane | None = None
        ended: list[_Lane] = []
        with self._lock:
            if self._idle and not self._idle[0].usable:
                ended.append(self._idle.pop(0))
            while self._idle and taken is None:
                lane = self._idle.pop()
                if lane.usable:
                    taken = lane
                else:
                    ended.append(lane)
        for lane in ended:
            lane.http.close()
        return taken

    def _give_back(self, lane: _Lane) -> None:
        with self._lock:
            if not self._watchdog.closed and lane.used_at is not None:
                self._idle.append(lane)
                return
        lane.http.close()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for lane in idle:
            lane.http.close()

    def _connection(self, seconds: float | None) -> httpx.Client:
        variables: tuple[str, ...] = _TLS_VARIABLES
        reason = ""
        try:
            with self._lock:
                if self._tls is None:  # reads all certificates, so only once
                    self._tls = httpx.create_ssl_context(trust_env=not self._alone)
            variables = _PROXY_VARIABLES
            return httpx.Client(
                auth=self._sign,
                headers=self._headers,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEEP_ALIVE_SEC),
                timeout=seconds,
                verify=self._tls,
                trust_env=not self._alone,
            )
        except ImportError as error:
            reason = f": {error}"
        except (OSError, ValueError, httpx.InvalidURL):
            pass  # these may contain the value, and proxy URLs may contain passwords
        named = [name for name in (*variables, *map(str.lower, variables)) if os.environ.get(name)]
        where = " and ".join(named) or "the environment"
        raise SettingError(
            f"cannot send requests to {self.base_url} with the settings in {where}{reason}",
            remedy="Correct or unset them.",
        )

    def _post(self, lane: _Lane, path: str, body: bytes, seconds: float) -> Response:
        read = bytearray()
        with lane.http.stream(
            "POST",
            _url(f"{self.base_url}/{path}"),
            content=body,
            headers={"content-type": "application/json"},
            timeout=seconds,
            extensions={"trace": lane.watch},
        ) as response:
            for chunk in response.iter_bytes():
                read += chunk
                if len(read) > MAX_BODY_BYTES:
                    raise ExchangeError("too_long", f"the response is longer than {MAX_BODY_BYTES >> 20} MiB")
        ends = response.headers.get("connection", "").lower() == "close"
        lane.used_at = None if ends else time.monotonic()
        return _response(response, bytes(read))

    def _problem_of(self, error: Exception, lane: _Lane, watched: Watched) -> ExchangeError:
        message = self.pages.shown(str(error)) or type(error).__name__
        if watched.cut or isinstance(error, httpx.TimeoutException):
            if lane.sent:
                return ExchangeError("timeout", "response timed out")
            return ExchangeError("connect", "connection timed out")
        if not lane.sent:
            return ExchangeError("connect", f"cannot reach {self.base_url}: {message}")
        if isinstance(error, (httpx.DecodingError, httpx.InvalidURL, ValueError)):
            return ExchangeError("odd", message)
        return ExchangeError("stale" if lane.warm and not lane.answered else "broken", message)

    def _exchange(self, path: str, deadline: Deadline, line: Line) -> Response:
        body = bytearray()
        with (
            self._connection(max(deadline.remaining(), 0.001)) as http,
            http.stream("GET", f"{self.base_url}/{path}", extensions={"trace": line.watch}) as response,
        ):
            for chunk in response.iter_bytes():
                deadline.check()
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise UnavailableError(f"{self.base_url}/{path} returned more than {MAX_BODY_BYTES >> 20} MiB")
            return _response(response, bytes(body))


@functools.lru_cache(maxsize=64)
def _url(text: str) -> httpx.URL:
    return httpx.URL(text)


def _response(response: httpx.Response, body: bytes) -> Response:
    headers = {name: value for name, value in response.headers.items() if name in _KEPT_HEADERS}
    return Response(status=response.status_code, body=body, headers=headers)
