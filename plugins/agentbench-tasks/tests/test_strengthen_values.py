"""Values as JSON from the sandbox, and as Python source; and the observer, run here in a process of its own."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import agentbench_tasks.strengthen.inside.observer as observer
from agentbench_tasks.strengthen.values import canonical, decode, source_of, survives

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**90), 10**90)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.binary(max_size=10)
)
PLAIN = st.recursive(
    SCALARS,
    lambda each: (
        st.lists(each, max_size=4)
        | st.tuples(each)
        | st.sets(SCALARS, max_size=3)
        | st.dictionaries(SCALARS, each, max_size=3)
    ),
    max_leaves=10,
)

CALLS = """
import os, sys, time
sys.path.insert(0, os.environ["DIRECTORY"])
import observer

class Evil(str):
    def __repr__(self): raise RuntimeError
    __str__ = __eq__ = __hash__ = __len__ = __repr__

class EvilError(type("Meta", (type,), {"__name__": property(lambda self: 1 / 0)})("Base", (Exception,), {})):
    pass

count = 0
def counted():
    global count
    count += 1
    return count

def raised(error): raise error

nested = []
nested.append(nested)
observer.observe([
    (0, 0, lambda: [1, 2.5, "x", b"y", (None, True), {"k": {3}}]),
    (1, 0, lambda: "x" * 50_000_000),
    (2, 0, lambda: Evil("x")),
    (3, 0, lambda: raised(SystemExit(3))),
    (4, 0, lambda: raised(EvilError())),
    (5, 1, lambda: os._exit(0)),
    (6, 2, lambda: print("noise", flush=True)),
    (7, 3, lambda: time.sleep(600)),
    (8, 3, lambda: time.sleep(600)),
    (9, 3, lambda: 9),
    (10, 4, lambda: nested),
    (11, 4, lambda: float("nan")),
    (12, 4, lambda: object()),
    (13, 5, counted),
    (14, 5, counted),
    (15, 6, lambda: "\\ud800"),
    (16, 6, lambda: 16),
])
"""


@given(PLAIN)
def test_plain_data_round_trips(value: Any) -> None:
    form = json.loads(json.dumps(observer._Converter().convert(value)))
    assert canonical(decode(form)) == canonical(value)
    assert survives(value)
    assert canonical(ast.literal_eval(source_of(value))) == canonical(value)


@pytest.mark.parametrize(
    "form",
    [1, 1.5, [], [1], ["int"], ["int", 3], ["int", "0x" + "f" * 200], ["int", "zz"], ["float", "nan"], ["bytes", "0"],
     ["dict", [1]], ["dict", [["list"], None]], ["set", ["list"]], ["object", "x"], {"a": 1}, ["float", "0x1p99999"]],
)  # fmt: skip
def test_forms_that_the_observer_does_not_write_are_refused(form: Any) -> None:
    """M10: a program may write them instead of the observer."""
    with pytest.raises((ValueError, OverflowError)):
        decode(form)
    deep: Any = None
    for _ in range(50):
        deep = ["list", deep]
    with pytest.raises(ValueError, match="nested"):
        decode(deep)


def test_only_plain_data_has_a_source() -> None:
    class Text(str):
        __slots__ = ()

    for value in (Text("x"), object(), math.inf, [math.nan], frozenset([1])):
        with pytest.raises(ValueError, match=r"plain data|finite"):
            source_of(value)
    assert source_of({3, 1, 2}) == "{1, 2, 3}"
    assert source_of((1,)) == "(1,)"


@pytest.mark.long
def test_hostile_calls_are_observed_without_harm(tmp_path: Path) -> None:
    """M10: huge, cyclic and disguised values, exceptions, exits, output and endless loops each get their own line."""
    (tmp_path / "plan.json").write_text(json.dumps({"order": [*range(17)], "seconds": 2.0}))
    variables = {
        "AGENTBENCH_INPUTS": str(tmp_path),
        "AGENTBENCH_RESULTS": str(tmp_path),
        "DIRECTORY": str(Path(observer.__file__).parent),
    }
    done = subprocess.run([sys.executable, "-c", CALLS], env=variables, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    lines = [json.loads(line) for line in (tmp_path / "observations.jsonl").read_text().splitlines()]
    found = {line.pop("id"): line for line in lines}
    assert decode(found.pop(0)["value"]) == [1, 2.5, "x", b"y", (None, True), {"k": {3}}]
    assert decode(found.pop(15)["value"]) == "\ud800"
    too_large, other_type = {"problem": "its value is too large"}, "its value contains an object that is not"
    assert found == {
        1: too_large,
        2: {"problem": f"{other_type} plain data"},
        3: {"raised": "SystemExit"},
        4: {"raised": "exception"},
        5: {"problem": "it does not return"},
        6: {"value": None},
        7: {"problem": "it does not return"},
        8: {"problem": "it does not return"},
        10: too_large,
        11: {"problem": "its value contains a non-finite float"},
        12: {"problem": f"{other_type} plain data"},
        13: {"value": ["int", "0x1"]},
        14: {"value": ["int", "0x2"]},
        16: {"value": ["int", "0x10"]},
    }
