"""Run calls with other inputs in the sandbox, without and with the reference solution, and read their results."""

from __future__ import annotations

import datetime
import json
import posixpath
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_core import CalibrationContext, CalibrationError, Command, Tree
from agentbench_tasks.strengthen.calls import Call
from agentbench_tasks.strengthen.command_line import with_other_files
from agentbench_tasks.strengthen.inputs import Inputs
from agentbench_tasks.strengthen.module import Module, parse
from agentbench_tasks.strengthen.values import canonical, decode, source_of, survives

_OBSERVER = Path(__file__).with_name("inside") / "observer.py"
_RESULTS = "observations.jsonl"
_MAX_BYTES = 16 << 20
_CALL_SEC = 2.0
"""Time limit of one call."""
_RUN_SEC = 300.0
"""Time limit of one run of all calls."""
_ZONES = ("UTC0", "AAA-13", "BBB+11")
_KINDS = frozenset({"value", "raised", "problem"})


@attrs.frozen(kw_only=True)
class Observed:
    """The result of one call: a value, an exception, or a problem that rules it out."""

    kind: Literal["value", "raised", "problem"]
    value: Any = None  #: the value; for an exception its class, for a problem a sentence

    @property
    def key(self) -> str:
        """Equal for calls with the same result."""
        return f"{self.kind} {canonical(self.value)}"

    @property
    def text(self) -> str:
        """The value as Python source, or a description."""
        return source_of(self.value) if self.kind == "value" else f"{self.kind} {self.value}"


MISSING = Observed(kind="problem", value="it did not run")


@attrs.frozen(kw_only=True)
class Probe:
    """A call with other inputs, and its result in each run."""

    call: Call
    inputs: Inputs
    fixed: tuple[Observed, ...] = ()
    unfixed: tuple[Observed, ...] = ()

    @property
    def source(self) -> str:
        """The expression."""
        return self.call.source(self.inputs)


def observe(context: CalibrationContext, probes: Sequence[Probe], *, times: int, seed: int) -> Sequence[Probe]:
    """Run each call ``times`` times without and with the reference solution, in different orders.

    Calls that return no value in the first run, with the reference solution, do not run again.

    Raises:
        CalibrationError: the task has no reference solution, or no call could be run.
        ReferenceRefusedError: the reference solution cannot be applied.
        SandboxError: the sandbox failed.
    """
    files = _probe_files(context, probes)
    fixed = [_run(context, files, range(len(probes)), 0, seed, solved=True)]
    returned = [number for number, observed in sorted(fixed[0].items()) if observed.kind == "value"]
    fixed += [_run(context, files, returned, turn, seed, solved=True) for turn in range(1, times if returned else 1)]
    unfixed = [_run(context, files, returned, turn, seed, solved=False) for turn in range(times if returned else 0)]
    return [
        attrs.evolve(
            probe,
            fixed=tuple(run.get(number, MISSING) for run in (fixed if number in returned else fixed[:1])),
            unfixed=tuple(run.get(number, MISSING) for run in unfixed),
        )
        for number, probe in enumerate(probes)
    ]


def _probe_files(context: CalibrationContext, probes: Sequence[Probe]) -> Mapping[str, str]:
    """A test file beside each hidden test file, with all calls that are made with its imports."""
    texts: dict[str, str] = {}
    for file in dict.fromkeys(probe.call.file for probe in probes):
        mine = [(number, probe) for number, probe in enumerate(probes) if probe.call.file == file]
        module = Module(parse(context.hidden_files[file].decode("utf-8", "replace")))
        groups = {id(call): n for n, call in enumerate({id(p.call): p.call for _, p in mine}.values())}
        lines = [module.needed({name for _, probe in mine for name in probe.call.names})]
        calls = []
        for number, probe in mine:
            body = "".join(f"    {line}\n" for line in (*probe.call.imports, f"return {probe.source}"))
            lines.append(f"def _agentbench_{number}():\n{body}")
            calls.append(f"({number}, {groups[id(probe.call)]}, _agentbench_{number})")
        lines.append(_TEST.format(calls=", ".join(calls)))
        texts[posixpath.join(posixpath.dirname(file), f"test_agentbench_observe_{len(texts)}.py")] = "\n".join(lines)
    return texts


_TEST = """\
def test_agentbench_observe():
    import importlib.util
    import os
    path = os.path.join(os.environ["AGENTBENCH_INPUTS"], "observer.py")
    spec = importlib.util.spec_from_file_location("agentbench_observer", path)
    observer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(observer)
    observer.observe([{calls}])
"""


def _run(
    context: CalibrationContext,
    files: Mapping[str, str],
    numbers: Sequence[int],
    turn: int,
    seed: int,
    *,
    solved: bool,
) -> Mapping[int, Observed]:
    """Run calls once, in the order of this turn: the original, the reverse, or a random order."""
    order = list(numbers)
    if turn == 1:
        order.reverse()
    elif turn > 1:
        random.Random(f"{seed} {turn}").shuffle(order)  # noqa: S311 - reproducible, and not a secret
    workspace = context.fork(solved)
    with Tree(workspace) as tree:
        for path, text in files.items():
            tree.write(path, text.encode("utf-8", "surrogateescape"))
        present = frozenset(tree.files())
    directories = {parent for path in present for parent in _parents(path)} | {"."}
    plan = context.scratch("plan") / "plan.json"
    plan.write_text(json.dumps({"order": order, "seconds": _CALL_SEC}), encoding="ascii")
    command = with_other_files(
        context.validation.passing_command,
        list(files),
        lambda path: path in present or path in directories,
        seed=str(turn + 1),
        zone=_ZONES[turn % len(_ZONES)],
    )
    limited = attrs.evolve(context, deadline=context.deadline.within(_RUN_SEC))
    result = limited.run(
        Command(
            command, read_only=not context.validation.writable, inputs={"plan.json": plan, "observer.py": _OBSERVER}
        ),
        workspace,
        files=[_RESULTS],
        at_most=_MAX_BYTES,
    )
    found = _read(result.files.get(_RESULTS, b""), frozenset(numbers))
    if solved and not found:
        raise CalibrationError(f"the calls could not be run with the reference solution: {result.last_lines(5)}")
    return found


def _parents(path: str) -> Sequence[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _read(data: bytes, numbers: frozenset[int]) -> Mapping[int, Observed]:
    """The results of a run. The program may have written anything: invalid or repeated results are left out."""
    found: dict[int, Observed] = {}
    for line in data.splitlines():
        try:
            entry = json.loads(line)
            number, kind = entry["id"], next(iter(_KINDS & entry.keys()))
            if type(number) is not int or number not in numbers or len(entry) != 2:
                continue
            observed = _observed(kind, entry[kind])
        except (ValueError, KeyError, TypeError, StopIteration, AttributeError, RecursionError):
            continue
        found[number] = MISSING if number in found else observed
    return found


def _observed(kind: str, content: Any) -> Observed:
    if kind == "value":
        value = decode(content)
        if not survives(value):
            raise ValueError("no literal")
        if _contains_date(source_of(value)):
            return Observed(kind="problem", value="its value contains today's date")
        return Observed(kind="value", value=value)
    if not isinstance(content, str) or len(content) > 200:
        raise ValueError("not a text")
    return Observed(kind="raised" if kind == "raised" else "problem", value=content)


def _contains_date(text: str) -> bool:
    now = datetime.datetime.now(datetime.UTC)
    days = [now + datetime.timedelta(days=days) for days in (-1, 0, 1)]
    return any(day.strftime(form) in text for day in days for form in ("%Y-%m-%d", "%Y%m%d", "%Y/%m/%d"))
