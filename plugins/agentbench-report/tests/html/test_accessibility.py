"""The report is accessible: axe finds no violation of WCAG 2.2 (A and AA) or of its best practices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Make = Callable[..., Any]
Report = Callable[..., Path]
Visit = Callable[..., tuple[Page, Any]]
Check = Callable[..., list[str]]

ENDS_OF_B = {"daybook-clock-change": True, "durations-parse-units": False, "inkwell-torn-journal": True}


@pytest.fixture
def two(make_evidence: Make, report_once: Report) -> Path:
    """The report on two runs that differ, with a task that only one of them has."""
    a = {task: not passed for task, passed in ENDS_OF_B.items()} | {"only-in-a": True}
    return report_once("accessible-two", lambda: [make_evidence("a", a), make_evidence("b", ENDS_OF_B)])


@pytest.mark.release
@pytest.mark.parametrize(
    ("report", "fragment"),
    [("one", ""), ("two", ""), ("one", "#attempt=2"), ("two", "#pair=2,6")],
    ids=["overview", "comparison", "attempt", "pair"],
)
def test_axe_finds_no_violation_in_both_themes_wide_and_narrow(
    report: str, fragment: str, request: pytest.FixtureRequest, visit: Visit, accessibility_problems: Check
) -> None:
    """Contrast is checked by ``test_text_is_readable_in_both_themes``."""
    page, _ = visit(request.getfixturevalue(report), fragment)
    if fragment:
        page.get_by_role("heading", name="Turns").first.wait_for()
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")  # rules skip hidden parts
    for theme, width in (("light", 1280), ("dark", 390)):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": 800})
        page.locator(f"html[data-theme={theme}]").wait_for()
        assert accessibility_problems(page, contrast=False) == [], f"{theme}, {width} px"


def test_axe_sees_the_page_and_finds_what_is_wrong(one: Path, visit: Visit, accessibility_problems: Check) -> None:
    page, _ = visit(one)
    page.evaluate("document.querySelector('label').remove(); document.querySelector('h2').style.color = '#ddd'")
    assert {problem.partition(":")[0] for problem in accessibility_problems(page)} == {"label", "color-contrast"}
