"""``agentbench config show``: settings with their origins."""

from __future__ import annotations

import click
import yaml

from agentbench_core.cli.app import App, print_json, print_table, say
from agentbench_core.cli.flags import json_flag, settings_flags
from agentbench_core.cli.variants import resolved_variants
from agentbench_core.converter import dump
from agentbench_core.run.variant import default_options


@click.command("show")
@settings_flags
@json_flag
@click.pass_obj
def show_config(app: App, /, as_json: bool, **typed: object) -> None:
    """Show every setting that `run` would use with the same flags, with its value and origin.

    \b
    agentbench config show --variant baseline --set limits.max_steps=10

    Precedence, lowest first: defaults, model preset, agentbench.toml, variant, flags.
    """
    selected = resolved_variants(app, typed)
    variants = {
        name: dict(sorted({**resolved.leaves, **default_options(resolved, app.registry)}.items()))
        for name, resolved in selected.variants.items()
    }
    if as_json:
        print_json({name: dump(leaves) for name, leaves in variants.items()})
        return
    for name, leaves in variants.items():
        say(f"variant {name}")
        rows = [(key, _written(leaf.value), leaf.origin) for key, leaf in leaves.items()]
        print_table(("SETTING", "VALUE", "ORIGIN"), rows)
        say()


def _written(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()
