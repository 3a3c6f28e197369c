"""The content of the HTML report, read without a browser."""

import base64
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import matplotlib
import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from agentbench_core import AttemptRecord, FailureReason, InputError, NoOptions, Reporter, escape_control
from agentbench_report.command import report
from agentbench_report.html.environment import templates
from agentbench_report.html.page import write
from agentbench_report.html.reporter import HtmlReporter
from agentbench_testing import ReporterConformance, write_run

Make = Callable[..., Any]
Report = Callable[..., Path]
Hostility = tuple[str, Callable[[str], str]]


class Parts(HTMLParser):
    """Tags with their attributes, text, and the content of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self.words.append(" ")
        if tag == "script":
            self.scripts.append((dict(attributes), ""))

    def handle_endtag(self, tag: str) -> None:
        self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        elif self.cdata_elem is None:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def pages(path: Path) -> tuple[Parts, dict[int, Parts]]:
    """Return the report and the embedded pages of attempts by number."""
    parts = Parts(path.read_text("utf-8"))
    held = {
        int(str(attributes["id"]).removeprefix("evidence-")): Parts(gzip.decompress(base64.b64decode(text)).decode())
        for attributes, text in parts.scripts
        if "type" in attributes
    }
    return parts, held


# --- the command and the reporter --------------------------------------------------------------------------------


def test_command_writes_into_the_run_and_prints_the_path(make_evidence: Make) -> None:
    run = make_evidence()
    result = CliRunner().invoke(report, ["html", "--run", str(run.directory)], catch_exceptions=False)
    assert str(run.directory / "report.html") in result.output
    assert "durations-parse-units" in pages(run.directory / "report.html")[0].text
    assert not list(run.directory.glob(".report*"))


def test_command_writes_to_the_given_path(make_evidence: Make, tmp_path: Path) -> None:
    runs = [make_evidence("a"), make_evidence("b", {"only-b": True})]
    out = tmp_path / "both.html"
    command = ["html", "--run", str(runs[0].directory), "--run-b", str(runs[1].directory), "--out", str(out)]
    assert CliRunner().invoke(report, command).exit_code == 0
    assert "only-b" in pages(out)[0].text


def test_a_file_that_cannot_be_written(make_evidence: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write([make_evidence()], tmp_path / "absent" / "report.html")


def test_pipe_is_written_to_and_not_replaced(make_evidence: Make, tmp_path: Path) -> None:
    """A pipe or a device, such as ``--out /dev/null``, is written to and not replaced."""
    run = make_evidence("a", {"x": True})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_text, "utf-8")
        write([run], pipe)
        assert reader.result(timeout=60).startswith("<!DOCTYPE html>")
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_link_as_output_is_kept(make_evidence: Make, tmp_path: Path) -> None:
    run, real, link = make_evidence("a", {"x": True}), tmp_path / "real.html", tmp_path / "link.html"
    link.symlink_to(real)
    write([run], link)
    assert link.is_symlink()
    assert real.read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["x" * 300, "no/such/directory.html", "."])
def test_names_that_cannot_be_written(make_evidence: Make, tmp_path: Path, name: str) -> None:
    run = make_evidence("a", {"x": True})
    with pytest.raises(InputError, match="cannot be written"):
        write([run], tmp_path / name)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_failed_report_keeps_the_previous_one(make_evidence: Make, report_on: Report, tmp_path: Path) -> None:
    run = make_evidence()
    before = report_on(run).read_bytes()
    with (run.directory / "attempts.jsonl").open("a") as file:
        file.write('{"schema": 1}\n')
    with pytest.raises(InputError):
        report_on(run)
    assert (tmp_path / "out.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.html"]


class TestHtmlReporter(ReporterConformance):
    """The reporter passes the conformance suite."""

    @classmethod
    def make_reporter(cls) -> Reporter:
        return HtmlReporter(NoOptions())


def test_the_reporter_writes_into_the_run_directory(make_evidence: Make) -> None:
    run = make_evidence()
    assert HtmlReporter(NoOptions()).report(run, run.directory) == [run.directory / "report.html"]
    assert (run.directory / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_command_module_imports_nothing_heavy() -> None:
    code = (
        "import sys, agentbench_report.plugin, agentbench_report.command;"
        "print([n for n in ('jinja2', 'matplotlib', 'numpy', 'scipy', 'agentbench_report.html') if n in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_same_run_gives_the_same_bytes(
    make_evidence: Make, report_on: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_evidence()
    first = report_on(run).read_bytes()
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)  # at another time
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "text.usetex": True}):  # and settings
        assert report_on(run).read_bytes() == first


# --- content -----------------------------------------------------------------------------------------------------


def test_every_recorded_attempt_has_a_page_and_a_link(one: Path) -> None:
    page, held = pages(one)
    links = [
        attributes["href"] for tag, attributes in page.tags if tag == "a" and "attempt=" in str(attributes["href"])
    ]
    assert [f"#attempt={number}" for number in held] == links
    assert len(held) == 11
    assert "tables-shorten-overflow ○ not recorded" in page.text


def test_missing_attempts_are_not_shown_as_failed(make_evidence: Make, report_on: Report) -> None:
    page, held = pages(report_on(make_evidence("a", {"x": FailureReason.LLM_ERROR, "y": True})))
    assert "2 of 2" not in page.text
    assert "100.0%" in page.text
    assert "x ○ infrastructure error LLM_ERROR" in page.text
    assert (
        "Attempts without a score: 1 of 2 (1 infrastructure error, 0 not recorded). They are not counted as failures."
        in page.text
    )
    assert "not counted as a failure" in held[1].text
    assert "✗" not in page.text + held[1].text


def test_replayed_attempts_are_marked(make_evidence: Make, report_on: Report) -> None:
    run = make_evidence("a", {"x": True}, record=lambda record: attrs.evolve(record, replayed=True))
    page, held = pages(report_on(run))
    assert "x ✓ passed replayed" in page.text
    assert "replayed" in held[1].text
    assert "Attempts replayed with model responses from an earlier run: 1." in page.text


def test_the_page_of_an_attempt(one: Path) -> None:
    page = pages(one)[1][2].text
    for words in (
        "durations-parse-units ✗ failed TESTS_FAILED completed",
        "denied_path_touched tests/test_parse.py was changed, and put back",
        "steps 19 of 30",
        "tokens in 18,165",
        "evidence in tasks/durations-parse-units",
        "E durations.errors.DurationError: expected a number at 4",
        "baseline 2.3 s",
        "router 2 6,756 1",
        "searcher router searcher 0 0 3",
        "tester patcher tester",
        "The longest unit must be tried first.",
        "The pattern takes `m` of `ms`.",
        "6,577 tokens in, 179 out",
        "NOT_FOUND there is no such file",
        "run python -m pytest -q exit 1 step 1 · 200 ms",
        "read_file src/durations/scanner.py ok step 2 · 400 ms · 40 lines",
        "read_file x error step 4",
    ):
        assert words in page


def test_plots_without_data_are_omitted_with_a_note(tmp_path: Path, report_on: Report) -> None:
    def free(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, usage=attrs.evolve(record.usage, cost_usd=0, prompt_tokens=0, completion_tokens=0))

    text = report_on(write_run(tmp_path / "a", {"x": True}, record=free)).read_text()
    assert text.count("<svg") == 1
    page = Parts(text).text
    assert "Not shown: Failure reasons, because every attempt passed." in page
    assert "Not shown: Cost by outcome, because no attempt called a model." in page
    assert "Not shown: Time per phase, because no attempt has timings." in page


def test_run_without_records(tmp_path: Path, report_on: Report) -> None:
    page, held = pages(report_on(write_run(tmp_path / "a", {"x": None})))
    assert held == {}
    assert "no attempt was scored" in page.text
    assert "x ○ not recorded" in page.text


def test_a_run_without_tasks(tmp_path: Path, report_on: Report) -> None:
    assert "0 attempts" in pages(report_on(write_run(tmp_path / "a", {})))[0].text


def test_missing_evidence(tmp_path: Path, report_on: Report) -> None:
    """An attempt without files and events has a page."""
    run = write_run(tmp_path / "a", {"x": False})
    (run.directory / "events.jsonl").unlink()
    page = pages(report_on(run))[1][1].text
    assert "x ✗ failed TESTS_FAILED" in page
    assert "Final patch No patch." in page


def test_damaged_evidence_is_reported_and_the_rest_is_shown(make_evidence: Make, report_on: Report) -> None:
    run = make_evidence("a", {"x": False, "y": True})
    path = run.directory / "tasks/x/agent/conversation.jsonl"
    path.write_text("{}\n" + path.read_text())
    (run.directory / "tasks/x/meta/timings.json").write_text("[[[")
    _, held = pages(report_on(run))
    assert "conversation.jsonl" in held[1].text
    assert "E durations.errors.DurationError" in held[1].text
    assert "The longest unit must be tried first." in held[2].text


@pytest.mark.parametrize("name", ["tool_calls", "conversation"])
def test_evidence_before_the_damage_is_shown(make_evidence: Make, report_on: Report, name: str) -> None:
    run = make_evidence("a", {"x": False})
    path = run.directory / f"tasks/x/agent/{name}.jsonl"
    first, *_ = path.read_text().splitlines(keepends=True)
    path.write_text(f"{first}[damaged\n{first}")
    page = pages(report_on(run))[1][1].text
    assert f"{name}.jsonl" in page
    assert "The longest unit must be tried first." in page
    assert "python -m pytest -q" in page.partition("Turns")[2]
    assert ("NOT_FOUND there is no such file" in page) == (name == "conversation")
    assert ("Done: all tests pass." in page) == (name == "tool_calls")


def test_scrollable_code_can_be_focused_and_has_a_name(make_evidence: Make, report_on: Report) -> None:
    _, held = pages(report_on(make_evidence("a", {"x": True})))
    blocks = [attributes for tag, attributes in held[1].tags if tag == "pre"]
    assert {(block["tabindex"], block["role"]) for block in blocks} == {("0", "group")}
    names = [block["aria-label"] for block in blocks]
    assert all(names)
    assert {"Final patch", "After the change (must pass), stdout", "Reasoning", "user", "stdout"} <= set(names)


def test_each_repeat_has_its_own_row(make_evidence: Make, report_on: Report) -> None:
    page, held = pages(report_on(make_evidence("a", {"x": [True, False, None]})))
    assert "x 1 ✓ passed" in page.text
    assert "x 2 ✗ failed" in page.text
    assert "x 3 ○ not recorded" in page.text
    assert "x@2" in held[2].text


# --- two runs ----------------------------------------------------------------------------------------------------


def test_tasks_are_paired_by_digest_not_by_name(tmp_path: Path, report_on: Report) -> None:
    a = write_run(tmp_path / "a", {"one": True, "two": False}, digests={"one": "sha256:1", "two": "sha256:2"})
    b = write_run(tmp_path / "b", {"one": True, "other": True}, digests={"one": "sha256:3", "other": "sha256:2"})
    page = pages(report_on(a, b))[0].text
    assert "all 3 gains 1 not paired 2" in page
    assert "1 task is in both runs, paired by digest." in page
    assert "two ✗ failed two, run A, repeat 1 ✓ passed other, run B, repeat 1 improved" in page
    assert "These runs are not comparable." in page


def test_comparable_runs_have_a_verdict_on_the_page(tmp_path: Path, report_on: Report) -> None:
    """The page has the headline of ``report paired``, including for repeats, but not for runs that it refuses."""
    single = {f"t{n}": True for n in range(20)}
    a = write_run(tmp_path / "a", single)
    b = write_run(tmp_path / "b", {task: n % 2 == 0 for n, task in enumerate(single)})
    assert "B is worse by 50.0 pp" in pages(report_on(a, b))[0].text
    assert "B is worse" not in pages(report_on(a, a))[0].text
    c, d = (
        write_run(tmp_path / name, {task: [how, how] for task in single}) for name, how in (("c", False), ("d", True))
    )
    assert "B is better by 100.0 pp" in pages(report_on(c, d))[0].text


def test_the_difference_is_drawn_with_its_interval_and_margin(tmp_path: Path) -> None:
    """The plot has a text alternative, and cost, tokens, steps and time are compared below it."""
    single = {f"t{n}": True for n in range(20)}

    def costs(cost: float) -> Callable[[AttemptRecord], AttemptRecord]:
        return lambda record: attrs.evolve(
            record, usage=attrs.evolve(record.usage, cost_usd=cost * (1 + len(record.task_id)))
        )

    a = write_run(tmp_path / "a", single, record=costs(0.01))
    b = write_run(tmp_path / "b", {task: n % 4 > 0 for n, task in enumerate(single)}, record=costs(0.02))
    write([a, b], tmp_path / "out.html", margin=0.05)
    page, _ = pages(tmp_path / "out.html")
    labels = [attributes["aria-label"] for _, attributes in page.tags if attributes.get("role") == "img"]
    (label,) = [each for each in labels if each.startswith("Difference in pass rate")]
    assert "-25.0 percentage points, CI -46.9 to -4.9 pp" in label
    assert label.endswith("over 20 paired tasks, margin 5 percentage points")
    assert "margin 5" in page.text
    # The costs differ by 0.03 or 0.04, with a standard error of 0.00115 and a t quantile of 2.09.
    assert "cost $0.0350 $0.0700 +$0.0350 +$0.0326 to +$0.0374 ×2.00, 2.00 to 2.00 more" in page.text  # noqa: RUF001
    write([a, b], tmp_path / "out.html")
    assert "margin 5" not in pages(tmp_path / "out.html")[0].text


def test_repeats_have_no_contingency_table(tmp_path: Path, report_on: Report) -> None:
    runs = [write_run(tmp_path / name, {"x": [True, False], "y": [True, True]}) for name in "ab"]
    page = pages(report_on(*runs))[0].text
    assert "No contingency table: repeated attempts at a task are not independent." in page
    in_a = "1 of 2 ✓ passed x, run A, repeat 1 ✗ failed x, run A, repeat 2"
    assert f"x {in_a} {in_a.replace('run A', 'run B')} same" in page


def test_same_run_twice_is_shown_with_a_note(tmp_path: Path, report_on: Report) -> None:
    run = write_run(tmp_path / "a", {"x": True})
    page, held = pages(report_on(run, run))
    assert len(held) == 2
    assert "refuses to compare them" in page.text


# --- hostile and hidden content ----------------------------------------------------------------------------------


def dangers(parts: Parts) -> Iterator[str]:
    for tag, attributes in parts.tags:
        if tag in ("iframe", "object", "embed", "img", "base", "frame", "audio", "video", "template"):
            yield tag
        for name, value in attributes.items():
            if name.startswith("on") or name in ("src", "srcdoc", "action", "formaction", "ping", "target"):
                yield f"{tag} {name}"
            if name in ("href", "xlink:href") and not str(value).startswith(("#", "data:,")):
                yield f"{tag} {name}={value}"


def test_hostile_text_adds_no_tag_and_no_attribute(
    make_evidence: Make, report_on: Report, hostility: Hostility
) -> None:
    """H20: hostile text in any field is shown as text and adds no tag that loads or runs anything."""
    bad, say = hostility
    runs = [
        make_evidence(name, {f"{bad}a": True, f"{bad}b": False}, say, run={"suite": bad, "variant": bad})
        for name in "ab"
    ]
    page, held = pages(report_on(*runs))
    assert len(held) == 4
    assert all(list(dangers(parts)) == [] for parts in (page, *held.values()))
    assert [attributes for attributes, _ in page.scripts if "type" not in attributes] == [{}]
    assert all("script" not in [tag for tag, _ in parts.tags] for parts in held.values())
    for parts in held.values():
        assert parts.text.count("onerror=\"window.ran='img'\"") > 20, "hostile text should be shown as text"


def test_page_contains_no_control_characters(make_evidence: Make, report_on: Report, hostility: Hostility) -> None:
    bad, say = hostility
    path = report_on(make_evidence("a", {f"{bad}a": True}, say, run={"suite": bad, "variant": bad}))
    page, held = pages(path)
    assert escape_control(path.read_text("utf-8")) == path.read_text("utf-8")
    for parts in (page, *held.values()):
        assert parts.text == escape_control(parts.text)
        assert "\\u202egnp.exe" in parts.text


@pytest.mark.parametrize("data", [b"\xff\xfe\x00 x", b"\xed\xa0\x80", b"\r\n\x0c", b"x" * 10 + b"\x1b]8;;http://e\x07"])
def test_bytes_that_are_not_text_are_escaped(make_evidence: Make, report_on: Report, data: bytes) -> None:
    files = {"diffs/final.patch": data, "logs/passing_stdout.txt": b"-" + data, "agent/traceback.txt": data}
    page = pages(report_on(make_evidence("a", {"x": True}, files=lambda _: files)))[1][1]
    assert page.text == escape_control(page.text)
    assert "\\x" in page.text or "\\u" in page.text


def test_lone_surrogates_and_deep_nesting_in_tool_calls(make_evidence: Make, report_on: Report) -> None:
    deep = "[" * 400 + "]" * 400
    lines = (
        '{"step": 1, "call": {"tool": "t\\ud800", "arguments": {"a\\udfff": "\\ud83d"}}, "result": {"fields": [1]}}\n'
    )
    lines += f'{{"step": true, "call": [], "result": null}}\n{{"step": 3, "call": {{"arguments": {{"d": {deep}}}}}}}\n'
    run = make_evidence("a", {"x": True}, files=lambda _: {"agent/tool_calls.jsonl": lines})
    assert "t\\ud800" in pages(report_on(run))[1][1].text


def test_the_policy_allows_the_one_script_and_nothing_else(one: Path) -> None:
    page, _ = pages(one)
    policy = next(attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes)
    script = next(text for attributes, text in page.scripts if "type" not in attributes)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    before = [tag for tag, attributes in page.tags[: page.tags.index(("title", {}))] if tag not in ("html", "head")]
    assert before[:2] == ["meta", "meta"], "the policy should come before the content it applies to"


_NAMES = st.text(st.characters(exclude_characters="\n\r"), min_size=1, max_size=40).map(lambda text: f"x{text}")


@settings(max_examples=40, deadline=None)
@given(_NAMES)
def test_no_text_changes_the_structure(text: str) -> None:
    """Text never changes the tags of the template."""
    macros = templates().from_string(
        '{% import "macros.html.j2" as m %}<p title="{{ t }}" data-x="{{ t }}">{{ t }}</p>{{ m.table([t], [[t, t]]) }}'
    )
    shape = [(tag, sorted(attributes)) for tag, attributes in Parts(macros.render(t=text)).tags]
    assert shape == [(tag, sorted(attributes)) for tag, attributes in Parts(macros.render(t="x")).tags]
    assert escape_control(text).split() == next(filter(str.strip, Parts(macros.render(t=text)).words)).split()


def test_embedded_pages_do_not_look_like_keys(one: Path) -> None:
    """Lines of embedded pages are too short to be redacted as keys by accident."""
    page, _ = pages(one)
    held = [text for attributes, text in page.scripts if "type" in attributes]
    assert held
    assert all(len(line) <= 32 for text in held for line in text.splitlines())


# --- plots -------------------------------------------------------------------------------------------------------


def test_plots_take_their_colours_from_the_page(make_evidence: Make, report_on: Report) -> None:
    text = report_on(make_evidence("a"), make_evidence("b")).read_text()
    plots = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(plots) == 5
    assert all("currentColor" in plot and "var(--" in plot for plot in plots)
    assert not [each for plot in plots for each in re.findall(r"(?:fill|stroke): ?#[0-9a-f]{6}", plot)]
    assert not [
        plot
        for plot in plots
        if "<style" in plot or "<metadata" in plot or "http" in plot.replace("http://www.w3.org", "")
    ]
    ids = [each for plot in plots for each in re.findall(r' id="([^"]+)"', plot)]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:xlink:href="|url\()#([^")]+)', "".join(plots))
    assert set(used) <= set(ids)


def test_plots_have_text_alternatives(one: Path) -> None:
    page, _ = pages(one)
    labels = [str(attributes["aria-label"]) for _, attributes in page.tags if attributes.get("role") == "img"]
    assert [label.split(".")[0] for label in labels] == [
        "Pass rate",
        "Failure reasons",
        "Cost by outcome",
        "Time per phase",
    ]
    assert "60.0%, CI 31.3% to 83.2%" in labels[0]
    assert "TESTS_FAILED: 2" in labels[1]
    assert "baseline 60.0% 31.3% to 83.2% 6 of 10 50.0% to 66.7%" in page.text
    assert "TESTS_FAILED failure 2" in page.text
    assert "LLM_ERROR infrastructure error 1" in page.text


def test_a_phase_that_a_run_lacks_has_no_bar_and_no_number(tmp_path: Path, report_on: Report) -> None:
    """Labels for screen readers name the runs, and the page warns against comparing phases between runs."""

    def timed(**phases: float) -> Callable[[AttemptRecord], dict[str, str]]:
        return lambda _: {"meta/timings.json": json.dumps({"phases_sec": phases})}

    a = write_run(tmp_path / "a", {"x": True}, files=timed(baseline=2.5, agent=4.5))
    b = write_run(tmp_path / "b", {"x": True}, files=timed(agent=3.5))
    path = report_on(a, b)
    page, _ = pages(path)
    label = next(str(each["aria-label"]) for _, each in page.tags if each.get("role") == "img" and "Time" in str(each))
    assert label == "Time per phase. baseline: A 2.5 s on average; agent: A 4.5 s, B 3.5 s on average"
    plot = path.read_text().partition(label)[2].partition("</svg>")[0]
    assert re.findall(r">([\d.]+ [AB])<", plot) == ["2.5 A", "4.5 A", "3.5 B"]
    assert "Mean over attempts that reached the phase." in page.text
    assert "so do not compare them between runs" in page.text


def test_label_of_phases_is_not_truncated_within_a_phase(tmp_path: Path, report_on: Report) -> None:
    timings = json.dumps({"phases_sec": {f"phase-{number}": 1.0 for number in range(10)}})
    runs = [
        write_run(tmp_path / name, {"x": True}, files=lambda _: {"meta/timings.json": timings}) for name in ("a", "b")
    ]
    label = next(
        str(each["aria-label"])
        for _, each in pages(report_on(*runs))[0].tags
        if str(each.get("aria-label")).startswith("Time per phase")
    )
    assert label.count("A 1.0 s, B 1.0 s") == 10


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    """Four times as many attempts need about the same peak memory."""

    def evidence(record: AttemptRecord) -> dict[str, str]:
        noise = "".join(hashlib.sha256(f"{record.task_id} {n}".encode()).hexdigest() for n in range(3000))
        return {"logs/passing_stdout.txt": noise, "diffs/final.patch": noise[::-1]}

    def peak(attempts: int) -> int:
        run = write_run(tmp_path / str(attempts), {f"t{n}": True for n in range(attempts)}, files=evidence)
        write([run], tmp_path / "out.html")  # load everything that is loaded only once
        tracemalloc.start()
        write([run], tmp_path / "out.html")
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, many = peak(8), peak(32)
    assert (tmp_path / "out.html").stat().st_size > 5_000_000
    assert many < 1.3 * few
