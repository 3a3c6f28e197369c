"""Documentation pages are run word for word: their files are written, commands run and the output compared."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from agentbench_core.cli.app import App
from agentbench_core.cli.main import cli
from agentbench_testing.chat_server import LoopbackServer, always, answer
from tests.docs.runner import PAGES, PLUGIN_PAGES, ROOT, blocks, commands, has_commands, run_page

OWN_REPOSITORY = ROOT / "docs/your-own-repository.md"
LONG = {"getting-started": pytest.mark.long}
LONG |= dict.fromkeys(("executors", "reproducibility", "runs", "shards", "write-a-task"), pytest.mark.release)
RUN = [page for page in PAGES if page not in (*PLUGIN_PAGES, OWN_REPOSITORY) and has_commands(page)]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Share prepared tasks among all pages that a process runs."""
    return tmp_path_factory.mktemp("cache-of-pages")


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem, marks=LONG.get(page.stem, ())) for page in RUN])
def test_page_runs_as_documented(page: Path, tmp_path: Path, cache: Path) -> None:
    run_page(page, tmp_path / "page", cache=cache)


@pytest.mark.release
@pytest.mark.docker
@pytest.mark.index
def test_page_about_your_own_repository(tmp_path: Path) -> None:
    """The page about one's own repository holds, with containers and a package index."""
    bundle = os.environ.get("SSL_CERT_FILE")  # this machine's network may need it, as the page explains
    settings = f'[sandbox]\nname = "docker"\nca_bundle = "{bundle}"\n' if bundle else ""
    run_page(OWN_REPOSITORY, tmp_path / "page", cache=tmp_path / "cache", settings=settings)


def test_each_statistic_has_the_source_that_its_function_names() -> None:
    """Functions in the table exist, and their docstrings cite the same source."""
    statistics = ROOT / "plugins/agentbench-report/src/agentbench_report/statistics"
    said = {
        node.name: " ".join((ast.get_docstring(node) or "").split())
        for module in statistics.glob("*.py")
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    page = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 20
    for function, source in rows:
        assert said[function]
        names, _, where = source.partition(": ")
        for part in (*names.split(", "), where) if where else ():
            assert part in chain_of_sources(function, said), f"{function}: {source}"


def chain_of_sources(function: str, said: dict[str, str]) -> str:
    """Return the docstring of a function and of those that it refers to."""
    return " ".join(
        [said[function], *(said[other] for other in re.findall(r"``(\w+)``", said[function]) if other in said)]
    )


OWN_CLIENT = """
    import os
    import urllib.request

    import attrs
    from agentbench_core import AgentResult, LLMError, ToolCall, hookimpl, option

    AGENTBENCH_API = 1

    @attrs.frozen(kw_only=True)
    class Options:
        down: bool = option(False, help="whether its provider is down")

    @attrs.frozen
    class Asks:
        options: Options

        def solve(self, context):
            if self.options.down:
                raise LLMError("nobody answers")
            urllib.request.urlopen(os.environ["WHERE_IT_ASKS"] + "/models").close()
            context.tools.call(ToolCall(tool="run", arguments={"command": "echo fixed $WHERE_IT_ASKS > app.txt; env"}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("asks", Asks, Options, summary="")
"""


def test_agent_with_its_own_provider_client(
    plugin: Any, make_task: Any, agentbench: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `own-llm-access.md`: it runs, isolation is not required, and its calls are not counted."""
    plugin("asks", OWN_CLIENT)
    make_task()
    flags = ("run", "--suite", "mini", "--agent", "asks", "--sandbox", "local", "--max-cost-usd", "1")
    with LoopbackServer(always(answer())) as server:
        monkeypatch.setenv("WHERE_IT_ASKS", server.base_url)
        done = agentbench(*flags)
        agentbench(*flags, "--set", "agent.down=true", "--out", "failed")
    assert "1 of 1 scored attempts passed" in done.out, done.err
    (record,) = records()
    assert (record["usage"]["llm_calls"], record["usage"]["cost_usd"], record["model"]) == (0, 0, None)
    (run,) = Path("artifacts/runs").iterdir()
    assert not (run / "tasks/one/agent/conversation.jsonl").exists()
    assert server.base_url not in (run / "tasks/one/agent/tool_calls.jsonl").read_text(), "variables stay on the host"
    replayed = agentbench("replay", str(run))
    assert (replayed.code, "has no model calls" in replayed.err) == (2, True)
    (failed,) = Path("failed").glob("*/attempts.jsonl")
    assert json.loads(failed.read_text())["result"]["failure_reason"] == "AGENT_ERROR"


def test_command_line_page_equals_the_help() -> None:
    """The generated page equals the committed one. Generated in a new process, because click caches options of help."""
    program = "import runpy, sys; sys.stdout.write(runpy.run_path(sys.argv[1])['page']())"
    words = [sys.executable, "-c", program, str(ROOT / "benchmarks/cli_page.py")]
    made = subprocess.run(words, capture_output=True, check=True, encoding="utf-8").stdout
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == made, "regenerate it: python benchmarks/cli_page.py"


READMES = [
    ROOT / "tasks/README.md",
    *sorted(ROOT.glob("plugins/*/README.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
]


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_shown_exist(page: Path) -> None:
    """Commands and options in any block or sentence exist, whether they are run or not."""
    for words in shown_commands(page):
        parse(words)


def shown_commands(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of each `agentbench` command on a page, without comments after two spaces."""
    text = page.read_text(encoding="utf-8")
    lines: list[str] = []
    for block in blocks(page):
        if block.language == "console":
            lines += [continued(command.typed) for command in commands(block)]
        elif page.name != "cli.md" and block.language in ("", "text", "yaml"):
            lines += continued(block.text).splitlines()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines += [" ".join(found.split()) for found in re.findall(r"`(agentbench [^`]*)`", prose)]
    for line in lines:
        found = re.search(r"(?:^|run: |[|&] )(?:\$ )?agentbench ([a-z-].*)", line.strip())
        if found and " ... " not in found[1]:
            yield shlex.split(re.split(r" {2,}| [|>&] ?", found[1])[0].removesuffix(" ..."))


def continued(text: str) -> str:
    return re.sub(r"\\\n *", "", text)


def parse(words: list[str]) -> None:
    """Fail unless all words are valid commands, options, values or arguments."""
    command: click.Command = cli
    context = click.Context(cli, info_name="agentbench", obj=App.from_environment(()))
    try:
        while True:
            _, rest, _ = command.make_parser(context).parse_args(list(words))
            if not isinstance(command, click.Group) or not rest:
                return
            name, found, words = command.resolve_command(context, list(rest))
            assert found is not None
            command, context = found, click.Context(found, parent=context, info_name=name)
    except click.BadOptionUsage:
        return  # the option is mentioned without its value
    except click.UsageError as error:
        pytest.fail(f"{context.command_path} {shlex.join(words)}: {error.format_message()}")


def test_the_command_that_make_demo_suggests_exists() -> None:
    """The README shows the same command."""
    printed = re.search(r'@echo "(next,[^"]*)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert printed is not None
    line = printed[1].replace("$(BIN)", ".venv/bin")
    assert line in (ROOT / "README.md").read_text(encoding="utf-8")
    parse(shlex.split(line.partition(".venv/bin/agentbench ")[2]))


CHEAP = ("completion", "plugins list", "plugins new", "report power", "runs list", "tasks new")


def test_cheap_commands_of_the_readme_are_run(agentbench: Any) -> None:
    """In an empty directory; other commands need runs, a key or an engine, and are only parsed."""
    shown = [words for words in shown_commands(ROOT / "README.md") if " ".join(words).startswith(CHEAP)]
    assert len(shown) >= len(CHEAP)
    for words in shown:
        done = agentbench(*words)
        assert (done.code, done.err) == (0, ""), words


WRONG = {
    "output": "```console\n$ echo this\nthat\n```\n",
    "more output": "```console\n$ printf 'one\\ntwo\\n'\none\n```\n",
    "less output": "```console\n$ echo one\none\n...\ntwo\n```\n",
    "exit code": "```console\n$ false\n```\n",
    "other exit code": "```console\n$ (exit 3)\n$ echo $?\n1\n```\n",
    "ended": "```console\n$ exit\n```\n",
    "file": "`a.txt`:\n\n```text\none\n```\n\n`a.txt` contains:\n\n```text\ntwo\n```\n",
    "background": "```console\n$ echo one &\ntwo\n```\n",
    "no command": "```console\necho\n```\n",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_page_that_is_wrong_fails(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError):
        run_page(page, tmp_path / "place", seconds=2)


RIGHT = """\
```console
$ echo from 1.5 s to \\
    2026-11-22T21:14:39+0000 in $PWD
from 7.0 s to 2001-01-01T01:01:01+0000 in .../work
$ printf 'one\\ntwo\\nthree\\n'
one
...
three
$ mkdir -p deep && cd deep
$ (exit 3)
$ echo $?
3
$ (echo begun; sleep 60) &
begun
```

Then `a.txt`:

```text
one
two
```

```console
$ wc -l <a.txt
2
```

Now `a.txt` contains:

```text
...
two
```
"""


def test_correct_page_passes(tmp_path: Path) -> None:
    """One shell, with placeholders for text, lines and values that vary."""
    page = tmp_path / "page.md"
    page.write_text(RIGHT)
    run_page(page, tmp_path / "place", seconds=20)
    assert (tmp_path / "place/work/deep/a.txt").read_text() == "one\ntwo\n"
