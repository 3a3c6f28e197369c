"""Plugins that the pytest configuration of a project needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from packaging.requirements import Requirement

from agentbench_tasks.mining.dependencies.files import SourceTree, at, ini, mapping, strings, text, toml
from agentbench_tasks.mining.dependencies.requirements import requirements, words

_OPTIONS = {
    r"--(no-)?cov(-.*|=.*)?": "pytest-cov",
    r"-n.*|--numprocesses.*|--dist.*|--maxprocesses.*": "pytest-xdist",
    r"--timeout(=.*|-.*)?": "pytest-timeout",
    r"--asyncio-mode.*": "pytest-asyncio",
    r"--reruns.*": "pytest-rerunfailures",
    r"--benchmark-.*": "pytest-benchmark",
    r"--randomly-.*": "pytest-randomly",
    r"--random-order.*": "pytest-random-order",
    r"--(disable|allow)-(socket|hosts|unix-socket).*": "pytest-socket",
    r"--doctest-plus.*": "pytest-doctestplus",
    r"--xdoc(test)?(-.*|=.*)?": "xdoctest",
    r"--ds(=.*)?|--reuse-db|--create-db|--nomigrations": "pytest-django",
    r"--snapshot-.*": "syrupy",
    r"--flake8.*": "pytest-flake8",
    r"--black": "pytest-black",
    r"--mypy.*": "pytest-mypy",
    r"--html.*|--self-contained-html": "pytest-html",
    r"--instafail": "pytest-instafail",
    r"--mpl.*": "pytest-mpl",
}
"""Patterns of command-line options, with the distributions that provide them."""
_OVERRIDES = {r"--cov(=.*)?": "--no-cov", r"-n.*|--numprocesses.*": "-n0"}
"""Patterns of command-line options, with the options that undo them."""
_KEYS = {
    "asyncio_mode": "pytest-asyncio",
    "asyncio_default_fixture_loop_scope": "pytest-asyncio",
    "timeout": "pytest-timeout",
    "timeout_method": "pytest-timeout",
    "trio_mode": "pytest-trio",
    "DJANGO_SETTINGS_MODULE": "pytest-django",
    "env": "pytest-env",
    "qt_api": "pytest-qt",
    "mock_use_standalone_module": "pytest-mock",
}
"""Settings, with the distributions that provide them."""
_MODULES = {
    "hypothesis": "hypothesis",
    "trio": "trio",
    "anyio": "anyio",
    "numpy": "numpy",
    "pandas": "pandas",
    "django": "django",
    "sqlalchemy": "sqlalchemy",
    "pytest_asyncio": "pytest-asyncio",
    "pytest_benchmark": "pytest-benchmark",
    "pytest_cov": "pytest-cov",
}
"""Modules that warning filters import, with their distributions. Other names may belong to unrelated distributions."""


def needed_plugins(tree: SourceTree) -> tuple[Requirement, ...]:
    """The plugins without which pytest rejects its configuration."""
    settings = _settings(tree)
    found = [*requirements(_required(settings.get("required_plugins")))]
    names = {
        *_by_option(words(" ".join(strings(settings.get("addopts"))))),
        *(plugin for key, plugin in _KEYS.items() if key in settings),
        *_by_filter(strings(settings.get("filterwarnings"))),
    }
    return (*found, *(Requirement(name) for name in sorted(names - {each.name for each in found})))


def overrides(tree: SourceTree) -> tuple[str, ...]:
    """Options that undo options of the project that depend on the whole suite or write files: coverage and workers."""
    options = words(" ".join(strings(_settings(tree).get("addopts"))))
    undone = (each for option in options for pattern, each in _OVERRIDES.items() if re.fullmatch(pattern, option))
    return tuple(dict.fromkeys(undone))


def _settings(tree: SourceTree) -> Mapping[str, Any]:
    """The settings in the first file that pytest uses."""
    pyproject = mapping(at(toml(tree, "pyproject.toml"), "tool", "pytest"))
    for name in ("pytest.ini", ".pytest.ini"):
        if (section := ini(text(tree, name)).get("pytest")) is not None:
            return section
    if pyproject:
        return mapping(pyproject.get("ini_options")) or pyproject
    for name, title in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        if section := ini(text(tree, name)).get(title):
            return section
    return {}


def _required(value: object) -> Iterable[str]:
    """The value of `required_plugins`, which is a list, or requirements separated by blanks."""
    return value.split() if isinstance(value, str) else strings(value)


def _by_option(options: Iterable[str]) -> Iterator[str]:
    for option in options:
        for pattern, plugin in _OPTIONS.items():
            if re.fullmatch(pattern, option):
                yield plugin


def _by_filter(filters: Iterable[str]) -> Iterator[str]:
    """Distributions of the categories in filters such as `ignore:message:package.module.Category`."""
    for line in filters:
        category = re.split(r"(?<!\\):", line)[2:3]
        module = category[0].strip().split(".")[0] if category else ""
        if module in _MODULES:
            yield _MODULES[module]
