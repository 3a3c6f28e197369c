"""Select the commits that can become tasks, from the history alone, and sort them."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from agentbench_core import Deadline, name_some, path_matcher
from agentbench_core.harness import Git
from agentbench_tasks.mining.differences import Difference, FileDifference, read_differences
from agentbench_tasks.mining.history import MOST_FILES
from agentbench_tasks.mining.messages import rejected_by_message
from agentbench_tasks.mining.roles import is_dependency_file, is_program, is_version_file, role
from agentbench_tasks.mining.values import Code, Commit, FileChange, Rejection

_BALANCED = 100  # commits
_MOVED = 90  # percent; renamed files that are at least this similar were only moved
_VERSION_LINE = re.compile(
    r"\s*(?:[\"']?_{0,2}(?:version|version_info|version_tuple|release|date)_{0,2}[\"']?\s*(?::[^=]{0,40}=|[:=])"
    r"\s*[\"'(\[\d].*)",
    re.IGNORECASE,
)
_EMPTY_LINE = re.compile(r"\s*(?:#.*)?")
# A method or a function at the beginning of a line: indented functions can be examples in docstrings.
_TEST_LINE = re.compile(
    r"(?:async\s+)?def\s+test_\w*\s*\(|\s+(?:async\s+)?def\s+test_\w*\s*\(\s*self\b|class\s+\w+\s*\(.*\bTestCase\b"
    r"|\s*#\[(?:\w+::)*test\]|\s*#\[cfg\(test\)\]"
)
_LFS = "version https://git-lfs.github.com/spec/"


@attrs.frozen(kw_only=True)
class FunnelSettings:
    """Limits on candidates."""

    max_files: int = 10
    """Maximum number of changed source files."""
    max_lines: int = 400
    """Maximum number of changed lines in source files and tests; test data does not count."""
    paths: tuple[str, ...] = ()
    """Globs; at least one changed source file must match. Without globs, all match."""


@attrs.frozen(kw_only=True)
class Stage:
    """A stage of the funnel."""

    name: str  #: the property that the remaining commits share
    left: int  #: number of remaining commits


@attrs.frozen(kw_only=True)
class Funnel:
    """The result for a history."""

    candidates: tuple[Commit, ...]  #: in the order in which they should be tried
    rejected: Mapping[str, Rejection]  #: the other commits, by id
    counts: tuple[Stage, ...]  #: numbers of remaining commits, by stage


def sift(commits: Sequence[Commit], settings: FunnelSettings, git: Git, deadline: Deadline) -> Funnel:
    """Select and sort the commits that can become tasks.

    ``commits`` come from :func:`read_history`, newest first. One git process reads the differences of the commits
    that pass the cheaper rules.

    Raises:
        InputError: a glob is invalid.
        SandboxError: the repository is damaged, or git failed.
        DeadlineExceeded: the deadline has passed.
    """
    rejected: dict[str, Rejection] = {}
    counts = [Stage(name="commits", left=len(commits))]
    left = list(commits)

    def apply(name: str, rejections: Mapping[str, Rejection]) -> None:
        nonlocal left
        rejected.update(rejections)
        left = [commit for commit in left if commit.id not in rejections]
        counts.append(Stage(name=name, left=len(left)))

    apply("by people, not reverted, no merges of branches", rejected_by_message(left))
    rules: Sequence[tuple[str, Callable[[Commit], Rejection | None]]] = (
        ("change source", _without_source),
        *([("in the selected paths", _outside(settings.paths))] if settings.paths else []),
        ("also change tests", _without_tests),
        ("small enough", lambda commit: _too_large(commit, settings)),
        ("only files that tasks support", _unsupported),
    )
    for name, rule in rules:
        apply(name, {commit.id: found for commit in left if (found := rule(commit)) is not None})
    differences = dict(zip([commit.id for commit in left], read_differences(git, left, deadline), strict=True))
    by_difference = {commit.id: _by_difference(commit, differences[commit.id]) for commit in left}
    apply(
        "more than moves or version changes", {id_: found for id_, found in by_difference.items() if found is not None}
    )
    apply("different from each other", _duplicates(left, differences))
    return Funnel(candidates=tuple(_balanced(left)), rejected=rejected, counts=tuple(counts))


def _changed(file: FileChange) -> bool:
    """Whether the content of a file changed, not only its name or mode."""
    return bool(file.added or file.removed or file.binary)


def _sources(commit: Commit) -> list[FileChange]:
    """Source files whose content changed, not only their mode."""
    return [
        file
        for file in commit.files
        if "source" in (role(file.path), role(file.old_path))
        and (_changed(file) or file.status in ("renamed", "other"))
    ]


def _tests(commit: Commit) -> list[FileChange]:
    return [file for file in commit.files if role(file.path) == "test"]


def _lines(files: Sequence[FileChange]) -> int:
    return sum(file.added + file.removed for file in files)


def _names(files: Sequence[FileChange]) -> str:
    return name_some([file.path for file in files])


def _without_source(commit: Commit) -> Rejection | None:
    if len(commit.files) >= MOST_FILES:
        return Rejection(code=Code.TOO_LARGE, reason=f"It changes {MOST_FILES} files or more.")
    if _sources(commit):
        return None
    if dependencies := [file for file in commit.files if is_dependency_file(file.path)]:
        reason = f"It changes no source files, only dependencies or metadata in {_names(dependencies)}."
        return Rejection(code=Code.VERSION_ONLY, reason=reason)
    changed = f"only {_names(commit.files)}" if commit.files else "and no other files"
    return Rejection(code=Code.NO_SOURCE_CHANGE, reason=f"It changes no source files, {changed}.")


def _outside(globs: Sequence[str]) -> Callable[[Commit], Rejection | None]:
    selected = path_matcher(globs)

    def outside(commit: Commit) -> Rejection | None:
        sources = _sources(commit)
        if any(selected(file.path) for file in sources):
            return None
        reason = f"None of its source files is in the selected paths: {_names(sources)}."
        return Rejection(code=Code.OUTSIDE_PATHS, reason=reason)

    return outside


def _without_tests(commit: Commit) -> Rejection | None:
    tests = _tests(commit)
    if any(file.status != "deleted" and (_changed(file) or file.status == "other") for file in tests):
        return None
    reason = f"Its tests are only deleted, renamed or empty: {_names(tests)}." if tests else "It changes no tests."
    return Rejection(code=Code.NO_TEST_CHANGE, reason=reason)


def _too_large(commit: Commit, settings: FunnelSettings) -> Rejection | None:
    sources = _sources(commit)
    if len(sources) > settings.max_files:
        reason = f"It changes {len(sources)} source files; the limit is {settings.max_files}."
        return Rejection(code=Code.TOO_LARGE, reason=reason)
    lines = _lines([*sources, *(file for file in _tests(commit) if is_program(file.path) and file not in sources)])
    if lines > settings.max_lines:
        reason = f"It changes {lines} lines of source and tests; the limit is {settings.max_lines}."
        return Rejection(code=Code.TOO_LARGE, reason=reason)
    return None


def _unsupported(commit: Commit) -> Rejection | None:
    sources = _sources(commit)
    if special := [file for file in commit.files if file.status == "other"]:  # no patch can contain them
        reason = f"It changes a symbolic link, a submodule or a special file: {_names(special)}."
        return Rejection(code=Code.UNSUPPORTED_FILE, reason=reason)
    if binary := [file for file in sources if file.binary]:
        return Rejection(
            code=Code.UNSUPPORTED_FILE, reason=f"It changes binary or very large source files: {_names(binary)}."
        )
    if moved := [file for file in sources if file.old_path and "test" in (role(file.path), role(file.old_path))]:
        reason = f"It moves a file between source and tests: {_names(moved)}."
        return Rejection(code=Code.MIXED_FILE, reason=reason)
    return None


def _by_difference(commit: Commit, difference: Difference) -> Rejection | None:
    """Rules that need the changed lines."""
    pairs = list(zip(commit.files, difference.files, strict=True))
    sources = [(file, lines) for file, lines in pairs if "source" in (role(file.path), role(file.old_path))]
    pointers = [file for file, lines in pairs if role(file.path) != "other" and _is_pointer(lines)]
    if pointers:
        reason = f"The content of {_names(pointers)} is in Git LFS, not in the repository."
        return Rejection(code=Code.UNSUPPORTED_FILE, reason=reason)
    sources = [(file, lines) for file, lines in sources if _changed(file) or file.status == "renamed"]
    if all(file.status == "renamed" and lines.similarity >= _MOVED for file, lines in sources):
        files = [file for file, _ in sources]
        return Rejection(code=Code.MOVE_ONLY, reason=f"It only renames source files, such as {_names(files[:1])}.")
    if all(_is_version(file, lines) for file, lines in sources):
        reason = f"It changes only the version in the source: {_names([file for file, _ in sources])}."
        return Rejection(code=Code.VERSION_ONLY, reason=reason)
    if mixed := [file for file, lines in sources if _contains_tests(lines)]:
        return Rejection(code=Code.MIXED_FILE, reason=f"A file contains both source and tests: {_names(mixed)}.")
    return None


def _is_pointer(lines: FileDifference) -> bool:
    """Whether a file is a Git LFS pointer. A changed pointer changes these lines only."""
    changed = [line[1:] for line in lines.lines]
    if any(line.startswith(_LFS) for line in changed):
        return len(changed) <= 6
    return bool(changed) and all(re.fullmatch(r"oid sha256:[0-9a-f]{64}|size \d{1,20}", line) for line in changed)


def _is_version(file: FileChange, difference: FileDifference) -> bool:
    if is_version_file(file.path):
        return True
    lines = [line[1:] for line in difference.lines if not _EMPTY_LINE.fullmatch(line[1:])]
    return bool(lines) and all(_VERSION_LINE.fullmatch(line) for line in lines)


def _contains_tests(lines: FileDifference) -> bool:
    texts = itertools.chain((line[1:] for line in lines.lines), lines.contexts)
    return any(_TEST_LINE.match(text) for text in texts)


def _duplicates(commits: Sequence[Commit], differences: Mapping[str, Difference]) -> Mapping[str, Rejection]:
    """Commits with the same changes to source and tests as a newer one, such as backports."""
    newest: dict[str, str] = {}
    rejected = {}
    for commit in commits:
        digest = differences[commit.id].digest
        if (newer := newest.setdefault(digest, commit.id)) != commit.id:
            reason = f"It makes the same changes to source and tests as commit {newer[:12]}."
            rejected[commit.id] = Rejection(code=Code.DUPLICATE, reason=reason)
    return rejected


def _balanced(commits: Sequence[Commit]) -> Iterator[Commit]:
    """Deal the commits of each group in turn, so that all parts of a program are among the first commits.

    This is done within each block of 100 commits, so that old commits of rarely changed parts do not come first.
    """
    for start in range(0, len(commits), _BALANCED):
        part = commits[start : start + _BALANCED]
        groups = defaultdict[str, list[Commit]](list)
        for commit, group in zip(part, _groups(part), strict=True):
            groups[group].append(commit)
        rounds = itertools.zip_longest(*groups.values())
        yield from (commit for one in rounds for commit in one if commit is not None)


def _groups(commits: Sequence[Commit]) -> list[str]:
    """The group of each commit: the directory of most of its changed source lines.

    A directory with more than half of all commits is divided into its files.
    """
    directories = [_largest(commit, posixpath.dirname) for commit in commits]
    common = {name for name, number in Counter(directories).items() if number * 2 > len(commits)}
    return [
        f"{name}/{_largest(commit, posixpath.basename)}" if name in common else name
        for commit, name in zip(commits, directories, strict=True)
    ]


def _largest(commit: Commit, name_of: Callable[[str], str]) -> str:
    lines = Counter[str]()
    for file in _sources(commit):
        lines[name_of(file.path)] += file.added + file.removed
    return min(lines, key=lambda name: (-lines[name], name))
