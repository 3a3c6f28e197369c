"""``worker doctor`` with the ``docker`` sandbox, and no engine."""

from __future__ import annotations

import json
from typing import Any

import pytest


def test_a_node_without_an_engine(agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can run attempts in ``local`` only; if ``docker`` is required, it can run none."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    every = agentbench("worker", "doctor", "--json")
    assert every.code == 0
    sandboxes = {each["name"]: each for each in json.loads(every.out)["sandboxes"]}
    assert (sandboxes["docker"]["usable"], sandboxes["local"]["usable"]) == (False, True)
    (failed,) = [check for check in sandboxes["docker"]["checks"] if check["status"] == "failed"]
    assert "docker" in failed["detail"].lower()
    assert failed["remedy"]
    named = agentbench("worker", "doctor", "--sandbox", "docker")
    assert named.code == 1
    assert failed["detail"] in named.out
    assert f"-> {failed['remedy']}" in named.out
    assert named.out.endswith("\nusable sandboxes: none\n")
