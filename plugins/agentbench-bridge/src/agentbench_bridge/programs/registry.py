"""Downloads packages with the user's own npm and pip, and checks their hashes. No code of a package is run."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentbench_bridge.programs.unpack import unpack
from agentbench_bridge.programs.versions import Build, Wanted
from agentbench_core import UnavailableError

_SECONDS = 1800.0
_ALGORITHMS = ("sha512", "sha384")
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_5_x86_64")
_STARTER = """\
#!/bin/sh
# The interpreter of the system, and not that of the project. It ignores PYTHONPATH, and passes nothing on.
for python in /usr/local/bin/python3 /usr/bin/python3 python3; do
    command -v "$python" >/dev/null &&
        exec "$python" -I -B -c "import sys; sys.path.insert(0, '${0%/bin/*}/lib'); START" "$@"
done
echo "no python3" >&2
exit 127
"""


def fetch(wanted: Wanted, into: Path) -> tuple[str, str]:
    """Download and unpack a program. Returns the package and its hash. Raises UnavailableError."""
    build = wanted.build
    return _fetch_wheels(wanted, build, into) if build.requirements else _fetch_npm(wanted, build, into)


def _fetch_npm(wanted: Wanted, build: Build, into: Path) -> tuple[str, str]:
    package = build.package.replace("{version}", wanted.version)
    integrity = build.integrity if wanted.is_default else ""
    if not integrity:
        integrity = str(json.loads(_run("npm", ["view", package, "dist.integrity", "--json"], package) or '""'))
    if not integrity:
        raise UnavailableError(f"the npm registry has no package {package}", remedy="Check the version.")
    with tempfile.TemporaryDirectory(prefix="agentbench-npm-") as temporary:
        _run("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", temporary, package], package)
        (archive,) = Path(temporary).glob("*.tgz")
        check_integrity(archive, integrity, package)
        unpack(archive, into)
    return package, integrity


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
        remedy="It was damaged or replaced on the way. Try again, and check your registry.",
    )


def _fetch_wheels(wanted: Wanted, build: Build, into: Path) -> tuple[str, str]:
    pinned = importlib.resources.files(__package__).joinpath(build.requirements).read_text(encoding="utf-8")
    if not wanted.is_default:
        raise UnavailableError(f"only the default version of {wanted.name} can be installed")
    with tempfile.TemporaryDirectory(prefix="agentbench-pip-") as temporary:
        requirements = Path(temporary, "requirements.txt")
        requirements.write_text(pinned, encoding="utf-8")
        platforms = [word for tag in _PLATFORMS for word in ("--platform", tag)]
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
        words += ["--only-binary", ":all:", "--no-compile", "--require-hashes", "--requirement", str(requirements)]
        words += ["--target", str(into / "lib"), "--python-version", build.python, "--implementation", "cp", *platforms]
        _run(sys.executable, words, wanted.shown)
    starter = into / build.entry
    starter.parent.mkdir()
    starter.write_text(_STARTER.replace("START", build.start), encoding="utf-8")
    for path in (into, *into.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path == starter else 0o644)
    integrity = f"sha256-{base64.b64encode(hashlib.sha256(pinned.encode()).digest()).decode()}"
    return f"{wanted.name}=={wanted.version} and its dependencies, from the Python package index", integrity


def _run(program: str, words: Sequence[str], package: str) -> str:
    """The output of a package client, in an empty directory, so that it reads no configuration of a project."""
    path = shutil.which(program)
    if path is None:
        raise UnavailableError(
            f"{program} was not found, which downloads {package}",
            remedy="Install it, or unpack the program yourself and pass its directory: --set agent.program=DIR",
        )
    with tempfile.TemporaryDirectory(prefix="agentbench-empty-") as empty:
        try:
            done = subprocess.run(
                [path, *words],
                cwd=empty,
                capture_output=True,
                check=False,
                text=True,
                timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{program} did not download {package} within {_SECONDS:g} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if not re.match(r"npm (notice|warn)|WARNING", line)]
        raise UnavailableError(
            f"{Path(program).name} cannot download {package}:\n" + "\n".join(lines[:8]),
            remedy="Check the version and your registry's settings.",
        )
    return done.stdout
