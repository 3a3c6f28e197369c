"""The diff that takes another one back: read and applied by the core's own tools."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, strategies as st

from agentbench_core import apply_hunks, parse_patch, unified_diff
from agentbench_subagents.undoing import reverse

Files = Mapping[str, str]


def patched(files: Files, diff: str) -> tuple[dict[str, str], dict[str, Sequence[int]]]:
    """The files after a diff, and by how many lines its hunks were off."""
    after, moved = dict(files), {}
    for patch in parse_patch(diff):
        assert (patch.path in files) == (patch.kind != "create")
        applied = apply_hunks(patch, after.pop(patch.path, ""))
        moved[patch.path] = applied.moved
        if patch.kind != "delete":
            after[patch.path] = applied.text
    return after, moved


def taken_back(files: Files, diff: str) -> Files:
    after, moved = patched(files, diff)
    return patched(after, reverse(diff, moved))[0]


_texts = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "-- x\n", "++ y\n"]), max_size=40).flatmap(
    lambda lines: st.sampled_from(["", "end"]).map(lambda end: "".join(lines) + end)
)
_files = st.dictionaries(st.sampled_from(["a.py", "b/c d.py", "é.py", 'q"\n.py']), _texts, max_size=4)


@given(_files, _files)
def test_any_change_is_taken_back(before: Files, after: Files) -> None:
    """Files that are made, deleted and changed, with odd names, and with and without a newline at the end."""
    contents = [
        (path, before[path].encode() if path in before else None, after[path].encode() if path in after else None)
        for path in sorted({*before, *after})
    ]
    diff = "".join(unified_diff(path, old, new) for path, old, new in contents)
    if diff:
        assert taken_back(before, diff) == before


@given(st.integers(0, 30), st.integers(1, 40), st.integers(1, 9))
def test_hunks_that_named_other_lines_are_taken_back_where_they_went(above: int, said: int, added: int) -> None:
    """The lines that they left stand in other places too: only the numbers tell them apart."""
    twins = "same\nnew\nsame\n" * 3
    old = twins + "x\n" * above + "same\nold\nsame\n" + twins + "one\ntwo\n" + twins
    diff = (
        f"--- a/a\n+++ b/a\n@@ -{said},3 +{said},3 @@\n same\n-old\n+new\n same\n"
        f"@@ -{said + 90},2 +{said + 90},{2 + added} @@\n one\n" + "+new\n" * added + " two\n"
    )
    assert taken_back({"a": old}, diff) == {"a": old}


def test_lines_that_hunks_added_or_took_count_for_those_below() -> None:
    hunks = "@@ -3,2 +3,4 @@\n a\n+b\n+c\n d\n@@ -20,3 +22,2 @@\n e\n-f\n g\n@@ -40,2 +41,3 @@\n h\n+i\n j\n"
    back = reverse(f"--- a/x\n+++ b/x\n{hunks}", {"x": [0, 5, -1]})
    assert [line for line in back.splitlines() if line.startswith("@@")] == [
        "@@ -3,4 +3,2 @@",
        "@@ -27,2 +20,3 @@",
        "@@ -40,3 +40,2 @@",
    ]


@pytest.mark.parametrize("diff", ["", "no diff", "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n"])
def test_what_cannot_be_read_has_no_reverse(diff: str) -> None:
    assert reverse(diff, {}) == ""


@pytest.mark.parametrize(
    ("diff", "back"),
    [
        (
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            "diff --git a/x b/x\nold mode 100755\nnew mode 100644\n",
        ),
        (
            "diff --git a/x b/x\nold mode 100755\nnew mode 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n+a\n-b\n",
        ),
        (
            "diff --git a/x b/x\nnew file mode 100755\n",
            "diff --git a/x b/x\ndeleted file mode 100644\n",
        ),
        (
            "diff --git a/x b/x\ndeleted file mode 100644\n",
            "diff --git a/x b/x\nnew file mode 100644\n",
        ),
    ],
)
def test_modes_and_empty_files(diff: str, back: str) -> None:
    assert reverse(diff, {}) == back
    assert parse_patch(back)
