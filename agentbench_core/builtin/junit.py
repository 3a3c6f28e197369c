"""Results per test from a JUnit XML file that pytest wrote. The file comes out of a sandbox: it is hostile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

LARGEST = 64 << 20  # bytes


def outcomes(data: bytes) -> Mapping[str, str]:
    """Outcome by pytest id: ``passed``, ``failed``, ``error``, ``skipped``, or ``repeated`` for one that is not unique.

    Needs ``junit_family=xunit1``, which names the file of each test. Damaged or hostile XML gives no outcome.
    """
    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError):
        return {}
    found = [(test_id(case), _outcome(case)) for case in root.iter("testcase")]
    times = Counter(name for name, _ in found)
    return {name: outcome if times[name] == 1 else "repeated" for name, outcome in found}


def test_id(case: Element) -> str:
    """``tests/test_x.py::TestY::test_z[param]``, from the attributes ``file``, ``classname`` and ``name``."""
    file, classname, name = (case.get(key, "") for key in ("file", "classname", "name"))
    module = file.removesuffix(".py").replace("/", ".")
    inner = classname.removeprefix(module).strip(".")
    return "::".join(part for part in (file, *inner.split("."), name) if part)


def _outcome(case: Element) -> str:
    for tag, outcome in (("error", "error"), ("failure", "failed"), ("skipped", "skipped")):
        if case.find(tag) is not None:
            return outcome
    return "passed"
