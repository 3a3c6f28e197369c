"""Installs packages as of a date, with the Python that runs this file, which is that of the environment.

The argument is a JSON object: ``date`` (ISO 8601), ``requirements`` and ``constraints`` (lists of requirements) and
``project`` (``.`` with extras, to include the project in the current directory with its dependencies, or ``""``).

The pip of the environment may be too old for ``--uploaded-prior-to``, so another one is downloaded for this command.
Local directories and ``file:`` indexes contain no upload times, and pip would install their newest packages: they are
not used. Other settings of pip that the user made for the index apply.
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
"""Settings of pip that apply. No others do, such as ``find-links``, ``constraint`` or ``pre``."""


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


def install(wanted: dict[str, Any], environment: dict[str, str], directory: Path) -> int:
    """Install what is wanted, and return the exit code of pip."""

    def run(*command: str) -> int:
        return subprocess.run([sys.executable, *command], check=False, env=environment).returncode

    def write(name: str, lines: list[str]) -> str:
        path = directory / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    tool = directory / "tool"
    if run("-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(tool), PIP):
        print(f"error: the package index has no {PIP}, which selects packages by date", file=sys.stderr)
        return 1
    arguments = ["--uploaded-prior-to", wanted["date"], "-r", write("requirements.txt", wanted["requirements"])]
    if wanted["constraints"]:
        arguments += ["-c", write("constraints.txt", wanted["constraints"])]
    if wanted["project"]:
        arguments += ["-e", wanted["project"]]
    # Packages that the image already has may be younger than the date; only --force-reinstall replaces them.
    return run(str(tool / "pip"), "install", "--quiet", "--no-warn-script-location", "--force-reinstall", *arguments)


def main() -> int:
    """Run as a program."""
    with tempfile.TemporaryDirectory() as directory:
        return install(json.loads(sys.argv[1]), variables(settings()), Path(directory))


if __name__ == "__main__":
    sys.exit(main())
