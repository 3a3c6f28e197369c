"""``agentbench completion``: what a shell needs to complete commands, flags and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from agentbench_core.cli.app import App, say

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
    """Print what makes SHELL complete commands, flags, and the names of components, suites and variants."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows the shells that are offered"
    say(kind(ctx.find_root().command, {}, "agentbench", _VARIABLE).source())


def names_of(kind: str) -> Completion:
    """Completes names of components of a kind."""

    def complete(ctx: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        components = App.of(ctx).registry.all(kind)
        return [CompletionItem(c.name, help=c.summary) for c in components if c.name.startswith(begun)]

    return complete


def names_among(find: Callable[[], Iterable[str]]) -> Completion:
    """Completes names that ``find`` gives; none where it fails, since nobody reads errors while typing."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(name) for name in sorted(find()) if name.startswith(begun)]
        except Exception:  # noqa: BLE001 - see above
            return []

    return complete
