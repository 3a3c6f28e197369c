"""A reporter that passes all checks, and variants that are each broken in one respect."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentbench_core import Reporter, RunView, escape_control
from agentbench_testing import ReporterConformance


class Pages:
    """Reports a run in three formats. It is correct; doubles override one method each."""

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        rows = self.rows(run)
        return [self.write(into, name, text) for name, text in self.pages(run, rows).items()]

    def rows(self, run: RunView) -> list[tuple[str, str, str]]:
        return [
            (
                row.task_id,
                "passed" if row.result.passed else "failed" if row.scored else "missing",
                str(row.duration_sec),
            )
            for row in run.rows()
        ]

    def pages(self, run: RunView, rows: list[tuple[str, str, str]]) -> Mapping[str, str]:
        return {"page.html": self.page(rows), "page.csv": self.table(rows), "page.json": self.data(rows)}

    def page(self, rows: list[tuple[str, str, str]]) -> str:
        return "".join(f"<p>{self.escaped(self.shown(cell))}</p>\n" for row in rows for cell in row)

    def table(self, rows: list[tuple[str, str, str]]) -> str:
        out = io.StringIO()
        csv.writer(out).writerows([self.cell(self.shown(task)), how, f"-{seconds}"] for task, how, seconds in rows)
        return out.getvalue()

    def data(self, rows: list[tuple[str, str, str]]) -> str:
        return json.dumps(rows)

    def escaped(self, text: str) -> str:
        return html.escape(text)

    def shown(self, text: str) -> str:
        return escape_control(text)

    def cell(self, text: str) -> str:
        return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text

    def write(self, into: Path, name: str, text: str) -> Path:
        path = into / name
        path.write_text(text, "utf-8")
        return path


class NeedsRecords(Pages):
    """Divides by the number of records, which may be 0."""

    def rows(self, run: RunView) -> list[tuple[str, str, str]]:
        rows = super().rows(run)
        return [("rate", str(sum(how == "passed" for _, how, _ in rows) / len(rows)), "0"), *rows]


class Forgetful(Pages):
    """Returns only the first of its files."""

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        return super().report(run, into)[:1]


class Sprawling(Pages):
    """Writes into the run directory."""

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        (run.directory / "cache.txt").write_text("")
        return super().report(run, into)


class Littering(Pages):
    """Writes into the current directory."""

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        Path("page.txt").write_text("")
        return super().report(run, into)


class Overwriting(Pages):
    """Names its file like one of the run's."""

    def pages(self, run: RunView, rows: list[tuple[str, str, str]]) -> Mapping[str, str]:
        return {"run.json": self.data(rows)}


class Growing(Pages):
    """Appends to existing files."""

    def write(self, into: Path, name: str, text: str) -> Path:
        path = into / name
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        return path


class Blaming(Pages):
    """Counts unscored attempts as failed."""

    def rows(self, run: RunView) -> list[tuple[str, str, str]]:
        return [(task, "passed" if how == "passed" else "failed", seconds) for task, how, seconds in super().rows(run)]


class Raw(Pages):
    """Reads the records file itself, including superseded records."""

    def rows(self, run: RunView) -> list[tuple[str, str, str]]:
        lines = (run.directory / "attempts.jsonl").read_text("utf-8").splitlines()
        records: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [(record["task_id"], str(record["scored"]), str(record["duration_sec"])) for record in records]


class Latin(Pages):
    """Writes Latin-1 instead of UTF-8."""

    def write(self, into: Path, name: str, text: str) -> Path:
        path = into / name
        path.write_bytes(text.encode("latin-1", "replace"))
        return path


class ByHand(Pages):
    """Builds JSON by string concatenation."""

    def data(self, rows: list[tuple[str, str, str]]) -> str:
        return "[" + ", ".join(f'"{escape_control(task)}"' for task, _, _ in rows) + "]"


class ControlledByNames(Pages):
    """Does not escape control characters in names."""

    def shown(self, text: str) -> str:
        return text.encode("utf-8", "replace").decode()


class Unescaped(Pages):
    """Does not escape HTML in names."""

    def escaped(self, text: str) -> str:
        return text


class Formulas(Pages):
    """Does not escape formulas in CSV cells."""

    def cell(self, text: str) -> str:
        return text


class Talking(Pages):
    """Prints what it wrote."""

    def write(self, into: Path, name: str, text: str) -> Path:
        os.write(1, b"written\n")
        return super().write(into, name, text)


class Lingering(Pages):
    """Leaves a thread running."""

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        threading.Thread(target=LEFT.wait, name="lingering", daemon=True).start()
        return super().report(run, into)


LEFT = threading.Event()

DOUBLES: Mapping[str, type[Pages]] = {
    "test_it_reports_every_kind_of_run": NeedsRecords,
    "test_it_returns_what_it_wrote": Forgetful,
    "test_it_writes_nowhere_else": Sprawling,
    "test_the_run_stays_as_it_is": Overwriting,
    "test_it_reports_the_same_again": Growing,
    "test_missing_is_not_failed": Blaming,
    "test_superseded_attempts_do_not_count": Raw,
    "test_texts_are_utf8": Latin,
    "test_json_and_xml_are_valid": ByHand,
    "test_nothing_reaches_a_terminal": ControlledByNames,
    "test_names_are_not_markup": Unescaped,
    "test_names_are_not_formulas": Formulas,
    "test_it_prints_nothing": Talking,
    "test_nothing_keeps_running": Lingering,
}
MORE: Sequence[tuple[str, type[Pages]]] = (("test_it_writes_nowhere_else", Littering),)


def on(reporter: type[Pages]) -> type[ReporterConformance]:
    """The checks for such a reporter."""

    class Checked(ReporterConformance):
        @classmethod
        def make_reporter(cls) -> Reporter:
            return reporter()

    return Checked
