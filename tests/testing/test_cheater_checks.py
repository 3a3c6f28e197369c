"""The checks of cheaters: each fails on a cheater that is broken in its respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.testing import Bench, CheaterConformance, open_bench

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_cheaters.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(CheaterConformance) if name.startswith("test_"))

TestEqual = BROKEN["on"](BROKEN["Equal"])
"""The cheaters that the doubles are made from do what every cheater must do."""
TestOracle = BROKEN["on"](BROKEN["Oracle"])
TestEmpty = BROKEN["on"](BROKEN["Empty"])


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with open_bench() as made:
        yield made


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(
    check: str, double: type | None, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails by what it asserts."""
    assert double is not None, f"there is no double for {check}"
    checks = BROKEN["on"](double)
    given = {"bench": bench, "tmp_path": tmp_path, "monkeypatch": monkeypatch}
    method = getattr(checks(), check)
    with pytest.raises(AssertionError):
        method(**{name: given[name] for name in inspect.signature(method).parameters})


def test_every_double_has_a_check() -> None:
    """None is left over from a check that has another name now."""
    assert sorted(DOUBLES) == CHECKS


def test_every_check_says_what_is_asked_for() -> None:
    """The kit is read by plugin authors."""
    assert [check for check in CHECKS if not getattr(CheaterConformance, check).__doc__] == []


def test_who_forgets_the_hook_hears_its_name() -> None:
    with pytest.raises(NotImplementedError, match="CheaterConformance must say how its cheater is made"):
        CheaterConformance.make_cheater()
