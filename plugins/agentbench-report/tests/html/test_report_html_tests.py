"""The tests of an attempt by name, from ``logs/tests.json``: expected and actual values, checks, damaged files."""

import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from agentbench_core import RunView, escape_control
from agentbench_core.harness import DateRange
from agentbench_report.html import attempt, listing, results
from agentbench_report.html.environment import templates
from agentbench_report.html.texts import Texts
from agentbench_report.html.timeline import timelines
from agentbench_testing import write_run

Make = Callable[..., Any]
Show = Callable[..., str]

WRONG = {"line": 12, "assertion": "parse('1h') == 3600", "expected": "3600", "got": "60", "difference": "3600 != 60"}
CHECKS = {"must_fail": "failed", "must_pass": "passed", "records": 54, "assertions": 53, "blinded": 42, "problems": []}


def one(name: str = "t.py::test_a", outcome: str = "passed", **more: Any) -> dict[str, Any]:
    return {"id": name, "list": "fail_to_pass", "outcome": outcome, "seconds": 0.01, "message": "", **more}


def judged(*tests: Mapping[str, Any], passed: bool = True, **more: Any) -> dict[str, Any]:
    return {"schema": 1, "passed": passed, "explanation": "", "tests": tests, "checks": CHECKS, **more}


def passing(count: int) -> list[dict[str, Any]]:
    return [one(f"t.py::test_a[{n}]") for n in range(count)]


@pytest.fixture
def run_with(tmp_path: Path) -> Callable[[object], RunView]:
    def make(content: object) -> RunView:
        data = content if isinstance(content, (bytes, str)) else json.dumps(content)
        files: dict[str, str | bytes] = {"logs/passing_stdout.txt": "43 passed"}
        if content is not None:
            files["logs/tests.json"] = data
        return write_run(tmp_path / "run", {"x": False}, files=lambda _: files)

    return make


@pytest.fixture
def show(run_with: Callable[[object], RunView]) -> Show:
    """Return the page of an attempt as HTML, without the plots of a report."""

    def made(content: object) -> str:
        view = run_with(content)
        (one,) = listing.listing(listing.sides([view], DateRange()))
        assert one.row is not None
        ((_, timeline),) = timelines(view.events(), [one.row.attempt_id])
        return attempt.page(one, timeline)

    return made


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def section(html: str) -> str:
    return html.partition("<h2>Tests</h2>")[2].partition("</section>")[0]


# --- results -----------------------------------------------------------------------------------------------------


def test_an_attempt_that_passed(show: Show) -> None:
    found = section(show(judged(*passing(57))))
    assert '<p class="headline passed">' in found
    assert words(found).startswith(
        "✓ 57 of 57 expected tests passed Passed 57 test before after expected time "
        "t.py::test_a[0] fails passes passes 10 ms"
    )
    assert " open" not in found, "many tests are folded"


def test_few_tests_that_passed_are_shown(show: Show) -> None:
    assert "<details open><summary>Passed" in section(show(judged(*passing(3))))


def test_an_attempt_that_failed(show: Show) -> None:
    """Failed tests come first: a table of outcomes before, after and expected, then the values, expanded."""
    failed = one("t.py::test_b", "failed", list="pass_to_pass", differences=[WRONG], more_differences=4)
    raised = one("t.py::test_c", "error", message="boom\nValueError", seconds=None)
    found = section(show(judged(*passing(3), failed, raised, passed=False)))
    assert '<p class="headline failed">' in found
    said = words(found)
    assert said.startswith(
        "✗ 2 of 5 expected tests failed test before after expected time "
        "t.py::test_b passes fails passes 10 ms t.py::test_c fails error passes – "  # noqa: RUF001
        "✗ failed t.py::test_b line 12"
    )
    assert "line 12 parse('1h') == 3600 expected 3600 got 60 first difference 3600 != 60" in said
    assert "4 more values not shown" in said
    assert "✗ error t.py::test_c boom ValueError" in said
    assert found.count('<details class="test" open>') == 2
    assert said.index("test_c") < said.index("test_a[0]")


@pytest.mark.parametrize(
    ("tests", "passed", "headline"),
    [
        ([one(), one("b", "failed")], False, "✗ 1 of 2 expected tests failed"),
        ([one("a", "error"), one("b", "not run")], False, "✗ 2 of 2 expected tests did not pass: 1 error, 1 not run"),
        (
            [one("a", "skipped"), one("b", "repeated")],
            False,
            "✗ 2 of 2 expected tests did not pass: 1 skipped, 1 repeated",
        ),
        ([one(), one("b", "not run")], False, "✗ 1 of 2 expected tests was not run"),
        ([one()], True, "✓ 1 of 1 expected test passed"),
        ([one()], False, "✗ 1 of 1 expected test passed, but the attempt did not"),
        ([one("a", "failed")], True, "✗ 1 of 1 expected test failed"),
        ([one(list=""), one("b", "skipped", list="")], True, "✓ 1 of 2 tests passed, 1 skipped"),
        ([one(list=""), one("b", "failed", list="")], False, "✗ 1 of 2 tests failed"),
        ([], False, "✗ No tests were run"),
        ([one(), one("b", "failed", list="")], True, "✓ 1 of 1 expected test passed"),
    ],
)
def test_headlines(show: Show, tests: list[Any], passed: bool, headline: str) -> None:
    html = section(show(judged(*tests, passed=passed)))
    found = re.search(r'<p class="headline (passed|failed)">(.*?)</p>', html, re.DOTALL)
    assert found
    assert (words(found[2]), found[1]) == (headline, "passed" if "✓" in headline else "failed")


def test_tests_without_details_share_one_table(show: Show) -> None:
    """Tests without details, as after a session that ended early, share one table."""
    tests = [one(f"t.py::test_{n}", "not run", seconds=None) for n in range(57)]
    found = section(show(judged(*tests, passed=False, explanation="the process ended with 139")))
    assert words(found).startswith("✗ 57 of 57 expected tests were not run the process ended with 139")
    assert found.count("<details") == 1, "expected one table, and the checks"
    assert "not run" in words(found).partition("t.py::test_0")[2]


def test_unexpected_tests_are_listed_separately(show: Show) -> None:
    extra = one("t.py::test_new", "failed", list="", message="secret")
    said = words(section(show(judged(one(), extra))))
    assert "Other tests, not counted 1 test after time t.py::test_new fails 10 ms" in said


def test_number_of_rows_is_bounded(show: Show) -> None:
    failed = [one(f"t.py::test_f[{n}]", "failed", differences=[WRONG] * 9) for n in range(700)]
    html = section(show(judged(*failed, *passing(2000), passed=False)))
    said = words(html)
    assert "✗ 700 of 2,700 expected tests failed" in said
    assert html.count('<details class="test"') == results.MAX_FAILED
    assert html.count('<table class="values"') == results.MAX_FAILED * results.MAX_WRONG
    assert f"and {700 - results.MAX_ROWS:,} more in tasks/x/logs/tests.json" in said
    assert "and 1,500 more in tasks/x/logs/tests.json" in said
    assert html.count("<tr>") < 2 * 500 + 3 * 3 * results.MAX_FAILED + 10


def test_long_texts_are_truncated(show: Show) -> None:
    long = "x" * 2_000_000
    wrong = {"line": 1, "assertion": long, "expected": long, "got": long, "difference": long}
    html = section(show(judged(one(long, "failed", message=long, differences=[wrong]), passed=False, explanation=long)))
    assert len(html) < 40_000
    assert "bytes left out" in html
    assert "tasks/x/logs/tests.json" in html


# --- verdict checks ----------------------------------------------------------------------------------------------


def test_checks_are_one_collapsed_line(show: Show) -> None:
    html = section(show(judged(one())))
    line = (
        "Verdict checks: 42 of 53 assertions blinded, 54 values compared on the host, must-fail test failed, "
        "must-pass test passed"
    )
    assert re.search(r'<details class="checks"><summary>\s*' + re.escape(line) + r"\s*</summary>", html)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"must_fail": "passed"}, "must-fail test passed"),
        ({"must_pass": "not run"}, "must-pass test not run"),
        ({"problems": ["two values under one number"]}, "1 problem"),
        ({"problems": ["a"] * 100}, "100 problems"),
    ],
)
def test_checks_with_findings_are_expanded(show: Show, more: Mapping[str, Any], said: str) -> None:
    html = section(show(judged(one(), passed=False, checks=CHECKS | more)))
    assert '<details class="checks" open><summary class="failed">' in html
    assert said in words(html)
    assert html.count("<li>") == min(len(more.get("problems", ())), results.MAX_PROBLEMS)


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        (
            CHECKS | {"assertions": 0, "blinded": 0, "records": 1},
            "Verdict checks: 1 value compared on the host, must-fail",
        ),
        (CHECKS | {"must_fail": "", "must_pass": ""}, "54 values compared on the host 42"),
    ],
)
def test_checks_that_did_not_run_are_omitted(show: Show, checks: object, line: str) -> None:
    assert line.partition(" 42")[0] in words(section(show(judged(one(), checks=checks))))


def test_without_checks_there_is_no_line(show: Show) -> None:
    assert "Verdict checks" not in show({"schema": 1, "passed": True, "tests": [one()]})


# --- missing and damaged files -----------------------------------------------------------------------------------


def test_page_without_the_file_has_no_tests_section(show: Show) -> None:
    html = show(None)
    assert "<h2>Tests</h2>" not in html
    assert "tests.json" not in html
    assert "<details open><summary>After the change" in html


def test_output_is_collapsed_if_the_file_exists(show: Show) -> None:
    assert "<details><summary>After the change" in show(judged(one()))


BAD: list[tuple[str, object]] = [
    ("empty", b""),
    ("torn", json.dumps(judged(one()))[:-7]),
    ("no object", "[1, 2]"),
    ("another schema", judged(one()) | {"schema": 2}),
    ("no tests", {"schema": 1, "passed": True}),
    ("a number for a name", judged(one(id=3))),
    ("a text for a number", judged(one(seconds="0.1"))),
    ("no number", b'{"schema": 1, "passed": true, "tests": [{"id": "a", "outcome": "passed", "seconds": NaN}]}'),
    ("an unknown outcome", judged(one(outcome="<script>" * 1000))),
    ("an unknown list", judged(one(list="x"))),
    ("text for passed", judged(passed="yes")),  # type: ignore[arg-type]
    ("null", judged(one(message=None))),
    ("a huge number", judged(one(more_differences=10**400))),
    ("a number below zero", judged(one(more_differences=-1))),
    ("a list for checks", judged(checks=[])),
    ("a mapping for tests", judged() | {"tests": {"a": "passed"}}),
    ("bytes that are no text", b'{"schema": 1, "explanation": "\xff"}'),
    ("deep", b'{"schema": 1, "x": ' + b"[" * 200_000),
    ("deep, with a lone surrogate", b'{"a": "\\ud800", "x": ' + b"[" * 200_000),
    ("too large", b" " * (results.MAX_BYTES + 1) + b"{}"),
]


@pytest.mark.parametrize(("what", "content"), BAD, ids=[name for name, _ in BAD])
def test_a_damaged_file_is_one_line(show: Show, what: str, content: object) -> None:
    html = show(content)
    assert html.count("tests.json cannot be read") == 1, what
    assert "<h2>Tests</h2>" not in html
    assert "<details open><summary>After the change" in html
    line = re.search(r'<p class="notes plain">(.*?)</p>', html, re.DOTALL)
    assert line
    assert len(line[1]) < 400


def test_unknown_fields_are_ignored(show: Show) -> None:
    assert "1 of 1 expected test passed" in words(show(judged(one(new="field"), more={"a": 1})))


def test_invalid_durations(show: Show) -> None:
    said = words(section(show(judged(*(one(seconds=value) for value in (-1, 1e300, None))))))
    assert "e+" not in said
    assert said.count("fails passes passes –") == 3  # noqa: RUF001


# --- hostile -----------------------------------------------------------------------------------------------------


def test_ten_megabytes_and_a_hundred_thousand_tests(show: Show) -> None:
    """H20: the page stays small for a huge file."""
    tests = [one(f"t.py::test_<script>\u202e[{n}]", list="pass_to_pass") for n in range(100_000)]
    content = json.dumps(judged(*tests), separators=(",", ":"))
    assert len(content) > 10_000_000
    html = show(content)
    assert "100,000 of 100,000 expected tests passed" in words(html)
    assert len(html) < 150_000
    assert "<script" not in html
    assert html == escape_control(html)


def test_lone_surrogates_are_shown(show: Show) -> None:
    """A name that is not UTF-8 is escaped, and the file is not treated as damaged."""
    html = show(
        judged(one("t.py::test_\ud800"), one("b", "failed", message="\udcff", differences=[WRONG | {"got": "\udfff"}]))
    )
    assert all(escape in html for escape in ("test_\\ud800", "\\udcff", "\\udfff"))


_ANY = st.text(st.characters(exclude_characters="\n\r\t", codec=None), max_size=30)
_TESTS = st.lists(
    st.fixed_dictionaries(
        {
            "id": _ANY,
            "list": st.sampled_from(["fail_to_pass", "pass_to_pass", ""]),
            "outcome": st.sampled_from(["passed", "failed", "error", "skipped", "not run", "repeated"]),
            "seconds": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "message": _ANY,
            "differences": st.lists(
                st.fixed_dictionaries(
                    dict.fromkeys(("assertion", "expected", "got", "difference"), _ANY) | {"line": st.integers(0, 99)}
                ),
                max_size=4,
            ),
            "more_differences": st.integers(0, 9),
        }
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(tests=_TESTS, problems=st.lists(_ANY, max_size=3), outcome=_ANY, passed=st.booleans())
def test_no_text_of_the_file_changes_the_structure(
    tests: list[dict[str, Any]], problems: list[str], outcome: str, passed: bool
) -> None:
    """H20: hostile text gives the same tags, in the same order, as harmless text."""

    def tags(content: object) -> list[str]:
        data = json.dumps(content).encode()
        found = results.shown(results.read(data), Texts(None, "x", 1), "")  # type: ignore[arg-type]
        html = templates().get_template("tests.html.j2").render(tests=found, directory="tasks/x")
        assert html == escape_control(html)
        return re.findall(r"<[^>]*>", re.sub(r'aria-label="[^"]*"', "", html))

    def harmless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: one if key in ("list", "outcome") else harmless(one) for key, one in value.items()}
        return (
            [harmless(one) for one in value]
            if isinstance(value, list)
            else value and "x"
            if isinstance(value, str)
            else value
        )

    checks = CHECKS | {"must_fail": outcome, "problems": problems}
    content = judged(*tests, passed=passed, checks=checks)
    plain = judged(
        *harmless(tests), passed=passed, checks=CHECKS | {"must_fail": outcome and "x", "problems": harmless(problems)}
    )
    assert tags(content) == tags(plain)
