"""Installs packages as of a date, with the environment's Python, which runs this file.

The argument is a JSON object: ``date`` (ISO 8601), ``requirements`` and ``constraints`` (lists of requirements), and
``project``, which is null or an object: ``extras`` of the project in the current directory, and environment
``variables`` for its build. The dependencies of the project are installed, but not the project itself.

The pip of the environment may be too old for ``--uploaded-prior-to``, so another version is downloaded for this
command. Local directories and ``file:`` indexes are not used: they contain no upload times, and pip would install their
newest packages. Other settings of pip that the user made for the index apply.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PIP = "pip>=26.0"  # the first with --uploaded-prior-to
KEPT = (
    *("index-url", "extra-index-url", "trusted-host", "cert", "client-cert", "proxy", "keyring-provider"),
    *("timeout", "retries", "cache-dir", "no-cache-dir"),
)
"""The pip settings that apply. Others, such as ``find-links``, ``constraint`` and ``pre``, are ignored."""


def settings() -> dict[str, str]:
    """The user's settings for `pip install`, from files and environment variables."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}  # later ones take precedence
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            found[section][key] = str(ast.literal_eval(value))
    return {key: value for values in found.values() for key, value in values.items() if value.strip()}


def variables(configured: dict[str, str]) -> dict[str, str]:
    """Environment variables for pip. Ends the program if the index has no upload times."""
    kept = {key: value for key, value in configured.items() if key in KEPT}
    index = kept.get("index-url", "")
    if index and not remote(index):
        sys.exit(
            f"error: the package index {index} does not provide upload times; configure one that is served by HTTP"
        )
    if configured.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        sys.exit("error: pip is configured with no-index, and local files do not provide upload times")
    if "extra-index-url" in kept:
        kept["extra-index-url"] = " ".join(each for each in kept["extra-index-url"].split() if remote(each))
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    own.update({"PIP_" + key.upper().replace("-", "_"): value for key, value in kept.items() if value})
    return {**own, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def remote(url: str) -> bool:
    """Whether an index is served by HTTP."""
    return url.lower().startswith(("http://", "https://"))


class Installer:
    """Runs pip with the settings in ``environment``; temporary files are in ``directory``."""

    def __init__(self, environment: dict[str, str], directory: Path) -> None:
        self.environment = environment
        self.directory = directory
        self.tool = directory / "tool"  # the newer pip

    def install(self, wanted: dict[str, Any]) -> None:
        """Install the requested packages. Ends the program if that fails."""
        download = ("install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(self.tool), PIP)
        if self.run("-m", "pip", *download):
            sys.exit(f"error: the package index has no {PIP}, which is needed to select packages by date")
        date = ("--quiet", "--uploaded-prior-to", wanted["date"])
        lines = list(wanted["requirements"])
        if wanted["project"]:
            lines += self.dependencies(date, **wanted["project"])
        files = ["-r", self.write("requirements.txt", lines)]
        if wanted["constraints"]:
            files += ["-c", self.write("constraints.txt", wanted["constraints"])]
        # Packages in the image may be newer than the date; only --force-reinstall replaces them.
        self.check(str(self.tool / "pip"), "install", *date, "--no-warn-script-location", "--force-reinstall", *files)

    def dependencies(self, date: tuple[str, ...], extras: list[str], variables: dict[str, str]) -> list[str]:
        """The dependencies of the project, according to its build backend.

        Only this command gets ``variables``: they would also apply to dependencies that are built from source.
        """
        report = self.directory / "report.json"
        options = ("--dry-run", "--no-deps", "--ignore-installed", "--report", str(report), "-e", ".")
        self.check(str(self.tool / "pip"), "install", *date, *options, **variables)
        (project,) = json.loads(report.read_text(encoding="utf-8"))["install"]
        sys.path.insert(0, str(self.tool))
        from pip._vendor.packaging.requirements import Requirement  # the environment may not have packaging
        from pip._vendor.packaging.utils import canonicalize_name

        found = []
        for line in project["metadata"].get("requires_dist", []):
            required = Requirement(line)
            marker, required.marker = required.marker, None
            own = canonicalize_name(required.name) == canonicalize_name(project["metadata"]["name"])
            if not own and (marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))):
                found.append(str(required))
        return found

    def check(self, *command: str, **variables: str) -> None:
        """Run Python, and end the program if that fails."""
        if code := self.run(*command, **variables):
            sys.exit(code)

    def run(self, *command: str, **variables: str) -> int:
        """Run Python, and return its exit code."""
        return subprocess.run([sys.executable, *command], check=False, env={**self.environment, **variables}).returncode

    def write(self, name: str, lines: list[str]) -> str:
        """Write a file and return its path."""
        path = self.directory / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)


def main() -> None:
    """Run as a program."""
    environment = variables(settings())
    with tempfile.TemporaryDirectory() as directory:
        Installer(environment, Path(directory)).install(json.loads(sys.argv[1]))


if __name__ == "__main__":
    main()
