"""The parser, on output of the real pytest and unittest."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from agentbench_subagents.failures import Location, is_external, is_test, parse, rank

NO_OTHERS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without installed plugins of pytest, which print nothing here, but take most of the time."""
FILES = {
    "src/shop/__init__.py": "",
    "src/shop/cart.py": """\
        def total(prices):
            return sum(prices) / len(prices)


        class Cart:
            def mean(self):
                return total([])
        """,
    "tests/__init__.py": "",
    "tests/test_cart.py": """\
        import unittest

        import pytest

        from shop.cart import Cart


        @pytest.mark.parametrize("name", ["a - b", "x::y"])
        def test_mean(name):
            assert Cart().mean() == 0


        class TestEqual:
            def test_equal(self):
                assert 1 == 2


        class Case(unittest.TestCase):
            def test_case(self):
                self.assertEqual(Cart().mean(), 0)


        @pytest.fixture
        def broken():
            raise RuntimeError("no")


        def test_fixture(broken):
            pass
        """,
}
SOURCE = {("src/shop/cart.py", 2, "total", "raised"), ("src/shop/cart.py", 7, "mean", "frame")}
TESTS = {
    ("tests/test_cart.py", 10, "test_mean", "frame"),
    ("tests/test_cart.py", 15, "test_equal", "raised"),
    ("tests/test_cart.py", 20, "test_case", "frame"),
    ("tests/test_cart.py", 25, "broken", "raised"),
}
SUMMARY = {
    ("tests/test_cart.py", None, "test_mean", "test"),
    ("tests/test_cart.py", None, "TestEqual.test_equal", "test"),
    ("tests/test_cart.py", None, "Case.test_case", "test"),
    ("tests/test_cart.py", None, "test_fixture", "test"),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(textwrap.dedent(text))
    return root


def output(root: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", *command],
        cwd=root,
        env={"PYTHONPATH": f"{root / 'src'}:{root}", "PYTHONDONTWRITEBYTECODE": "1", **NO_OTHERS},
        capture_output=True,
        text=True,
    )
    assert done.returncode, "the command did not fail"
    return done.stdout + done.stderr


def run_pytest(root: Path, *options: str) -> str:
    return output(root, "pytest", "-p", "no:cacheprovider", "--rootdir", str(root), *options)


def own(root: Path, text: str) -> list[tuple[str, int | None, str, str]]:
    """Ranked locations below ``root``, relative to it."""
    return [
        (location.path.removeprefix(f"{root}/"), location.line, location.symbol, location.kind)
        for location in rank(parse(text))
        if not is_external(location.path)
    ]


@pytest.mark.parametrize("color", ["yes", "no"])
@pytest.mark.parametrize("style", ["long", "short", "native", "auto"])
def test_pytest_tracebacks(project: Path, style: str, color: str) -> None:
    locations = own(project, run_pytest(project, f"--tb={style}", f"--color={color}"))
    assert set(locations) == SOURCE | TESTS | SUMMARY
    assert locations[0] == ("src/shop/cart.py", 2, "total", "raised")
    assert locations[1] == ("src/shop/cart.py", 7, "mean", "frame")


@pytest.mark.parametrize("color", ["yes", "no"])
def test_pytest_line_style(project: Path, color: str) -> None:
    """One line per failure: where it was raised, without a symbol."""
    locations = own(project, run_pytest(project, "--tb=line", f"--color={color}"))
    raised = {("src/shop/cart.py", 2, "", "raised"), ("tests/test_cart.py", 15, "", "raised")}
    assert raised | SUMMARY <= set(locations)
    assert locations[0] == ("src/shop/cart.py", 2, "", "raised")


def test_pytest_verbose_without_tracebacks(project: Path) -> None:
    assert set(own(project, run_pytest(project, "-v", "--tb=no", "--no-summary"))) == SUMMARY


def test_unittest(project: Path) -> None:
    locations = own(project, output(project, "unittest", "tests.test_cart.Case"))
    test = ("tests/test_cart.py", None, "Case.test_case", "test")
    assert locations == [
        ("src/shop/cart.py", 2, "total", "raised"),
        ("src/shop/cart.py", 7, "mean", "frame"),
        ("tests/test_cart.py", 20, "test_case", "frame"),
        test,
    ]


@pytest.mark.parametrize("runner", [("pytest",), ("pytest", "--tb=native"), ("unittest",)])
def test_names_that_cannot_be_imported(tmp_path: Path, runner: tuple[str, ...]) -> None:
    write(tmp_path, {"mod.py": "", "test_it.py": "from mod import thing\n"})
    locations = own(tmp_path, output(tmp_path, *runner))
    assert locations[0] == ("mod.py", None, "thing", "import")
    assert ("test_it.py", 1, "<module>", "raised") in locations
    assert ("test_it.py", None, "", "test") in locations


@pytest.mark.parametrize("runner", [("pytest",), ("unittest",)])
def test_syntax_errors(tmp_path: Path, runner: tuple[str, ...]) -> None:
    write(tmp_path, {"mod.py": "x = 1\ndef f(:\n", "test_it.py": "import mod\n"})
    locations = own(tmp_path, output(tmp_path, *runner))
    assert locations[0] == ("mod.py", 2, "", "raised")


def test_chained_exceptions(tmp_path: Path) -> None:
    code = """\
        def low():
            raise KeyError(1)

        def high():
            try:
                low()
            except KeyError as error:
                raise ValueError from error

        high()
        """
    write(tmp_path, {"prog.py": code})
    locations = own(tmp_path, output(tmp_path, "prog"))
    assert {location for location in locations if location[3] == "raised"} == {
        ("prog.py", 2, "low", "raised"),
        ("prog.py", 8, "high", "raised"),
    }


def test_exception_groups(tmp_path: Path) -> None:
    code = """\
        def one():
            raise KeyError(1)

        def both():
            try:
                one()
            except KeyError as error:
                raise ExceptionGroup("all", [error])

        both()
        """
    write(tmp_path, {"prog.py": code})
    locations = own(tmp_path, output(tmp_path, "prog"))
    assert {("prog.py", 2, "one"), ("prog.py", 8, "both")} <= {location[:3] for location in locations}


def test_headers_of_unittest_before_python_3_11() -> None:
    assert parse("FAIL: test_a (pkg.test_x.Case)\n") == (
        Location(path="pkg/test_x.py", line=None, symbol="Case.test_a", kind="test"),
    )


def test_warnings_are_not_failures() -> None:
    assert parse("tests/test_x.py::test_a\n  /ws/src/x.py:3: DeprecationWarning: old\n    f()\n") == ()


def test_the_projects_own_files_come_first_then_source_then_tests() -> None:
    def at(path: str, kind: str = "raised") -> Location:
        return Location(path=path, line=1, symbol="", kind=kind)  # type: ignore[arg-type]

    locations = (
        at("/usr/lib/python3.11/json/decoder.py"),
        at("tests/test_a.py"),
        at("src/b.py", "frame"),
        at("src/a.py"),
        at("src/often.py"),
        at("src/often.py"),
    )
    ranked = [location.path for location in rank(locations)]
    assert ranked == ["src/often.py", "src/a.py", "src/b.py", "tests/test_a.py", "/usr/lib/python3.11/json/decoder.py"]


@pytest.mark.parametrize("path", ["tests/x.py", "a/test_b.py", "b_test.py", "conftest.py", "/ws/test/deep/x.py"])
def test_paths_of_tests(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize("path", ["latest.py", "contest_rules.py", "testing/x.py", "src/attest.py"])
def test_paths_of_other_files(path: str) -> None:
    assert not is_test(path)


_PARTS = """a.py|:|12|in f|File "|"|, line |FAILED |ERROR: |::| - |(|)|\n|E   | |\x1b[31m|\x1b]8;;|_ _ _|def f(|> |\
cannot import name 'x' from 'y' |unittest.loader._FailedTest"""
_pieces = st.sampled_from(_PARTS.split("|"))


@given(st.text() | st.lists(_pieces | st.text(max_size=3), max_size=40).map("".join))
@example('File "x.py", line 999999999999')
@example("\ud800.py:1: Error")
def test_any_text_is_accepted(text: str) -> None:
    for location in rank(parse(text)):
        assert location.path
        assert location.line is None or location.line >= 0


def test_a_long_output_is_parsed_in_time() -> None:
    nasty = [
        '"' * 1999,
        'File "' * 330,
        "a.py" * 499,
        "a.py:" * 399,
        "\x1b]" * 900,
        "cannot import name 'x' from 'y' (" * 60,
    ]
    assert parse("\n".join(nasty * 500)) is not None
