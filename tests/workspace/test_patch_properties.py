from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from agentbench_core.errors import ToolError
from agentbench_core.workspace.patching import apply_hunks, parse_patch, unified_diff

# With few distinct lines many positions are similar; some lines look like parts of a patch.
LINES = st.sampled_from(["a", "b", "", "-- a", "++ b", "@@ -1 +1 @@", "diff --git a/x b/x", "\\ No", " ", "x\r", "é"])
TEXTS = st.builds(
    lambda lines, end: "\n".join(lines) + ("\n" if end and lines else ""), st.lists(LINES, max_size=30), st.booleans()
)
NAMES = st.text("ab é\"\\\t\n-'", min_size=1, max_size=6)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@given(path=PATHS, old=TEXTS, new=TEXTS)
@settings(max_examples=300, deadline=None)
def test_round_trip(path: str, old: str, new: str) -> None:
    """Parsing and applying a written diff gives the new text, with every hunk at its exact line."""
    diff = unified_diff(path, old.encode(), new.encode())
    if old == new:
        assert diff == ""
        return
    (patch,) = parse_patch(diff)
    applied = apply_hunks(patch, old)
    assert (patch.path, patch.kind, applied.text) == (path, "modify", new)
    assert set(applied.moved) == {0}


@given(path=PATHS, text=TEXTS, executable=st.booleans())
@settings(max_examples=100, deadline=None)
def test_round_trip_of_new_and_deleted_files(path: str, text: str, executable: bool) -> None:
    """Created and deleted files round-trip, with their mode."""
    (create,) = parse_patch(unified_diff(path, None, text.encode(), mode="100755" if executable else "100644"))
    assert (create.path, create.kind, create.executable) == (path, "create", executable)
    assert apply_hunks(create, "").text == text
    (delete,) = parse_patch(unified_diff(path, text.encode(), None))
    assert (delete.path, delete.kind, apply_hunks(delete, text).text) == (path, "delete", "")


@given(st.text(max_size=200) | st.lists(LINES | st.sampled_from(["--- a/x", "+++ b/x", "-a", "+b"])).map("\n".join))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    """Arbitrary text raises nothing but the documented errors."""
    try:
        outcome = "patches" if parse_patch(text) else "nothing"
    except ToolError as error:
        outcome = error.error_type
    assert outcome in ("patches", "bad_patch", "path_escape")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@given(path=PATHS, old=TEXTS, new=TEXTS, above=st.integers(0, 5), unique=st.booleans())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_results_equal_those_of_git_apply(
    path: str, old: str, new: str, above: int, unique: bool, scratch: Path, git: Callable[..., str]
) -> None:
    """Git accepts every diff that we write; if both accept a diff for a changed file, the results are equal."""
    if unique:  # shifted text: with unique lines only one position matches
        old = "".join(f"{number} {line}\n" for number, line in enumerate(old.split("\n")))
        new = old.replace("1", "one", 1).replace("12", "twelve\n12.5", 1)
    if old == new or (not unique and above):
        return
    diff = unified_diff(path, old.encode(), new.encode())
    present = "".join(f"above {number}\n" for number in range(above)) + old
    file = scratch / "tree" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        file.write_bytes(present.encode())
        (scratch / "patch").write_bytes(diff.encode())
        git(scratch / "tree", "apply", "--whitespace=nowarn", "../patch", check=not above)
        result = file.read_bytes().decode()
        assert above or result == new
        if result != present:
            assert apply_hunks(parse_patch(diff)[0], present).text == result
    finally:
        file.unlink()
        for directory in file.relative_to(scratch / "tree").parents:
            (scratch / "tree" / directory).rmdir()


@given(path=PATHS, old=TEXTS, new=TEXTS, context=st.integers(1, 5), above=st.integers(0, 4), unique=st.booleans())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_patches_that_git_writes(
    path: str, old: str, new: str, context: int, above: int, unique: bool, scratch: Path, git: Callable[..., str]
) -> None:
    """P16: diffs by git, with any context, apply with the same result as in git, also to shifted lines."""
    if unique:
        old = "".join(f"{number} {line}\n" for number, line in enumerate(old.split("\n")))
        new = old.replace("1", "one", 1).replace("12", "twelve\n12.5", 1)
    above = above if unique else 0
    sides = {"a": old, "b": new, "tree": "".join(f"above {number}\n" for number in range(above)) + old}
    try:
        for side, text in sides.items():
            (scratch / side / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / side / path).write_bytes(text.encode())
        diff = git(scratch, "diff", "--no-index", "--no-prefix", f"-U{context}", "a", "b", check=False)
        assert (old == new) == (diff == "")
        if diff == "":
            return
        (patch,) = parse_patch(diff)
        assert patch.path == path
        assert apply_hunks(patch, old).text == new
        (scratch / "patch").write_bytes(diff.encode("utf-8", "surrogateescape"))
        git(scratch / "tree", "apply", "--whitespace=nowarn", "../patch", check=not above)
        result = (scratch / "tree" / path).read_bytes().decode()
        if result != sides["tree"]:
            assert apply_hunks(patch, sides["tree"]).text == result
    finally:
        for side in sides:
            shutil.rmtree(scratch / side, ignore_errors=True)
