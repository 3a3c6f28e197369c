# agentbench-canary: d89ae471-973c-4ec8-9883-09fd646b2abb
"""The exit code is about everything that was checked, in whatever order."""

import itertools
from collections import Counter
from pathlib import Path

import pytest

from sealcheck.cli import main

CODES = {"fine": 0, "changed": 1, "missing": 2, "broken": 2, "absent": 2, "empty": 0, "both": 2}
LEAST = ["fine", "changed", "missing", "broken"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """One manifest for each thing that can happen; each has two files, if any."""
    monkeypatch.chdir(tmp_path)
    for name in ("fine", "changed", "missing", "both"):
        Path(name).mkdir()
        for file in ("a.txt", "b.json"):
            Path(name, file).write_text(file, encoding="utf-8")
        assert main(["seal", f"{name}/a.txt", f"{name}/b.json", "--to", f"{name}.seal"]) == 0
    Path("changed/a.txt").write_text("new", encoding="utf-8")
    Path("missing/a.txt").unlink()
    Path("both/a.txt").unlink()
    Path("both/b.json").write_text("new", encoding="utf-8")
    Path("broken.seal").write_text("no manifest\n", encoding="utf-8")
    Path("empty.seal").write_text("# nothing yet\n", encoding="utf-8")
    return tmp_path


def check(names, *options):
    return main(["check", *(f"{name}.seal" for name in names), *options])


@pytest.mark.parametrize("name", CODES)
def test_alone(site, name):
    assert check([name]) == CODES[name]


@pytest.mark.parametrize("names", list(itertools.permutations(CODES, 2)), ids="-".join)
@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["loud", "quiet"])
def test_two(site, names, options):
    assert check(names, *options) == max(CODES[name] for name in names)


@pytest.mark.parametrize("names", list(itertools.product(LEAST, repeat=3)), ids="-".join)
def test_three(site, names):
    assert check(names) == max(CODES[name] for name in names)


def test_many(site):
    for position in range(6):
        for name in ("changed", "missing", "absent"):
            names = ["fine"] * 6
            names[position] = name
            assert check(names) == CODES[name]


@pytest.mark.parametrize("names", list(itertools.permutations(["fine", "changed", "missing"])), ids="-".join)
def test_only_what_was_checked_counts(site, names):
    assert check(names, "--only", "*.json") == 0
    assert check(names, "--only", "*.txt") == 2
    assert check(names, "--only", "nothing") == 0
    assert check([*names, "broken"], "--only", "*.json") == 2
    assert check(["broken", *names], "--only", "*.json") == 2
    assert check(["broken", *names], "--only", "nothing") == 2


def test_everything_is_still_reported(site, capsys):
    assert check(["absent", "both", "changed", "broken", "fine"]) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "both.seal: missing both/a.txt",
        "both.seal: changed both/b.json",
        "changed.seal: changed changed/a.txt",
        "changed.seal: ok changed/b.json",
        "fine.seal: ok fine/a.txt",
        "fine.seal: ok fine/b.json",
        "6 files: 3 ok, 2 changed, 1 missing",
    ]
    assert [name in printed.err for name in ("absent.seal", "broken.seal", "fine.seal")] == [True, True, False]


def test_the_next_run_starts_anew(site):
    assert check(["missing", "changed"]) == 2
    assert check(["changed", "fine"]) == 1
    assert check(["fine", "empty"]) == 0


def test_missing_before_changed(site):
    assert check(["missing", "changed"]) == 2


def test_missing_before_fine(site):
    assert check(["missing", "fine", "empty"]) == 2


def test_changed_before_fine(site):
    assert check(["changed", "fine", "empty"]) == 1


def test_broken_before_changed(site):
    assert check(["broken", "changed", "fine"]) == 2


def test_what_it_comes_to_without_a_word(site):
    assert check(["changed", "fine"], "--quiet") == 1


def test_night_after_night(site):
    nights = [
        "changed fine",
        "fine changed fine",
        "missing fine",
        "changed missing empty",
        "broken changed",
        "fine empty",
        "absent fine changed",
        "both changed empty",
        "empty changed empty",
        "fine fine",
        "changed changed fine",
        "broken fine",
    ]
    assert [check(night.split()) for night in nights] == [1, 1, 2, 2, 2, 0, 2, 2, 1, 0, 1, 2]


def test_code_beside_the_counts(site, capsys):
    runs = ["both fine", "changed fine fine", "missing changed", "fine both changed empty", "broken changed fine"]
    assert [(check(run.split(), "--quiet"), capsys.readouterr().out.splitlines()[-1]) for run in runs] == [
        (2, "4 files: 2 ok, 1 changed, 1 missing"),
        (1, "6 files: 5 ok, 1 changed, 0 missing"),
        (2, "4 files: 2 ok, 1 changed, 1 missing"),
        (2, "6 files: 3 ok, 2 changed, 1 missing"),
        (2, "4 files: 3 ok, 1 changed, 0 missing"),
    ]


def test_code_for_each_pattern(site):
    names = ["changed", "both", "missing", "fine", "empty"]
    patterns = ["*", "*.txt", "*.json", "a.*", "b.*", "nothing", "[ab].txt", "?.json", "c*"]
    assert [check(names, "--only", pattern) for pattern in patterns] == [2, 2, 1, 2, 1, 0, 2, 1, 0]


def test_how_often_each_code_comes(site):
    assert Counter(check(names) for names in itertools.product(CODES, repeat=2)) == {0: 4, 1: 5, 2: 40}


def test_from_day_to_day(site):
    def all_at_once():
        return check(["broken", "missing", "changed", "fine"])

    codes = [all_at_once()]
    Path("broken.seal").write_text("", encoding="utf-8")
    codes.append(all_at_once())
    Path("missing/a.txt").write_text("new", encoding="utf-8")
    codes.append(all_at_once())
    Path("changed/a.txt").write_text("a.txt", encoding="utf-8")
    codes.append(all_at_once())
    Path("missing/a.txt").write_text("a.txt", encoding="utf-8")
    codes.append(all_at_once())
    Path("changed/b.json").unlink()
    codes.append(all_at_once())
    Path("changed/b.json").write_text("b.json", encoding="utf-8")
    Path("missing/b.json").write_text("", encoding="utf-8")
    codes.append(all_at_once())
    Path("broken.seal").unlink()
    codes.append(all_at_once())
    assert codes == [2, 2, 1, 1, 0, 2, 1, 2]


def test_every_order_of_five(site):
    orders = list(itertools.permutations(["fine", "changed", "empty", "missing", "fine"], 3))
    assert (
        "".join(str(check(names)) for names in orders) == "121120222102121121222112120121222012222222222222102112012222"
    )
