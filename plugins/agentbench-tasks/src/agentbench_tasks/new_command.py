"""``agentbench tasks new``: a small working task as a starting point, or a task from a fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentbench_core.harness import App, Task, say, tasks_flag
from agentbench_tasks.mining.flags import work_flags
from agentbench_tasks.new_task import write_task


@click.command("new")
@click.argument("task_id")
@click.option("--suite", metavar="NAME", required=True, help="Suite for the task; created if it does not exist.")
@tasks_flag
@click.option("--repo", metavar="PATH|URL", default="", help="Create the task from a fix in this repository.")
@click.option("--fix", metavar="COMMIT", default="", help="The commit that fixed the bug, with its tests.")
@click.option(
    "--tests", metavar="PATH", multiple=True, help="Without --fix: test files, relative to --repo. Repeatable."
)
@click.option(
    "--patch", metavar="FILE", default="", help="Without --fix: the reference solution, as a patch for --base."
)
@click.option("--base", metavar="COMMIT", default="HEAD", help="Commit that --patch applies to. [default: HEAD]")
@click.option("--description", metavar="TEXT", default="", help="Description to use instead of the commit's message.")
@work_flags
@click.pass_obj
def new_task(
    app: App,
    /,
    task_id: str,
    suite: str,
    root: str,
    repo: str,
    fix: str,
    tests: tuple[str, ...],
    patch: str,
    base: str,
    description: str,
    **typed: Any,
) -> int:
    """Create a small working task as a starting point, or a validated task from a fix.

    \b
    agentbench tasks new my-task --suite my-suite
    agentbench tasks new rounding --suite shop --repo ~/src/shop --fix 1a2b3c4
    agentbench tasks new rounding --suite shop --repo ~/src/shop --tests tests/test_totals.py --patch fix.patch \\
        --description "Totals with a discount are one cent too low."

    With --repo, the tests of the fix are hidden, its other changes are the reference solution, and the task is
    validated in the sandbox, as `tasks mine` does. Options after --description only apply with --repo.
    """
    if repo:
        from agentbench_tasks.mining.single import Fix, new_from_fix

        named = Fix(repo=repo, commit=fix, tests=tests, patch=patch, base=base, description=description)
        return new_from_fix(app, task_id, suite, Path(root), named, typed)
    if fix or tests or patch or description:
        raise click.UsageError("--fix, --tests, --patch and --description require --repo")
    task: Task = write_task(Path(root), suite, task_id)
    say(f"created {task.directory}")
    say(f"try it: agentbench run-task --task {task.directory} --agent scripted")
    say(f"to write its test names to task.yaml: agentbench validate-tasks --suite {suite} --write")
    say(f"after editing repo/: agentbench tasks pin {task.directory}")
    return 0
