"""Find out how to install the dependencies of an old commit, without running its code or using a language model."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

import attrs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from agentbench_core import digest
from agentbench_tasks.mining.dependencies.files import SourceTree as SourceTree
from agentbench_tasks.mining.dependencies.interpreter import choose_python
from agentbench_tasks.mining.dependencies.locks import locked
from agentbench_tasks.mining.dependencies.project import Project, read_project
from agentbench_tasks.mining.dependencies.pytest_settings import needed_plugins
from agentbench_tasks.mining.dependencies.sources import Source, sources
from agentbench_tasks.mining.values import Code, Recipe, RejectedError, moment

_FORMAT = 1
"""Part of every key. Increase it when the same files lead to different commands."""
_LONGEST = 100_000  # characters of a command; Linux accepts 131,071 bytes
_RELEASED = {
    "3.9": "2020-10-05T00:00:00Z",
    "3.10": "2021-10-04T00:00:00Z",
    "3.11": "2022-10-24T00:00:00Z",
    "3.12": "2023-10-02T00:00:00Z",
    "3.13": "2024-10-07T00:00:00Z",
    "3.14": "2025-10-07T00:00:00Z",
}
"""When each version of Python was released."""
_UNTAGGED = "0.1.dev0"
"""The version of a project without tags if a program computes its version from tags."""
_PRETEND: Mapping[str, str] = {
    "setuptools-scm": "SETUPTOOLS_SCM_PRETEND_VERSION",
    "vcs-versioning": "SETUPTOOLS_SCM_PRETEND_VERSION",
    "hatch-vcs": "SETUPTOOLS_SCM_PRETEND_VERSION",
    "flit-scm": "SETUPTOOLS_SCM_PRETEND_VERSION",
    "pbr": "PBR_VERSION",
    "pdm-backend": "PDM_BUILD_SCM_VERSION",
    "poetry-dynamic-versioning": "POETRY_DYNAMIC_VERSIONING_BYPASS",
    "uv-dynamic-versioning": "UV_DYNAMIC_VERSIONING_BYPASS",
}


@attrs.frozen(kw_only=True)
class _Plan:
    """The packages that one recipe installs."""

    requirements: tuple[Requirement, ...]
    constraints: tuple[Requirement, ...]
    extras: tuple[str, ...]
    origins: tuple[str, ...]


def recipes(tree: SourceTree, *, date: str, version: str, pythons: Sequence[str]) -> Sequence[Recipe]:
    """The recipes to try in order, best first; usually one or two.

    Args:
        tree: the files of the base commit.
        date: its committer date, ISO 8601 in UTC: only packages that were uploaded before it are used.
        version: the version of the project according to its tags; it may be empty.
        pythons: the available Python versions, such as ``["3.11"]``.

    Raises:
        RejectedError: ``PYTHON_NOT_AVAILABLE``: the project allows none of ``pythons``; ``ENVIRONMENT_FAILED``: its
            requirements do not fit into a command.
    """
    project = read_project(tree)
    python = choose_python(tree, project, pythons)
    variables = _variables(project, version)
    build = project.build if project.installable else ()
    found: dict[str, Recipe] = {}
    for plan, day in _dated(_plans(tree, project), date, _RELEASED.get(python.version, "")):
        resolve = _resolve(project, plan, build, day, variables)
        if len(resolve) > _LONGEST:
            continue
        recipe = Recipe(
            key=_key(project, python.version, plan, build, day if day != date else ""),
            python=python.version,
            resolve=(resolve,),
            project=_install(project, variables),
            source=_describe(project, plan, day, python.note),
            variables=variables,
        )
        found.setdefault(recipe.key, recipe)
    if not found:
        raise RejectedError(Code.ENVIRONMENT_FAILED, "the list of build requirements is too long for one command")
    return tuple(found.values())


def _dated(plans: Sequence[_Plan], date: str, released: str) -> Sequence[tuple[_Plan, str]]:
    """The plans with the date of their packages.

    Packages that are older than the interpreter may not work with it. Therefore, the first plan is also tried, before
    the last one, with the packages of the interpreter's release day.
    """
    dated = [(plan, date) for plan in plans]
    if released and moment(date) < moment(released):
        dated.insert(len(dated) - 1, (plans[0], released))
    return dated


def _plans(tree: SourceTree, project: Project) -> Sequence[_Plan]:
    """All requirements; all requirements without pinned versions; and only what pytest needs to start."""
    chosen = _chosen(sources(tree, project), project)
    needed = (*needed_plugins(tree), Requirement("pytest"))
    own = () if project.installable else project.dependencies
    lock_file, constraints = locked(tree, project.name)
    bounds = tuple(each for source in chosen for each in source.constraints)
    full = _Plan(
        requirements=_merged((*(each for source in chosen for each in source.requirements), *own, *needed)),
        constraints=constraints or bounds,
        extras=tuple(dict.fromkeys(extra for source in chosen for extra in source.extras)),
        origins=(*dict.fromkeys(source.name for source in chosen), *([lock_file] if constraints else [])),
    )
    loose = attrs.evolve(
        full,
        requirements=tuple(map(_loosened, full.requirements)),
        constraints=(),
        origins=(*dict.fromkeys(source.name for source in chosen), "without pinned versions"),
    )
    least = _Plan(requirements=_merged((*own, *needed)), constraints=(), extras=(), origins=("only pytest",))
    return (full, loose, least) if full.constraints or loose.requirements != full.requirements else (full, least)


def _chosen(listed: Sequence[Source], project: Project) -> Sequence[Source]:
    """The sources to use: the sources for tests, and more general ones only if these do not list pytest."""
    chosen: list[Source] = []
    for kind in ("test", "dev", "plain"):
        if any(source.names_pytest for source in chosen) and (kind != "plain" or project.installable):
            continue
        chosen.extend(source for source in listed if source.kind == kind)
    return chosen


def _merged(listed: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """The first requirement for each name, so that several sources do not contradict each other."""
    found: dict[tuple[str, str], Requirement] = {}
    for each in listed:
        name = canonicalize_name(each.name)
        if name != "pip" and (name, "") not in found:
            found.setdefault((name, str(each.marker or "")), each)
    return tuple(found.values())


def _loosened(wanted: Requirement) -> Requirement:
    """The requirement without an exact version."""
    if not any(specifier.operator in ("==", "===") for specifier in wanted.specifier):
        return wanted
    extras = f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""
    return Requirement(f"{wanted.name}{extras}" + (f"; {wanted.marker}" if wanted.marker else ""))


def _key(project: Project, python: str, plan: _Plan, build: Sequence[Requirement], moment: str) -> str:
    """Equal for commits whose dependencies are resolved from the same requirements, regardless of their dates."""
    return digest(
        {
            "format": _FORMAT,
            "python": python,
            "project": canonicalize_name(project.name) if project.installable else "",
            "computed": project.computed,
            "dependencies": _texts(project.dependencies),
            "requirements": _texts(plan.requirements),
            "constraints": _texts(plan.constraints),
            "extras": {name: _texts(project.extras[name]) for name in sorted(plan.extras)},
            "build": _texts(build),
            **({"moment": moment} if moment else {}),
        }
    )


def _texts(listed: Iterable[Requirement]) -> list[str]:
    return sorted(map(str, listed))


def _resolve(
    project: Project, plan: _Plan, build: Sequence[Requirement], date: str, variables: Mapping[str, str]
) -> str:
    wanted = {
        "date": date,
        "requirements": _texts((*plan.requirements, *build)),
        "constraints": _texts(plan.constraints),
        "project": {"extras": list(plan.extras), "variables": dict(variables)} if project.installable else None,
    }
    return shlex.join(["python", "-c", _script(), json.dumps(wanted)])


def _install(project: Project, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The commands that install the project itself, without dependencies, isolation or network."""
    if not project.installable:
        return ()
    assignments = [f"{name}={value}" for name, value in variables.items()]
    prefix = ["env", *assignments] if assignments else []
    options = ("--no-index", "--no-deps", "--no-build-isolation")
    return (shlex.join([*prefix, "python", "-m", "pip", "install", *options, "-e", "."]),)


@functools.cache
def _script() -> str:
    return resources.files("agentbench_tasks.mining.inside").joinpath("install.py").read_text(encoding="utf-8")


def _variables(project: Project, version: str) -> Mapping[str, str]:
    """Variables that set the version, since programs that compute it from tags find none in a workspace."""
    try:
        value = str(Version(version))
    except InvalidVersion:
        value = _UNTAGGED
    names = [_PRETEND[tool] for tool in sorted(project.version_tools)]
    if "SETUPTOOLS_SCM_PRETEND_VERSION" in names and project.name:
        own = canonicalize_name(project.name).replace("-", "_").upper()
        names.append(f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{own}")
    return dict.fromkeys(names, value)


def _describe(project: Project, plan: _Plan, date: str, note: str) -> str:
    """One human-readable line."""
    parts = [*(plan.origins or ("only pytest",)), f"packages as of {date[:10]}"]
    if not project.installable:
        parts.append("the project itself cannot be installed")
    return ", ".join((*parts, note) if note else parts)
