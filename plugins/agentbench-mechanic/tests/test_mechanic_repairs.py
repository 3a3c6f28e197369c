"""The package ``repair``: its changes, and the search for a change that helps."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import agentbench_mechanic.repair as repair_package
from agentbench_mechanic.guessing import patched
from agentbench_mechanic.repair.ranking import repaired, repairs, source_of
from agentbench_mechanic.repair.smells import smells
from agentbench_mechanic.repair.source import Edit, Repair, Source, unified_diff

HOME = Path(repair_package.__file__).parent


def program(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def results(text: str) -> set[str]:
    source = Source(program(text))
    return {after for _, repair in repairs(source) if (after := repaired(source, repair)) is not None}


# --- single changes ----------------------------------------------------------------------------------------------

CHANGES = {
    "comparison": ("def f(a, b): return a < b", "def f(a, b): return a <= b"),
    "comparison in a chain": ("def f(a, b): return 0 < a < b", "def f(a, b): return 0 < a <= b"),
    "identity": ("def f(a): return a is 5000", "def f(a): return a == 5000"),
    "negated condition": ("def f(a):\n    if a.b: return 1", "def f(a):\n    if not (a.b): return 1"),
    "and": ("def f(a, b): return a and b", "def f(a, b): return a or b"),
    "one of two": ("def f(a, b): return a and b", "def f(a, b): return b"),
    "plus": ("def f(a, b): return a + b", "def f(a, b): return a - b"),
    "plus one": ("def f(a): return len(a) + 1", "def f(a): return len(a)"),
    "operands": ("def f(a, b): return a - b", "def f(a, b): return b - a"),
    "division": ("def f(a, b): return a / b", "def f(a, b): return a // b"),
    "number": ("def f(a): return a[0]", "def f(a): return a[1]"),
    "truth": ("def f(): return g(deep=False)", "def f(): return g(deep=True)"),
    "min": ("def f(a, b): return min(a, b)", "def f(a, b): return max(a, b)"),
    "arguments": ("def f(a, b): return g(a, b)", "def f(a, b): return g(b, a)"),
    "order": ("def f(a): return sorted(a)", "def f(a): return sorted(a, reverse=True)"),
    "order by length": ("def f(a): return sorted(a)", "def f(a): return sorted(a, key=len)"),
    "copy": ("def f(self):\n    return self.a", "def f(self):\n    return list(self.a)"),
    "index": ("def f(a, i): return a[i]", "def f(a, i): return a[i - 1]"),
    "slice": ("def f(a, i): return a[:i]", "def f(a, i): return a[:i + 1]"),
    "strip": ("def f(a): return a.strip()", "def f(a): return a.rstrip()"),
    "empty is not none": ("def f(a): return a or 3", "def f(a): return (a if a is not None else 3)"),
    "empty is not none, asked": (
        "def f(a):\n    if a:\n        return 1",
        "def f(a):\n    if a is not None:\n        return 1",
    ),
    "break": ("def f(a):\n    for b in a: break", "def f(a):\n    for b in a: continue"),
    "statement": ("def f(a):\n    a.clear()\n    return a", "def f(a):\n    pass\n    return a"),
    "lost result": ("def f(a):\n    a.strip()\n    return a", "def f(a):\n    a = a.strip()\n    return a"),
    "lost return": ("def f(a):\n    g(a)", "def f(a):\n    return g(a)"),
    "result": ("def f(a):\n    b = a + a", "def f(a):\n    b = a + a\n    return b"),
    "assigned": ("def f(a):\n    n = 0\n    n = a", "def f(a):\n    n = 0\n    n += a"),
    "swapped": ("def f(a):\n    g(a)\n    h(a)", "def f(a):\n    h(a)\n    g(a)"),
    "other name": ("def f(a, b):\n    return a", "def f(a, b):\n    return b"),
    "except": (
        "def f():\n    try: g()\n    except KeyError: pass",
        "def f():\n    try: g()\n    except Exception: pass",
    ),
    "cache": ("@cache\ndef f(a): return g(a)", "def f(a): return g(a)"),
    "below zero": (
        "def f(a):\n    return a // 2",
        "def f(a):\n    if a < 0:\n        return -f(-a)\n    return a // 2",
    ),
    "sum before call": (
        "def f(a, d):\n    s = g(a, 1)\n    return s + d",
        "def f(a, d):\n    s = g(a, 1)\n    return g(a + d, 1)",
    ),
    "not ASCII": ("def f(ä, b): return 'ö' + ä < b", "def f(ä, b): return 'ö' + ä <= b"),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_a_change(before: str, after: str) -> None:
    assert after in results(before)


SMELLS = {
    "strip of a word": (
        "import re\ndef f(a): return a.rstrip('.py')",
        'import re\ndef f(a): return re.sub(r"(?:\\.py)+\\Z", "", a)',
    ),
    "strip of a word, once": ("def f(a): return a.lstrip('www.')", "def f(a): return a.removeprefix('www.')"),
    "alternatives": (
        "def f(a): return '|'.join(map(re.escape, a))",
        "def f(a): return '|'.join(map(re.escape, sorted(a, key=len, reverse=True)))",
    ),
    "default": ("def f(a=[]): \n    return a", "def f(a=None): \n    a = [] if a is None else a\n    return a"),
    "default for keys": (
        "import copy\ndef f(d, k):\n    a = d.setdefault(k, [])\n    a.append(1)",
        "import copy\ndef f(d, k):\n    a = d[k] = copy.copy(d.get(k, []))\n    a.append(1)",
    ),
    "escapes": (
        "def f(a):\n    while a.endswith('\\\\'): a = g(a)",
        "def f(a):\n    while (len(a) - len(a.rstrip('\\\\'))) % 2 == 1: a = g(a)",
    ),
    "trail": (
        "class A:\n    def f(self, n):\n        if n in self.t: return\n        self.t.append(n)\n"
        "        return self.f(n)",
        "class A:\n    def f(self, n):\n        if n in self.t: return\n        self.t.append(n)\n"
        "        try:\n            return self.f(n)\n        finally:\n            self.t.pop()",
    ),
    "two measures": (
        "def wide(a): return 1\ndef f(a, b, n):\n    if wide(a) <= n: return a\n    return n - len(b)",
        "def wide(a): return 1\ndef f(a, b, n):\n    if wide(a) <= n: return a\n    return n - wide(b)",
    ),
}


@pytest.mark.parametrize(("before", "after"), SMELLS.values(), ids=SMELLS)
def test_a_smell_is_found_and_comes_first(before: str, after: str) -> None:
    source = Source(before)
    found = [repaired(source, repair) for repair in smells(source)]
    assert after in found
    assert all(repair.is_smell for _, repair in repairs(source)[: len(found)])


def test_chained_unescaping() -> None:
    before = program(
        r"""
        def f(text):
            text = text.replace("\\n", "\n")
            return text.replace("\\\\", "\\")
        """
    )
    source = Source(before)
    (repair,) = smells(source)
    after = repaired(source, repair)
    assert after is not None
    names: dict[str, object] = {}
    exec(compile(after, "made", "exec"), names)  # compare behaviour, not text
    unescape = names["f"]
    assert callable(unescape)
    assert unescape(r"a\\n\n\\\\n") == "a\\n\n\\\\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f(a): return a.strip('ab ')",
        "def f(a): return a.rstrip('\\r\\n')",
        "def f(a): return a.rstrip('0')",
        "def f(a=()): return a",
        "def f(a): return '|'.join(sorted(a))",
        "def f(a): return a.endswith('x')",
        "class A:\n    def f(self, n):\n        self.t.append(n)\n        return n",
        "def f(a, n): return n - len(a)",
    ],
)
def test_code_that_does_not_smell(text: str) -> None:
    assert list(smells(Source(text))) == []


def test_a_required_import_is_added_at_the_right_position() -> None:
    text = '"""Words."""\n\nfrom __future__ import annotations\n\nimport os\n\n\ndef f(a): return a.rstrip(".py")\n'
    source = Source(text)
    after = repaired(source, next(smells(source)))
    assert after is not None
    assert "import re\nimport os\n" in after
    compile(after, "made", "exec")  # the future import must stay first
    bare = Source('def f(a): return a.rstrip(".py")\n')
    assert (repaired(bare, next(smells(bare))) or "").startswith("import re\n\ndef f")


@pytest.mark.parametrize("path", sorted(HOME.glob("*.py")), ids=lambda path: path.name)
def test_any_change_of_real_programs_can_be_applied_as_a_diff(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    source = Source(text)
    found = repairs(source)
    for _, repair in found[::7]:
        after = repaired(source, repair)
        if after is not None:
            diff = unified_diff("a.py", text, after)
            assert patched(text, diff) in (after, text)  # unchanged if the same lines occur twice
    assert len(found) > 20 or len(text) < 1000


def test_invalid_python_has_no_repairs() -> None:
    assert source_of("def f(:") is None
    assert source_of("x = 1\0") is None
    assert source_of("(" * 5000) is None


def test_changes_at_the_same_position_overlap() -> None:
    one = Repair("a", 1, (Edit(3, 5, ""),), 1)
    assert one.overlaps(Repair("b", 1, (Edit(4, 9, ""),), 1))
    assert one.overlaps(Repair("b", 1, (Edit(3, 3, "x"),), 1))
    assert not one.overlaps(Repair("b", 1, (Edit(5, 9, ""),), 1))


# --- the search --------------------------------------------------------------------------------------------------

SHELF = """
    def room(shelf, books):
        free = shelf - books + 1
        return free if free > 0 else 0


    def names(books):
        found = []
        for book in books:
            found.append(book.strip())
        return found
"""
TESTS = """
    from shelf import names, room


    def test_room():
        assert room(10, 4) == 6
        assert room(2, 4) == 0


    def test_no_room():
        assert room(1, 1) == 0


    def test_names():
        assert names([" a ", "b"]) == ["a", "b"]
"""


def find(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentbench_mechanic.repair", "--seconds", "100", *arguments]
    # Installed plugins of pytest take most of the time.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=200)


def repository(root: Path, source: str, tests: str) -> Path:
    (root / "tests").mkdir()
    (root / "src").mkdir()
    (root / "src" / "shelf.py").write_text(program(source))
    (root / "tests" / "test_shelf.py").write_text(program(tests))
    (root / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    return root


def test_it_finds_a_fix_and_does_not_change_the_repository(tmp_path: Path) -> None:
    root = repository(tmp_path, SHELF, TESTS)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    done = find(root, "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "repair: 1 tests pass, 2 fail" in done.stdout
    diff = done.stdout.partition("begins\n")[2].rpartition("repair: the change ends")[0]
    assert "-    free = shelf - books + 1\n+    free = shelf - books\n" in diff
    assert patched(program(SHELF), diff) == program(SHELF).replace(" + 1", "")
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_no_change_fixes_the_tests(tmp_path: Path) -> None:
    root = repository(
        tmp_path, "def room():\n    return 1\n", "import shelf\n\ndef test():\n    assert shelf.room() == 'x'\n"
    )
    done = find(root)
    assert done.returncode == 1
    assert ", 0 left" in done.stdout
    assert "the change" not in done.stdout


def test_no_change_if_all_tests_pass(tmp_path: Path) -> None:
    root = repository(tmp_path, SHELF, "def test():\n    pass\n")
    assert "repair: 1 tests pass, 0 fail" in find(root).stdout


def test_changes_that_never_end_or_use_too_much_memory_are_stopped(tmp_path: Path) -> None:
    source = (
        "def count(n):\n    done = []\n    while len(done) < n:\n        done.append(1)\n    return len(done) + 1\n"
    )
    tests = "import shelf\n\ndef test():\n    assert shelf.count(3) == 3\n"
    done = find(repository(tmp_path, source, tests))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tried up to number" in done.stdout


def test_a_change_that_breaks_another_test_is_not_chosen(tmp_path: Path) -> None:
    """The tests contradict each other: each change that fixes one breaks the other."""
    source = "def sign(n):\n    return n > 0\n"
    tests = """
        from shelf import sign


        def test_zero():
            assert not sign(0)


        def test_zero_again():
            assert sign(0)
    """
    done = find(repository(tmp_path, source, tests))
    assert (done.returncode, "the change" in done.stdout) == (1, False), done.stdout + done.stderr
