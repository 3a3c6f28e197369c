"""Results per test from a JUnit XML file that pytest wrote. The file comes out of a sandbox: it is hostile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

LARGEST = 64 << 20  # bytes
_DEEPEST = 64
"""Parts of a dotted name that are looked at."""


def outcomes(data: bytes, known: Collection[str] = ()) -> Mapping[str, str]:
    """Outcome by pytest id: ``passed``, ``failed``, ``error``, ``skipped``, or ``repeated`` for one that is not unique.

    ``known`` are files that have tests; one whose tests are all inherited is not named in the report.
    Needs ``junit_family=xunit1``, which names the file of each test. Damaged or hostile XML gives no outcome.
    """
    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError, LookupError):  # an encoding may have any name
        return {}
    cases = list(root.iter("testcase"))
    files = {_module(file): file for file in sorted({*known, *(case.get("file", "") for case in cases)})}
    found = [(test_id(case, files), _outcome(case)) for case in cases]
    times = Counter(name for name, _ in found)
    return {name: outcome if times[name] == 1 else "repeated" for name, outcome in found}


def test_id(case: Element, files: Mapping[str, str]) -> str:
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
