"""Checks of reporters, on run directories of every kind."""

from __future__ import annotations

import csv
import io
import json
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from defusedxml.ElementTree import fromstring

from agentbench_core import FailureReason, Label, Reporter, RunView
from agentbench_core.values.record import AttemptRecord
from agentbench_testing.doubles.run_directory import Ending, write_run

FORMULA = '=HYPERLINK("http://example.invalid/agentbench")'
MARKUP = "</script><img src=x onerror=agentbench_ran()>"
HOSTILE = (MARKUP, FORMULA, "\x1b[31mred\x9b2J\x00", "a|b\n# heading\r\nc", "\u202egnp.exe", "..", "\udcff", "é ☃ 名")
"""Text that viewers may interpret: markup, formulas, control characters, a lone surrogate."""
_TEXT = {"", ".csv", ".htm", ".html", ".json", ".jsonl", ".md", ".rst", ".svg", ".tsv", ".txt", ".xml", ".yaml", ".yml"}


@attrs.frozen
class Reported:
    """A run, and the files of one report."""

    run: RunView
    into: Path
    paths: tuple[Path, ...]

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files in the output directory, by name."""
        return contents(self.into)

    @property
    def files_without_path(self) -> Mapping[str, bytes]:
        """The files, with a placeholder for the path of the run directory."""
        directory = str(self.run.directory).encode()
        return {name: data.replace(directory, b"RUN") for name, data in self.files.items()}

    @property
    def texts(self) -> Sequence[Path]:
        """The text files, by their suffix."""
        return [path for path in self.paths if path.suffix in _TEXT]


class ReporterHooks:
    """The hooks for authors of reporters. ``make_reporter`` is required."""

    @classmethod
    def make_reporter(cls) -> Reporter:
        """A new reporter."""
        raise NotImplementedError(f"{cls.__name__} must define how its reporter is created")

    @pytest.fixture
    def stage(self, tmp_path: Path) -> Stage:
        """The stage that creates runs and reports."""
        return Stage(tmp_path, self.make_reporter)


@attrs.define
class Stage:
    """Creates runs, and reports them into empty directories."""

    directory: Path
    make_reporter: Callable[[], Reporter]
    _made: int = 0

    def run(self, kind: str) -> RunView:
        """A run of one of the kinds in :data:`RUNS`, always the same except for its directory."""
        self._made += 1
        return RUNS[kind](self.directory / f"runs-{self._made}" / kind)

    def report(self, run: RunView | str) -> Reported:
        """Report a run, or a new run of this kind, into an empty directory."""
        view = self.run(run) if isinstance(run, str) else run
        self._made += 1
        into = self.directory / f"reports-{self._made}"
        into.mkdir()
        return Reported(view, into, tuple(self.make_reporter().report(view, into)))


def contents(directory: Path) -> Mapping[str, bytes]:
    """Every file under a directory, by relative path."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def _ordinary(directory: Path) -> RunView:
    endings: dict[str, Ending] = {"alpha": True, "beta": False, "gamma": FailureReason.TIMEOUT, "delta": True}
    return write_run(directory, endings, files=_evidence)


def _evidence(record: AttemptRecord) -> Mapping[str, str]:
    patch = "--- a/adding.py\n+++ b/adding.py\n@@ -1 +1 @@\n-return a - b\n+return a + b\n"
    return {"diffs/final.patch": patch, "logs/passing_stdout.txt": "1 passed\n"}


def _unfinished(directory: Path) -> RunView:
    run = write_run(directory, {"alpha": True, "beta": None, "gamma": None})
    events = directory / "events.jsonl"
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    return run


def _hostile(directory: Path) -> RunView:
    labels = tuple(Label(name=word, evidence=word) for word in HOSTILE)

    def everywhere(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, labels=labels, agent=MARKUP, variant=FORMULA)

    return write_run(
        directory,
        dict.fromkeys(HOSTILE, False),
        run={"suite": MARKUP, "variant": FORMULA, "agent": MARKUP, "argv": HOSTILE[:-2]},
        record=everywhere,
    )


RUNS: Mapping[str, Callable[[Path], RunView]] = {
    "ordinary": _ordinary,
    "without tasks": lambda directory: write_run(directory, {}),
    "without records": lambda directory: write_run(directory, {"alpha": None, "beta": None}),
    "broken off": _unfinished,
    "unscored": lambda directory: write_run(directory, dict.fromkeys(("alpha", "beta"), FailureReason.SANDBOX_ERROR)),
    "repeated": lambda directory: write_run(directory, {"alpha": [True, False, None], "beta": [True, True, True]}),
    "hostile": _hostile,
}
"""Every kind of run that a reporter can receive."""


class ReporterChecks(ReporterHooks):
    """The files that a reporter writes, and their location."""

    @pytest.mark.parametrize("kind", sorted(RUNS))
    def test_it_reports_every_kind_of_run(self, stage: Stage, kind: str) -> None:
        """A reporter can also report runs without tasks or records, interrupted runs, and runs with unusual names."""
        try:
            stage.report(kind)
        except Exception as error:
            raise AssertionError(f"a run {kind!r}: {type(error).__name__}: {error}") from error

    def test_it_returns_what_it_wrote(self, stage: Stage) -> None:
        """``report`` returns the paths of all written files, at least one, each inside the output directory."""
        done = stage.report("ordinary")
        assert done.paths
        returned = {str(path.resolve().relative_to(done.into.resolve())) for path in done.paths if path.is_file()}
        assert returned == set(done.files)
        assert len(done.paths) == len(returned)

    def test_it_writes_nowhere_else(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        """If the output directory is elsewhere, neither the run directory nor the current directory is changed."""
        run = stage.run("ordinary")
        elsewhere = stage.directory / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        before = contents(run.directory)
        stage.report(run)
        assert contents(run.directory) == before
        assert contents(elsewhere) == {}

    def test_the_run_stays_as_it_is(self, stage: Stage) -> None:
        """The output directory is usually the run directory itself, whose files must be preserved."""
        run = stage.run("ordinary")
        before = contents(run.directory)
        self.make_reporter().report(run, run.directory)
        after = contents(run.directory)
        assert {name: after.get(name) for name in before} == before

    def test_it_reports_the_same_again(self, stage: Stage) -> None:
        """A second reporter overwrites the report with the same bytes, since reports are compared and archived."""
        done = stage.report("ordinary")
        before = done.files
        self.make_reporter().report(done.run, done.into)
        assert done.files == before

    def test_missing_is_not_failed(self, stage: Stage) -> None:
        """Infrastructure errors are distinguishable from failed attempts."""
        lost, failed = (
            stage.report(write_run(stage.directory / name / "run", {"alpha": True, "beta": reason}))
            for name, reason in (("lost", FailureReason.SANDBOX_ERROR), ("failed", FailureReason.TESTS_FAILED))
        )
        lost_text, failed_text = (
            # The reason's own name does not count: every reporter prints it.
            b"".join(done.files.values()).replace(b"SANDBOX_ERROR", b"REASON").replace(b"TESTS_FAILED", b"REASON")
            for done in (lost, failed)
        )
        assert lost_text != failed_text

    def test_superseded_attempts_do_not_count(self, stage: Stage) -> None:
        """The record of a superseded attempt is evidence, not a result: the report is the same without it."""
        again, first = (  # names of equal length, since tables may be aligned
            stage.report(write_run(stage.directory / name / "run", {"alpha": True, "beta": False}, tried_before=before))
            for name, before in (("again", {"alpha": FailureReason.INTERRUPTED}), ("first", {}))
        )
        assert again.files_without_path == first.files_without_path

    def test_texts_are_utf8(self, stage: Stage) -> None:
        """Every text file is valid UTF-8, whatever the names of tasks and labels."""
        for path in stage.report("hostile").texts:
            try:
                path.read_text("utf-8")
            except UnicodeDecodeError as error:
                raise AssertionError(f"{path.name}: {error}") from None

    def test_json_and_xml_are_valid(self, stage: Stage) -> None:
        """JSON, JSON Lines, XML and SVG files are valid, even with hostile names."""
        for path in stage.report("hostile").texts:
            try:
                _parse(path)
            except ValueError as error:
                raise AssertionError(f"{path.name}: {error}") from None

    def test_nothing_reaches_a_terminal(self, stage: Stage) -> None:
        """Texts have no control or format characters except tabs and line ends, since users may ``cat`` them."""
        for path in stage.report("hostile").texts:
            text = path.read_text("utf-8", "replace")
            signs = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c not in "\t\r\n"}
            assert sorted(map(ascii, signs)) == [], path.name

    def test_names_are_not_markup(self, stage: Stage) -> None:
        """H20: in HTML, Markdown and SVG, names are escaped."""
        for path in stage.report("hostile").texts:
            text = path.read_text("utf-8", "replace")
            if path.suffix in (".html", ".htm", ".md", ".svg"):
                assert MARKUP not in text, path.name

    def test_names_are_not_formulas(self, stage: Stage) -> None:
        """H21: in CSV, no text cell starts like a formula; numbers may be negative."""
        for path in stage.report("hostile").texts:
            text = path.read_text("utf-8", "replace")
            if path.suffix in (".csv", ".tsv"):
                rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ",")
                cells = [cell for row in rows for cell in row if cell.lstrip().startswith(("=", "+", "-", "@"))]
                assert [cell for cell in cells if not _is_number(cell)] == [], path.name

    def test_it_prints_nothing(self, stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
        """The reporter writes nothing to the terminal."""
        stage.report("ordinary")
        shown = capfd.readouterr()
        assert (shown.out, shown.err) == ("", "")

    def test_nothing_keeps_running(self, stage: Stage) -> None:
        """No thread is left running when it returns."""
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
        except SyntaxError as error:  # raised by the parser
            raise ValueError(str(error)) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
