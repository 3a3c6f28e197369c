"""The addresses of the pages.

===============================  ===============================================================
address                          answer
===============================  ===============================================================
``/``                            the list of runs, or the page of the only run
``/run/NAME/``                   the page of a run
``/run/NAME/attempt/NUMBER``     the page of an attempt, as part of a page
``/run/NAME/files/PATH``         a file of the run, as plain text
``/run/NAME/events``             the state of the run whenever it changes, as server-sent events
``/compare?a=NAME&b=NAME``       two runs side by side
``/compare/attempt?...&number=`` the page of an attempt of either run
===============================  ===============================================================
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from agentbench_core import AgentBenchError, InputError, PathEscapeError, ToolError, Tree, escape_control
from agentbench_view import pages
from agentbench_view.runs import RUNNING, OpenRun, Runs

_PERIOD = 0.5
_PERIOD_OF_ENDED_RUNS = 3.0
_SILENCE = 15.0
"""Seconds between checks of a run, and until a comment is sent to keep a silent connection alive."""
_RETRY_MS = 2000
_MAX_BYTES = 16 << 20
"""The maximum number of bytes sent from a file."""


class Views:
    """Answers requests for the pages of some runs. Each request has a thread, except requests for events."""

    def __init__(self, runs: Runs, is_ending: Callable[[], bool]) -> None:
        """``is_ending`` returns whether the server is being stopped, so that streams of events end."""
        self._runs, self._is_ending, self._pages = runs, is_ending, pages.Pages()

    def app(self) -> Starlette:
        """The application, without the checks of :mod:`security`."""
        routes = [
            Route("/", self._list),
            Route("/run/{name}/", self._run),
            Route("/run/{name}/attempt/{number}", self._attempt),
            Route("/run/{name}/files/{path:path}", self._file),
            Route("/run/{name}/events", self._events),
            Route("/compare", self._compare),
            Route("/compare/attempt", self._compared_attempt),
        ]
        handlers = {AgentBenchError: _refused, HTTPException: _refused}
        return Starlette(routes=routes, exception_handlers=handlers)

    def warm_up(self) -> None:
        """Read the only run before the first request."""
        if self._runs.only:
            self._runs.get(self._runs.only).served()

    def _list(self, request: Request) -> Response:
        if self._runs.only:
            return RedirectResponse(pages.address(self._runs.only), 303)
        skipped: list[tuple[str, str]] = []
        infos = self._runs.listed(lambda name, error: skipped.append((name, error.message)))
        return _page(iter([pages.runs_list(infos, skipped)]), pages.list_policy())

    def _run(self, request: Request) -> Response:
        return _page(self._pages.report([self._named(request)]), pages.report_policy())

    def _attempt(self, request: Request) -> Response:
        number = _number(request.path_params["number"])
        return HTMLResponse(self._pages.attempt([self._named(request)], number))

    def _compare(self, request: Request) -> Response:
        return _page(self._pages.report(self._both(request)), pages.report_policy())

    def _compared_attempt(self, request: Request) -> Response:
        number = _number(request.query_params.get("number", ""))
        return HTMLResponse(self._pages.attempt(self._both(request), number))

    def _file(self, request: Request) -> Response:
        return _file_as_text(self._named(request).directory, request.path_params["path"])

    async def _events(self, request: Request) -> Response:
        run = await run_in_threadpool(self._named, request)
        return StreamingResponse(self._stream(run), media_type="text/event-stream")

    async def _stream(self, run: OpenRun) -> AsyncIterator[str]:
        """The state of the run whenever it changes, until the run cannot be read or the server stops."""
        yield f"retry: {_RETRY_MS}\n\n"
        last, silent = "", 0.0
        while not self._is_ending():
            try:
                snapshot = await run_in_threadpool(run.snapshot)
            except AgentBenchError as error:
                yield f"event: gone\ndata: {json.dumps(escape_control(error.message))}\n\n"
                return
            data = json.dumps(snapshot)
            if data != last or silent >= _SILENCE:
                yield f"data: {data}\n\n" if data != last else ":\n\n"
                last, silent = data, 0.0
            period = _PERIOD if snapshot["status"] == RUNNING else _PERIOD_OF_ENDED_RUNS
            until = anyio.current_time() + period
            while anyio.current_time() < until and not self._is_ending():
                await anyio.sleep(0.1)
            silent += period

    def _named(self, request: Request) -> OpenRun:
        return self._runs.get(request.path_params["name"])

    def _both(self, request: Request) -> tuple[OpenRun, OpenRun]:
        names = [request.query_params.get(letter, "") for letter in "ab"]
        if names[0] == names[1]:
            raise InputError("Only two different runs can be compared.", remedy="Select two runs in the list.")
        return self._runs.get(names[0]), self._runs.get(names[1])


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError("The number of the attempt is missing or invalid.")
    return int(text)


def _page(pieces: Iterator[str], policy: str) -> Response:
    return StreamingResponse(pieces, headers={"content-security-policy": policy}, media_type="text/html")


def _file_as_text(run: Path, path: str) -> Response:
    """A file by its path in the run directory, as plain text that browsers never interpret.

    Links are not followed, even if the directory changes at the same time. Raises InputError if there is no such file.
    """
    try:
        with Tree(run) as tree:
            data = tree.read(path, limit=_MAX_BYTES + 1)
    except (ToolError, PathEscapeError, OSError) as error:
        raise InputError(f"{path[:300]!r} cannot be shown: {error}") from None
    if len(data) > _MAX_BYTES:
        data = data[:_MAX_BYTES] + f"\n[... cut: only the first {_MAX_BYTES} bytes are shown ...]\n".encode()
    response = PlainTextResponse(headers={"content-disposition": "inline"})
    response.body = data  # unchanged, since its encoding is unknown
    response.headers["content-length"] = str(len(data))
    return response


async def _refused(request: Request, error: Exception) -> Response:
    """An error as plain text, since its message may contain text from a run."""
    if isinstance(error, HTTPException):
        return PlainTextResponse(f"{error.detail}\n", error.status_code)
    return PlainTextResponse(f"{escape_control(str(error))}\n", 404)
