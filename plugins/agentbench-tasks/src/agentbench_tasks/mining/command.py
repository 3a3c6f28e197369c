"""``agentbench tasks mine``: turn the history of a repository into a suite of validated tasks."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from agentbench_core import Deadline, InputError, UnavailableError, name_some, quantity
from agentbench_core.harness import (
    NAME_PATTERN,
    App,
    History,
    RunObserver,
    Task,
    Variant,
    fetch_history,
    json_flag,
    load_attacks,
    print_json,
    say,
    shortened,
    tasks_flag,
)
from agentbench_tasks.mining import report
from agentbench_tasks.mining.discussions import read_discussions
from agentbench_tasks.mining.flags import mining_settings, mining_variant, work_flags
from agentbench_tasks.mining.funnel import Funnel, FunnelSettings, sift
from agentbench_tasks.mining.history import find_commit, read_history
from agentbench_tasks.mining.ledger import LEDGER_FILE, Entry, Ledger, held, known_results
from agentbench_tasks.mining.mine import Source, Watcher, mine, open_workshop, settings_digest, texts_digest
from agentbench_tasks.mining.values import Code, Commit
from agentbench_tasks.mining.workshop import MiningSettings

_HISTORY_SECONDS = 3600.0
_WORKERS = 2
_UNRELATED = (Code.NO_TEST_CHANGE, Code.NO_SOURCE_CHANGE)


@click.command("mine")
@click.option("--repo", metavar="PATH|URL", required=True, help="Repository whose history to use.")
@click.option("--suite", metavar="NAME", required=True, help="Suite for the tasks; created if it does not exist.")
@tasks_flag
@click.option("--since", metavar="DATE", default="", help="Use only commits from this date or later.")
@click.option("--until", metavar="DATE", default="", help="Use only commits from this date or earlier.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this number of new tasks. [default: no limit]")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=_WORKERS,
    show_default=True,
    help="Number of commits to try in parallel.",
)
@click.option(
    "--paths",
    metavar="GLOB",
    multiple=True,
    help="Use only commits that change source files matching GLOB. Repeatable.",
)
@click.option(
    "--strict-names", is_flag=True, help="Reject fixes whose tests require names that only the fix introduces."
)
@click.option(
    "--attack-sample",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Number of adversarial agents that each task must resist, unless its verdicts are weak.",
)
@click.option("--dry-run", is_flag=True, help="Show the candidates and the estimated time, without changing anything.")
@click.option(
    "--explain", metavar="COMMIT", default="", help="Show the result for one commit, without changing anything."
)
@work_flags
@json_flag
@click.pass_obj
def mine_tasks(
    app: App,
    /,
    repo: str,
    suite: str,
    root: str,
    since: str,
    until: str,
    limit: int | None,
    issues: str | None,
    paths: tuple[str, ...],
    dry_run: bool,
    explain: str,
    as_json: bool,
    workers: int,
    **typed: Any,
) -> int:
    """Create tasks from the fixes in a repository's history.

    \b
    agentbench tasks mine --repo ~/src/shop --suite shop --limit 20
    agentbench tasks mine --repo https://git.example.com/shop.git --suite shop --since 2026-01-01 --dry-run

    A commit that changes both source and tests can become a task: its tests are hidden, and its other changes are the
    reference solution. Each task is validated in the sandbox several times. For every other commit, one code and one
    reason are recorded. Results are stored in mining.jsonl in the suite, so that the command can be interrupted, and
    the next call only works on new commits. No code of the repository is run on this machine outside the sandbox. Exit
    code: 0, unless the command could not do its work.
    """
    if not re.fullmatch(NAME_PATTERN, suite):
        raise InputError(f"{suite!r} is not a valid suite: use at most 64 lowercase letters, digits, '.', '_' and '-'")
    settings = mining_settings(suite, typed)
    directory = Path(root) / suite
    deadline = Deadline(_HISTORY_SECONDS)
    history = fetch_history(repo, beside=Path.cwd(), deadline=deadline)
    commits = read_history(history.git, history.head, since=since, until=until, deadline=deadline)
    funnel = sift(commits, FunnelSettings(paths=paths), history.git, deadline)
    if explain:
        return _explain(directory, history, funnel, commits, explain, deadline, as_json=as_json)
    is_new = not (directory / LEDGER_FILE).exists()  # later calls may select a week without any fix
    if is_new and not funnel.candidates and all(each.code in _UNRELATED for each in funnel.rejected.values()):
        raise InputError(
            f"NO_TESTS: no commit changes both source and tests (commits searched: {len(commits)})",
            remedy="Check --repo, --since and --until; tests are found by names such as tests/ or test_*.py.",
        )
    discussions = read_discussions(Path(issues)) if issues else {}
    identity = settings_digest(settings, typed["sandbox"])
    identities = (identity, texts_digest(identity, discussions))
    if dry_run:
        ledger = Ledger(directory)
        new = _new(funnel, ledger, identities)
        if as_json:
            print_json(report.plan_plain(funnel, ledger, new, workers=workers))
        else:
            _say_all(report.plan(funnel, ledger, new, len(commits), limit=limit, workers=workers))
        return 0
    variant = mining_variant(app, typed)
    with held(directory):
        ledger = Ledger(directory)
        ledger.adopt()
        new = _new(funnel, ledger, identities)
        _add_rejected(ledger, funnel, commits)
        _say_all(report.funnel_lines(funnel, len(commits)), err=True)
        if not new:
            return _finish(ledger, [], funnel, as_json=as_json, nothing=True)
        source = Source(history=history, root=directory, ledger=ledger, discussions=discussions)
        resists = _resists(app, variant, settings)
        watcher = _Progress(len(new))
        try:
            with open_workshop(source, settings, variant, watcher, workers=workers, resists=resists) as shop:
                results = mine(shop, new, ledger, watcher, limit=limit, workers=workers)
        except KeyboardInterrupt:
            every = quantity(len(new), "commit")
            say(
                f"interrupted after {len(watcher.results)} of {every}; run the command again to continue",
                err=True,
            )
            _finish(ledger, watcher.results, funnel, as_json=as_json)
            return 130
        return _finish(ledger, results, funnel, as_json=as_json, built=shop.environments.built)


def _resists(app: App, variant: Variant, settings: MiningSettings) -> Callable[[Task], str] | None:
    """A function that attacks a task, and returns why it is forgeable, or an empty string; ``None`` if impossible."""
    if not settings.attack_sample:
        return None
    if not variant.sandbox.can("isolated"):
        say("note: tasks are not attacked: agents could find the solution in this sandbox", err=True)
        return None
    try:
        attacks = load_attacks(app.registry)
    except UnavailableError as error:
        say(f"note: tasks are not attacked: {error.message}; {error.remedy}", err=True)
        return None

    def resists(task: Task) -> str:
        for attack in attacks.values():
            sample = settings.attack_sample
            (result,) = attack([task], variant, app.registry, sample=sample, seed=0, workers=1, observer=RunObserver())
            if result.verdict == "forgeable":
                return f"passed without solving it: {name_some(result.passed)}"
        return ""

    return resists


def _new(funnel: Funnel, ledger: Ledger, settings: Sequence[str]) -> Sequence[Commit]:
    """The candidates without a valid result."""
    known = known_results(ledger, settings)
    return [commit for commit in funnel.candidates if commit.id not in known]


def _add_rejected(ledger: Ledger, funnel: Funnel, commits: Sequence[Commit]) -> None:
    """Record the commits that the history alone rejects, each once."""
    by_id = {commit.id: commit for commit in commits}
    ledger.add_all(
        [
            Entry(
                commit=name,
                date=by_id[name].date,
                subject=by_id[name].subject[:200],
                code=rejection.code,
                reason=rejection.reason,
            )
            for name, rejection in funnel.rejected.items()
            if name not in ledger.entries
        ]
    )


class _Progress(Watcher):
    """Prints one line for each commit."""

    def __init__(self, commits: int) -> None:
        self.results: list[Entry] = []
        self._commits = commits
        self._lock = threading.Lock()

    def tried(self, entry: Entry) -> None:
        """Print the result."""
        with self._lock:
            self.results.append(entry)
            what = f"{entry.task}: {entry.reason}" if entry.task else f"{entry.code}: {entry.reason}"
            labels = f" ({', '.join(entry.labels)})" if entry.labels else ""
            say(
                f"[{len(self.results)}/{self._commits}] {entry.commit[:10]} {entry.date[:10]}  "
                f"{shortened(what, 160)}{labels}  {entry.seconds:.1f} s",
                err=True,
            )

    def note(self, message: str) -> None:
        """Print a note."""
        say(f"note: {shortened(message, 300)}", err=True)


def _finish(
    ledger: Ledger, results: Sequence[Entry], funnel: Funnel, *, as_json: bool, nothing: bool = False, built: int = 0
) -> int:
    shown = [ledger.entries[commit.id] for commit in funnel.candidates if commit.id in ledger.entries]
    if as_json:
        print_json(report.as_plain(funnel, shown, results, built))
        return 0
    _say_all(report.table(shown))
    codes = Counter(entry.code for entry in shown if entry.code)
    say()
    if nothing:
        say("nothing new: all candidates have a result from an earlier run of this command")
    _say_all(report.summary(shown, results, codes, built, ledger.path))
    return 0


def _say_all(lines: Sequence[str], *, err: bool = False) -> None:
    for line in lines:
        say(line, err=err)


def _explain(
    directory: Path,
    history: History,
    funnel: Funnel,
    commits: Sequence[Commit],
    asked: str,
    deadline: Deadline,
    *,
    as_json: bool,
) -> int:
    full = find_commit(history, asked, deadline)
    if full is None:
        raise InputError(f"no commit {asked!r} in {history.url}", remedy="Pass a commit that is on a branch or tag.")
    commit = next((commit for commit in commits if commit.id == full), None)
    if commit is None:
        where = "is not on the main line of the repository or is outside the range of --since and --until"
        raise InputError(f"commit {asked} {where}", remedy="Pass a commit of `git log --first-parent`.")
    entry = Ledger(directory).entries.get(commit.id)
    if as_json:
        print_json(report.story_plain(commit, funnel, entry))
    else:
        _say_all(report.story(commit, funnel, entry))
    return 0
