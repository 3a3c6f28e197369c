"""What a session under checks has besides the tests: one that must pass, one that must fail, and twins."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import attrs

from agentbench_core import ToolError, Tree, Validation
from agentbench_core.builtin.tests_scorer.twins import Twin, candidates, copies_for, split

_CANARIES = """\
def test_{good}():
    assert {number} == {number}


def test_{bad}():
    assert {number} == {number} + 1
"""
_TRIED = 16
"""Twins that are tried while a task names none."""
_LARGEST = 4 << 20  # bytes of a test file
_WITH_PATHS = frozenset({"--deselect", "--ignore"})
_CHANCE = secrets.SystemRandom()


@attrs.frozen(kw_only=True)
class Additions:
    """Where they are. Only the host has this."""

    canaries: str
    """The file of the two that must pass and fail."""
    must_pass: str
    must_fail: str
    stands_for: Mapping[str, tuple[str, int]] = attrs.field(factory=dict)
    """Files in the place of others: by the path of one, whose place it has, and which of them it is."""
    true_side: Mapping[str, int] = attrs.field(factory=dict)
    """Which of them has a test itself, by the test's id without parameters."""
    altered: Mapping[str, int] = attrs.field(factory=dict)
    """How many of them have an altered copy of it."""
    twins: Mapping[str, Twin] = attrs.field(factory=dict)
    """Twins that were made, by the id of their test."""
    not_made: tuple[str, ...] = ()
    """Twins that the task names and that cannot be made."""

    def meaning(self, test: str) -> tuple[str, Twin | None]:
        """What the id of a test that was run means: the task's id of it, or the twin that it is."""
        file, colons, rest = test.partition("::")
        if file not in self.stands_for:
            return test, None
        original, side = self.stands_for[file]
        name = f"{original}{colons}{rest}"
        bare = name.partition("[")[0]
        return name, self.twins.get(bare) if self.true_side.get(bare) != side else None

    def arguments(self, said: Sequence[str]) -> list[str]:
        """pytest's arguments, with files by the names that they have now.

        A test that is named within such a file is not in all of its copies, so all tests of these are run; those that
        the task does not name do not count.
        """
        result: list[str] = []
        for argument in said:
            path = str(PurePosixPath(argument.partition("::")[0]))
            result += [name for name, (original, _) in self.stands_for.items() if original == path] or [argument]
        return result

    def note(self) -> str:
        """What a reader of the tests' output must know."""
        files = defaultdict(list)
        for name, (original, _) in sorted(self.stands_for.items()):
            files[original].append(name)
        lines = [f"{' and '.join(names)} stand for {original}" for original, names in files.items()]
        if self.twins:
            lines.append(f"all copies but one of each of these must fail: {', '.join(self.twins)}")
        return "".join(f"agentbench: {line}\n" for line in lines)


def add(tree: Tree, validation: Validation, hidden: Sequence[str], said: Sequence[str], *, on_trial: bool) -> Additions:
    """Write them into the tree in which the tests will run. The names differ from one session to the next.

    Args:
        tree: with the agent's change and the hidden tests.
        validation: what the task says.
        hidden: paths of the hidden tests.
        said: pytest's arguments.
        on_trial: make twins also where the task names none, to see which could be named.
    """
    sources = _sources(tree, hidden, said)
    wanted, missing = _wanted(sources, validation, on_trial=on_trial)
    stands_for: dict[str, tuple[str, int]] = {}
    true_side: dict[str, int] = {}
    altered: dict[str, int] = {}
    twins: dict[str, Twin] = {}
    number = copies_for(len(validation.twins))
    # What hidden tests look like in the file, with comments and all, is never in a sandbox where they are run.
    seed = hashlib.sha256("".join(sources[path] for path in sorted(sources)).encode()).hexdigest()
    for file, of_file in wanted.items():
        copies = split(sources.get(file, ""), of_file, number, seed, _CHANCE)
        if copies is None:
            missing += [twin.id for twin in of_file]
            continue
        tree.remove(file)
        for side, text in enumerate(copies.texts):
            name = _another_name(file)
            tree.write(name, text.encode())
            stands_for[name] = (file, side)
        true_side |= {f"{file}::{name}": side for name, side in copies.true_side.items()}
        altered |= {f"{file}::{name}": number for name, number in copies.altered.items()}
        twins |= {twin.test: twin for twin in of_file}
    canaries = _another_name(next(iter(sources), "test_checks.py"))
    good, bad = (secrets.token_hex(3) for _ in range(2))
    text = _CANARIES.format(good=good, bad=bad, number=secrets.randbelow(1000))
    tree.write(canaries, text.encode())
    return Additions(
        canaries=canaries,
        must_pass=f"{canaries}::test_{good}",
        must_fail=f"{canaries}::test_{bad}",
        stands_for=stands_for,
        true_side=true_side,
        altered=altered,
        twins=twins,
        not_made=tuple(missing),
    )


def _wanted(
    sources: Mapping[str, str], validation: Validation, *, on_trial: bool
) -> tuple[dict[str, list[Twin]], list[str]]:
    """The twins that a task names, by file, or some that could be named; and what is not among the hidden tests."""
    twins = [Twin(id=name) for name in validation.twins]
    if on_trial and not twins:
        possible = [twin for file, text in sources.items() for twin in candidates(file, text)]
        named = {test.partition("[")[0] for test in validation.fail_to_pass}
        possible = [twin for twin in possible if not named or twin.test in named]
        twins = sorted(possible, key=lambda twin: twin.strength)[:_TRIED]
    by_file: defaultdict[str, list[Twin]] = defaultdict(list)
    for twin in twins:
        by_file[twin.file].append(twin)
    missing = [twin.id for file, of_file in by_file.items() if file not in sources for twin in of_file]
    return {file: of_file for file, of_file in by_file.items() if file in sources}, missing


def _sources(tree: Tree, hidden: Sequence[str], said: Sequence[str]) -> dict[str, str]:
    """Hidden test files that may have another name: neither hidden files nor options of pytest speak of theirs."""
    texts: dict[str, str] = {}
    for path in hidden:
        try:
            texts[path] = tree.read(path, limit=_LARGEST).decode()
        except (ToolError, ValueError):
            continue
    tests = [path for path in texts if _is_test(path)]
    options = [
        word for before, word in zip(["", *said], said, strict=False) if word[:2] == "--" or before in _WITH_PATHS
    ]
    data = [path for path in hidden if not _is_test(path)]  # directories of data are found by the name of the test file
    return {path: texts[path] for path in tests if not _spoken_of(path, [*texts.values(), *options, *data])}


def _is_test(path: str) -> bool:
    place = PurePosixPath(path)
    return place.suffix == ".py" and (place.stem.startswith("test_") or place.stem.endswith("_test"))


def _spoken_of(path: str, texts: Sequence[str]) -> bool:
    # A test in it may have the same name, which says nothing of the file.
    word = re.compile(rf"(?<!def )\b{re.escape(PurePosixPath(path).stem)}\b")
    return any(word.search(text) for text in texts)


def _another_name(path: str) -> str:
    """A new name in the same directory, which pytest takes for that of a test file as it took the old one."""
    place = PurePosixPath(path)
    mark = secrets.token_hex(4)
    stem = place.stem
    new = f"{stem.removesuffix('_test')}_{mark}_test" if stem.endswith("_test") else f"{stem}_{mark}"
    return str(place.with_name(f"{new}.py"))
