"""``gate.yaml``: rules for each suite, and invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench_core import InputError
from agentbench_report.gate.config import LABELS, GateRules, read_gate_config

WHOLE = """
margin: 0.05
min_pairs: 60
labels: {oom: inconclusive, weak_verdict: inconclusive}
suites:
  heldout:
    margin: 0.03
    max_cost_ratio: 1.2
    labels: {weak_verdict: fail}
"""


def rules(tmp_path: Path, text: str, suite: str = "custom-dev") -> GateRules:
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    return read_gate_config(path).rules(suite)


def test_top_level_rules_apply_to_every_suite(tmp_path: Path) -> None:
    labels = LABELS | {"oom": "inconclusive", "weak_verdict": "inconclusive"}
    assert rules(tmp_path, WHOLE) == GateRules(margin=0.05, min_pairs=60, labels=labels)


def test_suite_overrides_top_level_rules(tmp_path: Path) -> None:
    """A suite's labels are merged one by one with the default labels."""
    labels = LABELS | {"oom": "inconclusive", "weak_verdict": "fail"}
    expected = GateRules(margin=0.03, min_pairs=60, max_cost_ratio=1.2, labels=labels)
    assert rules(tmp_path, WHOLE, "heldout") == expected


def test_tampering_fails_by_default(tmp_path: Path) -> None:
    assert rules(tmp_path, "margin: 0.05\nmin_pairs: 1").labels["tamper_confirmed"] == "fail"


def test_required_rules_may_be_set_per_suite(tmp_path: Path) -> None:
    text = "suites: {a: {margin: 0.1, min_pairs: 5}}"
    assert rules(tmp_path, text, "a").min_pairs == 5
    with pytest.raises(InputError, match=r"no margin and no min_pairs for the suite 'aa' \(did you mean 'a'\?\)"):
        rules(tmp_path, text, "aa")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("margn: 1", "margn: unknown field (did you mean 'margin'?)"),
        ("suits: {}", "suits: unknown field (did you mean 'suites'?)"),
        ("suites: {a: {min_pair: 3}}", "suites.a: min_pair: unknown field (did you mean 'min_pairs'?)"),
        ("suites: {a: {suites: {}}}", "suites.a: suites: unknown field"),
        ("suites: {a: 3}", "suites.a: expected mapping"),
        ("margin: 5%", "margin: expected number, found '5%'"),
        ("margin: 5", "margin: 5.0 is above 0.99"),
        ("margin: -0.1", "margin: -0.1 is below 0"),
        ("margin: .nan", "margin: expected number"),
        ("min_pairs: 2.5", "min_pairs: expected integer"),
        ("min_pairs: 0", "min_pairs: 0 is below 1"),
        ("alpha: 0.5", "alpha: 0.5 is above 0.49"),
        ("labels: {oom: warn}", "labels.oom: expected one of fail, inconclusive, ignore, found 'warn'"),
        ("labels: {oom: ignor}", "did you mean 'ignore'?"),
        ("inconclusive: ok", "inconclusive: expected one of fail, pass, found 'ok'"),
        ("margin: 0.1\nmargin: 0.2", "gate.yaml:2:1: duplicate key 'margin'"),
        ("margin: [", "gate.yaml:1:10: expected the node content"),
        ("margin: !!python/name:os.system", "gate.yaml:1:9: tags are not allowed"),
        ("- margin", "expected a mapping of rules, found ['margin']"),
        ("", "expected a mapping of rules, found None"),
        ("1: 2", "field names must be strings, found 1"),
    ],
)
def test_invalid_fields_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        rules(tmp_path, text)
    assert message in str(caught.value)
    assert "gate.yaml" in str(caught.value)


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        rules(tmp_path, "margin: much\nmin_pairs: x\nalfa: 1")
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(("data", "message"), [(b"\xff", "not UTF-8"), (b"#" * (2 << 20), "larger than")])
def test_files_that_are_not_text_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "gate.yaml").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_gate_config(tmp_path / "gate.yaml")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_gate_config(tmp_path / "gate.yaml")
