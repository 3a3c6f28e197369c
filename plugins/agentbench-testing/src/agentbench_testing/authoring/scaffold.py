"""The files of a new plugin: a complete distribution that can be installed and run, and that passes its tests."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from string import Template

import attrs
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

import agentbench_core
from agentbench_core.errors import InputError
from agentbench_core.inputs.documents import parse_yaml

_FAMILY = "agentbench"
_NAME = r"[a-z0-9][a-z0-9_-]{0,63}"
_TEMPLATES = Path(__file__).with_name("templates")


@attrs.frozen(kw_only=True)
class KindTexts:
    """The text for a new plugin of one kind."""

    summary: str
    run: str
    """Flags of ``agentbench run-task`` that use the plugin."""
    needs: str = ""
    """Another distribution of this project that the plugin requires."""


PLUGIN_KINDS: Mapping[str, KindTexts] = {
    "agent": KindTexts(
        summary="swaps one operator at a time until the failing command passes",
        run="--agent {name}",
    ),
    "sandbox": KindTexts(
        summary="the local sandbox with a configurable time zone; NOT ISOLATED",
        run="--agent scripted --sandbox {name}",
        needs="agentbench-local",
    ),
    "llm": KindTexts(
        summary="starts a local program for each call, with JSON as input and output",
        run="--agent baseline --llm {name} --model example --allow-unisolated",
    ),
    "tool": KindTexts(
        summary="shows a line of a file with its context",
        run='--agent scripted --set "tools=[read_file,apply_patch,run,{name}]"',
    ),
    "scorer": KindTexts(
        summary="requires the passing command to pass several times",
        run="--agent scripted --set scorer={name}",
    ),
    "auditor": KindTexts(
        summary="labels large changes and rejects tasks that require them",
        run="--agent scripted --set auditor.{name}.lines=1",
    ),
    "reporter": KindTexts(
        summary="writes badge.json, the data for a badge",
        run='--agent scripted --set "reporters=[console,{name}]"',
    ),
    "executor": KindTexts(
        summary="starts its threads one after the other, with a pause",
        run="--agent scripted --executor {name}",
    ),
}
"""The kinds with a directory of templates."""


@attrs.frozen(kw_only=True)
class PluginNames:
    """The names of a new plugin for users, pip and Python."""

    component: str
    distribution: str
    module: str


@attrs.frozen(kw_only=True)
class NewPlugin:
    """A newly written plugin."""

    kind: str
    names: PluginNames
    directory: Path

    @property
    def run(self) -> str:
        """Flags of ``agentbench run-task`` that use the plugin."""
        return PLUGIN_KINDS[self.kind].run.format(name=self.names.component)


def plugin_names(name: str) -> PluginNames:
    """The names derived from a user's name, with or without ``agentbench-``. Raises InputError if it is invalid."""
    component = _component(name)
    try:
        distribution = canonicalize_name(f"{_FAMILY}-{component}", validate=True)
    except InvalidName:
        distribution = None
    if distribution is None or not re.fullmatch(_NAME, component):
        raise InputError(
            f"{name!r} is not a valid plugin name: use at most 64 lowercase letters, digits, '-' and '_', "
            "starting and ending with a letter or digit",
            remedy=_instead(name),
        )
    if not _is_text(component):
        raise InputError(
            f"{name!r} is not a valid plugin name: YAML, which --set also uses, does not parse it as a string",
            remedy=_instead(name),
        )
    return PluginNames(component=component, distribution=distribution, module=distribution.replace("-", "_"))


def write_plugin(into: Path, name: str, kind: str, *, taken: Collection[str] = ()) -> NewPlugin:
    """Write a plugin into a new directory under ``into``, either completely or not at all.

    Args:
        into: an existing directory.
        name: as typed by the user.
        kind: one of :data:`PLUGIN_KINDS`.
        taken: names of existing components of this kind.

    Raises:
        InputError: the name is invalid or taken, or the files cannot be written.
    """
    names = plugin_names(name)
    _check_free(names, kind, taken)
    target = into / names.distribution
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} already exists", remedy="Choose another name, or another directory: --into DIR")
    if not into.is_dir():
        raise InputError(f"directory not found: {into}", remedy=f"Create it: mkdir -p {into}")
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{names.distribution}-", dir=into))
        try:
            root = draft / names.distribution
            for path, text in _files(names, kind):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            root.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}", remedy="Choose another directory: --into DIR"
        ) from None
    return NewPlugin(kind=kind, names=names, directory=target)


def _check_free(names: PluginNames, kind: str, taken: Collection[str]) -> None:
    """Raise InputError if one of these names is already used in this environment."""
    if names.component in taken:
        raise InputError(
            f"a component named {names.component!r} of kind {kind} already exists",
            remedy="Choose another name: if both are installed, neither can be used.",
        )
    if names.distribution in _installed():
        raise InputError(f"{names.distribution} is already installed", remedy="Choose another name, or uninstall it.")
    if importlib.util.find_spec(names.module) is not None:
        raise InputError(
            f"a module named {names.module} already exists in this environment", remedy="Choose another name."
        )


def _installed() -> Collection[str]:
    """The normalized names of all installed distributions, except those with damaged metadata."""
    names = set()
    for distribution in importlib.metadata.distributions():
        with contextlib.suppress(Exception):  # metadata of other distributions may be damaged in many ways
            names.add(canonicalize_name(distribution.metadata["Name"]))
    return names


def _files(names: PluginNames, kind: str) -> Iterator[tuple[str, str]]:
    """The path and text of each file in the distribution."""
    texts = PLUGIN_KINDS[kind]
    values = {
        "name": names.component,
        "distribution": names.distribution,
        "module": names.module,
        "summary": texts.summary,
        "about": f"An AgentBench {kind}: {texts.summary}",
        "core_versions": _core_versions(),
        "needs": f'\n    "{texts.needs}{_core_versions()}",' if texts.needs else "",
    }

    def text(name: str) -> str:
        return Template((_TEMPLATES / f"{name}.tmpl").read_text(encoding="utf-8")).substitute(values)

    values |= {"use": text(f"{kind}/use.md").strip(), "what_next": text(f"{kind}/next.md").strip()}
    package = f"src/{names.module}"
    yield "pyproject.toml", text("common/pyproject.toml")
    yield "README.md", text("common/README.md")
    yield ".gitignore", text("common/gitignore")
    yield ".github/workflows/ci.yml", text("common/ci.yml")
    yield f"{package}/__init__.py", text("common/init.py")
    yield f"{package}/py.typed", ""
    yield f"tests/{_test_module(names)}.py", text(f"{kind}/test.py")
    for template in sorted((_TEMPLATES / kind).glob("*.py.tmpl")):
        module = template.name.removesuffix(".tmpl")
        if module != "test.py":
            yield f"{package}/{module}", text(f"{kind}/{module}")


def _test_module(names: PluginNames) -> str:
    return f"test_{names.module.removeprefix(f'{_FAMILY}_')}"


def _core_versions() -> str:
    """The compatible versions of the core, such as ``>=0.1,<0.2`` or ``>=2.3,<3``."""
    major, minor, *_ = Version(agentbench_core.__version__).release
    return f">={major}.{minor},<{major + 1}" if major else f">=0.{minor},<0.{minor + 1}"


def _component(name: str) -> str:
    return re.sub(rf"^{_FAMILY}[-_]+(?=.)", "", name)


def _is_text(component: str) -> bool:
    try:
        return isinstance(parse_yaml(component, component), str)
    except InputError:
        return False


def _instead(name: str) -> str:
    """A remedy that suggests a valid name similar to the invalid name."""
    near = _component(re.sub(r"[^a-z0-9]+", "-", name.lower())[:64].strip("-"))
    if near and not _is_text(near):
        near = f"my-{near}"[:64].strip("-")
    return f"Try: {near}" if re.fullmatch(_NAME, near) else "For example: my-agent"
