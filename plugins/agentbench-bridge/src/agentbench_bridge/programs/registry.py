"""Downloads packages with the user's own npm and pip, and checks their hashes. No code of a package is run."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentbench_bridge.programs.unpack import unpack
from agentbench_bridge.programs.versions import Build, Wanted, interpreters
from agentbench_core import UnavailableError

_SECONDS = 1800.0
_ALGORITHMS = ("sha512", "sha384")
_MOST_LINES = 8
_UNIMPORTANT = re.compile(r"npm (notice|warn)|WARNING", re.IGNORECASE)
_PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_5")
_PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}
_STARTER = """\
#!/bin/sh
# Python's standard library and the packages of this program, and no others: without PYTHONPATH, and without what is
# installed for the project. Processes that it starts do not inherit the path of its packages.
for python in INTERPRETERS; do
    command -v "$python" >/dev/null &&
        exec "$python" -I -S -B -c 'import os, sys
here = sys.argv.pop(1)
libraries = (here + "/lib-%d.%d" % sys.version_info[:2], here + "/lib")
sys.path[:0] = [library for library in libraries if os.path.isdir(library)]
START' "${0%/bin/*}" "$@"
done
echo "no python VERSION" >&2
exit 127
"""


def fetch(wanted: Wanted, into: Path) -> tuple[str, str]:
    """Download and unpack a program. Returns the package and its hash. Raises UnavailableError."""
    build = wanted.build
    return _fetch_wheels(wanted, build, into) if build.requirements else _fetch_npm(wanted, build, into)


def _fetch_npm(wanted: Wanted, build: Build, into: Path) -> tuple[str, str]:
    package = build.package.replace("{version}", wanted.version)
    integrity = wanted.integrity or _stated_integrity(package)
    with tempfile.TemporaryDirectory(prefix="agentbench-npm-") as temporary:
        _run("npm", ["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", temporary, package], package)
        archives = list(Path(temporary).glob("*.tgz"))
        if len(archives) != 1:
            raise UnavailableError(f"npm did not download {package}", remedy="Check your npm settings.")
        check_integrity(archives[0], integrity, package)
        unpack(archives[0], into)
    return package, integrity


def _stated_integrity(package: str) -> str:
    """The hash of a package in the registry."""
    answer = _run("npm", ["view", package, "dist.integrity", "--json"], package)
    try:
        integrity = json.loads(answer or '""')
    except ValueError:
        integrity = None
    if not isinstance(integrity, str) or not integrity:
        raise UnavailableError(f"{package} or its hash was not found in the npm registry", remedy="Check the version.")
    return integrity


def check_integrity(archive: Path, integrity: str, package: str) -> None:
    """Raise UnavailableError unless the archive has one of the hashes of an ``integrity`` value (W3C SRI)."""
    for entry in integrity.split():
        algorithm, _, expected = entry.partition("-")
        if algorithm in _ALGORITHMS:
            with archive.open("rb") as file:
                found = base64.b64encode(hashlib.file_digest(file, algorithm).digest()).decode()
            if found == expected.partition("?")[0]:
                return
    raise UnavailableError(
        f"the downloaded package {package} does not have the expected hash {integrity}",
        remedy="It was damaged or replaced during the download. Try again, and check your registry.",
    )


def _fetch_wheels(wanted: Wanted, build: Build, into: Path) -> tuple[str, str]:
    if not wanted.is_default:
        raise UnavailableError(
            f"only version {wanted.known.version} of {wanted.name} can be installed, because its packages are pinned",
            remedy="For other versions, unpack the program yourself and pass its directory: --set agent.program=DIR",
        )
    first, *others = build.python.split()
    _install_wheels(build.requirements, first, into / "lib", wanted)
    if others and (compiled := _only(_compiled(into / "lib"), build.requirements)):
        with ThreadPoolExecutor() as pool:  # these precede the ones in lib, which are for the first version
            list(pool.map(lambda one: _install_wheels(compiled, one, into / f"lib-{one}", wanted), others))
    starter = into / build.entry
    starter.parent.mkdir()
    text = _STARTER.replace("INTERPRETERS", interpreters(build.python))
    text = text.replace("VERSION", " or ".join(build.python.split())).replace("START", build.start)
    starter.write_text(text, encoding="utf-8")
    for path in (into, *into.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path == starter else 0o644)
    return f"{wanted.name}=={wanted.version} and its dependencies, from the Python package index", wanted.integrity


def _install_wheels(requirements: str, python: str, into: Path, wanted: Wanted) -> None:
    """Unpack wheels for a version of Python. pip does not run any code from wheels."""
    machine = platform.machine().lower()
    with tempfile.TemporaryDirectory(prefix="agentbench-pip-") as temporary:
        file = Path(temporary, "requirements.txt")
        file.write_text(requirements, encoding="utf-8")
        tags = [f"{tag}_{_PROCESSORS.get(machine, machine)}" for tag in _PLATFORMS]
        words = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
        words += ["--only-binary", ":all:", "--no-compile", "--require-hashes", "--requirement", str(file)]
        words += ["--target", str(into), "--python-version", python, "--implementation", "cp"]
        _run("pip", [*words, *(word for tag in tags for word in ("--platform", tag))], wanted.shown)


def _compiled(library: Path) -> set[str]:
    """The normalized names of the packages whose wheels support only one version of Python."""
    found = set()
    for file in library.glob("*.dist-info/WHEEL"):
        tags = re.findall(r"^Tag: ([^-]+)-([^-]+)-", file.read_text(encoding="utf-8"), re.MULTILINE)
        if tags and all(python.startswith("cp") and abi != "abi3" for python, abi in tags):
            found.add(re.sub(r"[-_.]+", "-", file.parent.name.partition("-")[0]).lower())
    return found


def _only(projects: Collection[str], requirements: str) -> str:
    """The lines of some projects in requirements with normalized names."""
    blocks = re.split(r"\n(?=\S)", requirements.strip())
    return "".join(f"{block}\n" for block in blocks if block.partition("==")[0] in projects)


def _client(name: str, package: str) -> Sequence[str]:
    """The command of the user's npm or pip."""
    if name == "pip" and importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if path := shutil.which(name):
        return [path]
    raise UnavailableError(
        f"{name}, which downloads {package}, was not found",
        remedy=f"Install {name}, or unpack the program yourself and pass its directory: --set agent.program=DIR",
    )


def _run(name: str, words: Sequence[str], package: str) -> str:
    """The output of a package client, in an empty directory, so that it reads no configuration of a project."""
    client = _client(name, package)
    with tempfile.TemporaryDirectory(prefix="agentbench-empty-") as empty:
        # otherwise npm would search parent directories for a project, and others may control them, as in /tmp
        prefix = ["--prefix", empty] if name == "npm" else []
        try:
            done = subprocess.run(
                [*client, *words, *prefix],
                cwd=empty,
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="replace",
                timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{name} did not download {package} within {_SECONDS:g} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if not _UNIMPORTANT.match(line)]
        raise UnavailableError(
            f"{name} cannot download {package}:\n" + "\n".join(lines[:_MOST_LINES]),
            remedy="Check the version and your registry settings.",
        )
    return done.stdout
