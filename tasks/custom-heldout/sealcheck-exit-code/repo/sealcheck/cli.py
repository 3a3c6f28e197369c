"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sealcheck.manifest import ManifestError, read_manifest, write_manifest
from sealcheck.report import UNREADABLE, exit_code, line, summary
from sealcheck.verify import Finding, State, verify


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    arguments = _parser().parse_args(argv)
    code: int = arguments.command(arguments)
    return code


def seal(arguments: argparse.Namespace) -> int:
    """Write down what the files are now."""
    try:
        write_manifest(arguments.to, arguments.files)
    except OSError as error:
        print(f"sealcheck: {error}", file=sys.stderr)
        return UNREADABLE
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Compare files with what was written down."""
    everything: list[Finding] = []
    code = 0
    for path in arguments.manifests:
        try:
            entries = read_manifest(path)
        except ManifestError as error:
            print(f"sealcheck: {error}", file=sys.stderr)
            code = UNREADABLE
            continue
        findings = list(verify(entries, path.parent, arguments.only))
        for finding in findings:
            if not (arguments.quiet and finding.state is State.OK):
                print(line(path.name, finding))
        everything += findings
        code = exit_code(findings)
    print(summary(everything))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sealcheck", description="Notice files that changed.")
    commands = parser.add_subparsers(required=True)
    seal_parser = commands.add_parser("seal", help=seal.__doc__)
    seal_parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    seal_parser.add_argument("--to", required=True, type=Path, metavar="MANIFEST")
    seal_parser.set_defaults(command=seal)
    check_parser = commands.add_parser("check", help=check.__doc__)
    check_parser.add_argument("manifests", nargs="+", type=Path, metavar="MANIFEST")
    check_parser.add_argument("--only", default="*", metavar="PATTERN")
    check_parser.add_argument("--quiet", action="store_true")
    check_parser.set_defaults(command=check)
    return parser
