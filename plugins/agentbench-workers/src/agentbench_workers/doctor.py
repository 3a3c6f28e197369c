"""``agentbench worker doctor``: what this machine can do as a worker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import dump, size_text
from agentbench_core.harness import (
    App,
    Check,
    check_sandboxes,
    machine_checks,
    plugin_checks,
    print_checks,
    print_json,
    say,
)
from agentbench_workers.node import Node, this_node
from agentbench_workers.programs import Program, programs_of

_NONE = (
    Check(
        "sandbox",
        "failed",
        "none installed; attempts require one",
        "Install a plugin that registers one; see: agentbench plugins list",
    ),
)


def show(app: App, names: Collection[str], *, as_json: bool) -> int:
    """Print what this machine can do.

    Returns the exit code: 1 if no sandbox can be used, or one of ``names`` cannot.
    """
    sandboxes = check_sandboxes(app, names)  # first, since unknown names are errors
    node, programs = this_node(app), programs_of(app)
    others = [*machine_checks(), *plugin_checks(app)]
    usable = [name for name, checks in sandboxes.items() if all(check.status != "failed" for check in checks)]
    if as_json:
        print_json(_as_data(node, others, sandboxes, usable, programs))
    else:
        of_sandboxes = [
            attrs.evolve(check, status="warning") if check.status == "failed" and usable and not names else check
            for checks in sandboxes.values() or [_NONE]
            for check in checks
        ]
        print_checks([*_of_node(node), *others, *of_sandboxes, *map(_check, programs)])
        say(f"usable sandboxes: {', '.join(usable) or 'none'}")
    return 0 if usable and (not names or len(usable) == len(sandboxes)) else 1


def _of_node(node: Node) -> Sequence[Check]:
    distributions = sorted({f"{plugin.distribution} {plugin.version}" for plugin in node.plugins})
    return [
        Check("harness", "ok", node.harness),
        Check("plugins", "ok", ", ".join(distributions)),
        Check("system", "ok", node.platform),
        Check("cpus", "ok", f"{node.cpus:g}"),
        Check("memory", "ok", size_text(node.memory_bytes)),
    ]


def _check(program: Program) -> Check:
    """A program that cannot be used is only a warning, since few runs need it."""
    name = f"program {program.agent}"
    if program.problem:
        return Check(name, "warning", program.problem, program.remedy)
    return Check(name, "ok", " ".join(program.identity.values()))


def _as_data(
    node: Node,
    others: Sequence[Check],
    sandboxes: Mapping[str, Sequence[Check]],
    usable: Collection[str],
    programs: Sequence[Program],
) -> Mapping[str, Any]:
    return {
        **dump(node),
        "checks": _rows(others),
        "sandboxes": [
            {"name": name, "usable": name in usable, "checks": _rows(checks)} for name, checks in sandboxes.items()
        ],
        "programs": [dump(program) for program in programs],
    }


def _rows(checks: Sequence[Check]) -> Sequence[Mapping[str, str]]:
    return [{key: getattr(check, key) for key in ("name", "status", "detail", "remedy")} for check in checks]
