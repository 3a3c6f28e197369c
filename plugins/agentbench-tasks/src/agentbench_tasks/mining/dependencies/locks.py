"""Versions in lock files, as constraints for pip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentbench_tasks.mining.dependencies.files import SourceTree, json_object, mapping, sequence, toml
from agentbench_tasks.mining.dependencies.requirements import requirement

_MOST = 1500  # constraints; they are passed to the sandbox in one command
_TOML = {"uv.lock": "package", "poetry.lock": "package", "pdm.lock": "package", "pylock.toml": "packages"}
_ELSEWHERE = frozenset(("git", "url", "path", "directory", "editable", "virtual", "vcs", "archive", "file"))
"""Keys and types of sources other than a package index."""


def locked(tree: SourceTree, project: str) -> tuple[str, tuple[Requirement, ...]]:
    """The name of the first lock file, and `name==version` for each package with exactly one version in it."""
    for path, key in _TOML.items():
        if found := _constraints(_packages(toml(tree, path, lock_file=True).get(key)), project):
            return path, found
    sections = json_object(tree, "Pipfile.lock")
    pairs = (
        (name, str(mapping(value).get("version", "")).removeprefix("=="))
        for section in ("default", "develop")
        for name, value in mapping(sections.get(section)).items()
    )
    found = _constraints(pairs, project)
    return ("Pipfile.lock", found) if found else ("", ())


def _packages(packages: object) -> Iterator[tuple[str, str]]:
    for package in map(mapping, sequence(packages)):
        name, version, source = package.get("name"), package.get("version"), mapping(package.get("source"))
        elsewhere = {*source, source.get("type"), *package} & _ELSEWHERE
        if isinstance(name, str) and isinstance(version, str) and not elsewhere:
            yield name, version


def _constraints(pairs: Iterable[tuple[str, str]], project: str) -> tuple[Requirement, ...]:
    versions: dict[str, set[str]] = defaultdict(set)
    for name, version in pairs:
        versions[canonicalize_name(name)].add(version)
    left_out = {canonicalize_name(project), "pip"}
    lines = (
        f"{name}=={next(iter(found))}"
        for name, found in sorted(versions.items())
        if len(found) == 1 and name not in left_out
    )
    return tuple(parsed for line in lines if (parsed := requirement(line)))[:_MOST]
