"""``agentbench runs du``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_core import quantity, size_text
from agentbench_core.harness import (
    RunFilter,
    json_flag,
    print_json,
    print_table,
    run_filters,
    runs_out_flag,
    say,
    selected_runs,
)
from agentbench_runs.leftovers import leftovers
from agentbench_runs.sizes import KINDS, measure


@click.command()
@runs_out_flag
@run_filters
@json_flag
def du(out: str, selects: RunFilter, filters: str, as_json: bool) -> None:
    """Show the disk space used by runs, by kind of content. The largest runs come first.

    Each size is the total size of the files. WORKSPACE is the final state of workspaces, AGENT is the conversations
    and logs of agents, and RECORDS is run.json, attempts.jsonl and tags.
    """
    runs = selected_runs(Path(out), selects, filters, as_json=as_json)
    measured = [(run, measure(run.directory)) for run in runs]
    measured.sort(key=lambda pair: -pair[1].total)
    if as_json:
        print_json(
            [
                {
                    "directory": str(run.directory),
                    "run_id": run.run_id,
                    "short_name": run.short_name,
                    "bytes": sizes.total,
                    "files": sizes.files,
                    "by_kind": dict(sizes.by_kind),
                }
                for run, sizes in measured
            ]
        )
    elif measured:
        rows = [
            (run.short_name, size_text(s.total), str(s.files), *(size_text(s.by_kind[kind]) for kind in KINDS))
            for run, s in measured
        ]
        heads = ("NAME", "SIZE", "FILES", *(kind.upper() for kind in KINDS))
        print_table(heads, rows, optional=("OTHER", "RECORDS", "REPORTS", "FILES", "DIFFS", "LOGS"))
        say()
        say(f"{quantity(len(runs), 'run')}, {size_text(sum(sizes.total for _, sizes in measured))}")
    left = leftovers(Path(out))
    if left:
        size = size_text(sum(measure(path).total for path in left))
        say(f"note: interrupted commands left {size} of files behind. To delete them: agentbench runs prune", err=True)
