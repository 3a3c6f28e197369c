"""``python -m repair [TESTS...]``: find a change that makes failing tests pass, and print it as a unified diff.

Works on copies of the current directory. What it prints is for somebody who reads only this: lines that begin with
``repair:``, and a diff between two marks.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .search import Search

BEGIN, END = "repair: the change begins", "repair: the change ends"


def main(arguments: list[str]) -> int:
    """Look for a change; 0 when there is one."""
    parser = argparse.ArgumentParser(prog="repair")
    parser.add_argument("tests", nargs="*", help="what pytest is to be given")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for everything")
    parser.add_argument("--skip", type=int, default=0, help="candidates that were tried before")
    parser.add_argument("--at-once", type=int, default=2, help="processes")
    chosen = parser.parse_args(arguments)
    with Search(Path.cwd(), chosen.tests, chosen.seconds, chosen.at_once) as search:
        found = search.look(chosen.skip)
    for line in search.told:
        print(f"repair: {line}")
    if found:
        print(f"{BEGIN}\n{found}{END}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
