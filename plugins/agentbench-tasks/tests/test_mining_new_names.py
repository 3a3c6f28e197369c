"""Names that hidden tests use and that only the fix introduces."""

from __future__ import annotations

import re
import threading

import pytest

from agentbench_tasks.mining.new_names import new_names

BEFORE = b"def total(parts):\n    return sum(parts)\n"
AFTER = b"""\
from clock.units import Unit as TimeUnit

class Clock:
    step: int = 1

    def tick(self, *, reverse=False):
        self.elapsed = 1

SCALE, OFFSET = {}, 0

def total(parts, unit="s"):
    exact = sum(parts)
    return exact

async def later(delay): ...
"""
TESTS_BEFORE = b"from clock import total\n\n\ndef test_total():\n    assert total([1]) == 1\n"


def found(test: str, *, text: str = "", base: str = "", before: bytes = TESTS_BEFORE) -> tuple[str, ...]:
    return new_names(
        text,
        tests_before={"tests/test_clock.py": before},
        tests_after={"tests/test_clock.py": test.encode(), "tests/data.json": b"{}"},
        source_before={"src/clock/__init__.py": BEFORE},
        source_after={"src/clock/__init__.py": AFTER, "src/clock/units.py": b"class Unit: ...\n", "README.md": b"x"},
        in_base=lambda name: bool(re.search(rf"\b{name}\b", base)),
    )


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("from clock import SCALE, total", ("SCALE",)),
        ("import clock.units", ("units",)),
        ("from clock.units import Unit", ("units", "Unit")),
        ("import clock\nclock.later(1)", ("later",)),
        ("import clock\nclock.TimeUnit", ("TimeUnit",)),
        ("from clock import total\ntotal([1], unit='h')", ("unit",)),
        ("c.tick(reverse=True)\nassert c.elapsed == c.step", ("tick", "reverse", "elapsed", "step")),
        ("mock.patch('clock.OFFSET', 1)", ("OFFSET",)),
        ("def test():\n    from clock import Clock, later", ("Clock", "later")),
    ],
)
def test_a_name_that_only_the_fix_introduces_is_found(test: str, names: tuple[str, ...]) -> None:
    assert found(test) == names


@pytest.mark.parametrize(
    "test",
    [
        "from clock import total\ntotal(parts=[1])",
        "from clock import missing\nclock.gone(other=1)",
        "unit = SCALE = 1\nprint(unit, SCALE)",
        "'OFFSET is a word in a sentence'",
        "import os\nos.path.join('a')",
        "not Python (",
    ],
    ids=["known", "not in the fix", "variables of the test", "text", "other modules", "invalid"],
)
def test_other_names_are_not_new(test: str) -> None:
    assert found(test) == ()


def test_a_name_in_the_text_or_elsewhere_in_the_base_is_not_new() -> None:
    test = "from clock import SCALE, OFFSET, later"
    assert found(test, text="Export `SCALE` from `clock`.") == ("OFFSET", "later")
    assert found(test, base="def later(): ...") == ("SCALE", "OFFSET")


def test_a_name_that_the_tests_use_before_the_fix_is_not_new() -> None:
    assert found("from clock import SCALE, OFFSET", before=b"from clock import SCALE") == ("OFFSET",)


def test_source_that_cannot_be_parsed_or_is_too_large_has_no_names() -> None:
    for data in (b"def broken(", b"x\0", b"(" * 10_000, b"later = 1\n" * 200_000, b"\xff\xfe"):
        assert (
            new_names(
                "",
                tests_before={},
                tests_after={"test_x.py": b"from clock import later"},
                source_before={},
                source_after={"clock.py": data},
                in_base=lambda name: name == "clock",
            )
            == ()
        )


def test_names_are_found_in_several_threads_at_once() -> None:
    results: list[tuple[str, ...]] = []
    deep = "x = " + "[" * 80 + "]" * 80 + "\n"
    threads = [
        threading.Thread(target=lambda: results.extend(found(f"{deep}from clock import SCALE") for _ in range(20)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [("SCALE",)] * 160
