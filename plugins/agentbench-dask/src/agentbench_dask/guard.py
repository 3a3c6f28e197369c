"""Prevents a process from unpickling objects, so that a Dask cluster cannot run code in it.

Dask processes exchange pickled data, and a client unpickles some of it unasked: the type of each finished task,
exceptions, and warnings from workers. Unpickling can run any code, and Dask has no setting that turns it off.
"""

from __future__ import annotations

import sys

MISSING = "this version of distributed has no function merge_and_deserialize, which must be replaced"


class GuardError(Exception):
    """The guard cannot be installed, or it refused to unpickle an object."""


def install() -> None:
    """Refuse every class and function in pickles until the process ends. Raises GuardError.

    A pickle without classes and functions is plain data. An audit hook cannot be removed.
    """
    import distributed.protocol.core as protocol

    if not callable(getattr(protocol, "merge_and_deserialize", None)):
        raise GuardError(MISSING)
    # Otherwise, every message with a serialized object would be refused, even one with a genuine error of a task, and
    # Dask would lose the connection. Objects are never needed here.
    vars(protocol)["merge_and_deserialize"] = _nothing
    sys.addaudithook(_hook)


def _nothing(*_: object, **__: object) -> None:
    return None


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "pickle.find_class":
        raise GuardError(f"refused to unpickle {arguments[0]}.{arguments[1]}")
