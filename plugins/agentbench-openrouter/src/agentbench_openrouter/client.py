"""The only module that uses httpx: JSON from a server, completions, and responses that are read while they arrive."""

from __future__ import annotations

import functools
import os
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeVar

import httpx

from agentbench_core import AttemptStop, Deadline, DeadlineExceeded, UnavailableError
from agentbench_openrouter.addresses import checked, is_anthropic, is_loopback
from agentbench_openrouter.answers import Response
from agentbench_openrouter.exchange import ExchangeError, Line, under
from agentbench_openrouter.key import Credentials, Key, KeyHeader
from agentbench_openrouter.pages import Pages, SettingError
from agentbench_openrouter.watchdog import AbandonedError, Watchdog, Watched

T = TypeVar("T")

MAX_BODY_BYTES = 32 << 20
"""Maximum size of a response; OpenRouter's list of models is about 1 MB."""

_KEEP_ALIVE_SEC = 15.0
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_TLS_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_KEPT_HEADERS = frozenset(
    ("content-type", "location", "retry-after", "retry-after-ms", "x-generation-id", "x-ratelimit-reset")
)


_NETWORK_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError)
_ANTHROPIC_VERSION = {"anthropic-version": "2023-06-01"}
"""Anthropic rejects requests without a version."""


class _Sign(httpx.Auth):
    """Adds the key and other secrets to a request at the last moment, so that no variable contains them."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        for name, value in self._credentials.headers(request.url.path):
            request.headers[name] = value
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


class Arriving:
    """A response whose body is still arriving. Used by one thread."""

    def __init__(self, status: int, headers: Mapping[str, str], chunks: Iterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        """With lowercase names."""
        self.chunks = chunks
        """The body without decoding, in pieces as they arrive. Iteration raises ExchangeError if it breaks off."""
        self.complete = False
        """Whether the whole body has been read."""


class Client:
    """A client of one server. Thread-safe."""

    def __init__(
        self,
        base_url: str,
        *,
        key: Key | None,
        key_env: str,
        headers: Mapping[str, str] | None = None,
        key_header: KeyHeader = "auto",
        secret_headers: Mapping[str, Key] | None = None,
    ) -> None:
        """Create a client for a base URL such as ``https://openrouter.ai/api/v1``.

        Args:
            base_url: http or https, without user name and password.
            key: sent with every request; ``None`` for no key.
            key_env: the variable to name in the error if the server requires a key.
            headers: additional headers for every request.
            key_header: the header that contains the key; ``auto``: the one that the server requires.
            secret_headers: further secrets for every request, by the lowercase names of their headers.

        Raises:
            InputError: ``base_url`` is invalid.
        """
        self.base_url = checked(base_url)
        self._key = key
        anthropic = is_anthropic(self.base_url)
        self.credentials = Credentials(
            key=key, key_header=key_header, anthropic=anthropic, further=dict(secret_headers or {})
        )
        self.pages = Pages(base_url=self.base_url, credentials=self.credentials, key_env=key_env)
        self._own_headers = {"user-agent": "agentbench-openrouter", **(headers or {})}
        self._headers = {
            "accept": "application/json",
            **(_ANTHROPIC_VERSION if anthropic else {}),
            **self._own_headers,
        }
        self._sign = _Sign(self.credentials)
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
        return self._on_a_lane(
            seconds, lambda lane, left: self._post_on(lane, path, body, seconds=left, deadline=deadline)
        )

    def _on_a_lane(self, seconds: float, use: Callable[[_Lane, float], T]) -> T:
        """The result of ``use``, called with a connection and the remaining seconds. If an existing connection turns
        out to be closed, ``use`` is called again with a new one."""
        end = time.monotonic() + seconds
        lane = self._take()
        try:
            return use(lane or self._new_lane(), seconds)
        except ExchangeError as error:
            if error.kind != "cold":
                raise
        return use(self._new_lane(), max(end - time.monotonic(), 0.001))

    def stream(
        self,
        path: str,
        body: bytes,
        receive: Callable[[Arriving], T],
        *,
        headers: Mapping[str, str],
        seconds: float,
        most: float,
        deadline: Deadline,
    ) -> T:
        """The result of ``receive``, which reads the response of ``POST base_url/path`` in the calling thread.

        Args:
            path: relative to the base URL.
            body: JSON.
            receive: called once, when the headers of the response have arrived.
            headers: further headers. Headers that this client sets itself are ignored.
            seconds: time limit until the headers arrive, and then for each piece of the body.
            most: time limit for the whole exchange.
            deadline: may end the exchange sooner.

        Raises:
            ExchangeError: as for :meth:`post`; also inside ``receive``.
            SettingError: nothing was sent; no request can succeed.
        """
        extra = {name: value for name, value in headers.items() if name not in self._own_headers}

        def use(lane: _Lane, left: float) -> T:
            limited = min(seconds, left)
            return self._stream_on(lane, path, body, receive, extra, seconds=limited, most=left, deadline=deadline)

        return self._on_a_lane(most, use)

    def _stream_on(
        self,
        lane: _Lane,
        path: str,
        body: bytes,
        receive: Callable[[Arriving], T],
        headers: Mapping[str, str],
        *,
        seconds: float,
        most: float,
        deadline: Deadline,
    ) -> T:
        arriving: Arriving | None = None
        try:
            with self._watchdog.watching(lane.line, seconds, deadline, most=most) as watched:
                response = self._run(lane, watched, lambda: self._open(lane, path, body, headers, seconds))
                received = {name.lower(): value for name, value in response.headers.items()}
                arriving = Arriving(response.status_code, received, iter(()))
                arriving.chunks = self._chunks(arriving, response, lane, watched, seconds)
                return receive(arriving)
        finally:
            if arriving is not None and arriving.complete:
                self._give_back(lane)
            elif arriving is not None:
                lane.http.close()

    def _open(self, lane: _Lane, path: str, body: bytes, headers: Mapping[str, str], seconds: float) -> httpx.Response:
        request = lane.http.build_request(
            "POST",
            _url(f"{self.base_url}/{path}"),
            content=body,
            headers=dict(headers),
            timeout=seconds,
            extensions={"trace": lane.watch},
        )
        return lane.http.send(request, stream=True)

    def _chunks(
        self, arriving: Arriving, response: httpx.Response, lane: _Lane, watched: Watched, seconds: float
    ) -> Iterator[bytes]:
        raw = response.iter_raw()
        while True:
            problem: ExchangeError | None = None
            chunk: bytes | None = None
            watched.renew(seconds)
            try:
                chunk = next(raw, None)
            except _NETWORK_ERRORS as error:
                problem = self._problem_of(error, lane, watched)
            if problem is not None:
                if self._watchdog.closed:
                    problem = ExchangeError("closed", "this provider was closed")
                raise problem  # as in get_json
            if chunk is None:
                break
            yield chunk
        ends = response.headers.get("connection", "").lower() == "close"
        lane.used_at = None if ends else time.monotonic()
        arriving.complete = True

    def _post_on(self, lane: _Lane, path: str, body: bytes, *, seconds: float, deadline: Deadline) -> Response:
        with self._watchdog.watching(lane.line, seconds, deadline) as watched:
            answer = self._run(lane, watched, lambda: self._post(lane, path, body, seconds))
        self._give_back(lane)
        return answer

    def _run(self, lane: _Lane, watched: Watched, work: Callable[[], T]) -> T:
        """The result of ``work``, which uses the lane, and runs in its own thread if it must connect. If it fails, the
        lane is closed. Raises ExchangeError."""
        problem: ExchangeError | None = None
        abandoned = False
        lane.begin(watched)
        try:
            return work() if lane.warm else watched.apart(work, abandoned=lane.http.close)
        except AbandonedError as error:
            abandoned, problem = True, self._problem_of(error, lane, watched)
        except _NETWORK_ERRORS as error:
            problem = self._problem_of(error, lane, watched)
        except ExchangeError as error:
            problem = error
        if not abandoned:
            lane.http.close()
        if self._watchdog.closed:
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
            remedy="Correct or unset these variables.",
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
