"""Makes a process unable to unpickle objects, so that a Dask cluster cannot run code in it.

Dask pickles what its processes exchange, and a client unpickles parts of that without being asked: the type of each
finished task, exceptions, warnings of workers. Unpickling may run any code, and no setting of Dask turns it off.
"""

from __future__ import annotations

import sys

MISSING = "this version of distributed has no function merge_and_deserialize, which has to be replaced"


class GuardError(Exception):
    """The guard cannot be installed, or it refused something."""


def install() -> None:
    """Refuse every class and function in a pickle, from now until the process ends. Raises GuardError.

    Without them, a pickle is plain data. An audit hook cannot be removed again.
    """
    import distributed.protocol.core as protocol

    if not callable(getattr(protocol, "merge_and_deserialize", None)):
        raise GuardError(MISSING)
    # Each message with a serialized object would be refused as a whole, also the honest error of a task. Dask would
    # then lose the connection. No object is ever needed here.
    vars(protocol)["merge_and_deserialize"] = _nothing
    sys.addaudithook(_hook)


def _nothing(*_: object, **__: object) -> None:
    return None


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "pickle.find_class":
        raise GuardError(f"refused to unpickle {arguments[0]}.{arguments[1]}")
