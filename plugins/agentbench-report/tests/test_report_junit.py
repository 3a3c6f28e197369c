"""The JUnit XML of a gate, parsed back."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import FailureReason
from agentbench_report.gate.config import LABELS, GateRules
from agentbench_report.gate.decision import decide
from agentbench_report.gate.junit import junit_xml, refused_junit
from agentbench_report.gate.report import GateReport
from agentbench_report.reading import read
from agentbench_testing import write_run

RULES = GateRules(margin=0.05, min_pairs=60, min_pass_rate=0, labels=LABELS)
HOSTILE = "\x00\x1b[31m\ufffe\ud800]]></system-out><failure/>\"'&\u202egnp\x85\r\n"


def judged(tmp_path: Path, candidate: object, name: str = "task") -> GateReport:
    """Return the decision on 60 tasks. The baseline passes all but the last."""
    ids = [f"{name}-{i:02}" for i in range(60)]
    a = write_run(tmp_path / "a", {task: i < 59 for i, task in enumerate(ids)})
    b = write_run(tmp_path / "b", dict.fromkeys(ids, candidate), run={"variant": name})
    return decide(read(a.directory), read(b.directory), RULES)


def suite(xml: bytes) -> ElementTree.Element:
    root = ElementTree.fromstring(xml)
    assert root.tag == "testsuites"
    (found,) = root
    return found


def test_a_case_per_check(tmp_path: Path) -> None:
    report = judged(tmp_path, True)
    found = suite(junit_xml(report, inconclusive_ok=False))
    assert [case.get("name") for case in found.iter("testcase")] == [check.name for check in report.checks]
    assert {name: found.get(name) for name in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "gate custom-dev",
        "tests": str(len(report.checks)),
        "failures": "0",
        "errors": "0",
        "skipped": "0",
    }
    properties = {one.get("name"): one.get("value") for one in found.iter("property")}
    assert properties == {
        "verdict": "pass",
        "baseline": "run-a",
        "candidate": "run-b",
        "rules": "top level",
        "regressed": "",
        "improved": "task-59",
    }


def test_a_fail_is_a_failure_and_names_the_tasks(tmp_path: Path) -> None:
    report = judged(tmp_path, FailureReason.TIMEOUT)
    found = suite(junit_xml(report, inconclusive_ok=False))
    case = next(iter(found.iter("testcase")))
    (failure,) = case.findall("failure")
    assert (found.get("failures"), failure.get("type"), failure.get("message")) == ("1", "fail", report.reason)
    assert "regressed: task-00: 100.0% to 0.0%: TIMEOUT" in (case.findtext("system-out") or "").splitlines()


@pytest.mark.parametrize(("inconclusive_ok", "element"), [(False, "error"), (True, "skipped")])
def test_inconclusive_check_is_an_error_unless_accepted(tmp_path: Path, inconclusive_ok: bool, element: str) -> None:
    report = judged(tmp_path, None)
    found = suite(junit_xml(report, inconclusive_ok=inconclusive_ok))
    undecided = [check.why for check in report.checks if check.status == "inconclusive"]
    assert undecided
    assert [one.get("message") for one in found.iter(element)] == undecided
    counted = "errors" if element == "error" else "skipped"
    assert found.get(counted) == str(len(undecided))


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    report = judged(tmp_path, False, HOSTILE.replace("\x00", "").replace("/", ""))
    xml = junit_xml(report, inconclusive_ok=False)
    found = suite(xml)
    assert {element.tag for element in found.iter()} == {
        *("testsuite", "properties", "property", "testcase", "failure", "system-out")
    }
    assert found.get("failures") == str(len(list(found.iter("failure")))) == "1"
    assert "\u202e" not in xml.decode()
    assert "\x1b" not in xml.decode()


def test_warnings_are_in_the_output_of_the_suite(tmp_path: Path) -> None:
    report = attrs.evolve(judged(tmp_path, True), warnings=("B is \x1b[31m odd",), overridden=("other limits",))
    said = (suite(junit_xml(report, inconclusive_ok=False)).findtext("system-out") or "").splitlines()
    assert said[0] == "not comparable (overridden by a flag): other limits"
    assert said[1].startswith("warning: B is ")
    assert "\x1b" not in said[1]


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_gives_valid_xml(text: str) -> None:
    found = suite(refused_junit(HOSTILE + text))
    (error,) = found.iter("error")
    assert "<failure/>" in (error.text or "")


def test_refusal_is_an_error() -> None:
    found = suite(refused_junit("The tasks are not the same."))
    assert (found.get("tests"), found.get("errors")) == ("1", "1")
    assert found.findtext("testcase/error") == "The tasks are not the same."
