"""Results per test from a JUnit XML file that pytest wrote. The file comes out of a sandbox: it is hostile."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

LARGEST = 64 << 20  # bytes
MOST_TESTS = 200_000
_DEEPEST = 64
"""Parts of a dotted name that are looked at."""


def outcomes(data: bytes, known: Collection[str] = ()) -> Mapping[str, str]:
    """Outcome by pytest id: ``passed``, ``failed``, ``error``, ``skipped``, or ``repeated`` for one that is not unique.

    ``known`` are files that have tests; one whose tests are all inherited is not named in the report.
    Needs ``junit_family=xunit1``, which names the file of each test. Damaged or hostile XML gives no outcome.
    """
    try:
        cases = list(_cases(data))
    except (ParseError, DefusedXmlException, ValueError, LookupError):  # an encoding may have any name
        return {}
    if len(cases) > MOST_TESTS:
        return {}
    files = {_module(file): file for file in sorted({*known, *(case.get("file", "") for case, _ in cases)})}
    found = [(test_id(case, files), outcome) for case, outcome in cases]
    times = Counter(name for name, _ in found)
    return {name: outcome if times[name] == 1 else "repeated" for name, outcome in found}


def _cases(data: bytes) -> Iterator[tuple[Mapping[str, str], str]]:
    """Attributes and outcome of each test, at most one more than there may be; the rest of the tree is let go of."""
    above: list[Element] = []
    number = 0
    for event, element in iterparse(io.BytesIO(data), events=("start", "end")):
        if event == "start":
            above.append(element)
            continue
        above.pop()
        if element.tag == "testcase":
            yield dict(element.attrib), _outcome(element)
            number += 1
            if number > MOST_TESTS:
                return
        if above and not any(each.tag == "testcase" for each in above):
            above[-1].remove(element)


def test_id(case: Mapping[str, str], files: Mapping[str, str]) -> str:
    """``tests/test_x.py::TestY::test_z[param]``, from the attributes ``file``, ``classname`` and ``name``.

    ``file`` is where a test is defined; one that is inherited is collected elsewhere, in one of the other ``files``,
    which are given by the names of their modules.
    """
    file, classname, name = (case.get(key, "") for key in ("file", "classname", "name"))
    parts = classname.split(".")[:_DEEPEST]
    modules = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    file = next((files[module] for module in modules if files.get(module)), file)
    inner = classname.removeprefix(_module(file)).strip(".")
    return "::".join(part for part in (file, *inner.split("."), name) if part)


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _outcome(case: Element) -> str:
    for tag, outcome in (("error", "error"), ("failure", "failed"), ("skipped", "skipped")):
        if case.find(tag) is not None:
            return outcome
    return "passed"
