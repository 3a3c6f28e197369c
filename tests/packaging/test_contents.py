"""The content and metadata of the wheels and sdists of all distributions."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from agentbench_core import __version__
from tests.environments import ROOT, Distribution, build, built

PROJECTS = [
    ROOT,
    *sorted(path.parent for group in ("plugins", "examples") for path in ROOT.glob(f"{group}/*/pyproject.toml")),
]
NAMES = [tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] for project in PROJECTS]
PYTHONS = ("3.11", "3.12", "3.13")
"""The versions that the tests were run with."""
OF_THE_SDIST = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
EASILY_FORGOTTEN = {
    "agentbench-core": (
        "agentbench_core/__init__.pyi",
        *(f"agentbench_core/builtin/prompts/system_v{version}.txt" for version in (1, 2)),
        *(f"agentbench_core/builtin/prompts/repair_loop_v{version}.toml" for version in (1, 2)),
    ),
    "agentbench-bridge": (
        "agentbench_bridge/programs/versions.toml",
        "agentbench_bridge/programs/mini-swe-agent.txt",
    ),
    "agentbench-docker": (
        *("agentbench_docker/image/Dockerfile", "agentbench_docker/image/requirements.txt"),
        *("agentbench_docker/inside/server.py", "agentbench_docker/inside/guard.py"),
    ),
    "agentbench-integrity": (
        "agentbench_integrity/scorer/inside/runner.py",
        "agentbench_integrity/scorer/inside/recorder.py",
    ),
    "agentbench-local": ("agentbench_local/supervise.py",),
    "agentbench-mechanic": ("agentbench_mechanic/repair/search.py",),
    "agentbench-outline": tuple(f"agentbench_outline/prompts/outline_first_v{version}.txt" for version in (1, 2)),
    "agentbench-report": (
        *("agentbench_report/html/templates/page.js", "agentbench_report/html/templates/page.css"),
        "agentbench_report/html/templates/page.html.j2",
    ),
    "agentbench-subagents": (
        "agentbench_subagents/prompts/reports_v1.json",
        *(f"agentbench_subagents/prompts/packer_v{version}.txt" for version in (1, 2)),
        *(f"agentbench_subagents/prompts/messages_v{version}.toml" for version in (1, 2)),
    ),
    "agentbench-testing": (
        *("agentbench_testing/__init__.pyi", "agentbench_testing/authoring/templates/agent/plugin.py.tmpl"),
        "agentbench_testing/authoring/templates/common/pyproject.toml.tmpl",
    ),
}
"""Files that are not modules, or that run in another process."""


@pytest.fixture(params=NAMES)
def distribution(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """Each distribution of this checkout."""
    return built(tmp_path_factory)[request.param]


def test_the_wheel_has_the_package_and_nothing_else(distribution: Distribution) -> None:
    """All files that git tracks, unchanged; no tests, and no caches."""
    packed = files_of(distribution.wheel)
    module = distribution.name.replace("-", "_")
    (package,) = (
        path for path in (distribution.source / module, distribution.source / "src" / module) if path.is_dir()
    )
    kept = {str(path.relative_to(package.parent)): path.read_bytes() for path in package.rglob("*") if path.is_file()}
    info = f"{module}-{version_of(distribution)}.dist-info/"
    assert {name: data for name, data in packed.items() if not name.startswith(info)} == kept
    assert {name.removeprefix(info) for name in packed if name.startswith(info)} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"),
    }
    assert packed[f"{info}licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert {f"{module}/py.typed", *EASILY_FORGOTTEN.get(distribution.name, ())} <= packed.keys()


def test_its_entry_points_are_those_of_the_project(distribution: Distribution) -> None:
    """Each has one plugin; the core also has the command."""
    project = project_of(distribution)
    packed = files_of(distribution.wheel)
    (text,) = (data.decode() for name, data in packed.items() if name.endswith("entry_points.txt"))
    (plugin,) = project["entry-points"]["agentbench"].items()
    assert f"[agentbench]\n{plugin[0]} = {plugin[1]}\n" in text
    assert f"{plugin[1].replace('.', '/')}.py" in packed
    assert ("agentbench = agentbench_core.cli.main:console" in text) == (distribution.name == "agentbench-core")


def test_its_metadata(distribution: Distribution) -> None:
    """Valid for indexes; with license, description and Python versions, and without URLs."""
    for text in (metadata_in(distribution.wheel), metadata_in(distribution.sdist)):
        found = Metadata.from_email(text, validate=True)
        assert found.name == distribution.name
        assert (found.license_expression, found.license_files) == ("Apache-2.0", ["LICENSE"])
        assert str(found.requires_python) == ">=3.11"
        assert found.summary
        assert found.description_content_type == "text/markdown"
        assert found.description == (distribution.source / "README.md").read_text(encoding="utf-8")
        assert (found.home_page, found.project_urls or None) == (None, None)
        assert "Typing :: Typed" in (found.classifiers or ())
        pythons = [each.rpartition(" ")[2] for each in found.classifiers or () if " Python :: 3." in each]
        assert pythons == list(PYTHONS)
        on_core = [str(each.specifier) for each in found.requires_dist or () if each.name == "agentbench-core"]
        assert on_core == {"agentbench-core": [], "agentbench-testing": [f"=={__version__}"]}.get(
            distribution.name, ["<0.2,>=0.1"]
        )
    if distribution.name == "agentbench-core":
        assert version_of(distribution) == __version__


def test_all_extra_requires_every_plugin() -> None:
    """``agentbench-core[all]`` requires all plugins of this checkout, and no example."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    plugins = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
    assert extras["all"] == [f"{name}>=0.1,<0.2" for name in plugins]


def test_the_sdist_makes_the_same_wheel(distribution: Distribution, tmp_path: Path) -> None:
    """Byte for byte. The sdist also has a plugin's tests, but no untracked files."""
    with tarfile.open(distribution.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    packed = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    kept = {str(path.relative_to(distribution.source)) for path in distribution.source.rglob("*") if path.is_file()}
    assert packed >= OF_THE_SDIST
    assert packed - kept <= OF_THE_SDIST
    if distribution.name != "agentbench-core":
        assert {path for path in kept if path.startswith("tests/")} <= packed
    build(unpacked, tmp_path / "again", "wheel")
    (wheel,) = (tmp_path / "again").glob("*.whl")
    assert wheel.name == distribution.wheel.name
    assert files_of(wheel) == files_of(distribution.wheel)


def project_of(distribution: Distribution) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The table ``project`` of its pyproject.toml."""
    read = tomllib.loads((distribution.source / "pyproject.toml").read_text(encoding="utf-8"))
    project: Mapping[str, Mapping[str, Mapping[str, str]]] = read["project"]
    return project


def version_of(distribution: Distribution) -> str:
    """The version in the wheel's name."""
    return distribution.wheel.name.split("-")[1]


def files_of(wheel: Path) -> Mapping[str, bytes]:
    """The files of a wheel, by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata_in(archive: Path) -> bytes:
    """METADATA of a wheel, or PKG-INFO of an sdist."""
    if archive.suffix == ".whl":
        return next(data for name, data in files_of(archive).items() if name.endswith(".dist-info/METADATA"))
    return next(_named(archive, "PKG-INFO"))


def _named(sdist: Path, name: str) -> Iterator[bytes]:
    with tarfile.open(sdist) as archive:
        for member in archive:
            if member.name.count("/") == 1 and member.name.endswith(f"/{name}"):
                file = archive.extractfile(member)
                assert file is not None
                yield file.read()
