"""Requests of one attempt's clients, from their head to their answer. Runs in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Coroutine
from typing import Any
from urllib.parse import unquote

from aiohttp import hdrs, web

from agentbench_bridge.gateway.attempt import Asked, BridgedAttempt
from agentbench_bridge.gateway.calls import Call, Calls, fingerprint
from agentbench_bridge.gateway.connection import SERVER, reset
from agentbench_bridge.gateway.memory import Memory
from agentbench_bridge.gateway.settings import Settings
from agentbench_bridge.gateway.spool import Answer, Failure
from agentbench_bridge.protocols import PROTOCOLS, error_body, error_event, models_body

_VERSION = "/v1"
_MODEL_PATHS = {path.removeprefix(_VERSION): protocol for path, protocol in PROTOCOLS.items()}
"""The protocol of each path without ``/v1``, which is optional."""

_ERROR_HEADERS = {**SERVER, "x-should-retry": "false"}
"""Headers of the gateway's own errors: the SDKs of OpenAI and Anthropic do not retry."""


class Routes:
    """Handles the requests of one attempt."""

    def __init__(self, attempt: BridgedAttempt, settings: Settings) -> None:
        self._attempt = attempt
        self._settings = settings
        self._calls = Calls()
        self._slots = asyncio.Semaphore(settings.calls)
        self._memory = Memory(settings.bodies)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """End calls that have not been sent to the provider."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        requested, _, _ = request.raw_path.partition("?")
        path = requested.removeprefix(_VERSION)
        protocol = _MODEL_PATHS.get(path) or _protocol_of(request)
        if requested == "/" and request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
            return web.Response(headers=SERVER)
        if not self._attempt.accepts(_credentials(request)):
            return self._unauthorized(request, protocol)
        if "websocket" in request.headers.get(hdrs.UPGRADE, "").lower():
            return self._refused(request, protocol, 400, "WebSocket is not supported; use HTTP")
        if request.method == hdrs.METH_POST and path in _MODEL_PATHS:
            return await self._model_call(request, protocol)
        if request.method == hdrs.METH_GET and f"{path}/".startswith("/models/"):
            return self._models(request, protocol, unquote(path.removeprefix("/models")[1:]))
        return self._refused(request, protocol, 404, "the gateway does not serve this method and path")

    # --- refusals ---

    def _unauthorized(self, request: web.BaseRequest, protocol: str) -> web.StreamResponse:
        why = "the request does not contain the attempt's token"
        self._attempt.notes.warn("gateway_refused", f"the gateway rejected {_shown(request)}: {why}")
        self._attempt.notes.label("gateway_refused", f"{_shown(request)}: {why}")
        return _error(protocol, Failure(status=401, kind="authentication_error", message=why), close=True)

    def _refused(self, request: web.BaseRequest, protocol: str, status: int, why: str) -> web.StreamResponse:
        self._attempt.notes.warn("request_refused", f"the gateway rejected {_shown(request)}: {why}")
        self._attempt.notes.label("request_refused", f"{_shown(request)}: {why}")
        return _error(protocol, Failure(status=status, kind="invalid_request_error", message=why), close=True)

    # --- models ---

    def _models(self, request: web.BaseRequest, protocol: str, name: str) -> web.StreamResponse:
        if not name:
            return _json(models_body(protocol, self._attempt.presented))
        if name not in self._attempt.presented:
            return self._refused(request, protocol, 404, "this model is not available")
        (model,) = json.loads(models_body(protocol, [name]))["data"]
        return _json(json.dumps(model).encode())

    # --- model calls ---

    async def _model_call(self, request: web.BaseRequest, protocol: str) -> web.StreamResponse:
        if failure := self._attempt.refusal():
            return _error(protocol, failure, close=True)
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            return self._refused(request, protocol, 415, "compressed requests are not supported")
        if len(self._tasks) >= self._settings.waiting:
            return self._refused(request, protocol, 429, f"{len(self._tasks)} requests are already waiting")
        most = self._settings.longest_body
        length = request.content_length
        if length is not None and length > most:
            return self._refused(request, protocol, 413, f"the request is longer than {most} bytes")
        try:
            async with asyncio.timeout(self._settings.body_sec), contextlib.AsyncExitStack() as stack:
                size = await stack.enter_async_context(self._memory.reserved(most if length is None else length))
                body = await self._body(request, most)
                if body is None:
                    return self._refused(request, protocol, 413, f"the request is longer than {most} bytes")
                size.shrink(len(body))
                memory = stack.pop_all()
        except TimeoutError:
            return self._refused(
                request, protocol, 408, f"receiving the body took longer than {self._settings.body_sec:g} s"
            )
        except web.RequestPayloadError:
            return self._refused(request, protocol, 400, "the body is malformed")
        call = self._call(request, body, memory)
        return await self._relay(request, protocol, call)

    async def _body(self, request: web.BaseRequest, most: int) -> bytes | None:
        """The body of a request; ``None`` if it is longer than ``most`` bytes."""
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = bytearray()
        while data := await request.content.readany():
            body += data
            if len(body) > most:
                return None
        return bytes(body)

    def _call(self, request: web.BaseRequest, body: bytes, memory: contextlib.AsyncExitStack) -> Call:
        """The call that the request joins, or a new one."""
        headers = request.headers
        path = request.raw_path if request.raw_path.startswith(f"{_VERSION}/") else _VERSION + request.raw_path
        key = fingerprint(path, body)
        repeat_key = headers.get("idempotency-key", "")
        retried = headers.get("x-stainless-retry-count", "0").strip() not in ("", "0")
        call = self._calls.find(key, retried=retried, repeat_key=repeat_key)
        if call is not None:
            self._start(memory.aclose())
            return call
        call = Call(key=key, repeat_key=repeat_key, answer=Answer(self._loop, self._attempt.spool))
        self._calls.add(call)
        asked = Asked(path=path, headers={name.lower(): text for name, text in headers.items()}, body=body)
        self._start(self._conduct(call, asked, memory))
        return call

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _conduct(self, call: Call, asked: Asked, memory: contextlib.AsyncExitStack) -> None:
        """Forward a call in its own thread, as soon as fewer than the maximum number of calls are in progress."""
        try:
            async with memory, self._slots:
                if call.clients:
                    run = threading.Thread(
                        target=self._attempt.forward, args=(asked, call.answer), name="bridge call", daemon=True
                    )
                    try:
                        run.start()
                    except RuntimeError as error:  # the machine has no more threads
                        self._attempt.notes.warn("gateway error", f"the gateway cannot start a thread: {error}")
                        call.answer.end(Failure(status=500, kind="api_error", message="the gateway failed"))
                    await call.answer.finished()
                else:  # disconnected before anything was sent
                    call.answer.end(Failure(status=499, kind="api_error", message="the client has disconnected"))
        finally:
            self._calls.ended(call)

    async def _relay(self, request: web.BaseRequest, protocol: str, call: Call) -> web.StreamResponse:
        """Send the answer of a call, from its start, as it arrives."""
        answer = call.answer
        call.clients += 1
        try:
            await answer.begun()
            if not answer.status:
                assert answer.failure is not None
                return _error(protocol, answer.failure)
            response = web.StreamResponse(status=answer.status, headers={**SERVER, **answer.headers})
            await response.prepare(request)
            position = 0
            while data := await answer.read(position):
                async with asyncio.timeout(self._settings.stall_sec):
                    await response.write(data)
                position += len(data)
                call.sent = max(call.sent, position)
            if answer.failure and answer.status < 400:
                await self._break_off(request, response, protocol, answer)
            else:
                await response.write_eof()
            return response
        except TimeoutError:
            reset(request.transport)
            raise ConnectionError("the client does not read the answer") from None
        finally:
            call.clients -= 1

    async def _break_off(
        self, request: web.BaseRequest, response: web.StreamResponse, protocol: str, answer: Answer
    ) -> None:
        """End an incomplete answer: a stream with an error event, and the connection without a regular end."""
        assert answer.failure is not None
        is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
        if is_stream and answer.at_line_end:
            await response.write(b"\n" + error_event(protocol, answer.failure.kind, answer.failure.message))
        if request.transport is not None:
            request.transport.close()
        raise ConnectionError("the answer is incomplete")


def _credentials(request: web.BaseRequest) -> list[str]:
    """The secrets in the request, in any of the headers that SDKs use."""
    found = []
    for text in request.headers.getall(hdrs.AUTHORIZATION, []):
        scheme, _, token = text.partition(" ")
        if scheme.lower() == "bearer":
            found.append(token.strip())
    for name in ("x-api-key", "api-key", "x-goog-api-key"):
        found += request.headers.getall(name, [])
    return found


def _protocol_of(request: web.BaseRequest) -> str:
    """The protocol of a client, if its path does not determine one."""
    return "messages" if "anthropic-version" in request.headers else "chat"


def _shown(request: web.BaseRequest) -> str:
    return f"{request.method[:20]} {request.raw_path[:200]!r}"


def _json(body: bytes) -> web.StreamResponse:
    return web.Response(body=body, content_type="application/json", headers=SERVER)


def _error(protocol: str, failure: Failure, *, close: bool = False) -> web.StreamResponse:
    """The gateway's own answer to a request that it does not forward, or that failed before its answer began."""
    body = error_body(protocol, failure.status, failure.kind, failure.message)
    response = web.Response(status=failure.status, body=body, content_type="application/json", headers=_ERROR_HEADERS)
    if close:
        response.force_close()
    return response
