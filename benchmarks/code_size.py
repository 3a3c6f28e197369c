"""The size of the code: ``python benchmarks/code_size.py`` prints a line per distribution.

Only product code is counted: the Python files of each package, without tests and templates.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).parent.parent
SHORT = 60  # minimum lines of a file that needs no reason for its size


def packages() -> Iterator[tuple[str, Path]]:
    """Each distribution of this project, with the directory of its package."""
    for project in [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]:
        name: str = tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"]
        package = name.replace("-", "_")
        yield name, next(path for path in (project / package, project / "src" / package) if path.is_dir())


def main() -> None:
    """Print lines, files, the longest file, and the number of short files."""
    rows = []
    for name, package in packages():
        sizes = {path: len(path.read_text().splitlines()) for path in sorted(package.rglob("*.py"))}
        files = {path: lines for path, lines in sizes.items() if path.name != "__init__.py"}
        longest = max(files, key=files.__getitem__)
        short = sum(lines < SHORT for lines in files.values())
        rows.append((name, sum(sizes.values()), len(files), longest.relative_to(package), files[longest], short))
    total = ("all", sum(row[1] for row in rows), sum(row[2] for row in rows), "", "", sum(row[5] for row in rows))
    heads = ("distribution", "lines", "files", "longest file", "lines", f"under {SHORT} lines")
    print(tabulate([*rows, total], heads))


if __name__ == "__main__":
    main()
