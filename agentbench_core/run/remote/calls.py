"""The calls of a worker: repeated while the connection is broken, and their answers as values or errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from agentbench_core.errors import InputError, Interrupted, RunStoppedError, UnavailableError
from agentbench_core.run.remote.documents import Answer, Document, Finish, Message, ModelCall, read, written

PATIENCE_SEC = 30.0
"""Seconds for which a call is repeated; by then, the attempts of this worker are lost anyway."""

_PAUSE_SEC = 0.2


class RefusedError(RunStoppedError):
    """The coordinator refused a message, so the attempt must be returned; the worker can run others."""


class Calls:
    """Makes calls with a transport, which raises OSError if the connection breaks. Thread-safe if the transport is.

    Every method raises UnavailableError if the coordinator can no longer be reached.
    """

    def __init__(self, call: Callable[[str, Document], Iterator[Document]]) -> None:
        self._call = call

    def every(self, method: str, document: object) -> Iterator[Document]:
        """The documents of an answer. Raises UnavailableError if the call is refused.

        If the connection breaks, the call is repeated, and the answer starts again.
        """
        plain = document if isinstance(document, dict) else written(document)
        until = time.monotonic() + PATIENCE_SEC
        while True:
            try:
                for part in self._call(method, plain):
                    if "refused" in part and method != "send":
                        raise UnavailableError(f"the coordinator rejected this worker: {part['refused']}")
                    until = time.monotonic() + PATIENCE_SEC
                    yield part
                return
            except OSError as error:
                if time.monotonic() > until:
                    raise UnavailableError(
                        f"the coordinator cannot be reached: {error}",
                        remedy="If the run has ended, nothing is lost. "
                        "Otherwise, check the network and restart the worker.",
                    ) from None
                time.sleep(_PAUSE_SEC)

    def one(self, method: str, document: object) -> Document:
        """The only document of an answer."""
        return next(iter(list(self.every(method, document))), {})

    def send(self, message: Message) -> None:
        """Send a message. Raises Interrupted if the attempt is lost, RefusedError if it must be returned."""
        answer = self.one("send", message)
        if answer.get("lost"):
            raise Interrupted("the attempt is lost")
        if "refused" in answer:
            raise RefusedError(str(answer["refused"]))

    def finish(self, finish: Finish) -> None:
        """Send the conclusion. Raises Interrupted if the attempt is lost."""
        if self.one("finish", finish).get("lost"):
            raise Interrupted("the attempt is lost")

    def answers(self, call: ModelCall) -> Iterator[Answer]:
        """The parts of the answer to a model call. Raises Interrupted if the attempt is lost."""
        try:
            for part in self.every("model", call):
                if part.get("lost"):
                    raise Interrupted("the attempt is lost")
                yield read(part, Answer)
        except (InputError, UnavailableError) as error:  # neither is a failure of the agent
            raise Interrupted(error.message) from None
