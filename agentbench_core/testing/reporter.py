"""What every reporter must do."""

from __future__ import annotations

import csv
import io
import json
import threading
import unicodedata
from pathlib import Path

import pytest
from defusedxml.ElementTree import fromstring

from agentbench_core import FailureReason
from agentbench_core.testing.reporter_stage import MARKUP, RUNS, ReporterHooks, Stage, contents
from agentbench_core.testing.run_directory import write_run


class ReporterConformance(ReporterHooks):
    """Checks for every reporter, over run directories of every kind."""

    @pytest.mark.parametrize("kind", sorted(RUNS))
    def test_it_reports_every_kind_of_run(self, stage: Stage, kind: str) -> None:
        """Also one without tasks or records, one that was broken off, and one with names that nobody expects."""
        try:
            stage.report(kind)
        except Exception as error:
            raise AssertionError(f"a run {kind!r}: {type(error).__name__}: {error}") from error

    def test_it_returns_what_it_wrote(self, stage: Stage) -> None:
        """All files, at least one, each below the directory that it was given."""
        done = stage.report("ordinary")
        assert done.paths
        returned = {str(path.resolve().relative_to(done.into.resolve())) for path in done.paths if path.is_file()}
        assert returned == set(done.files)
        assert len(done.paths) == len(returned)

    def test_it_writes_nowhere_else(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither in the run directory, when it is given another one, nor where the command was started."""
        run = stage.run("ordinary")
        elsewhere = stage.place / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        before = contents(run.directory)
        stage.report(run)
        assert contents(run.directory) == before
        assert contents(elsewhere) == {}

    def test_the_run_stays_as_it_is(self, stage: Stage) -> None:
        """It is given the run directory itself, as a rule: what others wrote there stays."""
        run = stage.run("ordinary")
        before = contents(run.directory)
        self.make_reporter().report(run, run.directory)
        after = contents(run.directory)
        assert {name: after.get(name) for name in before} == before

    def test_it_reports_the_same_again(self, stage: Stage) -> None:
        """Over its own report, to the same bytes, by a new reporter: reports are compared and kept."""
        done = stage.report("ordinary")
        before = done.files
        self.make_reporter().report(done.run, done.into)
        assert done.files == before

    def test_missing_is_not_failed(self, stage: Stage) -> None:
        """Attempts that a sandbox lost are told from attempts that failed."""
        lost, failed = (
            stage.report(write_run(stage.place / name / "run", {"alpha": True, "beta": reason}))
            for name, reason in (("lost", FailureReason.SANDBOX_ERROR), ("failed", FailureReason.TESTS_FAILED))
        )
        lost_text, failed_text = (
            # The reason's own name does not count: everybody prints it.
            b"".join(done.files.values()).replace(b"SANDBOX_ERROR", b"REASON").replace(b"TESTS_FAILED", b"REASON")
            for done in (lost, failed)
        )
        assert lost_text != failed_text

    def test_what_was_tried_again_counts_once(self, stage: Stage) -> None:
        """The record of an attempt that was superseded is evidence, and no result: the report is the same without."""
        again, first = (  # names of one length, since tables may be aligned
            stage.report(write_run(stage.place / name / "run", {"alpha": True, "beta": False}, tried_before=before))
            for name, before in (("again", {"alpha": FailureReason.INTERRUPTED}), ("first", {}))
        )
        assert again.files_without_place == first.files_without_place

    def test_texts_are_utf8(self, stage: Stage) -> None:
        """Every file that is text by the end of its name, whatever names tasks and labels have."""
        for path in stage.report("hostile").texts:
            try:
                path.read_text("utf-8")
            except UnicodeDecodeError as error:
                raise AssertionError(f"{path.name}: {error}") from None

    def test_what_it_calls_json_or_xml_is_that(self, stage: Stage) -> None:
        """By the ends of the files' names, for hostile names too."""
        for path in stage.report("hostile").texts:
            try:
                _parse(path)
            except ValueError as error:
                raise AssertionError(f"{path.name}: {error}") from None

    def test_nothing_reaches_a_terminal(self, stage: Stage) -> None:
        """No control characters, no marks that turn the direction of a line: reports are shown by ``cat``, too."""
        for path in stage.report("hostile").texts:
            text = path.read_text("utf-8", "replace")
            signs = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c not in "\t\r\n"}
            assert sorted(map(ascii, signs)) == [], path.name

    def test_names_are_no_markup(self, stage: Stage) -> None:
        """H20: in HTML, Markdown and SVG, what a name says is text."""
        for path in stage.report("hostile").texts:
            text = path.read_text("utf-8", "replace")
            if path.suffix in (".html", ".htm", ".md", ".svg"):
                assert MARKUP not in text, path.name

    def test_names_are_no_formulas(self, stage: Stage) -> None:
        """H21: in CSV, no cell of text begins as a formula does; numbers may be negative."""
        for path in stage.report("hostile").texts:
            text = path.read_text("utf-8", "replace")
            if path.suffix in (".csv", ".tsv"):
                rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ",")
                cells = [cell for row in rows for cell in row if cell.lstrip().startswith(("=", "+", "-", "@"))]
                assert [cell for cell in cells if not _is_number(cell)] == [], path.name

    def test_it_prints_nothing(self, stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
        """What is shown is the command's business."""
        stage.report("ordinary")
        shown = capfd.readouterr()
        assert (shown.out, shown.err) == ("", "")

    def test_nothing_goes_on(self, stage: Stage) -> None:
        """When it returns it is done: no thread of it is left."""
        before = set(threading.enumerate())
        stage.report("ordinary")
        assert [thread.name for thread in threading.enumerate() if thread not in before] == []


def _parse(path: Path) -> None:
    text = path.read_text("utf-8", "replace")
    if path.suffix == ".json":
        json.loads(text)
    elif path.suffix == ".jsonl":
        for line in text.splitlines():
            json.loads(line)
    elif path.suffix in (".xml", ".svg"):
        try:
            fromstring(text)
        except SyntaxError as error:  # what its parser raises
            raise ValueError(str(error)) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
