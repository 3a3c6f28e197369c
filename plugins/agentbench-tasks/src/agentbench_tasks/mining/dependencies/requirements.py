"""Requirements as text: parsed by `packaging`, or left out."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable

import attrs
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from agentbench_tasks.mining.dependencies.files import SourceTree, mapping, text

_LONGEST = 400  # characters
_MOST = 500  # requirements of one file, with its includes
_INCLUDES = 20
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--(hash|config-settings?|global-option)[= ]\S+")
_PROJECT = re.compile(r"(?:-e\s*|--editable[= ]\s*)?(?:\.|file:\.)/?(?:\[([\w\s,.-]*)\])?$")
_INCLUDE = re.compile(r"(-r|--requirement|-c|--constraint)[= ]?\s*(\S+)$")


def requirement(line: str) -> Requirement | None:
    """Parse one requirement; None if it is invalid or has a URL."""
    line = line.strip()
    if len(line) > _LONGEST:
        return None
    try:
        parsed = Requirement(line)
    except InvalidRequirement:
        return None
    return None if parsed.url else parsed


def requirements(lines: Iterable[str]) -> tuple[Requirement, ...]:
    """The lines that are requirements without a URL."""
    return tuple(parsed for line in lines if (parsed := requirement(line)))


@attrs.frozen(kw_only=True)
class Listing:
    """The content of requirements files, or of `deps` in tox.ini, which have the same format."""

    requirements: tuple[Requirement, ...] = ()
    constraints: tuple[Requirement, ...] = ()
    extras: tuple[str, ...] = ()  #: extras of the project itself, from lines such as `-e .[test]`


def requirements_file(tree: SourceTree, path: str) -> Listing:
    """The content of a requirements file and of the files in the tree that it includes."""
    return listing(tree, text(tree, path).splitlines(), posixpath.dirname(path), {path})


def listing(tree: SourceTree, lines: Iterable[str], directory: str = "", seen: set[str] | None = None) -> Listing:
    """Parse lines of a requirements file in ``directory``. Options, URLs and paths are left out."""
    seen = set() if seen is None else seen
    found: list[Requirement] = []
    bounds: list[Requirement] = []
    extras: list[str] = []
    for line in _joined(lines):
        if match := _INCLUDE.match(line):
            path = posixpath.normpath(posixpath.join(directory, match[2].strip("\"'")))
            if path in seen or len(seen) >= _INCLUDES or path.startswith(("/", "..")):
                continue
            seen.add(path)
            included = listing(tree, text(tree, path).splitlines(), posixpath.dirname(path), seen)
            bounds.extend(included.constraints)
            if match[1] in ("-c", "--constraint"):
                bounds.extend(included.requirements)
            else:
                found.extend(included.requirements)
                extras.extend(included.extras)
        elif match := _PROJECT.match(line):
            extras.extend(name.strip() for name in (match[1] or "").split(",") if name.strip())
        elif parsed := requirement(_HASH.sub("", line)):
            found.append(parsed)
    return Listing(requirements=tuple(found[:_MOST]), constraints=tuple(bounds[:_MOST]), extras=tuple(extras))


def _joined(lines: Iterable[str]) -> Iterable[str]:
    """Lines without comments; a line that ends with a backslash is joined with the next one."""
    whole = ""
    for line in lines:
        whole += _COMMENT.sub("", line).strip()
        if whole.endswith("\\"):
            whole = whole[:-1] + " "
            continue
        if whole.strip():
            yield whole.strip()
        whole = ""
    if whole.strip():
        yield whole.strip()


def words(line: str) -> list[str]:
    """Split a command line like a shell; an invalid one is split at blanks."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def poetry_requirement(name: str, value: object) -> Requirement | None:
    """A requirement in Poetry's notation: a version, or a table with ``version``, ``extras`` and ``markers``."""
    if isinstance(value, list):  # one of several, by marker
        return next((found for item in value if (found := poetry_requirement(name, item))), None)
    table = mapping(value) or {"version": value}
    if not isinstance(table.get("version"), str):
        return None  # git, path or url
    alternatives = poetry_specifiers(table["version"])
    specifier = str(alternatives[0]) if len(alternatives) == 1 else ""
    extras = [item for item in table.get("extras", []) if isinstance(item, str)]
    marker = table.get("markers", "")
    return requirement(
        name
        + (f"[{','.join(extras)}]" if extras else "")
        + specifier
        + (f"; {marker}" if isinstance(marker, str) and marker else "")
    )


def poetry_specifiers(constraint: str) -> tuple[SpecifierSet, ...]:
    """The alternatives of a version constraint in Poetry's notation, such as ``^3.8`` or ``~2.7 || ^3.5``."""
    found: list[SpecifierSet] = []
    if len(constraint) > _LONGEST:
        return ()
    for alternative in re.split(r"\|\|?", constraint):
        parts = re.split(r"[\s,]+(?=[\^~<>=!\d*])", re.sub(r"([\^~<>=!]+)\s+", r"\1", alternative.strip()))
        try:
            found.append(SpecifierSet(",".join(filter(None, map(_specifier, parts)))))
        except (InvalidSpecifier, InvalidVersion):
            continue
    return tuple(found)


def _specifier(part: str) -> str:
    """One part of a Poetry constraint in the notation of PEP 440."""
    if part in ("", "*"):
        return ""
    if part[0] == "^":
        release = Version(part[1:]).release
        kept = next((index for index, number in enumerate(release) if number), len(release) - 1)
        return f">={part[1:]},<{_next(release[: kept + 1])}"
    if part[0] == "~" and not part.startswith("~="):
        return f">={part[1:]},<{_next(Version(part[1:]).release[:2])}"
    if part[0].isdigit():
        return f"=={part}"
    return part


def _next(release: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in (*release[:-1], release[-1] + 1))


def same_name(one: str, other: str) -> bool:
    """Whether two names denote the same distribution."""
    return canonicalize_name(one) == canonicalize_name(other)
