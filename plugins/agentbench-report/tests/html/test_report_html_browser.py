"""The report in a real browser: interaction, accessibility and hostile content."""

import contextlib
import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser

Make = Callable[..., Any]
Report = Callable[..., Path]
Visit = Callable[..., tuple[Page, Any]]

OTHER_ENDINGS = {"daybook-clock-change": False, "durations-parse-units": True, "inkwell-torn-journal": True}


@pytest.fixture
def two(make_evidence: Make, report_once: Report) -> Path:
    a = OTHER_ENDINGS | {"only-in-a": True}
    return report_once("two", lambda: [make_evidence("a", a), make_evidence("b", dict(ENDS_OF_B))])


ENDS_OF_B = {task: not passed for task, passed in OTHER_ENDINGS.items()} | {"inkwell-torn-journal": True}


def attempts(page: Page) -> Locator:
    return page.locator("#attempts tbody tr:visible")


def column(page: Page, number: int) -> list[str]:
    return [
        " ".join(text.split())
        for text in page.locator(f"#attempts tbody tr:visible > :nth-child({number})").all_text_contents()
    ]


# --- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_filter_by_text_and_by_result(one: Path, visit: Visit) -> None:
    page, _ = visit(one)
    expect(page.get_by_role("status")).to_have_text("12 attempts")
    page.get_by_label("Search").fill("TESTS_failed durations")
    expect(attempts(page)).to_have_count(1)
    expect(page.get_by_role("status")).to_have_text("1 of 12 attempts")
    page.get_by_label("Search").fill("")
    page.get_by_label("Result").select_option("missing")
    assert column(page, 1) == ["lintstack-profile-leak", "tables-shorten-overflow"]
    page.get_by_label("Reason", exact=True).select_option("not recorded")
    assert column(page, 1) == ["tables-shorten-overflow"]
    page.get_by_role("button", name="Clear").click()
    expect(attempts(page)).to_have_count(12)
    page.get_by_label("Label").select_option("denied_path_touched")
    assert 0 < attempts(page).count() < 12
    assert set(column(page, 4)) <= {"denied_path_touched", "replayed denied_path_touched"}


def test_sort_by_every_column(one: Path, visit: Visit) -> None:
    page, _ = visit(one)
    heads = page.locator("#attempts thead th")
    assert heads.count() == 9
    for number in range(heads.count()):
        head = heads.nth(number)
        button = head.get_by_role("button")
        button.click()
        up = head.get_attribute("aria-sort") == "ascending"
        first = column(page, number + 1)
        button.click()
        assert head.get_attribute("aria-sort") == ("descending" if up else "ascending")
        assert page.locator("#attempts th[aria-sort]").count() == 1
        second = column(page, number + 1)
        full = [text for text in first if text]
        assert full == first[: len(full)], "empty cells should come last in both directions"
        assert [text for text in second if text] == full[::-1] or len(set(full)) < len(full)
        assert sorted(second) == sorted(first)


def test_numbers_are_sorted_as_numbers(one: Path, visit: Visit) -> None:
    page, _ = visit(one)
    page.get_by_role("button", name="time").click()
    shown = [text for text in column(page, 9) if text]
    assert [" min " in text for text in shown] == sorted(" min " in text for text in shown), "seconds should come first"
    assert {" min " in text for text in shown} == {True, False}
    assert shown != sorted(shown)


# --- an attempt --------------------------------------------------------------------------------------------------


def test_open_an_attempt_and_go_back(one: Path, visit: Visit) -> None:
    page, seen = visit(one)
    page.get_by_role("link", name="durations-parse-units").click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("durations-parse-units")
    expect(heading).to_be_focused()
    assert page.title().startswith("durations-parse-units")
    assert page.url.endswith("#attempt=2")
    parts = page.locator("#attempt h2").evaluate_all("all => all.map(each => each.firstChild.textContent.trim())")
    assert parts == [
        "Prompt",
        "Turns",
        "Final patch",
        "Tests",
        "Test output",
        "Timeline",
        "Delegation tree",
        "Environment",
    ]
    page.get_by_role("navigation", name="Sections").get_by_role("button", name="Timeline").click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_focused()
    expect(page.get_by_role("heading", name="Timeline")).to_be_in_viewport()
    assert page.url.endswith("#attempt=2"), "the address still leads to the attempt"
    page.go_back()
    expect(attempts(page)).to_have_count(12)
    expect(page.get_by_role("link", name="durations-parse-units")).to_be_focused()
    page.go_forward()
    expect(heading).to_have_text("durations-parse-units")
    page.get_by_role("link", name="Next").click()
    expect(heading).to_have_text("gatework-ignored-events")
    page.get_by_role("link", name="All attempts").click()
    expect(page.get_by_role("link", name="gatework-ignored-events")).to_be_focused()
    assert seen.trouble == []


def colour(target: Locator) -> str:
    return str(target.evaluate("e => getComputedStyle(e).color"))


def test_turns_show_each_call_with_its_result(one: Path, visit: Visit) -> None:
    """A command that failed is red even if the tool succeeded. Long output is folded, and diffs are coloured."""
    page, _ = visit(one, "#attempt=2")
    turns = page.locator(".turn")
    expect(turns).to_have_count(2)
    first, second = turns.all()
    expect(first.get_by_text("The longest unit must be tried first.")).to_be_visible()
    patch, command, read, lost = first.locator("details.use").all()
    expect(patch.locator(".add")).to_have_count(1)
    expect(patch.locator(".add")).to_contain_text("longest_first = sorted")
    assert patch.locator(".add").evaluate("e => getComputedStyle(e).backgroundColor") != "rgba(0, 0, 0, 0)"
    status = command.locator(".chip")
    expect(status).to_have_text("exit 1")
    assert colour(status) == colour(page.locator(".verdict .failed")) != colour(read.locator(".chip"))
    expect(command.get_by_text("DurationError: expected a number")).to_be_visible()
    expect(lost.get_by_text("NOT_FOUND there is no such file")).to_be_visible()
    folded = read.get_by_text("def scan")
    expect(folded).to_be_hidden()
    read.locator("summary").click()
    expect(folded).to_be_visible()
    toggle = read.get_by_role("button", name="Show all 40 lines")
    height = folded.evaluate("e => e.clientHeight")
    toggle.click()
    expect(read.get_by_role("button", name="Show less")).to_have_attribute("aria-expanded", "true")
    assert folded.evaluate("e => e.clientHeight") > 2 * height
    expect(second.get_by_text("Done: all tests pass.")).to_be_visible()
    page.get_by_role("button", name="Collapse all").click()
    expect(folded).to_be_hidden()
    page.get_by_role("button", name="Expand all").click()
    expect(folded).to_be_visible()
    assert folded.evaluate("e => e.scrollHeight - e.clientHeight") == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_tests_by_name(make_evidence: Make, report_once: Report, visit: Visit, width: int) -> None:
    """Failed tests are expanded, with expected and actual values. Passed tests and checks are collapsed."""
    path = report_once("tests", lambda: [make_evidence("a", {"failed": False, "passed": True})])
    page, seen = visit(path, "#attempt=1", width=width)
    section = page.locator('#attempt [data-part="tests"]')
    headline = section.locator(".headline")
    expect(headline).to_contain_text("4 of 54 expected tests did not pass: 1 failed, 1 error, 1 not run, 1 repeated")
    red = headline.evaluate("e => getComputedStyle(e).color")
    tests = section.locator("details.test")
    expect(tests).to_have_count(2)
    got = tests.first.locator(".got td").first
    expect(got).to_be_visible()
    expect(got).to_have_text("60")
    expect(tests.last.get_by_text("DurationError: expected a number at 4")).to_be_visible()
    bad = section.get_by_role("group", name="Expected tests that did not pass")
    cells = [row.locator("th, td").all_inner_texts() for row in bad.locator("tr").all()[-4:]]
    assert [[cell.strip() for cell in row[:4]] for row in cells] == [
        ["checks/test_parse.py::test_units[1h]", "fails", "fails", "passes"],
        ["checks/test_parse.py::test_units[1ms]", "fails", "error", "passes"],
        ["tests/test_words.py::test_words[0]", "passes", "not run", "passes"],
        ["tests/test_words.py::test_words[3]", "passes", "repeated", "passes"],
    ]
    passed = section.get_by_role("group", name="Tests that passed")
    expect(passed).to_be_hidden()
    section.get_by_text("Passed 50").click()
    expect(passed.locator("tr")).to_have_count(51)
    expect(passed).to_be_visible()
    page.get_by_role("link", name="Next").click()
    expect(headline).to_contain_text("54 of 54 expected tests passed")
    assert headline.evaluate("e => getComputedStyle(e).color") != red
    assert section.locator("details[open]").count() == 0
    checks = section.get_by_text("Verdict checks: 42 of 53 assertions blinded, 54 values compared on the host")
    expect(checks).to_be_visible()
    checks.click()
    expect(section.get_by_text("never enter the sandbox")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert seen.trouble == []


def test_a_deep_link_opens_the_attempt(one: Path, visit: Visit) -> None:
    page, _ = visit(one, "#attempt=4")
    expect(page.get_by_role("heading", level=1)).to_have_text("inkwell-torn-journal")
    expect(page.locator("#attempt").get_by_text("TIMEOUT", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="inkwell-torn-journal")).to_be_focused()


@pytest.mark.parametrize("fragment", ["#attempt=99", "#attempt=11"])
def test_link_to_a_missing_attempt_shows_a_message(one: Path, visit: Visit, fragment: str) -> None:
    """Attempt 11 was not recorded."""
    page, seen = visit(one, fragment)
    expect(page.get_by_text("This report does not contain that attempt.")).to_be_visible()
    page.get_by_role("link", name="All attempts").click()
    expect(attempts(page)).to_have_count(12)
    assert seen.trouble == []


def test_damaged_part_is_reported_and_others_are_shown(one: Path, visit: Visit) -> None:
    text = one.read_text()
    start = text.index('id="evidence-2">') + 60
    one.write_text(text[:start] + "AAAA" + text[start + 4 :])
    page, _ = visit(one, "#attempt=2")
    expect(page.get_by_text("This attempt cannot be shown")).to_be_visible()
    page.get_by_role("link", name="All attempts").click()
    page.get_by_role("link", name="gatework-ignored-events").click()
    expect(page.get_by_role("heading", name="Turns")).to_be_visible()


def test_by_keyboard_only(one: Path, visit: Visit) -> None:
    page, _ = visit(one)

    def tab_to(target: Locator) -> None:
        for _ in range(60):
            if target.evaluate("e => e === document.activeElement"):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard does not lead to {target}")

    tab_to(page.get_by_label("Search"))
    page.keyboard.type("failed")
    expect(attempts(page)).to_have_count(4)
    tab_to(page.get_by_role("button", name="cost"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="cost")).to_have_attribute("aria-sort", "ascending")
    link = page.get_by_role("link", name="properties-backslash-roundtrip")
    tab_to(link)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("properties-backslash-roundtrip")
    call = page.locator("details.use").nth(2)
    tab_to(call.locator("summary"))
    page.keyboard.press("Enter")
    expect(call.get_by_text("def scan")).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_focused()
    expect(attempts(page)).to_have_count(4)


def test_skip_link_leads_to_the_current_view(one: Path, visit: Visit) -> None:
    page, seen = visit(one)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Attempts")).to_be_focused()
    page.get_by_role("link", name="durations-parse-units").click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_be_focused()
    page.get_by_role("link", name="Skip to the attempt").focus()
    page.keyboard.press("Enter")
    expect(heading).to_be_focused()
    expect(heading).to_have_text("durations-parse-units")
    assert page.url.endswith("#attempt=2")
    page.evaluate(
        "new Promise(done => { addEventListener('hashchange', () => setTimeout(done)); location.hash = 'not-ours'; })"
    )
    expect(heading).to_have_text("durations-parse-units")
    assert seen.trouble == []


def test_back_to_a_place_in_the_report_closes_the_attempt(one: Path, visit: Visit) -> None:
    page, _ = visit(one, "#attempts-title")
    page.get_by_role("link", name="durations-parse-units").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("durations-parse-units")
    page.go_back()
    expect(attempts(page)).to_have_count(12)


# --- two runs ----------------------------------------------------------------------------------------------------


def test_two_runs_side_by_side(two: Path, visit: Visit) -> None:
    page, seen = visit(two)
    table = page.get_by_role("table", name="Tasks with a score in both")
    assert [int(cell.split()[0]) for cell in table.locator("td").all_inner_texts() if cell.strip()] == [1, 1, 1, 0]
    rows = [
        [cell.strip().partition("\n")[0] for cell in row.locator("th, td").all_inner_texts()]
        for row in page.locator("#matrix tbody tr").all()
    ]
    assert rows == [
        ["durations-parse-units", "✓ passed", "✗ failed", "regressed"],
        ["daybook-clock-change", "✗ failed", "✓ passed", "improved"],
        ["only-in-a", "✓ passed", "not in this run", "in one run only"],
        ["inkwell-torn-journal", "✓ passed", "✓ passed", "same"],
    ]
    expect(page.get_by_text("These runs are not comparable.")).to_be_visible()
    page.get_by_label("Run", exact=True).select_option("B")
    assert column(page, 1) == ["B"] * 3
    link = page.get_by_role("link", name="failed durations-parse-units, run B, repeat 1")
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("B durations-parse-units")
    page.keyboard.press("Escape")
    expect(link).to_be_focused()
    assert seen.trouble == []


def matrix_rows(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("#matrix tbody tr:visible > th").all_inner_texts()]


def test_a_pair_is_one_click_away_and_aligned(two: Path, visit: Visit) -> None:
    """Regressions come first. The parts and turns of both attempts are side by side."""
    page, seen = visit(two)
    assert matrix_rows(page)[0] == "durations-parse-units"
    link = page.locator("#matrix").get_by_role("link", name="durations-parse-units", exact=True)
    link.click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("durations-parse-units")
    expect(heading).to_be_focused()
    expect(page.locator("#attempt").get_by_text("regressed")).to_be_visible()
    assert page.title().startswith("durations-parse-units")
    sides = page.locator(".names .side")
    expect(sides).to_have_count(2)
    a, b = sides.all()
    expect(a).to_contain_text("passed")
    expect(b).to_contain_text("failed")
    for part in ("patch", "tests", "turns"):
        both = page.locator(f'.beside[data-part="{part}"] > .side')
        expect(both).to_have_count(2)
        boxes = [side.bounding_box() for side in both.all()]
        assert boxes[0]["y"] == boxes[1]["y"]
        assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    rows = page.locator(".beside", has=page.locator(".turn"))
    expect(rows).to_have_count(2)
    assert [row.locator(".turn").count() for row in rows.all()] == [2, 2]
    expect(page.get_by_role("heading", name="Prompt")).to_have_count(1)
    page.get_by_role("link", name="Next").click()
    expect(heading).to_have_text("daybook-clock-change")
    page.locator(".names .B a").click()
    expect(heading).to_have_text("B daybook-clock-change")
    page.go_back()
    page.get_by_role("link", name="Previous").click()
    expect(heading).to_have_text("durations-parse-units")
    page.keyboard.press("Escape")
    expect(link).to_be_focused()
    assert seen.trouble == []


def test_pairs_are_filtered_by_kind_and_text(two: Path, visit: Visit) -> None:
    page, _ = visit(two)
    kinds = page.get_by_role("group", name="Kind")
    names = [" ".join(text.split()) for text in kinds.get_by_role("button").all_inner_texts()]
    assert names == ["all 4", "regressions 1", "gains 1", "both passed 1", "not paired 1"]
    kinds.get_by_role("button", name="gains").click()
    expect(kinds.get_by_role("button", name="gains")).to_have_attribute("aria-pressed", "true")
    assert matrix_rows(page) == ["daybook-clock-change"]
    page.locator("#matrix").get_by_role("link", name="daybook-clock-change", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("daybook-clock-change")
    expect(page.get_by_role("link", name="Next")).to_be_hidden()
    page.keyboard.press("Escape")
    kinds.get_by_role("button", name="all").click()
    page.get_by_label("Search pairs").fill("torn passed")
    assert matrix_rows(page) == ["inkwell-torn-journal"]
    expect(page.locator("#pairs-shown")).to_have_text("1 of 4 tasks")


def test_link_to_a_pair_with_a_missing_attempt_shows_a_message(two: Path, visit: Visit) -> None:
    page, seen = visit(two, "#pair=1,99")
    expect(page.get_by_text("This report does not contain both attempts.")).to_be_visible()
    page.goto(f"{two.as_uri()}#pair=1,5")
    expect(page.get_by_role("heading", name="Final patch")).to_have_count(2)
    page.get_by_role("link", name="All attempts").click()
    expect(page.get_by_role("heading", name="Comparison")).to_be_visible()
    assert seen.trouble == []


REPEATED = {"first": [True, True, False, None, True], "second": [False, False, True, False, False]}


@pytest.fixture
def repeats(make_evidence: Make, report_once: Report, hostility: tuple[str, Callable[[str], str]]) -> Path:
    """Two runs with five repeats, and a long and a hostile name."""
    bad, say = hostility
    long = "a-task-with-a-very-long-name-" * 6
    b = {"first": REPEATED["second"], "second": REPEATED["first"], bad: [False] * 5, long: [True] * 5}
    a = b | REPEATED
    costs = {"record": lambda record: record}  # without replayed attempts, so that the runs are comparable
    return report_once("repeats", lambda: [make_evidence("a", a, say, **costs), make_evidence("b", b, say, **costs)])


@pytest.mark.release
def test_repeats_of_a_pair_can_be_chosen(repeats: Path, visit: Visit) -> None:
    """A task opens a pair that shows its change. Other repeats are one click away."""
    page, seen = visit(repeats)
    expect(page.locator("#matrix tr", has_text="first").locator(".passes").first).to_have_text("3 of 5")
    page.locator("#matrix").get_by_role("link", name="first", exact=True).click()
    sides = page.locator(".names .side")
    expect(sides).to_have_count(2)
    a, b = sides.all()
    expect(a).to_contain_text("passed")
    expect(b).to_contain_text("failed")
    chosen = page.locator('.repeats [aria-current="true"]')
    expect(chosen).to_have_count(2)
    page.locator(".repeats").get_by_role("link", name="run B, repeat 3").click()
    expect(b).to_contain_text("passed")
    expect(chosen.last).to_contain_text("repeat 3")
    assert seen.trouble == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_fits_every_width(repeats: Path, visit: Visit, theme: str) -> None:
    """Nothing is cut off with five repeats, hostile text and everything expanded. Tables need no scrolling."""
    page, _ = visit(repeats, theme=theme)
    expect(page.get_by_role("heading", name="Difference in pass rate")).to_be_visible()
    expect(page.locator(".amounts tbody tr")).to_have_count(4)
    pair = page.locator("#matrix th a").first.get_attribute("href")
    for fragment in ("", "#attempt=1", pair):
        page.goto(f"{repeats.as_uri()}{fragment}")
        if fragment:
            page.get_by_role("button", name="Expand all").click()
        page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width, (fragment, width)
            cut = page.locator(".scroll:has(.stack):visible").evaluate_all(
                "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.ariaLabel)"
            )
            assert cut == [], (fragment, width)


# --- hostile content ---------------------------------------------------------------------------------------------


@pytest.fixture
def request_log() -> Iterator[tuple[str, list[str]]]:
    """A server and the list of paths requested from it."""
    paths: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        do_POST = do_GET  # noqa: N815 - name used by the server

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/known")
        assert paths.pop() == "/known"
        yield url, paths
        server.shutdown()
        thread.join()


@pytest.mark.long
def test_hostile_content_runs_no_script_and_sends_no_request(
    make_evidence: Make, report_on: Report, visit: Visit, hostility: tuple[str, Callable[[str], str]]
) -> None:
    """H20: hostile text in every field causes no dialog, error or request in a real browser."""
    bad, say = hostility
    endings = {f"{bad}a": True, f"{bad}b": False, "plain": None}
    words = {"suite": bad, "variant": bad, "agent": bad, "created_at": bad}
    report = report_on(*(make_evidence(name, endings, say, run=words) for name in "ab"))
    page, seen = visit(report)
    page.get_by_label("Label").select_option(index=1)
    assert attempts(page).count() >= 1
    page.get_by_role("button", name="Clear").click()
    for number in (1, 2, 4, 5):
        page.goto(f"{report.as_uri()}#attempt={number}")
        expect(page.get_by_role("heading", name="Turns")).to_be_visible()
        page.get_by_role("button", name="Expand all").click()
        for inserted in ("img", "iframe", "script", "#attempt svg", "object", "embed", "form", "link", "base"):
            assert page.locator(f"#attempt {inserted.removeprefix('#attempt ')}").count() == 0
        links = page.locator("#attempt a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
        assert all(link is None or link.startswith("#") for link in links)
    page.goto(f"{report.as_uri()}#pair=1,5")
    expect(page.get_by_role("heading", name="Final patch")).to_have_count(2)
    page.get_by_role("button", name="Expand all").click()
    assert page.locator("#attempt").locator("img, iframe, script, svg, object, embed, form, link, base").count() == 0
    page.wait_for_timeout(200)  # time for delayed scripts and requests
    assert page.evaluate("window.ran") is None
    assert seen.trouble == []
    assert {url.partition("#")[0] for url in seen.requests} <= {report.as_uri(), "data:,"}
    expect(page.get_by_text("onerror=\"window.ran='img'\"").first).to_be_attached()


def test_content_security_policy_blocks_unescaped_content(
    one: Path, visit: Visit, request_log: tuple[str, list[str]]
) -> None:
    """H20: the policy blocks scripts and requests even if a text were not escaped."""
    url, requests = request_log
    hole = (
        f"<img src={url}/img onerror=\"window.ran='img'\"><script>window.ran='script'</script>"
        f"<iframe src={url}/frame></iframe><link rel=stylesheet href={url}/style><script src={url}/script></script>"
        f"<form action={url}/form id=hole><input name=x></form><style>@import '{url}/import';</style>"
    )
    one.write_text(one.read_text().replace("</h1>", f"{hole}</h1>", 1))
    page, seen = visit(one)
    expect(attempts(page)).to_have_count(12)
    page.evaluate("document.querySelector('h2').innerHTML = '<img src=x onerror=\"window.ran=1\">'")
    page.evaluate("document.getElementById('hole').submit()")
    page.evaluate(f"fetch('{url}/fetch').catch(() => 0); new WebSocket('{url}/socket'.replace('http', 'ws'))")
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in line for line in seen.trouble)
    assert requests == []


# --- appearance --------------------------------------------------------------------------------------------------


CONTRASTS = """
() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(each).backgroundColor);
      if (a === 1) return [r, g, b];
      if (a !== 0) throw new Error('half transparent');
    }
    throw new Error('no background');
  };
  const found = [];
  for (const element of document.querySelectorAll('main:not([hidden]) *, .top *')) {
    if (element.closest('option, [hidden], .sr, style')) continue;
    const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join('');
    if (!text) continue;
    const style = getComputedStyle(element);
    const own = numbers(element.namespaceURI.endsWith('svg') ? style.fill : style.color).slice(0, 3);
    const [a, b] = [luminance(own), luminance(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), element.tagName, element.className.toString(), text.slice(0, 40)]);
  }
  return found;
}
"""


@pytest.mark.parametrize(
    ("report", "fragment"), [("one", ""), ("two", ""), ("two", "#attempt=2"), ("two", "#pair=2,6")]
)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_text_is_readable_in_both_themes(
    request: pytest.FixtureRequest, visit: Visit, theme: str, width: int, report: str, fragment: str
) -> None:
    """The contrast is at least 4.5 to 1 (WCAG AA)."""
    page, _ = visit(request.getfixturevalue(report), fragment, theme=theme, width=width)
    if fragment:
        page.get_by_role("button", name="Expand all").click()
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
    assert page.locator("html").get_attribute("data-theme") == theme
    found = page.evaluate(CONTRASTS)
    assert len(found) > 80
    assert [each for each in found if each[0] < 4.5] == []


def test_the_theme_can_be_chosen(one: Path, visit: Visit) -> None:
    page, _ = visit(one, theme="light")
    before = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != before
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == before


@pytest.mark.parametrize("chosen", [False, True])
def test_print_style_is_light_and_wraps_code(one: Path, visit: Visit, chosen: bool) -> None:
    page, _ = visit(one, "#attempt=2", theme="light" if chosen else "dark")
    if chosen:
        page.get_by_role("button", name="Dark theme").click()
    style = "e => { const s = getComputedStyle(e); return [s.backgroundColor, s.maxHeight, s.whiteSpace]; }"
    html, code = page.locator("html"), page.locator("#attempt pre")
    assert html.evaluate(style)[0] == "rgb(19, 21, 24)"
    folded = page.locator("#attempt .fold pre").first
    assert folded.evaluate(style)[1] != "none"
    page.emulate_media(media="print")
    assert html.evaluate(style)[0] == "rgb(247, 247, 245)"
    assert {tuple(each.evaluate(style)[1:]) for each in code.all()} == {("none", "pre-wrap")}


def test_table_is_shown_without_javascript(one: Path, visit: Visit) -> None:
    page, _ = visit(one, javascript=False, theme="dark")
    expect(page.locator("#attempts tbody tr")).to_have_count(12)
    expect(page.get_by_text("require JavaScript")).to_be_visible()
    assert page.locator(".plot svg").count() == 4


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_a_thousand_attempts(make_evidence: Make, report_on: Report, chromium: Any) -> None:
    """Evidence is decompressed only when it is opened. Every hundredth attempt has some."""
    endings = {f"task-{number:04d}": number % 3 > 0 for number in range(1000)}
    report = report_on(make_evidence("a", endings, full=lambda record: record.task_id.endswith("50")))
    page = chromium.new_page()
    page.add_init_script(
        "window.unpacked = 0; const Real = DecompressionStream;"
        "window.DecompressionStream = class extends Real { constructor(...all) { super(...all); unpacked += 1; } };"
    )
    page.goto(report.as_uri())
    assert page.locator("#attempts tbody tr").count() == 1000
    light = page.evaluate("document.querySelectorAll('*').length")
    assert light < 1000 * 18
    page.get_by_label("Search").fill("task-07 failed")
    expect(page.get_by_role("status")).to_have_text("33 of 1,000 attempts")
    page.get_by_role("button", name="tokens").click()
    assert page.evaluate("unpacked") == 0
    page.get_by_role("link", name="task-0750").click()
    expect(page.get_by_role("heading", name="Turns")).to_be_visible()
    assert page.evaluate("unpacked") == 1
    page.keyboard.press("Escape")
    expect(attempts(page)).to_have_count(33)
    assert abs(page.evaluate("document.querySelectorAll('*').length") - light) < 10, "the attempt is still there"
    page.close()
