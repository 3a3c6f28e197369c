"""Chooses the Python version of an environment."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from agentbench_tasks.mining.dependencies.files import SourceTree, text
from agentbench_tasks.mining.dependencies.project import Project
from agentbench_tasks.mining.values import Code, RejectedError

_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_PATCH_LEVELS = ("0", "5", "99")
_WORKFLOWS = 20
_NUMBER = re.compile(r"(?<![\w.])(3\.\d{1,2})(?![\w.]*\d)")
_TOX = re.compile(r"\bpy(?:\{([\d,.\s]+)\}|3\.?(\d{1,2})\b)")


@attrs.frozen(kw_only=True)
class Choice:
    """A Python version, with a note about it."""

    version: str
    note: str = ""  #: human-readable; empty if the project lists this version


def choose_python(tree: SourceTree, project: Project, pythons: Sequence[str]) -> Choice:
    """The newest available version that the project allows, preferably one that it lists.

    Raises RejectedError if `requires-python` allows none.
    """
    newest = sorted(pythons, key=Version, reverse=True)
    allowed = [version for version in newest if _allows(project.requires_python, version)]
    if not allowed:
        supported = " or ".join(str(specifiers) for specifiers in project.requires_python)
        raise RejectedError(
            Code.PYTHON_NOT_AVAILABLE,
            f"the project requires Python {supported}, but the available versions are: {', '.join(newest) or 'none'}",
        )
    named = _named(tree, project)
    known = [version for version in allowed if _minor(version) in named]
    if known or not named:
        return Choice(version=(known or allowed)[0])
    return Choice(version=allowed[0], note=f"Python {allowed[0]}, which the project does not list as supported")


def _allows(alternatives: Sequence[SpecifierSet], version: str) -> bool:
    """Whether any patch level of a version is allowed; pip checks the exact version."""
    levels = [version] if version.count(".") > 1 else [f"{version}.{level}" for level in _PATCH_LEVELS]
    return not alternatives or any(specifiers.contains(level) for specifiers in alternatives for level in levels)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _named(tree: SourceTree, project: Project) -> set[str]:
    """Versions in classifiers, `.python-version`, tox, nox and CI workflows."""
    named = {match[1] for line in project.classifiers if (match := _CLASSIFIER.fullmatch(line.strip()))}
    named |= {
        _minor(word) for word in text(tree, ".python-version").split() if _NUMBER.match(word) or word.count(".") == 2
    }
    for path in ("tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"):
        for several, one in _TOX.findall(text(tree, path)):
            numbers = re.findall(r"3\.?(\d{1,2})", several) if several else [one]
            named |= {f"3.{number}" for number in numbers}
    workflows = sorted(path for path in tree.paths() if re.fullmatch(r"\.github/workflows/[^/]+\.ya?ml", path))
    for path in ("noxfile.py", *workflows[:_WORKFLOWS]):
        content = text(tree, path)
        if "python" in content:
            named |= set(_NUMBER.findall(content))
    return named
