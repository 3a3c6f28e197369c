"""What the checks of reporters work with: run directories of every kind, and what a reporter leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from agentbench_core import FailureReason, Label, Reporter, RunView
from agentbench_core.testing.run_directory import Ending, write_run
from agentbench_core.values.record import AttemptRecord

FORMULA = '=HYPERLINK("http://example.invalid/agentbench")'
MARKUP = "</script><img src=x onerror=agentbench_ran()>"
HOSTILE = (MARKUP, FORMULA, "\x1b[31mred\x9b2J\x00", "a|b\n# heading\r\nc", "\u202egnp.exe", "..", "\udcff", "é ☃ 名")
"""Names and words that mean something to whoever shows them: markup, formulas, control characters, a lone surrogate."""

_TEXT = {"", ".csv", ".htm", ".html", ".json", ".jsonl", ".md", ".rst", ".svg", ".tsv", ".txt", ".xml", ".yaml", ".yml"}


@attrs.frozen
class Reported:
    """A run, and what one report of it left."""

    run: RunView
    into: Path
    paths: tuple[Path, ...]

    @property
    def files(self) -> Mapping[str, bytes]:
        """What lies in the directory that was given, by name."""
        return contents(self.into)

    @property
    def files_without_place(self) -> Mapping[str, bytes]:
        """The same, wherever the run directory is."""
        place = str(self.run.directory).encode()
        return {name: data.replace(place, b"RUN") for name, data in self.files.items()}

    @property
    def texts(self) -> Sequence[Path]:
        """The files that are text, by the end of their names."""
        return [path for path in self.paths if path.suffix in _TEXT]


class ReporterHooks:
    """What the author of a reporter says about it. ``make_reporter`` must be given."""

    @classmethod
    def make_reporter(cls) -> Reporter:
        """A new reporter."""
        raise NotImplementedError(f"{cls.__name__} must say how its reporter is made")

    @pytest.fixture
    def stage(self, tmp_path: Path) -> Stage:
        """Where runs are made and reported."""
        return Stage(tmp_path, self.make_reporter)


@attrs.define
class Stage:
    """Makes runs, and reports them into empty directories."""

    place: Path
    make_reporter: Callable[[], Reporter]
    _made: int = 0

    def run(self, kind: str) -> RunView:
        """A run of a kind of :data:`RUNS`, each in a directory of its own and otherwise the same."""
        self._made += 1
        return RUNS[kind](self.place / f"runs-{self._made}" / kind)

    def report(self, run: RunView | str) -> Reported:
        """Report a run, or one of that kind, into an empty directory."""
        view = self.run(run) if isinstance(run, str) else run
        self._made += 1
        into = self.place / f"reports-{self._made}"
        into.mkdir()
        return Reported(view, into, tuple(self.make_reporter().report(view, into)))


def contents(directory: Path) -> Mapping[str, bytes]:
    """Every file below a directory, by relative path."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def _ordinary(directory: Path) -> RunView:
    endings: dict[str, Ending] = {"alpha": True, "beta": False, "gamma": FailureReason.TIMEOUT, "delta": True}
    return write_run(directory, endings, files=_evidence)


def _evidence(record: AttemptRecord) -> Mapping[str, str]:
    patch = "--- a/adding.py\n+++ b/adding.py\n@@ -1 +1 @@\n-return a - b\n+return a + b\n"
    return {"diffs/final.patch": patch, "logs/passing_stdout.txt": "1 passed\n"}


def _broken_off(directory: Path) -> RunView:
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
    "broken off": _broken_off,
    "unscored": lambda directory: write_run(directory, dict.fromkeys(("alpha", "beta"), FailureReason.SANDBOX_ERROR)),
    "repeated": lambda directory: write_run(directory, {"alpha": [True, False, None], "beta": [True, True, True]}),
    "hostile": _hostile,
}
"""Runs of every kind that a reporter meets."""
