"""From the output of a failure to the related files, read with the real tools from a workspace in memory."""

from collections.abc import Iterator, Mapping, Sequence

import attrs
import pytest

from agentbench_core import (
    AttemptContext,
    Budget,
    Deadline,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSpec,
)
from agentbench_subagents.gathering import Gathered, gather
from agentbench_subagents.packing import pack
from agentbench_subagents.ranking import Candidate, Group, from_command
from agentbench_testing import builtin_tools

OUTPUT = """\
tests/test_cart.py:9: in test_mean
    assert Cart().mean() == 0
src/shop/cart.py:7: in mean
    return total([])
src/shop/money.py:2: in total
    return sum(prices) / len(prices)
E   ZeroDivisionError: division by zero
FAILED tests/test_cart.py::test_mean - ZeroDivisionError
"""
SHOP = {
    "docs/conf.py": "",
    "src/shop/__init__.py": "from shop.cart import Cart\nfrom .stock import Stock\n",
    "src/shop/cart.py": "from . import money\nfrom .errors import E\n\n\nclass Cart:\n    def mean(self):\n"
    "        return money.total([])\n",
    "src/shop/errors.py": "class E(Exception): pass\n",
    "src/shop/money.py": "def total(prices):\n    return sum(prices) / len(prices)\n",
    "src/shop/stock.py": "from shop.errors import E\n",
    "tests/test_cart.py": "from shop import Cart\nimport shop.stock\n\n\n\n\n\ndef test_mean():\n"
    "    assert Cart().mean() == 0\n",
}


@attrs.frozen
class Memory:
    """A workspace of files in memory."""

    texts: Mapping[str, str | bytes]

    def files(self, root: str = "") -> Iterator[str]:
        return iter(sorted(path for path in self.texts if path.startswith(f"{root}/" if root else "")))

    def read(self, path: str, *, limit: int) -> bytes:
        if path not in self.texts:
            raise ToolError("not_found", path)
        data = self.texts[path]
        return (data.encode() if isinstance(data, str) else data)[:limit]


@attrs.define
class Tools:
    """A toolbox for such a workspace that records calls."""

    workspace: Memory
    tools: Mapping[str, Tool]
    calls: list[str] = attrs.field(factory=list)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools.values())

    def call(self, call: ToolCall) -> ToolResult:
        self.calls.append(" ".join([call.tool, *(str(value) for value in call.arguments.values())]))
        context = ToolContext(
            workspace=self.workspace,  # type: ignore[arg-type]
            sandbox=None,  # type: ignore[arg-type]
            deadline=Deadline(60),
            editable=lambda path: True,
            save_diff=lambda diff, changed: None,
        )
        try:
            return self.tools[call.tool].call(call.arguments, context)
        except ToolError as error:
            return ToolResult.failure(error.error_type, error.message)


def tools_over(files: Mapping[str, str | bytes], names: Sequence[str] = ("list_files", "read_file")) -> Tools:
    return Tools(Memory(files), {tool.spec.name: tool for tool in builtin_tools() if tool.spec.name in names})


def context_of(tools: Toolbox, command: str = "") -> AttemptContext:
    return AttemptContext(
        instruction="",
        failure_output="",
        failing_command=command,
        tools=tools,
        budget=Budget(),
        deadline=Deadline(60),
        log=None,  # type: ignore[arg-type]
    )


def gathered(
    output: str, files: Mapping[str, str | bytes], *, max_files: int = 10, max_depth: int = 2, command: str = ""
) -> Gathered:
    return gather(context_of(tools_over(files), command), output, max_files=max_files, max_depth=max_depth)


def ranking(result: Gathered) -> list[tuple[str, Group, int]]:
    return [(it.path, it.group, it.depth) for it in result.candidates]


def test_the_ranking_follows_the_failure_and_the_imports() -> None:
    """Where it was raised, frames, imported and used files, other imported files, the test."""
    result = gathered(OUTPUT, SHOP)
    assert ranking(result) == [
        ("src/shop/money.py", Group.RAISED, 0),
        ("src/shop/cart.py", Group.FRAME, 0),
        ("src/shop/__init__.py", Group.IMPORTED_AND_USED, 1),
        ("src/shop/errors.py", Group.IMPORTED, 1),
        ("src/shop/stock.py", Group.IMPORTED, 1),
        ("tests/test_cart.py", Group.TEST, 0),
    ]
    assert set(result.sources) == {it.path for it in result.candidates}
    assert result.unread == ()


def test_candidates_have_locations_and_reasons() -> None:
    result = {it.path: it for it in gathered(OUTPUT, SHOP).candidates}
    assert result["src/shop/money.py"] == Candidate(
        path="src/shop/money.py",
        group=Group.RAISED,
        why="an exception was raised here; imported by src/shop/cart.py and used there",
        lines=(2,),
        symbols=("total",),
    )
    assert result["src/shop/__init__.py"].symbols == ("Cart",)
    assert result["tests/test_cart.py"].symbols == ("test_mean",)


def test_re_exported_modules_rank_like_the_package() -> None:
    """A failing assertion names only the test; the class is behind the package's ``__init__`` and more relevant."""
    output = "tests/test_cart.py:9: AssertionError\nFAILED tests/test_cart.py::test_mean - assert 1 == 0\n"
    assert ranking(gathered(output, SHOP, max_depth=1)) == [
        ("src/shop/cart.py", Group.IMPORTED_AND_USED, 1),
        ("src/shop/__init__.py", Group.IMPORTED_AND_USED, 1),
        ("src/shop/stock.py", Group.IMPORTED, 1),
        ("tests/test_cart.py", Group.TEST, 0),
    ]


def test_a_package_that_re_exports_everything_of_a_module() -> None:
    files = {**SHOP, "src/shop/__init__.py": "from .cart import *\n"}
    output = "tests/test_cart.py:9: AssertionError\n"
    result = {it.path: it for it in gathered(output, files, max_depth=1).candidates}
    assert result["src/shop/cart.py"].group is Group.IMPORTED_AND_USED
    assert result["src/shop/cart.py"].symbols == ("Cart",)


@pytest.mark.parametrize(("depth", "count"), [(0, 1), (1, 2), (3, 4), (9, 5)])
def test_imports_are_followed_to_the_depth_limit_and_cycles_end(depth: int, count: int) -> None:
    files = {f"m{number}.py": f"import m{(number + 1) % 5}\n" for number in range(5)}
    assert len(gathered("m0.py:1: ValueError\n", files, max_depth=depth).candidates) == count


def test_at_most_max_files_are_read_best_first() -> None:
    """Each file is one step, and the list of files another."""
    tools = tools_over(SHOP)
    result = gather(context_of(tools), OUTPUT, max_files=3, max_depth=2)
    assert tools.calls == [
        "list_files  **/*.py",
        "read_file src/shop/money.py",
        "read_file src/shop/cart.py",
        "read_file tests/test_cart.py",
    ]
    assert [(each.path, each.reason) for each in result.unread] == [
        ("src/shop/__init__.py", "not read: the limit is 3 files"),
        ("src/shop/errors.py", "not read: the limit is 3 files"),
        ("src/shop/stock.py", "not read: the limit is 3 files"),
    ]


def test_many_failing_tests_leave_room_for_what_they_import() -> None:
    files = {f"tests/test_{number}.py": "import shop.cart\n" for number in range(9)} | SHOP
    output = "".join(f"FAILED tests/test_{number}.py::test_x - assert 0\n" for number in range(9))
    read = list(gathered(output, files, max_files=4).sources)
    assert read == ["tests/test_0.py", "tests/test_1.py", "src/shop/cart.py", "src/shop/money.py"]


def test_without_the_tools_nothing_is_gathered() -> None:
    tools = tools_over(SHOP, ["read_file"])
    assert gather(context_of(tools), OUTPUT, max_files=9, max_depth=2) == Gathered(candidates=(), sources={}, unread=())
    assert tools.calls == []


def test_files_named_by_the_command_are_used_if_the_output_names_none() -> None:
    result = gathered("killed\n", SHOP, command="python -m pytest -q ./tests/test_cart.py::test_mean", max_depth=0)
    assert ranking(result) == [("tests/test_cart.py", Group.TEST, 0)]
    assert gathered("killed\n", SHOP, command="make test").candidates == ()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python -m shop.cart --now", "src/shop/cart.py"),
        ("sh -c 'python -m app'", "app/__main__.py"),
        ("python scripts/go.py", "scripts/go.py"),
        ("python ./scripts/go.py", "scripts/go.py"),
        ("python go.py", None),
        ("python -m scripts/go.py", None),
    ],
)
def test_files_that_a_command_names(command: str, path: str | None) -> None:
    result = from_command(command, ["src/shop/cart.py", "app/__main__.py", "scripts/go.py"])
    assert [it.path for it in result] == ([path] if path else [])


def test_unreadable_files_are_listed_and_others_are_read() -> None:
    """Binary files, files in another encoding, files that are not Python, and a missing file."""
    files = {
        "a.py": b"\0\1\2",
        "b.py": b"# caf\xe9\nimport d\n",
        "c.py": "def f(:\n",
        "d.py": "x = 1\n",
    }
    output = "".join(f"{name}.py:1: ValueError\n" for name in "abc")
    result = gathered(output, files)
    assert [(each.path, each.reason) for each in result.unread] == [("a.py", "not read: not_text")]
    assert result.sources["b.py"].lines[1] == "# caf\\xe9"
    assert list(result.sources) == ["b.py", "c.py", "d.py"]


def test_a_huge_file_is_read_at_its_beginning_and_around_the_named_line() -> None:
    """10 MB: the tool truncates it, so the lines around the named one are another step."""
    line = "x = 1  # and a comment that makes it longer\n"
    files = {"big.py": "import small\n" + line * 240_000, "small.py": "y = 1\n"}
    tools = tools_over(files)
    result = gather(context_of(tools), "big.py:150000: ValueError\n", max_files=9, max_depth=1)
    assert tools.calls[1:] == ["read_file big.py", "read_file big.py 149940 150060", "read_file small.py"]
    for most in (1, 2):
        few = tools_over(files)
        gather(context_of(few), "big.py:150000: ValueError\n", max_files=most, max_depth=1)
        assert few.calls == tools.calls[: 1 + most]
    source = result.sources["big.py"]
    assert not source.whole
    assert {1, 1000, 149_940, 150_060} <= set(source.lines)
    assert 100_000 not in source.lines


def test_directories_are_listed_separately_if_the_list_is_truncated() -> None:
    files = {f"aaa/m{number:04}.py": "" for number in range(2500)} | SHOP
    tools = tools_over(files)
    result = gather(context_of(tools), OUTPUT, max_files=9, max_depth=0)
    assert tools.calls[:3] == ["list_files  **/*.py", "list_files src **/*.py", "list_files tests **/*.py"]
    assert set(result.sources) == {"src/shop/money.py", "src/shop/cart.py", "tests/test_cart.py"}


@pytest.mark.parametrize(
    ("root", "listings"),
    [
        ("/ws/", ["**/money.py", "src", "tests"]),
        ("/odd [ws]/", ["**/money.py", "src", "tests"]),
    ],
)
def test_absolute_paths_with_a_truncated_list(root: str, listings: list[str]) -> None:
    """The workspace root in them is unknown, so the file is searched by its name."""
    files = {f"aaa/m{number:04}.py": "" for number in range(2500)} | SHOP
    tools = tools_over(files)
    output = OUTPUT.replace("tests/test_cart.py:", f"{root}tests/test_cart.py:").replace("src/", f"{root}src/")
    result = gather(context_of(tools), output, max_files=9, max_depth=0)
    listed = [call.removeprefix("list_files ").replace("**/*.py", "").strip() for call in tools.calls[1:4]]
    assert listed == listings
    assert set(result.sources) == {"src/shop/money.py", "src/shop/cart.py", "tests/test_cart.py"}


def test_absolute_paths_with_a_truncated_list_that_has_one_of_them() -> None:
    """That one determines the workspace root without another step; other paths are ignored."""
    files = {f"aaa/m{number:04}.py": "" for number in range(2500)} | SHOP
    tools = tools_over(files)
    gather(
        context_of(tools), f"/ws/aaa/m0001.py:1: in f\n{OUTPUT.replace('src/', '/ws/src/')}", max_files=0, max_depth=0
    )
    assert tools.calls[1:] == ["list_files src **/*.py", "list_files tests **/*.py"]
    tools = tools_over(files)
    gather(context_of(tools), "".join(f"/opt/x[{n}.py:1: in f\n" for n in range(9)), max_files=0, max_depth=0)
    assert tools.calls[1:] == ["list_files  **/x\\[8.py", "list_files  **/x\\[0.py"]


def test_a_file_with_a_line_that_is_too_long_is_listed() -> None:
    """The tool truncates the result within the first line, so there is nothing to show."""
    result = gathered("a.py:2: ValueError\n", {"a.py": "a = 1;" * 20_000 + "\nb = 2\n"})
    made = pack(result.candidates, result.sources, 1000, result.unread)
    assert made.text.endswith("none\n\nOmitted files:\n- a.py: its lines are too long to read")


@pytest.mark.long
def test_an_output_that_names_everything_is_handled_in_time() -> None:
    """Thousands of locations in files with the same name, and every line of one file."""
    files = {f"pkg{number}/__init__.py": "x = 1\n" for number in range(1500)} | {"a.py": "def f(): f()\n" * 4000}
    output = "".join(f"a.py:{number}: in f\n" for number in range(1, 4001))
    output += "".join(f"pkg{number % 3000}/__init__.py:{number}: ValueError\n" for number in range(20_000))
    result = gathered(output, files, max_files=3, command="python a.py")
    assert len(result.sources) == 3
    assert all(len(it.lines) <= 50 for it in result.candidates)
