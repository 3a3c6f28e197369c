"""Write unified diffs in git's style, from bytes in memory."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from agentbench_core.workspace.hunks import split_lines
from agentbench_core.workspace.paths import needs_quotes, quoted

_CONTEXT = 3
_BINARY_LOOK = 8000  # bytes searched for a NUL, as in git
_COMPARED_MAX = 20_000  # lines; larger differences become one replacement, since comparing takes quadratic time

_Opcode = tuple[str, int, int, int, int]


def unified_diff(path: str, old: bytes | None, new: bytes | None, *, mode: str = "100644") -> str:
    """The difference between two contents of a file; empty if there is none.

    Args:
        path: relative, with ``/``.
        old: None for a file that is created.
        new: None for a file that is deleted.
        mode: git mode in the header of a created or deleted file.

    If a content has a NUL in its first 8000 bytes or is not UTF-8, only ``Binary files ... differ`` follows the header.
    """
    if old == new:
        return ""
    left, right = _name("a/", path), _name("b/", path)
    header = [f"diff --git {left} {right}\n"]
    if old is None:
        header.append(f"new file mode {mode}\n")
        left = "/dev/null"
    if new is None:
        header.append(f"deleted file mode {mode}\n")
        right = "/dev/null"
    texts = _text(old), _text(new)
    if texts[0] is None or texts[1] is None:
        return "".join([*header, f"Binary files {left} and {right} differ\n"])
    hunks = list(_hunks(split_lines(texts[0]), split_lines(texts[1])))
    if hunks:
        header += [f"--- {left}{_tab(left)}\n", f"+++ {right}{_tab(right)}\n"]
    return "".join([*header, *hunks])


def _text(data: bytes | None) -> str | None:
    if data is None:
        return ""
    if b"\0" in data[:_BINARY_LOOK]:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _name(prefix: str, path: str) -> str:
    return quoted(prefix + path) if needs_quotes(path) else prefix + path


def _tab(name: str) -> str:
    """Git ends a name that contains spaces with a tab, so that the rest is not read as a timestamp."""
    return "\t" if " " in name and not name.startswith('"') else ""


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for group in _groups(_opcodes(old, new)):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        yield f"@@ -{_range(old_from, old_to)} +{_range(new_from, new_to)} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[i1:i2])
                continue
            yield from (_line("-", line) for line in old[i1:i2])
            yield from (_line("+", line) for line in new[j1:j2])


def _line(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> str:
    size = end - start
    if size == 1:
        return str(start + 1)
    return f"{start + 1 if size else start},{size}"


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[_Opcode]:
    """The operations on ``old``: equal, replace, delete and insert, in order and without gaps."""
    shortest = min(len(old), len(new))
    head = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    rest = shortest - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    i, j = len(old) - tail, len(new) - tail
    codes: list[_Opcode] = [("equal", 0, head, 0, head)]
    if max(i, j) - head > _COMPARED_MAX:
        codes.append(("replace", head, i, head, j))
    else:
        middle = difflib.SequenceMatcher(None, old[head:i], new[head:j]).get_opcodes()
        codes += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in middle]
    codes.append(("equal", i, len(old), j, len(new)))
    return [code for code in codes if code[1] < code[2] or code[3] < code[4]]


def _groups(codes: list[_Opcode]) -> Iterator[list[_Opcode]]:
    """Hunks: changes with three lines of context, merged if at most six lines are between them."""
    group: list[_Opcode] = []
    for at, code in enumerate(codes):
        tag, i1, i2, j1, j2 = code
        head = (tag, i1, min(i2, i1 + _CONTEXT), j1, min(j2, j1 + _CONTEXT))
        tail = (tag, max(i1, i2 - _CONTEXT), i2, max(j1, j2 - _CONTEXT), j2)
        if tag != "equal":
            group.append(code)
        elif at == 0:
            group.append(tail)
        elif at == len(codes) - 1:
            group.append(head)
        elif i2 - i1 > 2 * _CONTEXT:
            yield [*group, head]
            group = [tail]
        else:
            group.append(code)
    if group:
        yield group
