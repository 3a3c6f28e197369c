"""YAML and TOML are parsed strictly (H23, H24, H25)."""

from __future__ import annotations

import ast
import itertools
import time
from pathlib import Path

import pytest

import agentbench_core
from agentbench_core import InputError
from agentbench_core.inputs.documents import parse_yaml, read_toml


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!python/object/apply:os.getpid []", "f:1:4: tags are not allowed: tag:yaml.org,2002:python/object"),
        ("a: !!python/name:os.system", "tags are not allowed"),
        ("a: !!set {b, c}", "tags are not allowed"),
        ("a: !!int '1:1'", "tags are not allowed"),
        ("a: !evil 1", "f:1:4: tags are not allowed: !evil"),
        ("a: &x [1]\nb: *x", "f:1:4: anchors and aliases are not allowed"),
        ("a: &x [1]\nb: [*x, *x]\nc: &y 1", "anchors and aliases are not allowed"),
        ("a: {<<: {b: 1}}", "f:1:5: could not determine a constructor"),
        ("a: 1\nb: 2\na: 3", "f:3:1: duplicate key 'a'"),
        ("a: {b: 1, b: 2}", "duplicate key 'b'"),
        ("a: [1", "f:"),
        ("[" * 50 + "]" * 50, "nested deeper than 32 levels"),
        ("a: " + "x" * (1 << 20), "larger than 1048576 bytes"),
        ("a: " + "1" * 10_000, "Exceeds the limit"),
    ],
)
def test_ambiguous_yaml_is_refused(text: str, message: str) -> None:
    """H23, H24, H25: tags, aliases, duplicate keys, depth and size are errors, with line and column."""
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "f")
    assert message in caught.value.message


@pytest.mark.parametrize("text", ["2026-01-01", "0123", "12:30", "1:1.5", "0b11", "0o17", "1.2.3", "."])
def test_ambiguous_scalars_stay_text(text: str) -> None:
    """H25: dates stay text, ``0123`` is not 83 and ``12:30`` is not 750."""
    assert parse_yaml(f"d: {text}", "f") == {"d": text}


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-5", -5), ("1_000", 1000), ("0x1f", 31), ("1.5", 1.5), (".5", 0.5), ("1.5e+3", 1500.0)],
)
def test_unambiguous_numbers_are_converted(text: str, number: float) -> None:
    """Unambiguous numbers are converted."""
    assert parse_yaml(f"d: {text}", "f") == {"d": number}


def test_yaml_bomb_fails_fast() -> None:
    """H24: 306 bytes of nested aliases that expand to a gigabyte, and base-60 numbers, fail fast."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{above}'] * 9)}]\n" for above, name in itertools.pairwise("abcdefgh")
    )
    began = time.process_time()
    with pytest.raises(InputError, match="anchors"):
        parse_yaml(bomb, "f")
    assert parse_yaml("a: 1" + ":1" * 100_000, "f")["a"].startswith("1:1:1")
    assert time.process_time() - began < 3


def test_toml_that_is_too_deep(tmp_path: Path) -> None:
    """H24: the nesting of TOML is limited, too."""
    (tmp_path / "f.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(InputError, match=r"f\.toml: nested too deeply"):
        read_toml(tmp_path / "f.toml")


_LOADERS = {f"yaml.{kind}load{end}" for kind in ("", "safe_", "full_", "unsafe_") for end in ("", "_all")}


@pytest.mark.long
def test_only_the_strict_loader_reads_yaml() -> None:
    """H23: only the strict loader calls yaml.load or its variants."""
    root = Path(agentbench_core.__file__).parent.parent
    found = {
        str(path.relative_to(root))
        for path in (*root.glob("agentbench_core/**/*.py"), *root.glob("plugins/*/src/**/*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in _LOADERS
    }
    assert found == {"agentbench_core/inputs/documents.py"}
