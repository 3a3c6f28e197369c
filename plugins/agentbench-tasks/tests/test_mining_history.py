"""The main line of a history, with merges, dates, and content that is meant to confuse."""

from __future__ import annotations

from typing import Any

import pytest

from agentbench_core import Deadline, DeadlineExceeded, InputError
from agentbench_core.harness import GitFailedError
from agentbench_tasks.mining import history as history_module
from agentbench_tasks.mining.history import MOST_FILES, long_lived_branch, read_commit, read_history
from agentbench_tasks.mining.values import FileChange


def subjects(history: Any, **settings: str) -> list[str]:
    return [one.subject for one in read_history(history.git, history.ids[-1], deadline=Deadline(60), **settings)]


def test_commits_with_their_differences(history: Any) -> None:
    history.commit(
        "Start", {"a.py": "1\n2\n3\n", "moved.py": "x\n" * 50, "logo.png": b"\0\1", "link": ("120000", b"a.py")}
    )
    files = {
        "a.py": "1\nnew\n3\n4\n",
        "moved.py": None,
        "b.py": "x\n" * 50 + "y\n",
        "logo.png": b"\0\2",
        "link": ("120000", b"b.py"),
        "module": ("160000", b"1" * 40),
        "run.sh": ("100755", b"true\n"),
    }
    history.commit("\n\nFix it\nat once\n\nBecause.\n\n", files, date="1714564800 +0500")
    (commit,) = read_history(history.git, "refs/heads/main", deadline=Deadline(60))
    assert (commit.id, commit.parent) == (history.ids[1], history.ids[0])
    assert (commit.subject, commit.body) == ("Fix it", "at once\n\nBecause.")
    assert (commit.date, commit.author_date) == ("2024-05-01T12:00:00Z", "2024-05-01T12:00:00Z")
    assert commit.author == "Ann <ann@example.org>"
    assert {change.path: change for change in commit.files} == {
        "a.py": FileChange(path="a.py", old_path="a.py", status="modified", added=2, removed=1),
        "b.py": FileChange(path="b.py", old_path="moved.py", status="renamed", added=1, removed=0),
        "logo.png": FileChange(
            path="logo.png", old_path="logo.png", status="modified", added=0, removed=0, binary=True
        ),
        "link": FileChange(path="link", old_path="link", status="other", added=1, removed=1),
        "module": FileChange(path="module", old_path="", status="other", added=1, removed=0),
        "run.sh": FileChange(path="run.sh", old_path="", status="added", added=1, removed=0),
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["4", "3", "2", "1"]),
        ({"since": "2024-01-03"}, ["4", "3", "2"]),
        ({"until": "2024-01-04"}, ["3", "2", "1"]),
        ({"since": "2024-01-03", "until": "2024-01-03"}, ["2"]),
        ({"since": "2024-01-03T12:00:00Z"}, ["4", "3", "2"]),
        ({"since": "2024-01-03T12:00:01"}, ["4", "3"]),
        ({"until": "2024-01-03T13:00:00+01:00"}, ["2", "1"]),
        ({"until": "2024-01-03T11:59:59"}, ["1"]),
        ({"since": "2030-01-01"}, []),
    ],
)
def test_dates_are_inclusive(history: Any, settings: dict[str, str], expected: list[str]) -> None:
    """Each commit was made at noon UTC; the first one has no parent."""
    for number in range(5):
        history.commit(str(number), {"a.py": f"{number}\n"})
    assert subjects(history, **settings) == expected


def test_a_wrong_clock_hides_no_other_commits(history: Any) -> None:
    for number, date in enumerate((1704110400, 1704196800, 100, 1704283200, 1 << 62)):
        history.commit(str(number), {"a.py": f"{number}\n"}, date=f"{date} +0000")
    assert subjects(history, since="2024-01-02", until="2024-01-31") == ["3", "1"]
    assert len(subjects(history)) == 4


@pytest.mark.parametrize("settings", [{"since": "yesterday"}, {"until": "2024-02-30"}, {"since": "--all"}])
def test_an_invalid_date(history: Any, settings: dict[str, str]) -> None:
    history.commit("1", {"a.py": "1\n"})
    with pytest.raises(InputError, match="is not a valid date"):
        subjects(history, **settings)


@pytest.mark.parametrize("tip", ["missing", "--all", "1" * 40, "refs/heads/main:a.py"])
def test_a_tip_that_is_not_a_commit(history: Any, tip: str) -> None:
    history.commit("1", {"a.py": "1\n"})
    with pytest.raises(InputError, match="has no commit"):
        read_history(history.git, tip, deadline=Deadline(60))


def test_the_end_of_a_shallow_clone_has_no_parent(history: Any) -> None:
    for number in range(5):
        history.commit(str(number), {"a.py": f"{number}\n"})
    (history.git.git_dir / "shallow").write_text(f"{history.ids[2]}\n")
    assert subjects(history) == ["4", "3"]


def test_a_merge_has_the_messages_that_it_brought_in(history: Any) -> None:
    """Oldest first, without merges into the branch, and without commits of earlier merges."""
    start = history.commit("Start", {"a.py": "1\n"})
    first = history.commit("First of the branch", {"b.py": "1\n"}, parents=[start])
    line = history.commit("On the main line", {"c.py": "1\n"}, parents=[start])
    early = history.commit("Merge the beginning", {"b.py": "1\n"}, parents=[line, first])
    update = history.commit("Merge branch 'main' into branch", {"c.py": "1\n"}, parents=[first, early])
    last = history.commit("Last of the branch\n\nBody.", {"b.py": "2\n"}, parents=[update])
    history.commit("Merge pull request #2 from ann/branch\n\nBetter", {"b.py": "2\n"}, parents=[early, last])
    commits = read_history(history.git, history.ids[-1], deadline=Deadline(60))
    assert [(commit.subject, commit.merged) for commit in commits] == [
        ("Merge pull request #2 from ann/branch", ("Last of the branch\n\nBody.",)),
        ("Merge the beginning", ("First of the branch",)),
        ("On the main line", ()),
    ]
    assert [(file.path, file.added, file.removed) for file in commits[0].files] == [("b.py", 1, 1)]
    assert [read_commit(history.git, commit.id, deadline=Deadline(60)) for commit in commits] == commits


def test_commits_of_merged_release_branches_belong_to_the_main_line(history: Any) -> None:
    """A fix on `8.0.x` that was merged to `8.1.x` and from there to `main`."""
    start = history.commit("Start", {"a.py": "1\n"})
    fix = history.commit("Fix", {"b.py": "1\n"}, parents=[start])
    minor = history.commit("Minor", {"c.py": "1\n"}, parents=[start])
    merged = history.commit("Merge branch '8.0.x' into 8.1.x", {"b.py": "1\n"}, parents=[minor, fix])
    main = history.commit("Main", {"d.py": "1\n"}, parents=[start])
    history.commit(
        "Merge remote-tracking branch 'origin/8.1.x'", {"b.py": "1\n", "c.py": "1\n"}, parents=[main, merged]
    )
    assert subjects(history) == [
        "Merge remote-tracking branch 'origin/8.1.x'",
        "Main",
        "Merge branch '8.0.x' into 8.1.x",
        "Minor",
        "Fix",
    ]


@pytest.mark.parametrize(
    ("subject", "branch"),
    [
        ("Merge branch 'main' into feature", "main"),
        ("Merge branch 'master' of github.com:ann/project", "master"),
        ("Merge remote-tracking branch 'upstream/stable' into merge-stable-into-main", "stable"),
        ("Merge stable into main.  (#3674)", "stable"),
        ("Merge `stable` into `main` after the release", "stable"),
        ("Merge branch '6.x-maintenance'", "6.x-maintenance"),
        ("Merge tag 'v1.2.0' into develop", "v1.2.0"),
        ("Merge branch 'release/2.0'", "release/2.0"),
        ("Merge 3.1.x branch", "3.1.x"),
        ("Merge branch 'fix-main'", ""),
        ("Merge main changes of the parser", ""),
        ("Merge pull request #7 from ann/main", ""),
        ("Merge sort is stable", ""),
    ],
)
def test_merges_of_long_lived_branches(subject: str, branch: str) -> None:
    assert long_lived_branch(subject) == branch


def test_odd_names_and_messages(history: Any) -> None:
    """M02: nothing in a name or message is taken for a part of git's output."""
    fake = f"commit\n{'1' * 40} {'2' * 40}\n1 1\nEve\n:100644 100644 {'0' * 40} {'0' * 40} M\nx.py\n1\t1\tx.py"
    names = [
        "new\nline.py",
        'a "quoted" name.py',
        "tab\tname.py",
        b"latin-\xe9.py",
        "commit",
        ":100644",
        "1\t1\tx.py",
        "-",
    ]
    history.commit("Start", {"a.py": "1\n"})
    history.commit(fake, dict.fromkeys(names, "1\n"), author="A\x1b[31mnn\x07 <\x1b]0;title\x07>")
    history.commit(b"\xff\xfe not UTF-8", {"a.py": "2\n"})
    history.commit("long\n\n" + "x" * (3 << 20), {"a.py": "3\n"})
    history.commit("", {"a.py": "4\n"})
    history.commit("empty", {})
    empty, silent, long, binary, odd = read_history(history.git, history.ids[-1], deadline=Deadline(60))
    expected = {name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name for name in names}
    assert {file.path for file in odd.files} == expected
    assert {(file.status, file.added, file.removed) for file in odd.files} == {("added", 1, 0)}
    assert (odd.subject, odd.author) == ("commit", "A\x1b[31mnn\x07 <\x1b]0;title\x07>")
    assert f"{odd.subject}\n{odd.body}" == fake
    assert binary.subject == "\ufffd\ufffd not UTF-8"
    assert 1000 < len(long.body) <= 1 << 16
    assert (silent.subject, silent.body, len(silent.files)) == ("", "", 1)
    assert (empty.subject, empty.files) == ("empty", ())


def test_number_of_files_of_a_commit_is_bounded(history: Any) -> None:
    """M03: a commit has at most `MOST_FILES` of them, and the next one is read correctly."""
    history.commit("Start", {"a.py": "1\n"})
    history.commit("5,000 files", {f"d{number % 7}/{number}.py": "1\n" for number in range(5000)})
    history.commit("More", {"a.py": "2\n"})
    later, many = read_history(history.git, history.ids[-1], deadline=Deadline(60))
    assert (len(later.files), len(many.files)) == (1, MOST_FILES)


def test_history_that_is_too_large_is_refused(history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """M03: it is an error that tells what to do; a part of it can be read."""
    for number in range(4):
        history.commit(f"{number}\n\n{'x' * 50_000}", {"a.py": f"{number}\n"})
    monkeypatch.setattr(history_module, "_MOST_BYTES", 100_000)
    with pytest.raises(InputError, match="select part of it with --since"):
        subjects(history)
    assert subjects(history, since="2024-01-04") == ["3"]


def test_a_damaged_repository(history: Any) -> None:
    """A commit whose tree is missing."""
    who = "Ann <ann@example.org> 1704110400 +0000"
    start = history.commit("1", {"a.py": "1\n"})
    content = f"tree {'1' * 40}\nparent {start}\nauthor {who}\ncommitter {who}\n\nbroken\n".encode()
    written = history.git.run("hash-object", "-t", "commit", "-w", "--stdin", deadline=Deadline(60), stdin=content)
    with pytest.raises(GitFailedError):
        read_history(history.git, written.decode().strip(), deadline=Deadline(60))


def test_no_time_left(history: Any) -> None:
    history.commit("1", {"a.py": "1\n"})
    with pytest.raises(DeadlineExceeded):
        read_history(history.git, history.ids[0], deadline=Deadline(0))
