"""The role of a file in a repository, from its path alone: test, source or other."""

from __future__ import annotations

import functools
import posixpath
import re
from typing import Literal

Role = Literal["test", "source", "other"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TEST_DIRECTORIES = frozenset({"test", "tests", "__tests__", "__snapshots__"})
_ROOT_TEST_DIRECTORIES = frozenset({"testing", "spec", "specs", "unittests", "integration_tests", "functional_tests"})

_TEST_FILE = re.compile(
    r"""
      (?: test_.* | .*_tests? | tests | conftest ) \.py
    | .* [._-] (?: test | tests | spec ) \. (?: [cm]?[jt]sx? | coffee | vue | dart )
    | .* _test \. (?: go | cc? | cpp | cxx | rs | exs? | dart | jl | lua )
    | test_ .* \. (?: cc? | cpp | cxx | rs | jl | rb )
    | .* _ (?: test | spec ) \. (?: rb | lua | cr )
    | .* (?: Tests? | TestCase | Spec | IT ) \. (?: java | kt | scala | groovy | cs | php | swift )
    """,
    re.VERBOSE,
)
_PROGRAM_SUFFIXES = _words(
    """
    .py .pyx .pxd .pxi .pyi .js .mjs .cjs .jsx .ts .mts .cts .tsx .vue .svelte .coffee .go .rs .c .h .cc .cpp .cxx .hh
    .hpp .hxx .m .mm .java .kt .kts .scala .groovy .clj .cljs .cs .fs .vb .rb .php .swift .dart .ex .exs .erl .hs .ml
    .mli .lua .pl .pm .r .jl .nim .zig .d .cr .sh .bash .sql .f90 .jinja .jinja2 .j2 .lark .proto .cu .cuh
    """
)
_OTHER_DIRECTORIES = _words(
    """
    doc docs documentation changelog changelog.d changes newsfragments news benchmark benchmarks bench asv_bench ci
    example examples sample samples demo demos tutorial tutorials site website requirements vendor third_party
    node_modules
    """
)
_OTHER_IN_PROJECTS = frozenset({"doc", "docs", "example", "examples", "benchmarks"})  # if it has several projects
_OTHER_FILES = _words(
    """
    setup.py noxfile.py tasks.py fabfile.py dodo.py toxfile.py conf.py pavement.py get-pip.py ez_setup.py
    versioneer.py gruntfile.js gulpfile.js rakefile build.rs mix.exs build.gradle.kts settings.gradle.kts
    """
)
_OTHER_ANYWHERE = frozenset({"noxfile.py", "versioneer.py", "ez_setup.py"})  # the rest only at the root
_CONFIGURATION = re.compile(r".*\.(?:config|conf|setup)\.[cm]?[jt]s")

_DEPENDENCY_FILES = _words(
    """
    pyproject.toml setup.py setup.cfg pipfile pipfile.lock poetry.lock uv.lock pdm.lock pylock.toml tox.ini
    environment.yml environment.yaml conda.yml .python-version package.json package-lock.json yarn.lock pnpm-lock.yaml
    npm-shrinkwrap.json go.mod go.sum cargo.toml cargo.lock gemfile gemfile.lock composer.json composer.lock pom.xml
    build.gradle build.gradle.kts mix.exs mix.lock
    """
)
_REQUIREMENTS = re.compile(r"(?:.*[-_.])?(?:requirements|constraints)(?:[-_.].*)?\.(?:txt|in|pip)")
_VERSION_FILE = re.compile(r"_{1,2}(?:version|version_info|about)_{0,2}\.py")


@functools.lru_cache(maxsize=1 << 16)
def role(path: str) -> Role:
    """The role of a file.

    Tests are files with common test names, and everything in test directories, including data. Source is
    every other program file, except for documentation, examples, benchmarks, packaging and CI. A directory `testing`
    contains tests at the root only: in a package, it is source.
    """
    *directories, name = path.lower().split("/")
    if any(directory.startswith(".") for directory in directories):
        return "other"
    if _is_test(path, directories):
        return "test"
    if name.startswith(".") or not is_program(name) or _CONFIGURATION.fullmatch(name):
        return "other"
    if name in _OTHER_ANYWHERE or (not directories and name in _OTHER_FILES):
        return "other"
    first, second = (*directories, "", "")[:2]
    return "other" if first in _OTHER_DIRECTORIES or (first != "src" and second in _OTHER_IN_PROJECTS) else "source"


def _is_test(path: str, directories: list[str]) -> bool:
    if any(directory in _TEST_DIRECTORIES for directory in directories):
        return True
    if directories and directories[0] in _ROOT_TEST_DIRECTORIES:
        return True
    return _TEST_FILE.fullmatch(posixpath.basename(path)) is not None


def is_program(path: str) -> bool:
    """Whether a file is a program rather than data, by its suffix."""
    return posixpath.splitext(path)[1].lower() in _PROGRAM_SUFFIXES


def is_dependency_file(path: str) -> bool:
    """Whether a file determines dependencies: packaging metadata, requirements or a lock file."""
    *directories, name = path.lower().split("/")
    if name in _DEPENDENCY_FILES or _REQUIREMENTS.fullmatch(name):
        return True
    return "requirements" in directories[-1:] and name.endswith((".txt", ".in"))


def is_version_file(path: str) -> bool:
    """Whether a file usually contains only the version of its project: ``_version.py``, but not ``version.py``."""
    return _VERSION_FILE.fullmatch(posixpath.basename(path).lower()) is not None
