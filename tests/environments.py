"""Clean virtual environments with this project's distributions, installed from built files.

Everything is built once per test session, even by parallel test processes: they share a directory guarded by a lock.
A test module defines a fixture for the environment that it needs::

    @pytest.fixture(scope="module")
    def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
        return environment(tmp_path_factory, "outline", "agentbench-outline", "agentbench-mechanic")

Mark such tests with ``index``: third-party dependencies come from a package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest
from filelock import FileLock
from packaging.requirements import Requirement

import agentbench_core

ROOT = Path(agentbench_core.__file__).parent.parent

_PASSED_ON = ("HOME", "LANG", "PATH", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE", "DOCKER_HOST")
"""Variables that a user's shell would have as well, none of which refers to this checkout."""
_UV = {
    "UV_CACHE_DIR": str(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "uv"),
    **({"UV_DEFAULT_INDEX": os.environ["PIP_INDEX_URL"]} if "PIP_INDEX_URL" in os.environ else {}),
    **os.environ,
}
"""Variables for uv: this machine's cache, even in tests that set another one, and the index configured for pip."""


@attrs.frozen(kw_only=True)
class Distribution:
    """A built distribution of this project. ``source`` is the copy that it was built from."""

    name: str
    source: Path
    wheel: Path
    sdist: Path


@attrs.frozen(kw_only=True)
class Environment:
    """A virtual environment with only the requested distributions, not even pip."""

    root: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.root / "bin/python"

    def run(
        self, program: str, *arguments: str, cwd: Path | None = None, seconds: float = 300, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment with a minimal set of variables plus ``variables``."""
        paths = os.pathsep.join([str(self.root / "bin"), os.environ.get("PATH", os.defpath)])
        known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # Keep bytecode out of the sources, because other tests read them.
        compiled = f"{self.root}-compiled"
        return subprocess.run(
            [str(self.root / "bin" / program), *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=cwd,
            env={**known, "PATH": paths, "VIRTUAL_ENV": str(self.root), "PYTHONPYCACHEPREFIX": compiled, **variables},
        )


def built(places: pytest.TempPathFactory) -> Mapping[str, Distribution]:
    """Build wheel and sdist of every distribution, from a copy of the files that git would track."""
    place = _shared(places) / "built"
    with FileLock(f"{place}.lock"):
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            _copy_checkout(place / "checkout")
            for source in _sources(place / "checkout"):
                build(source, place / "dist" / source.name)
            (place / "complete").touch()
    return {each.name: each for each in map(_distribution, _sources(place / "checkout"))}


def build(source: Path, into: Path, *targets: str) -> None:
    """Build sdist and wheel of the distribution at ``source``, or only ``targets``, with the installed hatchling."""
    chosen = [part for target in targets for part in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(into), *chosen]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def environment(places: pytest.TempPathFactory, name: str, *requirements: str) -> Environment:
    """Create the environment ``name``, or reuse the one that another test created.

    Args:
        places: factory of the session's temporary directories.
        name: name of the environment; all tests must use it with the same requirements.
        requirements: pip requirements. Distributions of this project, with or without extras, are installed from the
            built wheels, even as dependencies; everything else comes from the index. uv installs them, because it
            takes a tenth of pip's time.
    """
    root = _shared(places) / f"environment-{name}"
    made_of = root / "made-of.txt"
    wheels = {each.name: each.wheel.as_uri() for each in built(places).values()}
    with FileLock(f"{root}.lock"):
        if not made_of.exists():
            shutil.rmtree(root, ignore_errors=True)
            uv("venv", "--python", sys.executable, str(root))
            constraints = root / "constraints.txt"
            constraints.write_text("".join(f"{own} @ {uri}\n" for own, uri in wheels.items()))
            wanted = [_from_wheel(each, wheels) for each in requirements]
            uv("pip", "install", "--python", str(root), "--constraint", str(constraints), *wanted)
            made_of.write_text("\n".join(requirements))
    assert made_of.read_text() == "\n".join(requirements), f"two environments have the name {name}"
    return Environment(root=root)


def _from_wheel(requirement: str, wheels: Mapping[str, str]) -> str:
    """Point a requirement at our wheel, since constraints do not apply to requirements with extras."""
    asked = Requirement(requirement)
    if asked.name not in wheels:
        return requirement
    extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
    return f"{asked.name}{extras} @ {wheels[asked.name]}"


def uv(*arguments: str) -> None:
    """Run uv with the user's configuration."""
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=_UV)
    assert done.returncode == 0, done.stderr


def _shared(places: pytest.TempPathFactory) -> Path:
    """Return a directory shared by all test processes of this session."""
    own = places.getbasetemp()
    return own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own


def _copy_checkout(into: Path) -> None:
    """Copy all files that git tracks or would track; ignored files are left out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, into / name
        if source.is_file():  # deleted, but the deletion is not committed yet
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def _sources(checkout: Path) -> Iterator[Path]:
    yield checkout
    for wing in ("plugins", "examples"):
        yield from sorted(project.parent for project in checkout.glob(f"{wing}/*/pyproject.toml"))


def _distribution(source: Path) -> Distribution:
    name: str = tomllib.loads((source / "pyproject.toml").read_text())["project"]["name"]
    place = next(parent for parent in source.parents if parent.name == "built") / "dist" / source.name
    (wheel,), (sdist,) = place.glob("*.whl"), place.glob("*.tar.gz")
    return Distribution(name=name, source=source, wheel=wheel, sdist=sdist)
