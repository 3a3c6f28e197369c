"""The files of a run as plain text, whatever they contain."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import PlainTextResponse

from agentbench_core import InputError, PathEscapeError, ToolError, Tree

MAX_BYTES = 16 << 20
"""The maximum number of bytes that are sent of a file."""


def file_response(run: Path, path: str) -> PlainTextResponse:
    """A file by its path in the run directory, as text that the browser does not interpret.

    No link is followed, not even if the directory changes at the same time. Raises InputError if there is no such file.
    """
    try:
        with Tree(run) as tree:
            data = tree.read(path, limit=MAX_BYTES + 1)
    except (ToolError, PathEscapeError, OSError) as error:
        raise InputError(f"{path[:300]!r} cannot be shown: {error}") from None
    if len(data) > MAX_BYTES:
        data = data[:MAX_BYTES] + f"\n[... cut: only the first {MAX_BYTES} bytes are shown ...]\n".encode()
    response = PlainTextResponse(headers={"content-disposition": "inline"})
    response.body = data  # as it is: its encoding may be any
    response.headers["content-length"] = str(len(data))
    return response
