"""Options of the executor ``dask``, as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from agentbench_core import InputError, load
from agentbench_dask.options import DaskOptions, address_parts

TLS = {"ca": "ca.pem", "cert": "cert.pem", "key": "key.pem"}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"processes": 3},
        {"scheduler": "tcp://127.0.0.1:8786"},
        {"scheduler": "tcp://[::1]:8786"},
        {"scheduler": "tcp://localhost:8786"},
        {"scheduler": "tls://scheduler.cluster:8786", **TLS},
    ],
)
def test_accepted(data: dict[str, Any]) -> None:
    """A cluster on this machine, a scheduler on this machine, and one elsewhere with certificates."""
    load(data, DaskOptions, where="test")


@pytest.mark.parametrize(
    ("data", "problem", "remedy"),
    [
        ({"scheduler": "tcp://10.0.0.5:8786"}, "not on this machine", "use tls://"),
        ({"scheduler": "tcp://scheduler:8786"}, "not on this machine", "use tls://"),
        ({"scheduler": "tcp://127.0.0.1.example.org:8786"}, "not on this machine", "use tls://"),
        ({"scheduler": "tcp://0.0.0.0:8786"}, "not on this machine", "use tls://"),
        ({"scheduler": "tls://host:8786"}, "ca, cert, key are missing", "PEM"),
        ({"scheduler": "tls://host:8786", "ca": "a", "cert": "b"}, "key is missing", "PEM"),
        ({"scheduler": "host:8786"}, "is not a valid Dask scheduler address", "tls://HOST:PORT"),
        ({"scheduler": "ws://host:8786"}, "is not a valid Dask scheduler address", "tls://HOST:PORT"),
        ({"scheduler": "tls://host"}, "is not a valid Dask scheduler address", "tls://HOST:PORT"),
        ({"scheduler": "tls://host:port"}, "is not a valid Dask scheduler address", "tls://HOST:PORT"),
        ({"scheduler": "tls://host:8786/path"}, "is not a valid Dask scheduler address", "tls://HOST:PORT"),
        ({"scheduler": "tcp://127.0.0.1:1@10.0.0.5:8786"}, "is not a valid Dask scheduler address", "tls://HOST:PORT"),
        ({"scheduler": "tls://[host:8786"}, "is not a valid Dask scheduler address", "tls://HOST:PORT"),
        ({"scheduler": "tcp://127.0.0.1:8786", **TLS}, "uses no certificates", "tls://HOST:PORT"),
        ({"ca": "ca.pem"}, "creates its own certificates", "tls://HOST:PORT"),
        ({"scheduler": "tcp://127.0.0.1:8786", "processes": 2}, "has its own workers", "Remove `processes`"),
        ({"processes": -1}, "below 0", ""),
        ({"timeout_sec": 0}, "below", ""),
    ],
)
def test_refused(data: dict[str, Any], problem: str, remedy: str) -> None:
    """Each error contains the problem and a remedy."""
    with pytest.raises(InputError) as caught:
        load(data, DaskOptions, where="test")
    assert problem in str(caught.value)
    assert remedy in str(caught.value)


def test_parts_of_an_address() -> None:
    """Scheme, host and port."""
    assert address_parts("tls://[::1]:8786") == ("tls", "::1", 8786)
