"""YAML is read strictly (H23, H24, H25)."""

from __future__ import annotations

import pytest

from agentbench_core import InputError
from agentbench_core.inputs.documents import parse_yaml


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!python/object/apply:os.getpid []", "f:1:4: could not determine a constructor"),
        ("a: &x [1]\nb: *x", "f:1:4: anchors and aliases are not allowed"),
        ("a: 1\nb: 2\na: 3", "f:3:1: the key 'a' stands here twice"),
        ("a: [1", "f:"),
        ("[" * 50 + "]" * 50, "nested deeper than 32 levels"),
        ("a: " + "x" * (1 << 20), "larger than 1048576 bytes"),
    ],
)
def test_what_changes_meaning_in_silence_is_refused(text: str, message: str) -> None:
    """With line and column."""
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "f")
    assert message in caught.value.message


def test_a_date_stays_text() -> None:
    """Dates of people are not dates of YAML."""
    assert parse_yaml("d: 2026-01-01", "f") == {"d": "2026-01-01"}
