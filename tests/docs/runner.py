"""Run documentation pages: write their files, run their commands and compare the output.

The info string of a fenced block, or the line above it, determines what it is::

    ```console              run in one shell per page, from top to bottom
    $ agentbench tasks list
    custom-dev ...
    ```

    `fixer.py`:             a file, written to the current directory of the shell
    ```python
    ...
    ```

    `fixer.py` contains:    a file that must exist by then, with this content
    ```python
    ...
    ```

    ```text                 ignored, as every other block without a file name above it

Commands begin with ``$ ``; a backslash at the end continues one on the next line. The lines after a command are all of
its output, including standard error; ``...`` stands for any text within a line, and alone on a line for any lines.
Without such lines the output is not compared. A command must exit with 0, unless the next one is ``echo $?``. One that
ends in `` &`` runs in the background until the end of the page; the page continues when the shown output has appeared.
Whatever differs between runs (times, paths, run ids, column widths) is normalized before the comparison: see
:func:`normalized`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

import agentbench_core

ROOT = Path(agentbench_core.__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
"""All pages, with or without commands."""
PLUGIN_PAGES = [page for page in PAGES if page.name.startswith("write-a") and page.name != "write-a-task.md"]
"""Pages about plugins, run by `test_plugin_pages.py`; `test_pages.py` runs all others."""

_FENCE = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"`([^`\s]+)`( contains)?:$")
_PASSED_ON = ("DOCKER_HOST", "LANG", "PATH", "SSL_CERT_FILE")
_ANY_LINES = "\n...\n"


@attrs.frozen(kw_only=True)
class Block:
    """A fenced block: its info string, the first line of its text, and the file that it defines, if any."""

    language: str
    text: str
    line: int
    file: str = ""
    existing: bool = False
    """Whether the file exists already, and the block is its expected content."""


@attrs.frozen(kw_only=True)
class Command:
    """A command and its expected output; None if the page does not show it."""

    typed: str
    shown: str | None
    line: int

    @property
    def in_background(self) -> bool:
        """Whether the page continues while the command runs."""
        return self.typed.endswith(" &")


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, from top to bottom."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        above = text[: fence.start()].rstrip().rpartition("\n")[2]
        named = _NAMED.search(above) if fence[1] != "console" else None
        found.append(
            Block(
                language=fence[1],
                text=fence[2],
                line=text.count("\n", 0, fence.start()) + 2,
                file=named[1] if named else "",
                existing=bool(named and named[2]),
            )
        )
    return found


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    assert block.text.startswith("$ "), f"line {block.line}: a console block begins with a command"
    line = block.line
    for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE)[1:]:
        typed = re.match(r"\$ ((?:.*\\\n)*.*)\n", part)
        assert typed is not None, part
        shown = part[typed.end() :]
        yield Command(typed=typed[1], shown=shown if shown.strip() else None, line=line)
        line += part.count("\n")


def has_commands(page: Path) -> bool:
    """Whether a page has console blocks."""
    return any(block.language == "console" for block in blocks(page))


def run_page(
    page: Path,
    place: Path,
    *,
    programs: Path | None = None,
    cache: Path | None = None,
    instead: Mapping[str, str] | None = None,
    seconds: float = 300,
    settings: str = "",
    **variables: str,
) -> None:
    """Run a page word for word; AssertionError names the first line that differs.

    Args:
        page: the page to run.
        place: an empty directory. The shell starts in ``place/work``, which has copies of ``tasks`` and ``configs`` as
            ``make demo`` expects them.
        programs: directory to put first on PATH; by default that of this environment.
        cache: cache directory of AgentBench; pages that share it prepare tasks once.
        instead: replacements in commands, output and files of the page, such as a free port.
        seconds: time limit of a command.
        settings: content of ``agentbench.toml``: what this machine needs, such as a CA bundle.
        variables: variables of the shell, besides a few standard ones. Keys are not passed on.
    """
    work = place / "work"
    work.mkdir(parents=True)
    for name in ("tasks", "configs"):
        shutil.copytree(ROOT / name, work / name)
    if settings:
        (work / "agentbench.toml").write_text(settings, encoding="utf-8")
    programs = programs or Path(sys.executable).parent
    (place / "tmp").mkdir()
    known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment = {
        **known,
        "PATH": os.pathsep.join([str(programs), known.get("PATH", os.defpath)]),
        "HOME": str(place / "home"),
        "TMPDIR": str(
            place / "tmp"
        ),  # commands report and remove what killed runs left there, such as those of other tests
        "XDG_CACHE_HOME": str(cache or place / "cache"),
        "COLUMNS": "120",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **variables,
    }
    with Shell.started(work, place, environment) as shell:
        for block in blocks(page):
            where = f"{page.name}:{block.line}"
            if block.language == "console":
                _run_commands(shell, list(commands(block)), page.name, instead or {}, seconds)
            elif block.file and block.existing:
                actual = (shell.directory() / block.file).read_text(encoding="utf-8")
                assert matches(block.text, actual), _differs(where, block.file, block.text, actual)
            elif block.file:
                file = shell.directory() / block.file
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(_replace(block.text, instead or {}), encoding="utf-8")


def _run_commands(shell: Shell, typed: list[Command], page: str, instead: Mapping[str, str], seconds: float) -> None:
    for command, following in zip(typed, [*typed[1:], None], strict=True):
        words = _replace(command.typed, instead)
        shown = None if command.shown is None else _replace(command.shown, instead)
        where = f"{page}:{command.line}"
        if command.in_background:
            actual = shell.begin(words, shown or "...", seconds)
            assert matches(f"{shown or ''}\n...", actual), _differs(where, words, shown or "", actual)
            continue
        code, actual = shell.run(words, seconds)
        asked = following is not None and following.typed == "echo $?"
        assert code == 0 or asked, f"{where}: {words}\nended with {code}:\n{actual}"
        assert shown is None or matches(shown, actual), _differs(where, words, shown, actual)


def _replace(text: str, instead: Mapping[str, str]) -> str:
    for word, other in instead.items():
        text = text.replace(word, other)
    return text


def _differs(where: str, what: str, shown: str, actual: str) -> str:
    return f"{where}: {what}\n--- expected\n{shown}\n--- actual\n{actual}"


def matches(shown: str, actual: str) -> bool:
    """Whether the output matches the page, in which ``...`` stands for any text."""
    pattern = re.escape(f"\n{normalized(shown)}\n")
    # An ellipsis alone on a line stands for any lines, none included.
    several = re.escape(_ANY_LINES)
    while several in pattern:
        pattern = pattern.replace(several, r"\n(?:.*\n)*?", 1)
    pattern = pattern.replace(re.escape("..."), ".*?")
    return re.fullmatch(pattern, f"\n{normalized(actual)}\n") is not None


_NORMALIZED = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\+0000(?:-\d+)?(?=__)"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b"), "ULID"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b\d+(?:\.\d+)? (s|seconds|ms|h|hours|min)\b"), r"N \1"),
    (re.compile(r"\bin \d+\.\d+s\b"), "in Ns"),
    # Seconds in a separate column have one decimal place.
    (re.compile(r"(?<= {2})\d+\.\d(?= {2}|$)", re.MULTILINE), "N"),
    (re.compile(r"-{3,}|={3,}"), "---"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" ?$", re.MULTILINE), ""),
    (re.compile(r"\n{2,}"), "\n"),
)


def normalized(text: str) -> str:
    """Replace what differs between two equal runs, and remove empty lines."""
    for pattern, instead in _NORMALIZED:
        text = pattern.sub(instead, text)
    return text.strip()


@attrs.frozen(eq=False)
class Shell:
    """A shell that keeps directories, variables and background processes from one command to the next."""

    process: subprocess.Popen[str]
    scratch: Path

    @classmethod
    @contextlib.contextmanager
    def started(cls, work: Path, scratch: Path, environment: Mapping[str, str]) -> Iterator[Shell]:
        """Start a shell in ``work``; at the end, kill everything that was started in it."""
        (scratch / "home").mkdir()
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=work,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield cls(process, scratch)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run(self, typed: str, seconds: float) -> tuple[int, str]:
        """Run a command and return its exit code and output."""
        output = self.scratch / "output"
        # Braces run the command in this shell, so `cd` and variables last. `$?` is restored before each command.
        braces = f"{{ {typed}\n}} >{shlex.quote(str(output))} 2>&1 </dev/null"
        code = self._ask(f"(exit ${{code:-0}})\n{braces}\ncode=$?\necho $code", seconds)
        return int(code), output.read_text(encoding="utf-8", errors="backslashreplace")

    def begin(self, typed: str, until: str, seconds: float) -> str:
        """Start a command in the background and return its output once it matches ``until``."""
        output = self.scratch / f"background-{len(list(self.scratch.glob('background-*')))}"
        self._ask(f"{{ {typed.removesuffix(' &')}\n}} >{shlex.quote(str(output))} 2>&1 </dev/null &\necho $!", seconds)
        end = time.monotonic() + seconds
        while True:
            actual = output.read_text(encoding="utf-8") if output.exists() else ""
            if matches(f"{until}\n...", actual) or time.monotonic() > end:
                return actual
            time.sleep(0.05)

    def directory(self) -> Path:
        """Return the current directory of the shell."""
        return Path(self._ask("pwd", 10))

    def _ask(self, script: str, seconds: float) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(script + "\n")
        self.process.stdin.flush()
        return _line(self.process, script, seconds)


def _line(process: subprocess.Popen[str], script: str, seconds: float) -> str:
    """Read the one-line answer of the shell. If it is late, kill all its processes, so that none blocks the read."""
    assert process.stdout is not None
    alarm = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
    alarm.start()
    try:
        answer = process.stdout.readline()
    finally:
        alarm.cancel()
    assert answer, f"no answer within {seconds} s, or the shell ended: {script}"
    return answer.strip()
