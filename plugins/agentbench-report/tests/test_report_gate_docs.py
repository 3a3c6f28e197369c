"""``docs/gate.md`` and ``docs/power.md`` match the code."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

from agentbench_core import describe
from agentbench_report.comparison.metrics import MetricComparison
from agentbench_report.comparison.quarantined import QuarantinedTask
from agentbench_report.gate.checks import least_pairs
from agentbench_report.gate.config import LABELS, GateRules, read_gate_config
from agentbench_report.gate.plan import GatePlan
from agentbench_report.gate.report import Check, Comparison, GateReport, Moved, Side
from agentbench_report.post_hoc_power import PostHocPower
from agentbench_report.power import Pilot, Plan, Question, Size
from agentbench_report.statistics import Interval, NonInferiority, PairTable

ROOT = Path(__file__).parents[3]
GATE, POWER = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("gate.md", "power.md"))


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def fields(text: str) -> list[str]:
    return [name for row in rows(text) for name in re.findall(r"`([a-z_.]+)`", row.split("|")[1])]


def field_names(**classes: type) -> Iterator[str]:
    """Yield field names as written on a page, prefixed with the part that contains them."""
    for part, cls in classes.items():
        for field in attrs.fields(cls):
            yield field.name if part == "whole" else f"{part}.{field.name}"


class TestGate:
    def test_every_key_is_documented(self) -> None:
        assert rows(section(GATE, "gate.yaml")) == [
            f"| `{row.name}` | {row.type} | {row.default} | {row.help} |" for row in describe(GateRules)
        ]

    def test_every_label_is_documented(self) -> None:
        found = dict(re.findall(r"^\| `(\w+)`[^|]*\| (\w+) \|$", section(GATE, "Labels"), re.MULTILINE))
        assert found == LABELS

    def test_every_field_of_the_json_is_documented(self) -> None:
        parts = {"side": Side, "checks": Check, "comparison": Comparison, "table": PairTable, "result": NonInferiority}
        parts |= {"moved": Moved, "metric": MetricComparison, "aside": QuarantinedTask}
        expected = field_names(whole=GateReport, **parts, interval=Interval)
        verdict, _, planned = section(GATE, "JSON").partition("With `--plan`:")
        assert sorted(fields(verdict)) == sorted(expected)
        assert sorted(fields(planned)) == sorted(field_names(whole=GatePlan))

    def test_least_tasks_match_the_code(self) -> None:
        table = re.findall(r"^\| ([\d.]+) \| (\d+) \|$", section(GATE, "Choose the margin"), re.MULTILINE)
        assert len(table) == 6
        assert [int(tasks) for _, tasks in table] == [least_pairs(float(margin), 0.05) for margin, _ in table]

    def test_error_rates_of_a_drop_are_exact(self) -> None:
        """A fifth of the tasks are discordant, and a drop of 5 pp is accepted."""
        table = re.findall(r"^\| (\d+) \| (\d+)% \| (\d+)% \|$", GATE, re.MULTILINE)
        assert len(table) == 4
        for tasks, fails, passes in table:
            n, most = int(tasks), 0.05 * int(tasks) + 1e-9
            outcomes = [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]

            def chance(b: int, c: int, lost: float, won: float, n: int = n) -> float:
                return math.comb(n, b) * math.comb(n - b, c) * lost**b * won**c * 0.8 ** (n - b - c)

            equal = sum(chance(b, c, 0.1, 0.1) for b, c in outcomes if b - c > most)
            worse = sum(chance(b, c, 0.15, 0.05) for b, c in outcomes if b - c <= most)
            assert (round(100 * equal), round(100 * worse)) == (int(fails), int(passes))

    def test_example_file_is_valid(self, tmp_path: Path) -> None:
        (tmp_path / "gate.yaml").write_text(blocks(GATE, "yaml")[0])
        config = read_gate_config(tmp_path / "gate.yaml")
        assert (config.rules("custom-dev").margin, config.rules("custom-heldout").margin) == (0.05, 0.03)


class TestPower:
    def test_every_field_of_the_json_is_documented(self) -> None:
        before, _, after = section(POWER, "JSON").partition("After a comparison:")
        expected = field_names(whole=Plan, question=Question, size=Size, pilot=Pilot)
        assert sorted(fields(before)) == sorted(expected)
        assert sorted(fields(after)) == sorted(field_names(whole=PostHocPower, interval=Interval))

    def test_example_equals_the_output(self) -> None:
        (shown,) = re.findall(r"^```\n\$ (agentbench [^\n]*)\n(.*?)^```$", POWER, re.MULTILINE | re.DOTALL)
        done = subprocess.run(shown[0], shell=True, env=environment(), capture_output=True, text=True, check=True)
        assert done.stdout == shown[1]


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
