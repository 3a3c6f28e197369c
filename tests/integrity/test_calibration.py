"""Calibration with a reference solution: blinded files are stable, and valid for every correct program."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Calibration
from agentbench_core.builtin import options
from agentbench_core.run.attempt.calibration import DIRECTORY, _hash, _read
from agentbench_integrity.scorer import scorer as tests_scorer
from agentbench_integrity.scorer.blinding.expectations import VERSION, Expectations, dumped, loaded
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from tests.conftest import Ended
from tests.integrity.benches import Bench, Scored

APP = """\
class Top:
    NUMBER = {top}


class Thing:
    def __init__(self, size):
        self.size = size

    def __eq__(self, other):
        return self.size == other.size

    __hash__ = None


def double(n):
    return n {operator}


def same(value):
    return value
"""
UNFIXED = {"app.py": APP.format(top=3, operator="+ 1")}
SOLVED = {"app.py": APP.format(top=6, operator="* 2")}
SHUFFLED = """\
import random


def pytest_collection_modifyitems(items):
    random.SystemRandom().shuffle(items)
"""
HIDDEN: dict[str, str | bytes] = {
    "test_plain.py": """\
        import pytest

        from app import double

        @pytest.mark.parametrize(("n", "wanted"), [(50210, 100420), (71833, 143666), (1, 2)])
        def test_table(n, wanted):
            '''Twice of 50210 is 100420.'''
            assert double(n) == wanted, f"not {wanted}"

        def test_message():
            with pytest.raises(TypeError, match="NoneType"):
                double(None)
            assert double("ab") == "abab"
    """,
    "test_unstable.py": """\
        import random

        from app import double, same

        def test_seeds():
            assert hash("abc") == same(hash("abc"))
            assert same(hash("abc")) == hash("abc")
            assert [*same({"ab", "cd", "ef", "gh"})] == [*{"ab", "cd", "ef", "gh"}]
            assert double(40101) == 80202

        def test_numbers():
            number = random.random()
            assert same(number) == number
    """,
    "test_depends.py": """\
        from app import Thing, Top, double, same

        def test_constant():
            assert double(3) == Top.NUMBER
            assert double(30303) == 60606

        def test_objects():
            assert same(Thing(3)) == Thing(3)
            assert same(print) == print
            assert same(len("x" * 150_000)) == 150_000
            assert same("x" * 150_000) == "x" * 150_000
    """,
    "test_breaks.py": """\
        import sys

        from app import double

        def test_frames():
            wanted = 6
            assert double(3) == wanted
            assert sys._getframe().f_locals["wanted"] == 6

        def test_other():
            assert double(20202) == 40404
    """,
    "test_looks_at_itself.py": """\
        from app import double

        with open(__file__) as file:
            TEXT = file.read()
        if TEXT.count("assert double") < 2:
            raise ValueError(TEXT)

        def test_it():
            assert double(3) == 6
    """,
    "test_tables.py": """\
        from app import double

        TABLE = [(3, 6), (4, 8)]
        ALONE = [(61207, 122414)]

        def check(n, wanted):
            assert double(n) == wanted

        def test_all():
            for n, wanted in TABLE:
                assert double(n) == wanted
            for n, wanted in ALONE:
                assert double(n) == wanted
    """,
    "test_uses_tables.py": """\
        from test_tables import TABLE, check

        def test_them():
            for n, wanted in TABLE:
                check(n, wanted)
    """,
    "test_cases.py": """\
        import unittest

        from app import double

        class Base(unittest.TestCase):
            def setUp(self):
                self.assertEqual(double(8), 16)

        class Cases(Base):
            def test_one(self):
                for n, wanted in {9: 18, 10: 20}.items():
                    with self.subTest(n=n, wanted=wanted):
                        self.assertEqual(double(n), wanted)

            def test_two(self):
                self.assertIn(double(11), (22, 23))

        async def test_async():
            assert double(12) == 24
    """,
    "test_documented.py": '''\
        """Documentation.

        >>> 1 + 1
        2
        """

        from app import double

        def helper():
            """
            >>> double(2)
            4
            """

        def test_it():
            assert double(3) == 6
    ''',
    "test_red.py": """\
        import pytest

        from app import double

        @pytest.mark.parametrize("n", [1, 2, 3])
        def test_never(n):
            raise OSError("no network")

        @pytest.mark.xfail(strict=True)
        def test_known():
            assert double(3) == 7

        def test_green():
            assert double(90909) == 181818
    """,
    "test_bad.py": "def test_it(:\n",
    "test_latin.py": "# -*- coding: latin-1 -*-\ndef test_it():\n    assert 'é' == '\\xe9'\n".encode("latin-1"),
    "test_marked.py": b"\xef\xbb\xbffrom app import double\n\ndef test_it():\n    assert double(70707) == 141414\n",
    "conftest.py": SHUFFLED,
    "data.txt": b"\xff\xfe",
}
SETTINGS = """\
[pytest]
filterwarnings = error
addopts = -p no:cacheprovider --doctest-modules
"""
NEEDED = [
    "test_plain.py::test_table[50210-100420]",
    "test_plain.py::test_table[71833-143666]",
    "test_plain.py::test_table[1-2]",
    "test_plain.py::test_message",
    "test_unstable.py::test_seeds",
    "test_unstable.py::test_numbers",
    "test_depends.py::test_constant",
    "test_depends.py::test_objects",
    "test_breaks.py::test_frames",
    "test_breaks.py::test_other",
    "test_looks_at_itself.py::test_it",
    "test_tables.py::test_all",
    "test_uses_tables.py::test_them",
    "test_cases.py::Cases::test_one",
    "test_cases.py::Cases::test_two",
    "test_documented.py::test_documented",
    "test_documented.py::test_documented.helper",
    "test_documented.py::test_it",
    "test_red.py::test_green",
    "test_latin.py::test_it",
    "test_marked.py::test_it",
]


@attrs.frozen
class Case:
    """A calibrated task."""

    bench: Bench
    found: Expectations

    def blinded(self, name: str) -> list[str]:
        """The blinded assertions of a file."""
        return [site.assertion for site in self.found.sites.values() if site.file == f"checks/{name}"]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """A task with all odd test files at once, whose tests run in a different order each time."""
    hidden = {f"checks/{name}": dedented(text) for name, text in HIDDEN.items()}
    with contextlib.closing(LocalProvider(LocalOptions())) as provider:
        bench = Bench(
            tmp_path_factory.mktemp("case"),
            provider,
            files={**UNFIXED, "pytest.ini": SETTINGS},
            hidden=hidden,
            solution=SOLVED,
            fail_to_pass=tuple(f"checks/{name}" for name in NEEDED),
        )
        yield Case(bench, bench.calibrate())


def dedented(text: str | bytes) -> str | bytes:
    """Remove the indentation of the first line from all lines."""
    if isinstance(text, bytes):
        return text
    width = len(text) - len(text.lstrip(" "))
    return "".join(line[width:] if line.strip() else line for line in text.splitlines(keepends=True))


@pytest.mark.long
def test_stable_plain_values_are_blinded(case: Case) -> None:
    assert len(case.blinded("test_plain.py")) == 3
    assert len(case.blinded("test_cases.py")) == 3
    assert case.blinded("test_marked.py") == ["double(70707) == 141414"]
    text = case.found.files["checks/test_plain.py"]
    assert "100420" not in text
    assert "NoneType" not in text
    assert "50210" in text


def test_unstable_values_stay_as_they_are(case: Case) -> None:
    """Values that vary with the hash seed or between runs are not blinded."""
    assert case.blinded("test_unstable.py") == ["double(40101) == 80202"]


def test_values_that_depend_on_the_program_or_are_not_plain_stay(case: Case) -> None:
    assert case.blinded("test_depends.py") == ["double(30303) == 60606", "same(len('x' * 150000)) == 150000"]


def test_tests_that_break_when_cut_stay(case: Case) -> None:
    """Only these tests stay; the whole file stays only if it cannot be imported."""
    assert case.blinded("test_breaks.py") == ["double(20202) == 40404"]
    assert "checks/test_looks_at_itself.py" not in case.found.files
    assert case.found.left["the file cannot be collected with its assertions blinded"] == 1


def test_names_imported_by_other_files_are_kept(case: Case) -> None:
    """Tables and assertions that other files import stay."""
    text = case.found.files["checks/test_tables.py"]
    assert "TABLE = [(3, 6), (4, 8)]" in text
    assert "122414" not in text
    assert "check(" in case.found.files.get("checks/test_uses_tables.py", "check(")


def test_doctests_are_run(case: Case) -> None:
    """Blinding would remove them with the docstrings, so the file stays."""
    assert "checks/test_documented.py" not in case.found.files
    assert case.found.left["the set of tests changes when assertions are blinded"] == 1


def test_failing_tests_do_not_prevent_blinding(case: Case) -> None:
    """They do not prevent blinding of the other tests in their file."""
    assert case.blinded("test_red.py") == ["double(90909) == 181818"]


def test_files_that_cannot_be_read_are_counted(case: Case) -> None:
    reasons = " ".join(case.found.left)
    assert "SyntaxError" in reasons
    assert "not UTF-8" in reasons
    assert set(case.found.files) <= {f"checks/{name}" for name in HIDDEN}


def test_names_of_parameters_are_found_again(case: Case) -> None:
    """Original ids are recovered, whatever the order of the tests."""
    named = {name: meant for name, meant in case.found.names.items() if "test_plain" in name}
    assert named == {f"checks/test_plain.py::test_table[p{n}]": f"checks/{NEEDED[n]}" for n in range(3)}
    assert [case.found.tests[f"checks/{NEEDED[n]}"][0][1] for n in range(3)] == [100420, 143666, 2]


def test_witnesses(case: Case) -> None:
    """A safe value is one that the unfixed program gets wrong and that cannot be guessed."""
    safe = {site.assertion for site in case.found.sites.values() if site.safe}
    assert {"double(n) == wanted", "double(40101) == 80202", "double(90909) == 181818"} <= safe
    assert case.found.fail_to_pass == len(NEEDED)
    assert 0 < case.found.witnessed < len(NEEDED)
    assert case.found.safe_functions >= 5


def test_expectations_are_kept_as_json(case: Case) -> None:
    again = loaded(json.loads(json.dumps(dumped(case.found))))
    assert again == attrs.evolve(case.found, sites=again.sites if again else {})
    assert again is not None
    assert dict(again.sites) == dict(case.found.sites)
    assert loaded({**dumped(case.found), "version": -1}) is None
    assert loaded({}) is None


def page(scored: Scored, name: str) -> Mapping[str, Any]:
    tests = json.loads(scored.files["tests.json"])["tests"]
    return next(dict(test) for test in tests if test["id"].endswith(name))


@pytest.mark.parametrize("body", ["n + n", "2 * n"])
def test_another_correct_solution_passes(body: str, case: Case) -> None:
    scored = case.bench.score(case.found, {"app.py": SOLVED["app.py"].replace("n * 2", body)})
    assert scored.score.passed, scored.score.explanation
    assert scored.score.labels == ()


def test_wrong_value_is_shown_with_the_expected_one(case: Case) -> None:
    """The tests page has the expected and the actual value; the sandbox's output has neither."""
    scored = case.bench.score(case.found, {"app.py": SOLVED["app.py"].replace("* 2", "* 2 + (n == 71833)")})
    assert not scored.score.passed
    assert not scored.score.tampered
    shown = page(scored, "test_table[71833-143666]")
    assert shown["outcome"] == "failed"
    (wrong,) = shown["differences"]
    assert (wrong["expected"], wrong["got"], wrong["assertion"]) == ("143666", "143667", "double(n) == wanted")
    assert page(scored, "test_table[50210-100420]")["outcome"] == "passed"
    assert "expected 143666, got 143667" in scored.printed
    assert "143666" not in scored.printed.partition("agentbench:")[0]


def test_the_unfixed_program_fails(case: Case) -> None:
    scored = case.bench.score(case.found, {})
    assert not scored.score.passed
    assert scored.score.labels == ()
    assert len(page(scored, "test_all")["differences"]) == 3


# --- other commands and tasks -----------------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Create a task."""
    with contextlib.closing(LocalProvider(LocalOptions())) as provider:
        yield lambda **settings: Bench(tmp_path, provider, **settings)


def test_a_command_that_names_one_parameter(bench: Callable[..., Bench]) -> None:
    """The id differs in the blinded file; only this test runs."""
    name = f"checks/{NEEDED[1]}"
    hidden = {"checks/test_plain.py": dedented(HIDDEN["test_plain.py"])}
    made = bench(files=UNFIXED, hidden=hidden, solution=SOLVED, command=f"python -m pytest '{name}'")
    found = made.calibrate()
    assert found.tests == {name: ((0, 143666),)}
    scored = made.score(found, SOLVED)
    assert scored.score.passed, scored.score.explanation
    assert scored.score.tests == {name: "passed"}


TOOL = "import sys\nprint(int(sys.argv[1]) {operator})\n"
STARTS_IT = """\
import subprocess
import sys


def test_it():
    done = subprocess.run([sys.executable, "tool.py", "20101"], capture_output=True, text=True)
    assert done.stdout == "40202\\n"
"""


def test_program_in_its_own_processes(bench: Callable[..., Bench]) -> None:
    """Its output is blinded like other values."""
    made = bench(
        files={"tool.py": TOOL.format(operator="+ 1")},
        hidden={"checks/test_tool.py": STARTS_IT, "checks/conftest.py": "import json\n"},
        solution={"tool.py": TOOL.format(operator="* 2")},
        isolation="process",
    )
    found = made.calibrate()
    assert [site.assertion for site in found.sites.values()] == ["done.stdout == '40202\\n'"]
    assert "40202" not in found.files["checks/test_tool.py"]
    scored = made.score(found, {"tool.py": TOOL.format(operator="<< 1")})
    assert scored.score.passed, scored.score.explanation


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("import tool", "ran tool.py"),
        ("exec(compile(open('tool.py').read(), 'tool.py', 'exec'))", "ran tool.py"),
        ("import runpy\n    runpy.run_path('tool.py')", "ran tool.py"),
    ],
)
def test_a_program_that_the_tests_run_themselves(how: str, told: str, bench: Callable[..., Bench]) -> None:
    """The session fails even if the test catches the exception, and the explanation has the reason."""
    hidden = f"def test_it():\n  try:\n    {how}\n  except BaseException:\n    pass\n"
    made = bench(
        files={"tool.py": "print('ran')\n"}, hidden={"checks/test_tool.py": hidden}, solution={}, isolation="process"
    )
    scored = made.score(None, {})
    assert not scored.score.passed
    assert scored.score.explanation == f"validation.isolation is process, but the tests {told}"
    assert "ran\n" not in scored.printed


# --- caching ----------------------------------------------------------------------------------------------------------

PATCH = "--- a/app.py\n+++ b/app.py\n@@ -18 +18 @@\n-    return n + 1\n+    return n * 2\n"
GOOD = "from app import double\n\ndef test_a():\n    assert double(50210) == 100420\n\n"
GOOD += "def test_b():\n    assert double('abcxyzabc') == 'abcxyzabcabcxyzabc'\n\n"
GOOD += "def test_c():\n    assert double(71833) == 143666\n"
LISTED = {
    "failing_command": "python -c 'from app import double; assert double(2) == 4'",
    "passing_command": "python -m pytest -q checks",
    "fail_to_pass": ["checks/test_it.py::test_a", "checks/test_it.py::test_b", "checks/test_it.py::test_c"],
}


@pytest.mark.release
def test_expectations_are_reused_by_the_next_run(
    make_task: Any, agentbench: Callable[..., Ended], records: Callable[..., list[dict[str, Any]]]
) -> None:
    """The next run reuses them; if they cannot be saved, each run computes them and reports this."""
    task = make_task(files=UNFIXED, hidden={"test_it.py": GOOD}, patch=PATCH, validation=LISTED)

    def run(*flags: str) -> tuple[set[str], str]:
        ended = agentbench("run", "--suite", "mini", "--agent", "scripted", *flags)
        assert ended.code == 0, ended.err
        record = records()[-1]
        assert record["result"]["passed"]
        evidence = {label["evidence"] for label in record["labels"] if label["name"] == "weak_verdict"}
        events = "".join(path.read_text() for path in Path().glob("artifacts/runs/*/**/*.jsonl"))
        shutil.rmtree("artifacts")
        return evidence, events

    assert run()[0] == set()
    (kept,) = (task / DIRECTORY).iterdir()
    first = json.loads(kept.read_text())
    found = {"data": first["data"], "summary": first["summary"], "weakness": "as it was kept"}
    assert first == {**first, "digest": _hash({**found, "weakness": first["weakness"]})}
    kept.write_text(json.dumps({**first, **found, "digest": _hash(found)}))
    assert run()[0] == {"as it was kept"}
    kept.rename(task / "elsewhere")
    (task / DIRECTORY).rmdir()
    (task / DIRECTORY).write_text("no directory\n")
    evidence, told = run()
    assert evidence == set()
    assert "could not cache its calibration" in told


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"for": 1}', "[" * 100_000, '{"for": {"a": 1}, "data": 1, "summary": 2}']
)
def test_damaged_expectations(text: str, tmp_path: Path) -> None:
    """They are ignored, as are those of another task, solution, environment or scorer."""
    (tmp_path / "kept.json").write_text(text)
    assert _read(tmp_path / "kept.json", {"a": 1}) is None
    assert _read(tmp_path / "none.json", {"a": 1}) is None
    found = {"data": {"x": 1}, "summary": ["y"], "weakness": "z"}
    (tmp_path / "kept.json").write_text(json.dumps({"for": {"a": 1}, **found, "digest": _hash({**found, "data": {}})}))
    assert _read(tmp_path / "kept.json", {"a": 1}) is None
    (tmp_path / "kept.json").write_text(json.dumps({"for": {"a": 1}, **found, "digest": _hash(found)}))
    assert _read(tmp_path / "kept.json", {"a": 1}) == Calibration(data={"x": 1}, summary=("y",), weakness="z")
    assert _read(tmp_path / "kept.json", {"a": 2}) is None


def test_a_task_without_a_reference_solution(bench: Callable[..., Bench]) -> None:
    """Expected values cannot be calibrated, and the verdict is weak."""
    context = bench(files=UNFIXED, hidden={"test_plain.py": "def test_one():\n    assert False\n"}).context
    scorer = tests_scorer.TestsScorer(options.NoOptions())
    found = scorer.calibrate(attrs.evolve(context, has_reference=False))
    assert "no reference solution" in found.weakness
    assert found.data == {}


def test_calibration_of_an_older_version_is_not_reused() -> None:
    """It is calibrated again, not treated as having no expectations, which would compare nothing."""
    assert tests_scorer.TestsScorer.calibration_version == VERSION
    old = {**dumped(Expectations(files={}, names={}, tests={}, sites={}, left={}, size=0)), "version": VERSION - 1}
    assert loaded(old) is None
