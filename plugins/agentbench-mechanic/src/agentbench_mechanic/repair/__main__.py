"""``python -m repair [TESTS...]``: find a change that makes failing tests pass, and print it as a unified diff.

Works on copies of the current directory. Prints lines that start with ``repair:``, and a diff between two markers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .search import Search

BEGIN, END = "repair: the change begins", "repair: the change ends"


def main(arguments: list[str]) -> int:
    """Search for a change, and return the exit code: 0 if one was found."""
    parser = argparse.ArgumentParser(prog="repair")
    parser.add_argument("tests", nargs="*", help="pytest arguments")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit")
    parser.add_argument(
        "--skip", type=int, default=0, help="number of candidates to skip because they were already tried"
    )
    parser.add_argument("--parallel", type=int, default=2, help="number of processes")
    options = parser.parse_args(arguments)
    with Search(Path.cwd(), options.tests, options.seconds, options.parallel) as search:
        diff = search.find(options.skip)
    for line in search.messages:
        print(f"repair: {line}")
    if diff:
        print(f"{BEGIN}\n{diff}{END}")
    return 0 if diff else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
