"""The diff that reverts another one, parsed and applied by the core."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, strategies as st

from agentbench_core import apply_hunks, parse_patch, unified_diff
from agentbench_subagents.reverting import reverse

Files = Mapping[str, str]


def patched(files: Files, diff: str) -> tuple[dict[str, str], dict[str, Sequence[int]]]:
    """The files after a diff, and the offsets of its hunks."""
    after, moved = dict(files), {}
    for patch in parse_patch(diff):
        assert (patch.path in files) == (patch.kind != "create")
        applied = apply_hunks(patch, after.pop(patch.path, ""))
        moved[patch.path] = applied.moved
        if patch.kind != "delete":
            after[patch.path] = applied.text
    return after, moved


def reverted(files: Files, diff: str) -> Files:
    after, moved = patched(files, diff)
    return patched(after, reverse(diff, moved))[0]


_texts = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "-- x\n", "++ y\n"]), max_size=40).flatmap(
    lambda lines: st.sampled_from(["", "end"]).map(lambda end: "".join(lines) + end)
)
_files = st.dictionaries(st.sampled_from(["a.py", "b/c d.py", "é.py", 'q"\n.py']), _texts, max_size=4)


@given(_files, _files)
def test_any_change_is_reverted(before: Files, after: Files) -> None:
    """Created, deleted and modified files, with unusual names, with and without a final newline."""
    contents = [
        (path, before[path].encode() if path in before else None, after[path].encode() if path in after else None)
        for path in sorted({*before, *after})
    ]
    diff = "".join(unified_diff(path, old, new) for path, old, new in contents)
    if diff:
        assert reverted(before, diff) == before


@given(st.integers(0, 30), st.integers(1, 40), st.integers(1, 9))
def test_hunks_with_wrong_line_numbers_are_reverted_where_applied(above: int, stated: int, added: int) -> None:
    """The same lines occur elsewhere too, so only line numbers identify them."""
    repeated = "same\nnew\nsame\n" * 3
    old = repeated + "x\n" * above + "same\nold\nsame\n" + repeated + "one\ntwo\n" + repeated
    diff = (
        f"--- a/a\n+++ b/a\n@@ -{stated},3 +{stated},3 @@\n same\n-old\n+new\n same\n"
        f"@@ -{stated + 90},2 +{stated + 90},{2 + added} @@\n one\n" + "+new\n" * added + " two\n"
    )
    assert reverted({"a": old}, diff) == {"a": old}


def test_added_and_removed_lines_shift_the_hunks_below() -> None:
    hunks = "@@ -3,2 +3,4 @@\n a\n+b\n+c\n d\n@@ -20,3 +22,2 @@\n e\n-f\n g\n@@ -40,2 +41,3 @@\n h\n+i\n j\n"
    back = reverse(f"--- a/x\n+++ b/x\n{hunks}", {"x": [0, 5, -1]})
    assert [line for line in back.splitlines() if line.startswith("@@")] == [
        "@@ -3,4 +3,2 @@",
        "@@ -27,2 +20,3 @@",
        "@@ -40,3 +40,2 @@",
    ]


@pytest.mark.parametrize("diff", ["", "no diff", "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n"])
def test_a_diff_that_cannot_be_parsed_has_no_reverse(diff: str) -> None:
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
