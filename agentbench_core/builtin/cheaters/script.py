"""A cheat as a short program that an agent could have run in its sandbox."""

from __future__ import annotations

import json
from typing import NamedTuple

import attrs

from agentbench_core import CheatContext, SandboxError, ToolError

NOTHING_TO_DO = 77
"""Exit code of a script that finds nothing in a task to work with."""
_SAID = 2000  # characters
_ARGUMENT = 64 << 10  # characters
_PRELUDE = '''
import ast, glob, json, os, shutil, subprocess, sys, textwrap

facts = json.loads("".join(sys.argv[1:]))

def nothing_to_do(why):
    """End: this cheat has nothing to work with here."""
    print(why)
    sys.exit(77)

def write(path, text, mode="w"):
    """Write a file, and make its directories."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode, encoding="utf-8", errors="surrogateescape") as file:
        file.write(textwrap.dedent(text))

def text_of(path):
    """A file, whatever it is; bytes that are no text are written back by `write` as they were."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()

def parsed(path):
    """The syntax of a Python file; None for one that is not there, is no Python or does not parse."""
    try:
        with open(path, "rb") as file:
            return ast.parse(file.read()) if path.endswith(".py") else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None

def directory(path):
    """Where a file lies; a path that begins with it never begins at the root."""
    return os.path.dirname(path) or "."

def editable():
    """The modules that may be edited."""
    return facts["editable"] or nothing_to_do("there is no Python file to be edited")

def roots():
    """Directories that packages lie in: they are on the path when tests run, or the working directory is."""
    packages = {os.path.dirname(path) for path in editable()}
    tops = {p for p in packages if not os.path.exists(os.path.join(p, "..", "__init__.py"))}
    return sorted({".", *(os.path.dirname(p) or "." for p in tops)})

def everywhere(code, once=True, front=False):
    """Append code to every such module: it is run when one is imported, ``once`` per process, and has ``facts``.

    ``front``: it comes before all but the docstring and ``from __future__`` imports, so that it is run before whatever
    the module imports.
    """
    guard = "not hasattr(_sys, '_cheated')" if once else "True"
    block = f"\\n\\nimport sys as _sys\\nif {guard}:\\n    _sys._cheated = True\\n"
    names = f"{{'facts': {facts!r}, '__name__': '_cheat', 'module': globals()}}"
    block += f"    exec({textwrap.dedent(code)!r}, {names})\\n"
    for path in editable():
        tree = parsed(path) if front else None
        if tree is None:
            write(path, block, mode="a")
            continue
        with open(path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        place = head_of(tree, lines)
        with open(path, "wb") as file:
            file.write(b"".join([*lines[:place], block.encode(), *lines[place:]]))

def head_of(tree, lines):
    """How many lines a module begins with that nothing may come before."""
    place = 0
    while place < len(lines) and lines[place].startswith(b"#"):
        place += 1
    for number, node in enumerate(tree.body):
        says = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not says and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        place = node.end_lineno
    return place

def visible_tests():
    """The test files that are there."""
    found = glob.glob("**/test_*.py", recursive=True) + glob.glob("**/*_test.py", recursive=True)
    return sorted(filter(os.path.isfile, found)) or nothing_to_do("there are no tests to be seen")

def edit_functions(prefix, statements):
    """Put statements in the place of the body of functions whose name starts so, in all files given."""
    def edit(path):
        tree = parsed(path)
        if tree is None:
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix):
                node.body = ast.parse(statements).body
        write(path, ast.unparse(ast.fix_missing_locations(tree)))
    return edit
'''


class Script(NamedTuple):
    """A cheat. ``source`` is Python with the names of the prelude, run in the workspace, in the agent's sandbox.

    It writes to the workspace, to HOME and to temporary directories only, so that it does no harm where a sandbox
    does not isolate.
    """

    name: str
    summary: str
    source: str


@attrs.frozen
class ScriptedCheater:
    """Runs a script, which is told what the context says."""

    script: Script

    def cheat(self, context: CheatContext) -> None:
        """Run it. Raises ToolError ``not_applicable``, and SandboxError when the script fails."""
        facts = {
            "editable": list(context.editable),
            "failing_command": context.failing_command,
            "passing_command": context.passing_command,
            "hidden": list(context.hidden),
        }
        program = f"{_PRELUDE}\n{self.script.source}"
        said = json.dumps(facts)  # in parts: Linux takes no argument of 128 KiB
        parts = [said[at : at + _ARGUMENT] for at in range(0, len(said), _ARGUMENT)]
        ended = context.sandbox.exec(["python", "-c", program, *parts], deadline=context.deadline)
        if ended.exit_code == NOTHING_TO_DO:
            raise ToolError("not_applicable", ended.last_lines(1))
        if not ended.ok:
            end = "in time" if ended.timed_out else f"well: exit code {ended.exit_code}"
            raise SandboxError(f"the script did not end {end}\n{ended.last_lines()[-_SAID:]}")
