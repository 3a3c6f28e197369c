"""Format a gate report as JUnit XML with one test case per check."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from agentbench_core import escape_control
from agentbench_report.gate.report import Check, GateReport
from agentbench_report.gate.text import caution_lines, moved_lines

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot represent, even escaped (W3C XML 1.0, production 2, Char)."""

_CLASSNAME = "agentbench.gate"


def junit_xml(report: GateReport, *, inconclusive_ok: bool) -> bytes:
    """The document as UTF-8. Inconclusive checks are errors, or skipped if they do not fail the gate."""
    inconclusive = "skipped" if inconclusive_ok else "error"
    elements = {"pass": "", "fail": "failure", "inconclusive": inconclusive}
    results = [elements[check.status] for check in report.checks]
    suite = _suite(f"gate {report.suite}", len(results), results)
    properties = {
        "verdict": report.verdict,
        "baseline": report.baseline.run_id,
        "candidate": report.candidate.run_id,
        "rules": report.rules_from,
        "regressed": ", ".join(task.task_id for task in report.regressed),
        "improved": ", ".join(task.task_id for task in report.improved),
    }
    _properties(suite, properties)
    for check, element in zip(report.checks, results, strict=True):
        _case(suite, check, element, report)
    if report.overridden or report.warnings or report.quarantined:
        ElementTree.SubElement(suite, "system-out").text = _clean("\n".join(caution_lines(report)))
    return _document(suite)


def refused_junit(message: str) -> bytes:
    """The document of a gate that reached no verdict. It replaces an older report."""
    suite = _suite("gate", 1, ["error"])
    _properties(suite, {"verdict": "refused"})
    case = ElementTree.SubElement(suite, "testcase", classname=_CLASSNAME, name="comparable")
    _add_message(case, "error", "refused", message)
    return _document(suite)


def _suite(name: str, tests: int, results: list[str]) -> ElementTree.Element:
    counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    numbers = {key: str(results.count(element)) for key, element in counts.items()}
    return ElementTree.Element("testsuite", {"name": _clean(name), "tests": str(tests), **numbers})


def _properties(suite: ElementTree.Element, values: Mapping[str, str]) -> None:
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in values.items():
        ElementTree.SubElement(properties, "property", name=name, value=_clean(value))


def _case(suite: ElementTree.Element, check: Check, element: str, report: GateReport) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=_CLASSNAME, name=_clean(check.name))
    if element:
        _add_message(case, element, check.status, check.why)
    lines = [] if element else [check.why]
    if check is report.checks[0]:  # the check on the difference
        lines += moved_lines(report)
    if lines:
        ElementTree.SubElement(case, "system-out").text = _clean("\n".join(lines))


def _add_message(case: ElementTree.Element, element: str, kind: str, message: str) -> None:
    """Add the result element. ``skipped`` has only a message; others also have a type and text for some CI services."""
    if element == "skipped":
        ElementTree.SubElement(case, element, message=_clean(message))
    else:
        result = ElementTree.SubElement(case, element, type=kind, message=_clean(message))
        result.text = _clean(message)


def _document(suite: ElementTree.Element) -> bytes:
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _clean(text: str) -> str:
    """Escape control characters and remove characters that XML cannot represent."""
    return _NOT_XML.sub("", escape_control(text))
