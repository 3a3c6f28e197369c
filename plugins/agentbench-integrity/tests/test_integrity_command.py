"""Which commands are recognized as pytest and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agentbench_integrity.scorer.pytest_command import PytestCommand, parse


@pytest.mark.parametrize(
    ("command", "python", "flags", "arguments", "variables", "path"),
    [
        ("pytest", "", (), (), {}, ()),
        ("py.test -q tests", "", (), ("-q", "tests"), {}, ()),
        ("python -m pytest -q -x", "python", (), ("-q", "-x"), {}, ("",)),
        ("python3.11 -W error -Xdev -B -m pytest", "python3.11", ("-W", "error", "-Xdev", "-B"), (), {}, ("",)),
        ("/opt/venv/bin/python -m pytest", "/opt/venv/bin/python", (), (), {}, ("",)),
        ("A=1 PYTHONPATH=src:lib pytest", "", (), (), {"A": "1", "PYTHONPATH": "src:lib"}, ("src", "lib")),
        ("PYTHONPATH=src python -m pytest 'a b'", "python", (), ("a b",), {"PYTHONPATH": "src"}, ("", "src")),
        ("pytest 'tests/test_x.py::test_y[1-a]'", "", (), ("tests/test_x.py::test_y[1-a]",), {}, ()),
    ],
)
def test_pytest(
    command: str,
    python: str,
    flags: tuple[str, ...],
    arguments: tuple[str, ...],
    variables: dict[str, str],
    path: tuple[str, ...],
) -> None:
    """A pytest command is split into its parts, so that we can start it ourselves."""
    parsed = parse(command)
    assert parsed == PytestCommand(python=python, flags=flags, arguments=arguments, variables=variables)
    assert parsed.path == path


@pytest.mark.parametrize(
    "command",
    [
        "",
        "make test",
        "python test.py",
        "python -m unittest",
        "python -c 'import pytest; pytest.main()'",
        "cd sub && pytest",
        "pytest; true",
        "pytest || true",
        "pytest | tee log",
        "pytest > log",
        "pytest $ARGUMENTS",
        "pytest `cat list`",
        "pytest tests/*.py",
        "pytest\nexit 0",
        "pytest 'unclosed",
        "A=1",
        "coverage run -m pytest",
        "./pytest",
    ],
)
def test_other_commands_are_not_parsed(command: str) -> None:
    """Shell syntax and other programs are not parsed; only their exit code counts."""
    assert parse(command) is None


@given(st.text(max_size=60))
def test_parsing_never_raises(command: str) -> None:
    """Parsing never raises."""
    parse(command)
    parse(f"pytest {command}")
