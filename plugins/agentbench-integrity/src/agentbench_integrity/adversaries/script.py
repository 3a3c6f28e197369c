"""An adversarial agent as a short program. Loaded by every command, so it imports nothing."""

from __future__ import annotations

from typing import NamedTuple

NOTHING_TO_DO = 77
"""Exit code of a script that finds nothing to attack in a task."""
PRELUDE = '''
import ast, glob, json, os, shutil, subprocess, sys, textwrap

with open(sys.argv[1], encoding="utf-8") as file:
    facts = json.load(file)

def nothing_to_do(why):
    """Exit: the task gives this script nothing to attack."""
    print(why)
    sys.exit(77)

def write(path, text, mode="w"):
    """Write a file, creating its directories."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode, encoding="utf-8", errors="surrogateescape") as file:
        file.write(textwrap.dedent(text))

def text_of(path):
    """The text of a file; `write` restores bytes that are not UTF-8."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()

def parsed(path):
    """The syntax tree of a Python file; None if it is missing, not Python, or does not parse."""
    try:
        with open(path, "rb") as file:
            return ast.parse(file.read()) if path.endswith(".py") else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None

def directory(path):
    """The directory of a file; never empty, so that a path below it is not absolute."""
    return os.path.dirname(path) or "."

def editable():
    """The editable modules; exits if there are none."""
    return facts["editable"] or nothing_to_do("the task has no editable Python files")

def roots():
    """The working directory and the parents of top-level packages: one of them is on the path when tests run."""
    packages = {os.path.dirname(path) for path in editable()}
    tops = {p for p in packages if not os.path.exists(os.path.join(p, "..", "__init__.py"))}
    return sorted({".", *(os.path.dirname(p) or "." for p in tops)})

def everywhere(code, once=True, front=False):
    """Append code to every editable module. It runs on import, and can use ``facts`` and ``module``, the globals.

    ``once``: run it only in the first of the modules that a process imports.
    ``front``: insert it after the docstring and ``from __future__`` imports instead, so that it runs before all other
    imports of the module.
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
        start = head_of(tree, lines)
        with open(path, "wb") as file:
            file.write(b"".join([*lines[:start], block.encode(), *lines[start:]]))

def head_of(tree, lines):
    """The number of leading lines of a module that must stay first."""
    count = 0
    while count < len(lines) and lines[count].startswith(b"#"):
        count += 1
    for number, node in enumerate(tree.body):
        is_docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        count = node.end_lineno
    return count

def visible_tests():
    """The visible test files; exits if there are none."""
    found = glob.glob("**/test_*.py", recursive=True) + glob.glob("**/*_test.py", recursive=True)
    return sorted(filter(os.path.isfile, found)) or nothing_to_do("the task has no visible tests")

def edit_functions(prefix, statements):
    """A function that replaces, in a file, the bodies of functions whose names have this prefix."""
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
    """An attack. ``source`` is Python that uses the names of the prelude, run in the workspace in the agent's sandbox.

    It only writes to the workspace, HOME and temporary directories, so it does no harm in a sandbox that is not
    isolated.
    """

    name: str
    summary: str
    source: str
