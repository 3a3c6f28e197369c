"""Virtual environments of tasks. Packages are copied from the running interpreter, without network access."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions as find_distributions
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WORKSPACE_VARIABLE = "AGENTBENCH_WORKSPACE"
WORKSPACE_PTH = "0-agentbench-workspace.pth"
LAUNCHER = """\
#!/bin/sh
'''exec' '{python}' "$0" "$@"
' '''
import sys
from {module} import {attribute}
if __name__ == "__main__":
    sys.exit({call}())
"""


class VirtualEnv:
    """An existing virtual environment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def bin_dir(self) -> Path:
        """The directory of its commands."""
        return self.path / "bin"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.bin_dir / "python"

    @property
    def site_packages(self) -> Path:
        """The directory that contains its distributions."""
        return next(self.path.glob("lib/python3*/site-packages"))

    def names(self) -> set[str]:
        """Names of its distributions."""
        result = find_distributions(path=[str(self.site_packages)])
        return {canonicalize_name(name) for distribution in result if (name := distribution.metadata["Name"])}

    def copy_in(self, dist: Distribution) -> None:
        """Copy a distribution of the running interpreter, including compiled files, and write its commands."""
        site_packages = self.site_packages
        made: set[Path] = set()
        for file in dist.files or ():
            if ".." in file.parts:
                continue  # commands are written below because they contain the path of their interpreter
            target = site_packages / file
            if target.parent not in made:
                target.parent.mkdir(parents=True, exist_ok=True)
                made.add(target.parent)
            with contextlib.suppress(FileNotFoundError):  # compiled files may be listed but missing
                shutil.copy2(str(dist.locate_file(file)), target)
        for entry in dist.entry_points.select(group="console_scripts"):
            script = self.bin_dir / entry.name
            attribute = entry.attr.split(".")[0]
            script.write_text(
                LAUNCHER.format(python=self.python, module=entry.module, attribute=attribute, call=entry.attr)
            )
            script.chmod(0o755)

    def follow_workspace(self, prepared: Path) -> tuple[str, ...]:
        """Make editable installations (``pip install -e``) import from the workspace of each attempt.

        Such an installation contains the path of the prepared tree, but every attempt works on a fork, so its
        tests would import the unfixed code. A ``.pth`` file that is read first puts the fork first. Return the paths
        that it adds, relative to the workspace.
        """
        roots = sorted({*self._linked(prepared), *self._mapped(prepared)})
        relative = tuple(root.relative_to(prepared).as_posix() for root in roots)
        if relative:
            suffixes = tuple("" if path == "." else f"/{path}" for path in relative)
            # One line without comprehensions: those would not see names assigned in the line.
            line = f"import os, sys; w = os.environ.get({WORKSPACE_VARIABLE!r}); "
            line += f"w and sys.path.extend(map(w.__add__, {suffixes!r}))\n"
            (self.site_packages / WORKSPACE_PTH).write_text(line)
        return relative

    def _linked(self, prepared: Path) -> Iterator[Path]:
        """Directories in the prepared tree that ``.pth`` files refer to."""
        for pth in self.site_packages.glob("*.pth"):
            for line in pth.read_text(errors="replace").splitlines():
                path = Path(line.strip())
                if path.is_absolute() and path.is_relative_to(prepared):
                    yield path

    def _mapped(self, prepared: Path) -> Iterator[Path]:
        """Parent directories of the packages that import hooks of editable installations refer to."""
        for finder in self.site_packages.glob("__editable__*.py"):
            for quoted in re.findall(r"""(["'])(.*?)\1""", finder.read_text(errors="replace")):
                path = Path(quoted[1])
                if path.is_relative_to(prepared) and path != prepared:
                    yield path.parent


def bundled_pip() -> tuple[Distribution, ...]:
    """The distributions that ``venv`` would install, from the running interpreter; empty if it lacks any.

    Copying them takes 0.3 s; installing them would take 5 s.
    """
    names = ("pip", "setuptools") if sys.version_info < (3, 12) else ("pip",)
    try:
        results = tuple(distribution(name) for name in names)
    except PackageNotFoundError:
        return ()
    return results if all(dist.files for dist in results) else ()


def pytest_closure(python_version: str) -> dict[str, Distribution]:
    """pytest and its dependencies for that Python version, by name, if the running interpreter has them."""
    environment = {
        **{name: str(value) for name, value in default_environment().items()},
        "python_version": ".".join(python_version.split(".")[:2]),
        "python_full_version": python_version,
        "extra": "",
    }
    results: dict[str, Distribution] = {}
    pending = ["pytest"]
    while pending:
        name = canonicalize_name(pending.pop())
        if name in results:
            continue
        try:
            results[name] = distribution(name)
        except PackageNotFoundError:
            continue
        for text in results[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate(environment):
                pending.append(requirement.name)
    return results
