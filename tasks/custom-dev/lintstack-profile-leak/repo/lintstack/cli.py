"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lintstack.errors import ConfigError
from lintstack.layers import read_file
from lintstack.resolver import Resolver, flatten


def main(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run a command; the exit code is 0, or 2 for a configuration that cannot be used."""
    arguments = _parser().parse_args(argv)
    try:
        resolver = Resolver(
            read_file(arguments.config),
            environment=os.environ if environment is None else environment,
            options=arguments.set,
        )
        lines = list(arguments.command(resolver, arguments))
    except ConfigError as error:
        print(f"lintstack: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


def show(resolver: Resolver, arguments: argparse.Namespace) -> Iterator[str]:
    """The settings, of each profile if any are named."""
    if not arguments.profiles:
        yield from _lines(resolver.settings())
    for profile in arguments.profiles:
        yield f"[{profile}]"
        yield from _lines(resolver.settings(profile))


def diff(resolver: Resolver, arguments: argparse.Namespace) -> Iterator[str]:
    """What differs between two profiles."""
    for name, values in resolver.differences(arguments.first, arguments.second).items():
        one, other = map(json.dumps, values)
        yield f"{name}: {one} -> {other}"


def _lines(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in flatten(settings).items():
        yield f"{name} = {json.dumps(value)}"


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", type=Path, default=Path("lintstack.toml"), metavar="FILE")
    common.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")

    parser = argparse.ArgumentParser(prog="lintstack", description="One configuration for several linters.")
    commands = parser.add_subparsers(required=True)
    show_parser = commands.add_parser("show", parents=[common], help=show.__doc__)
    show_parser.add_argument("profiles", nargs="*", metavar="PROFILE")
    show_parser.set_defaults(command=show)
    diff_parser = commands.add_parser("diff", parents=[common], help=diff.__doc__)
    diff_parser.add_argument("first", metavar="PROFILE")
    diff_parser.add_argument("second", metavar="PROFILE")
    diff_parser.set_defaults(command=diff)
    return parser
