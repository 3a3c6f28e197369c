"""``agentbench runs tag``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentbench_core import InputError
from agentbench_core.harness import RUN, Redactor, json_flag, parse_tag, print_json, read_tags, say, write_tags


@click.command()
@click.argument("run_dir", metavar="RUN", type=RUN)
@click.argument("changes", metavar="[KEY=VALUE|KEY-]...", nargs=-1)
@json_flag
def tag(run_dir: Path, changes: tuple[str, ...], as_json: bool) -> None:
    """Add tags to a run, or remove them, and print its tags.

    \b
    agentbench runs tag latest ticket=42 reviewed=yes
    agentbench runs tag latest reviewed-

    KEY=VALUE adds a tag or replaces its value, and KEY- removes it. Tags are stored separately from the evidence and
    can be changed at any time.
    """
    from agentbench_core import open_run

    open_run(run_dir)  # nothing is written to a directory that is not a run
    tags = dict(read_tags(run_dir))
    redactor = Redactor(os.environ)
    for change in changes:
        if "=" not in change and change.endswith("-"):
            if tags.pop(change[:-1], None) is None:
                raise InputError(
                    f"{run_dir} has no tag {change[:-1]!r}", remedy=f"Its tags: {', '.join(tags) or 'none'}."
                )
            continue
        key, value = parse_tag(change)
        tags[key] = redactor.clean_text(value)
    if changes:
        try:
            write_tags(run_dir, tags)
        except OSError as error:
            raise InputError(f"cannot write the tags of {run_dir}: {error.strerror}") from None
    if as_json:
        print_json(dict(read_tags(run_dir)))
        return
    for key, value in read_tags(run_dir).items():
        say(f"{key}={value}")
