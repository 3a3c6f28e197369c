"""Clean virtual environments with this project's distributions, installed from built files.

Everything is made once per test session, also when several processes run the tests: they share a directory, and a
lock says who works in it. A test module takes what it needs by a fixture of its own::

    @pytest.fixture(scope="module")
    def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
        return environment(tmp_path_factory, "outline", "agentbench-outline", "agentbench-mechanic")

Such tests have the marker ``index``: what our distributions depend on comes from a package index.
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
"""Variables that a user's own shell would have too; nothing that points back into this checkout."""
_UV = {
    "UV_CACHE_DIR": str(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "uv"),
    **({"UV_DEFAULT_INDEX": os.environ["PIP_INDEX_URL"]} if "PIP_INDEX_URL" in os.environ else {}),
    **os.environ,
}
"""For uv: the cache of this machine, also within a test that has another one, and the index that pip is told."""


@attrs.frozen(kw_only=True)
class Distribution:
    """One distribution of this project, built. ``source`` is the copy that it was built from."""

    name: str
    source: Path
    wheel: Path
    sdist: Path


@attrs.frozen(kw_only=True)
class Environment:
    """A virtual environment that has what it was asked for and nothing else; not even pip."""

    root: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "bin/python"

    def run(
        self, program: str, *arguments: str, cwd: Path | None = None, seconds: float = 300, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs; ``variables`` are added to an environment that knows nothing of ours."""
        paths = os.pathsep.join([str(self.root / "bin"), os.environ.get("PATH", os.defpath)])
        known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # Sources stay as they were built, since others look at them, too: what is compiled lies beside them.
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
    """Wheel and sdist of every distribution in this checkout by name, built from a copy of what git would keep."""
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
    """Build sdist and wheel of the distribution at ``source``, or only some ``targets``, by the installed hatchling."""
    chosen = [part for target in targets for part in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(into), *chosen]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def environment(places: pytest.TempPathFactory, name: str, *requirements: str) -> Environment:
    """Make the environment ``name``, or take it as another test made it.

    Args:
        places: where the session keeps its files.
        name: of the environment; one name stands for the same requirements everywhere.
        requirements: as pip takes them. Distributions of this project are named, extras too, and come from the built
            wheels, also where others depend on them; what else is needed comes from the index. uv installs them, which
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
    """The same with the wheel of our own that is meant: where extras are asked for, constraints alone do not hold."""
    asked = Requirement(requirement)
    if asked.name not in wheels:
        return requirement
    extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
    return f"{asked.name}{extras} @ {wheels[asked.name]}"


def uv(*arguments: str) -> None:
    """Run uv, as its user has configured it."""
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=_UV)
    assert done.returncode == 0, done.stderr


def _shared(places: pytest.TempPathFactory) -> Path:
    """A directory that all processes of this session have in common."""
    own = places.getbasetemp()
    return own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own


def _copy_checkout(into: Path) -> None:
    """What a commit of everything would hold, and nothing that git ignores: caches, artifacts."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, into / name
        if source.is_file():  # it may be deleted and not yet committed
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
