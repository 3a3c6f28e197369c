"""The places where a project lists test requirements: groups, extras, requirements files, tox, nox and hatch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentbench_tasks.mining.dependencies.files import SourceTree, at, ini, mapping, sequence, strings, text, toml
from agentbench_tasks.mining.dependencies.literals import nox_installs
from agentbench_tasks.mining.dependencies.project import Project, poetry_groups
from agentbench_tasks.mining.dependencies.requirements import (
    Listing,
    listing,
    requirements,
    requirements_file,
    same_name,
)

Kind = Literal["test", "dev", "plain"]

_TEST = r"(?:unit[-_]?)?tests?|testing|pytest|ci"
_DEV = r"dev|devel|develop|development"
_SUFFIX = r"(?:[-_](?:deps|dependencies|requirements|reqs|all|full|base|core))?"
_NAMES: Mapping[Kind, re.Pattern[str]] = {
    "test": re.compile(f"(?:{_TEST}|hatch-test){_SUFFIX}", re.IGNORECASE),
    "dev": re.compile(f"(?:{_DEV}|default){_SUFFIX}", re.IGNORECASE),
}
_KINDS: tuple[tuple[Kind, str], ...] = (("test", _TEST), ("dev", _DEV))
_FILES: Mapping[Kind, re.Pattern[str]] = {
    kind: re.compile(
        rf"(?:(?:requirements|reqs|deps)/)?(?:requirements?[-_.](?:{names})|(?:{names})[-_.]requirements?)\.(?:txt|in|pip)"
        rf"|(?:requirements|reqs|deps|requirements\.d)/(?:{names})\.(?:txt|in|pip)"
        rf"|(?:{names})/requirements\.(?:txt|in|pip)",
        re.IGNORECASE,
    )
    for kind, names in _KINDS
}
_PLAIN = ("requirements.txt", "requirements.in")
_MOST_FILES = 5
_REFERENCES = 20
_TOX_SECTION = re.compile(rf"testenv(?::(?:{_TEST}|py))?")
_TOX_CONDITION = re.compile(r"([!\w.{},-]+):\s+(.*)")
_TOX_ALWAYS = re.compile(r"py3?|tests?|!.*")
_TOX_REFERENCE = re.compile(r"\{\[([^\]]+)\]([^}]+)\}")
_NOX_SESSION = re.compile(rf"(?:{_TEST})(?:_.*)?")


@attrs.frozen(kw_only=True)
class Source:
    """One place that lists requirements of tests."""

    kind: Kind
    name: str  #: human-readable name, such as `pyproject.toml [tests]`
    requirements: tuple[Requirement, ...] = ()
    constraints: tuple[Requirement, ...] = ()
    extras: tuple[str, ...] = ()  #: extras of the project itself

    @property
    def names_pytest(self) -> bool:
        """Whether pytest or one of its plugins is listed."""
        return any(canonicalize_name(each.name).startswith("pytest") for each in self.requirements)


def sources(tree: SourceTree, project: Project) -> Sequence[Source]:
    """All places that list requirements of tests, best first: places for tests, for development, and for everything."""
    pyproject = toml(tree, "pyproject.toml")
    found = [
        *_groups(pyproject),
        *_extras(project),
        *_hatch(pyproject),
        *_files(tree),
        *_tox(tree, pyproject),
        *_nox(tree),
        Source(kind="test", name="tests_require", requirements=project.tests_require),
        *(_from_listing("plain", path, requirements_file(tree, path)) for path in _PLAIN),
    ]
    order: tuple[Kind, ...] = ("test", "dev", "plain")
    cleaned = (_without_project(source, project) for source in found)
    listed = (source for source in cleaned if source.requirements or source.extras)
    return sorted(listed, key=lambda source: order.index(source.kind))


def _without_project(source: Source, project: Project) -> Source:
    """Turn requirements on the project itself, such as `name[tests]`, into extras, and add the extras' requirements."""
    known = {canonicalize_name(name): name for name in project.extras}
    found: list[Requirement] = []
    extras: dict[str, None] = {}

    waiting = list(source.extras)
    listed = source.requirements
    while True:
        for each in listed:
            if project.name and same_name(each.name, project.name):
                waiting.extend(sorted(each.extras))
            elif not same_name(each.name, "pip"):
                found.append(each)
        names = (known.get(canonicalize_name(extra)) for extra in waiting)
        name = next((name for name in names if name is not None and name not in extras), None)
        if name is None:
            break
        extras[name] = None
        listed = project.extras[name]
    return attrs.evolve(source, requirements=tuple(dict.fromkeys(found)), extras=tuple(extras))


def _kind(name: str) -> Kind | None:
    return next((kind for kind, pattern in _NAMES.items() if pattern.fullmatch(name)), None)


def _from_listing(kind: Kind, name: str, found: Listing) -> Source:
    return Source(
        kind=kind,
        name=name,
        requirements=found.requirements,
        constraints=found.constraints,
        extras=found.extras,
    )


def _groups(pyproject: Mapping[str, Any]) -> Iterator[Source]:
    """Dependency groups: of PEP 735, Poetry, PDM and uv."""
    groups = _dependency_groups(pyproject)
    for name in groups:
        if kind := _kind(name):
            yield Source(kind=kind, name=f"pyproject.toml [{name}]", requirements=_group(groups, name))
    for name, found in poetry_groups(pyproject):
        if kind := _kind(name):
            yield Source(kind=kind, name=f"pyproject.toml [{name}]", requirements=found)
    for name, lines in mapping(at(pyproject, "tool", "pdm", "dev-dependencies")).items():
        if kind := _kind(name):
            yield Source(kind=kind, name=f"pyproject.toml [{name}]", requirements=requirements(strings(lines)))
    found = requirements(strings(at(pyproject, "tool", "uv", "dev-dependencies")))
    yield Source(kind="dev", name="pyproject.toml [tool.uv]", requirements=found)


def _dependency_groups(pyproject: Mapping[str, Any]) -> Mapping[str, Sequence[Any]]:
    table = mapping(pyproject.get("dependency-groups"))
    return {canonicalize_name(name): sequence(items) for name, items in table.items()}


def _group(groups: Mapping[str, Sequence[Any]], *names: str) -> tuple[Requirement, ...]:
    """The requirements of groups, and of the groups that they include."""
    found: list[Requirement] = []
    order = list(dict.fromkeys(map(canonicalize_name, names)))
    seen = set(order)
    for name in order:  # grows
        for item in groups.get(name, ()):
            if isinstance(item, str):
                found.extend(requirements((item,)))
                continue
            included = canonicalize_name(str(mapping(item).get("include-group", "")))
            if included not in seen:
                seen.add(included)
                order.append(included)
    return tuple(found)


def _extras(project: Project) -> Iterator[Source]:
    for name in project.extras:
        if kind := _kind(name):
            yield Source(kind=kind, name=f"extra {name}", extras=(name,))


def _hatch(pyproject: Mapping[str, Any]) -> Iterator[Source]:
    for name, environment in mapping(at(pyproject, "tool", "hatch", "envs")).items():
        if kind := _kind(name):
            table = mapping(environment)
            yield Source(
                kind=kind,
                name=f"hatch environment {name}",
                requirements=requirements(
                    (*strings(table.get("dependencies")), *strings(table.get("extra-dependencies")))
                ),
                extras=strings(table.get("features")),
            )


def _files(tree: SourceTree) -> Iterator[Source]:
    """Requirements files; compiled ones (`.txt`) before their sources (`.in`)."""
    for kind, pattern in _FILES.items():
        paths = sorted((path for path in tree.paths() if pattern.fullmatch(path)), reverse=True)
        for path in paths[:_MOST_FILES]:
            yield _from_listing(kind, path, requirements_file(tree, path))


def _tox(tree: SourceTree, pyproject: Mapping[str, Any]) -> Iterator[Source]:
    legacy = at(pyproject, "tool", "tox", "legacy_tox_ini")
    groups = _dependency_groups(pyproject)
    for name, source in (
        ("tox.ini", text(tree, "tox.ini")),
        ("pyproject.toml", legacy),
        ("setup.cfg", text(tree, "setup.cfg")),
    ):
        sections = ini(source) if isinstance(source, str) else {}
        for title, section in sections.items():
            if _TOX_SECTION.fullmatch(title):
                found = listing(tree, _tox_lines(section.get("deps", ""), sections, set()))
                wanted = re.split(r"[\s,]+", section.get("dependency_groups", "").strip())
                yield Source(
                    kind="test",
                    name=f"{name} [{title}]",
                    requirements=(*found.requirements, *_group(groups, *wanted)),
                    constraints=found.constraints,
                    extras=(*found.extras, *filter(None, re.split(r"[\s,]+", section.get("extras", "")))),
                )
    for name, table in (
        ("pyproject.toml", mapping(at(pyproject, "tool", "tox"))),
        ("tox.toml", toml(tree, "tox.toml")),
    ):
        base = mapping(table.get("env_run_base"))
        found = listing(tree, strings(base.get("deps")))
        yield attrs.evolve(
            _from_listing("test", f"{name} [env_run_base]", found), extras=(*found.extras, *strings(base.get("extras")))
        )


def _tox_lines(value: str, sections: Mapping[str, Mapping[str, str]], seen: set[str]) -> Iterator[str]:
    """Lines of `deps` that apply to every environment, with references to other sections replaced."""
    for line in map(str.strip, value.splitlines()):
        if match := _TOX_REFERENCE.fullmatch(line):
            if line not in seen and len(seen) < _REFERENCES:
                seen.add(line)
                yield from _tox_lines(sections.get(match[1], {}).get(match[2], ""), sections, seen)
            continue
        condition = _TOX_CONDITION.fullmatch(line)
        if condition is None or _TOX_ALWAYS.fullmatch(condition[1]):
            whole = condition[2] if condition else line
            yield re.sub(r"\{tox(_root|inidir)\}/?", "", whole).replace("-e[", "-e .[")


def _nox(tree: SourceTree) -> Iterator[Source]:
    for session, arguments in nox_installs(text(tree, "noxfile.py")):
        if _NOX_SESSION.fullmatch(session):
            lines: list[str] = []
            for word in arguments:
                option = lines and lines[-1] in ("-r", "-c", "-e", "--requirement", "--constraint", "--editable")
                lines[-1:] = [f"{lines[-1]} {word}"] if option else [*lines[-1:], word]
            yield _from_listing("test", f"noxfile.py {session}", listing(tree, lines))
