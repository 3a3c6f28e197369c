from __future__ import annotations

import time
from textwrap import dedent

import pytest

from agentbench_core.errors import PathEscapeError, ToolError
from agentbench_core.workspace.patching import (
    BadPatchError,
    FilePatch,
    PatchConflict,
    apply_hunks,
    parse_patch,
    unified_diff,
)

OLD = "".join(f"line {number}\n" for number in range(1, 21))


def patch_of(body: str, path: str = "x.py") -> FilePatch:
    (patch,) = parse_patch(f"--- a/{path}\n+++ b/{path}\n{body}")
    return patch


def conflict(body: str, old: str) -> str:
    with pytest.raises(PatchConflict) as caught:
        apply_hunks(patch_of(body), old)
    assert caught.value.error_type == "patch_conflict"
    return str(caught.value)


# --- reading -----------------------------------------------------------------------------------------------------


def test_git_style() -> None:
    """P16: one diff may change, create, delete and chmod several files."""
    patches = parse_patch(
        dedent("""\
        diff --git a/new.py b/new.py
        new file mode 100755
        index 0000000..1111111
        --- /dev/null
        +++ b/new.py
        @@ -0,0 +1,2 @@
        +one
        +two
        diff --git a/old.py b/old.py
        deleted file mode 100644
        index 1111111..0000000
        --- a/old.py
        +++ /dev/null
        @@ -1 +0,0 @@
        -gone
        diff --git a/run.sh b/run.sh
        old mode 100644
        new mode 100755
        diff --git a/dir/with space.txt b/dir/with space.txt
        index 1111111..2222222 100644
        --- a/dir/with space.txt\t
        +++ b/dir/with space.txt\t
        @@ -1,2 +1,2 @@ def function():
         kept
        -a
        +b
        diff --git a/empty b/empty
        new file mode 100644
        index 0000000..e69de29
        """)
    )
    assert [(patch.path, patch.kind, patch.executable, len(patch.hunks)) for patch in patches] == [
        ("new.py", "create", True, 1),
        ("old.py", "delete", None, 1),
        ("run.sh", "modify", True, 0),
        ("dir/with space.txt", "modify", None, 1),
        ("empty", "create", False, 0),
    ]
    assert [
        apply_hunks(patch, old).text for patch, old in zip(patches, ["", "gone\n", "x", "kept\na\n", ""], strict=True)
    ] == [
        "one\ntwo\n",
        "",
        "x",
        "kept\nb\n",
        "",
    ]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("a/x.py", "b/x.py", "x.py"),
        ("x.py", "x.py", "x.py"),
        ("a/src/x.py\t2026-01-01 00:00:00.000000000 +0000", "b/src/x.py\t2026-01-02 00:00:00 +0000", "src/x.py"),
        ('"a/\\303\\251\\t.py"', '"b/\\303\\251\\t.py"', "é\t.py"),
        ('"a/\\303\\251.py"\t2026-01-01', '"b/\\303\\251.py"', "é.py"),
        ("a/é.py", "b/é.py", "é.py"),
        ("i/x.py", "w/x.py", "x.py"),
        ("b/x.py", "a/x.py", "x.py"),
        ("src/a b.py", "src/a b.py", "src/a b.py"),
        ("a/x.py\r", "b/x.py\r", "x.py"),
    ],
)
def test_names(old: str, new: str, path: str) -> None:
    """P16: names may have prefixes, timestamps and quotes."""
    (patch,) = parse_patch(f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n")
    assert patch.path == path


ESCAPES = {
    "P01 parent": ("a/../outside", "b/../outside"),
    "P01 deeper": ("a/d/../../outside", "b/d/../../outside"),
    "P01 quoted": ('"a/\\056\\056/outside"', '"b/\\056\\056/outside"'),
    "P02 absolute": ("/tmp/x", "/tmp/x"),
    "P03 absolute behind the prefix": ("a//tmp/x", "b//tmp/x"),
    "P04 git": ("a/.git/hooks/x", "b/.git/hooks/x"),
    "P04 git in another case": ("a/sub/.GIT/config", "b/sub/.GIT/config"),
    "P10 plain parent": ("../outside", "../outside"),
    "nul": ('"a/x\\000"', '"b/x\\000"'),
}


@pytest.mark.parametrize("names", ESCAPES.values(), ids=ESCAPES.keys())
@pytest.mark.parametrize("kind", ["modify", "create", "delete"])
def test_escapes(names: tuple[str, str], kind: str) -> None:
    """P01, P02, P03, P04, P10: refused before any file is read."""
    old, new = names
    if kind == "create":
        text = f"--- /dev/null\n+++ {new}\n@@ -0,0 +1 @@\n+x\n"
    elif kind == "delete":
        text = f"--- {old}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    else:
        text = f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-x\n+y\n"
    with pytest.raises(PathEscapeError):
        parse_patch(text)


def test_escape_without_hunks() -> None:
    """P01: a name that occurs only in the `diff --git` line is checked as well."""
    with pytest.raises(PathEscapeError):
        parse_patch("diff --git a/../x b/../x\nold mode 100644\nnew mode 100755\n")


CHANGE = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
REFUSED = {
    "P05 link": ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n", "120000"),
    "P07 rename": ("diff --git a/x b/../y\nsimilarity index 100%\nrename from x\nrename to ../y\n", "a rename"),
    "P08 copy": ("diff --git a/../s b/y\nsimilarity index 100%\ncopy from ../s\ncopy to y\n", "a copy"),
    "P09 copy of a link": ("diff --git a/l b/y\nsimilarity index 100%\ncopy from l\ncopy to y\n", "a copy"),
    "P11 setuid": ("diff --git a/x b/x\nnew file mode 104755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n", "104755"),
    "P11 setuid later": ("diff --git a/x b/x\nold mode 100644\nnew mode 104755\n", "104755"),
    "P12 submodule": ("diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n", "160000"),
    "P12 submodule changed": (f"diff --git a/x b/x\nindex 1111111..2222222 160000\n{CHANGE}", "160000"),
    "P15 ed": ("1d\n.\nw\nq\n", "not part of a unified diff"),
    "P15 ed with header": ("--- a/x\n+++ b/x\n1,2d\n", "no hunks"),
    "P17 type change": (
        "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
        "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n",
        "120000",
    ),
    "link changed": (f"diff --git a/x b/x\nindex 1111111..2222222 120000\n{CHANGE}", "120000"),
    "link deleted": (
        "diff --git a/x b/x\ndeleted file mode 120000\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        "1200",
    ),
    "binary": ("diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n", "a binary patch"),
    "binary files": ("diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", "a binary patch"),
    "combined": ("diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n", "a combined diff"),
    "combined hunk": ("--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n  a\n", "a combined diff"),
    "plain rename": ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "renames are not supported"),
    "two names": ("diff --git a/x b/x\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "two different file names"),
    "twice": (CHANGE + CHANGE, "twice"),
    "empty": ("", "empty"),
    "blank": ("\n\n", "empty"),
    "no plus line": ("--- a/x\n@@ -1 +1 @@\n-a\n+b\n", "expected '\\+\\+\\+ '"),
    "no hunks": ("--- a/x\n+++ b/x\n", "no hunks"),
    "empty hunk": ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "empty"),
    "bad hunk": ("--- a/x\n+++ b/x\n@@ 1 @@\n-a\n+b\n", "not a hunk header"),
    "fence": (f"```diff\n{CHANGE}```\n", "line 1 of the patch: '```diff'"),
    "fence after": (f"{CHANGE}```\n", "line 6 of the patch: '```'"),
    "text before": (f"Here it is:\n{CHANGE}", "line 1"),
    "text between": (f"{CHANGE}and\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "line 6"),
    "created with old lines": ("--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "may only have added"),
    "deleted with new lines": ("--- a/x\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "may only have removed"),
    "created, but has an old name": (f"diff --git a/x b/x\nnew file mode 100644\n{CHANGE}", "/dev/null"),
    "deleted, but has a new name": (f"diff --git a/x b/x\ndeleted file mode 100644\n{CHANGE}", "/dev/null"),
    "open quote": ('--- "a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', "no closing quote"),
    "odd escape": ('--- "a/\\q"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', "unknown escape"),
    "marker first": ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n", "must follow a line"),
    "marker inside": ("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n-b\n+c\n", "last line"),
    "lone surrogate": ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\ud800\n", "cannot be encoded"),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(text: str, words: str) -> None:
    """P05, P07, P08, P09, P11, P12, P15, P17: refused with a message, as is anything but a unified diff."""
    with pytest.raises(BadPatchError, match=words) as caught:
        parse_patch(text)
    assert caught.value.error_type == "bad_patch"


@pytest.mark.parametrize(
    "header", ["@@ -3,99 +3,99 @@", "@@ -3,1 +3,1 @@", "@@ -3,3 +3,2 @@", "@@ -3 +3 @@", "@@ -3,0 +3,0 @@"]
)
def test_wrong_counts(header: str) -> None:
    """P14: wrong line counts in a header do not matter, even before another hunk or file."""
    body = " line 3\n-line 4\n+new\n line 5\n"
    more = "@@ -10,1 +10,7 @@\n line 10\n-line 11\n\n"
    text = f"--- a/x\n+++ b/x\n{header}\n{body}{more}--- a/y\n+++ b/y\n{header}\n{body}\n"
    first, second = parse_patch(text)
    assert apply_hunks(first, OLD).text == OLD.replace("line 4\n", "new\n").replace("line 11\n", "")
    assert apply_hunks(second, OLD).text == OLD.replace("line 4\n", "new\n")


def test_counts_decide_what_is_a_header() -> None:
    """A removed line that looks like a header counts as a line if the counts say so."""
    body = "@@ -1,2 +1,2 @@\n a\n--- x\n+++ y\n@@ -5 +5 @@\n-e\n+E\n"
    patch = patch_of(body)
    assert apply_hunks(patch, "a\n-- x\nc\nd\ne\n").text == "a\n++ y\nc\nd\nE\n"


def test_blank_context_lines() -> None:
    """An empty line counts as blank context; blank lines after a hunk are ignored."""
    patch = patch_of("@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n\n\n")
    assert apply_hunks(patch, "a\n\nb\n").text == "a\n\nc\n"
    patch = patch_of("@@ -1,9 +1,9 @@\n a\n\n-b\n+c\n\n\n")
    assert apply_hunks(patch, "a\n\nb\n").text == "a\n\nc\n"


# --- placing -----------------------------------------------------------------------------------------------------


def test_exact_place_first() -> None:
    """If the lines match at the line of the header, no other position is considered."""
    patch = patch_of("@@ -4,2 +4,1 @@\n a\n-b\n")
    assert apply_hunks(patch, "a\nb\nx\na\nb\nx\na\nb\n") == apply_hunks(patch, "a\nb\nx\na\nb\nx\na\nb\n")
    result = apply_hunks(patch, "a\nb\nx\na\nb\nx\na\nb\n")
    assert (result.text, result.moved) == ("a\nb\nx\na\nx\na\nb\n", (0,))


@pytest.mark.parametrize(("start", "moved"), [(1, 9), (9, 1), (10, 0), (14, -4), (500, -490), (0, 9)])
def test_nearest_place(start: int, moved: int) -> None:
    """Wrong line numbers do not matter if the lines are unique."""
    result = apply_hunks(patch_of(f"@@ -{start},2 +{start},2 @@\n line 10\n-line 11\n+new\n"), OLD)
    assert (result.text, result.moved) == (OLD.replace("line 11\n", "new\n"), (moved,))


def test_nearest_of_several() -> None:
    """The nearest of two matches is used; a tie is refused."""
    old = "a\nb\n1\n2\n3\n4\na\nb\n"
    assert apply_hunks(patch_of("@@ -3,2 +3,1 @@\n a\n-b\n"), old).text == "a\n1\n2\n3\n4\na\nb\n"
    assert "matches equally well at lines 1 and 7; add more context" in conflict("@@ -4,2 +4,1 @@\n a\n-b\n", old)


def test_no_fuzz() -> None:
    """One differing context line is a conflict; the message shows the actual lines."""
    message = conflict("@@ -2,3 +2,3 @@\n line 2\n-line 3\n+new\n line four\n", OLD)
    assert message == dedent("""\
        hunk 1 of 'x.py' (@@ -2,3 +2,3 @@) does not match. It expects:
            line 2
            line 3
            line four
        The file has this instead; line 4 is the first difference:
             2  line 2
             3  line 3
             4  line 4""")


def test_conflict_is_found_far_away() -> None:
    """The message shows the most similar lines, not those at the wrong line number."""
    message = conflict("@@ -1,3 +1,3 @@\n line 12\n-line 13\n+new\n line fourteen\n", OLD)
    assert "line 14 is the first difference" in message


@pytest.mark.parametrize(
    ("body", "old", "words"),
    [
        ("@@ -1,2 +1,2 @@\n if x:\n-\treturn\n+    pass\n", "\nif x:\n    return\n", "Only whitespace differs"),
        ("@@ -1 +1 @@\n-a\n+b\n", "b\n", "may have been applied before"),
        ("@@ -1 +1 @@\n-a\n+b\n", "", "the file is empty"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a", "Only the newline at the end of the file differs"),
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "a\n", "Only the newline"),
        ("@@ -1 +1 @@\n-a\r\n+b\r\n", "a\n", "Only the line endings"),
        ("@@ -3 +3 @@\n-c\n+C\n@@ -1 +1 @@\n-a\n+A\n", "a\nb\nc\nd\n", "hunks must be in order"),
        ("@@ -0,0 +1 @@\n+new\n", "a\n", "no context lines"),
        ("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "a\nc\n", "but line 2 follows"),
        ("@@ -1,30 +1,1 @@\n" + "".join(f"-{n}\n" for n in range(30)), "x\n", "... and 18 more lines"),
    ],
)
def test_messages_of_conflicts(body: str, old: str, words: str) -> None:
    """The message has what a model needs to correct the patch."""
    assert words in conflict(body, old)


def test_second_hunk_is_named() -> None:
    """No hunk is applied if one fails, and the message has its number."""
    assert "hunk 2 of 'x.py'" in conflict("@@ -1 +1 @@\n-line 1\n+1\n@@ -5 +5 @@\n-nothing\n+1\n", OLD)


def test_create_and_delete_conflicts() -> None:
    """An existing file cannot be created; a file with other lines cannot be deleted."""
    (create,) = parse_patch("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+new\n")
    with pytest.raises(PatchConflict, match="already exists"):
        apply_hunks(create, "old\n")
    (delete,) = parse_patch("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n")
    assert apply_hunks(delete, "old\n").text == ""
    with pytest.raises(PatchConflict, match="does not remove 1 of its lines"):
        apply_hunks(delete, "old\nmore\n")


def test_no_newline_at_the_end() -> None:
    """P16: a final newline can be added and removed."""
    add = patch_of("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n")
    assert apply_hunks(add, "a").text == "a\n"
    drop = patch_of("@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n")
    assert apply_hunks(drop, "a\n").text == "a"
    keep = patch_of("@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n")
    assert apply_hunks(keep, "a\nc").text == "b\nc"


def test_carriage_returns() -> None:
    """P13: an LF hunk fits a CRLF file and adds CRLF lines, but not the other way round."""
    hunk = "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n"
    assert apply_hunks(patch_of(hunk), "a\r\nb\r\nd\r\n").text == "a\r\nB\r\nc\r\nd\r\n"
    assert apply_hunks(patch_of(hunk), "a\nb\nd\r\n").text == "a\nB\nc\nd\r\n"
    assert "Only the line endings" in conflict(hunk, "a\r\nb\n")
    with_crlf = patch_of(hunk.replace("\n", "\r\n"))
    assert apply_hunks(with_crlf, "a\r\nb\r\n").text == "a\r\nB\r\nc\r\n"
    assert "Only the line endings" in conflict(hunk.replace("\n", "\r\n"), "a\nb\n")


def test_only_newlines_end_lines() -> None:
    """Form feeds, vertical tabs and Unicode separators do not end a line."""
    old = "a\x0cb\x0b\u2028c\x85d\re\nlast\n"
    diff = unified_diff("x", old.encode(), old.replace("last", "new").encode())
    assert apply_hunks(parse_patch(diff)[0], old).text == old.replace("last", "new")


def test_large_file_of_equal_lines() -> None:
    """Searching a file of equal lines does not take quadratic time."""
    began = time.process_time()
    body = "@@ -1,3001 +1,3001 @@\n" + " same\n" * 3000 + "-other\n+new\n"
    assert "does not match" in conflict(body, "same\n" * 30_000)
    assert time.process_time() - began < 5


# --- writing -----------------------------------------------------------------------------------------------------


def test_writer() -> None:
    """The output equals git's, except for the index line."""
    assert unified_diff("x", b"a\nb\n", b"a\nc") == dedent("""\
        diff --git a/x b/x
        --- a/x
        +++ b/x
        @@ -1,2 +1,2 @@
         a
        -b
        +c
        \\ No newline at end of file
        """)
    assert unified_diff("x", None, b"", mode="100755") == "diff --git a/x b/x\nnew file mode 100755\n"
    assert unified_diff("x", b"a\n", b"a\n") == ""
    assert unified_diff("x", b"a\0", b"b") == "diff --git a/x b/x\nBinary files a/x and b/x differ\n"
    assert "Binary files a/x and /dev/null differ" in unified_diff("x", b"\xff", None)


def test_writer_gives_up_on_large_differences() -> None:
    """Large differences are replaced as one hunk, which is still correct."""
    old = "".join(f"{n}\n" for n in range(25_000))
    new = f"head\n{old.replace('5', 'five')}tail\n"
    began = time.process_time()
    diff = unified_diff("x", old.encode(), new.encode())
    assert apply_hunks(parse_patch(diff)[0], old).text == new
    assert time.process_time() - began < 5


def test_errors_are_tool_errors() -> None:
    """Invalid patches are reported to the agent."""
    assert issubclass(BadPatchError, ToolError)
    assert issubclass(PatchConflict, ToolError)
    assert issubclass(PathEscapeError, ToolError)
