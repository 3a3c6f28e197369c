"""``agentbench completion``: shell completion of commands, flags and names."""

from __future__ import annotations

import glob
from collections.abc import Callable
from pathlib import Path

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem, get_completion_class

from agentbench_core.cli.app import App, say
from agentbench_core.inputs.config import RunSettings
from agentbench_core.inputs.suite import TASK_FILE, suites
from agentbench_core.inputs.variants import variant_files
from agentbench_core.plugin.registry import ADVERSARY

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_INTO = {
    "bash": 'eval "$(agentbench completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(agentbench completion zsh)"    in ~/.zshrc, after compinit',
    "fish": "agentbench completion fish | source   in ~/.config/fish/config.fish",
}
_VARIABLE = "_AGENTBENCH_COMPLETE"


@click.command(epilog="\b\n" + "\n".join(f"{shell:5} {line}" for shell, line in _INTO.items()))
@click.argument("shell", type=click.Choice(sorted(_INTO)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script for commands, flags, and names of components, suites and variants."""
    kind = get_completion_class(shell)
    assert kind is not None, "click must support all offered shells"
    for name in ("agentbench", "ab"):
        say(kind(ctx.find_root().command, {}, name, _VARIABLE).source())


def names_of(*kinds: str, adversaries: bool = False) -> Completion:
    """Complete names of components of these kinds. Adversarial agents are completed only where they are expected."""

    def complete(ctx: click.Context, _: click.Parameter, prefix: str) -> list[CompletionItem]:
        components = [component for kind in kinds for component in App.of(ctx).registry.all(kind)]
        offered = [component for component in components if (ADVERSARY in component.capabilities) is adversaries]
        return [CompletionItem(c.name, help=c.summary) for c in offered if c.name.startswith(prefix)]

    return complete


def variants(ctx: click.Context, parameter: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete names of variants: from plugins and from files."""
    files = [CompletionItem(name) for name in variant_files() if name.startswith(prefix)]
    return [*names_of("variant")(ctx, parameter, prefix), *files]


def suite_names(ctx: click.Context, _: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete names of suites in the directory given by an earlier flag, or in the default one."""
    names = suites(Path(ctx.params.get("tasks") or RunSettings().tasks))
    return [CompletionItem(name) for name in names if name.startswith(prefix)]


def task_ids(ctx: click.Context, _: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete task ids of the suite given by an earlier flag, or of all suites."""
    root = Path(ctx.params.get("tasks") or ctx.params.get("root") or RunSettings().tasks)
    typed = ctx.get_parameter_source("suite") is not ParameterSource.DEFAULT and ctx.params.get("suite")
    files = root.glob(f"{glob.escape(typed or '') or '*'}/*/{TASK_FILE}")
    return [CompletionItem(name) for name in sorted({file.parent.name for file in files}) if name.startswith(prefix)]


def any_path(_ctx: click.Context, _: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Let the shell complete files and directories."""
    return [CompletionItem(prefix, type="file")]


def plugin_names(ctx: click.Context, _: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete plugin names."""
    names = [plugin.source.plugin for plugin in App.of(ctx).plugins.plugins]
    return [CompletionItem(name) for name in names if name.startswith(prefix)]
