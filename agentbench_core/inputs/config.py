"""Resolve settings: merge ordered layers into one value, and keep the origin of each setting.

Files and flags are both layers. A later layer wins, setting by setting; selecting another component
(``agent``, ``llm``, ``sandbox``, ``scorer``) drops the options that earlier layers set for the old one. Only
``artifacts.redact`` is the union of all layers, so that no layer can disable the redaction of another layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.inputs.documents import parse_yaml
from agentbench_core.schema import option
from agentbench_core.values.record import Setting

_Key = tuple[str, ...]


@attrs.frozen(kw_only=True)
class Choice:
    """A component selected by name, with options; an empty name selects none."""

    name: str = ""  #: name of the component; empty: none
    options: Mapping[str, Any] = attrs.field(factory=dict)  #: options of the component


@attrs.frozen(kw_only=True)
class ModelSettings:
    """The model and its sampling parameters."""

    name: str = option("", help="name used by the provider")
    temperature: float | None = option(None, help="sampling temperature; not sent if null", minimum=0)
    top_p: float | None = option(None, help="nucleus sampling; not sent if null", minimum=0)
    max_tokens: int | None = option(
        None, help="maximum tokens per completion; null: 2048, or 32000 for agents that are programs", minimum=1
    )
    context_tokens: int | None = option(
        None, help="context window in tokens, if the provider does not report it", minimum=1
    )


@attrs.frozen(kw_only=True)
class LimitSettings:
    """Limits of every attempt; they override the task's limits."""

    max_steps: int | None = option(None, help="maximum number of tool calls", minimum=1)
    timeout_sec: float | None = option(
        None, help="time limit for the agent and scoring phases, in seconds", minimum=1, maximum=604_800
    )
    tool_timeout_sec: float | None = option(
        None, help="time limit per tool call, in seconds", minimum=1, maximum=604_800
    )
    max_tokens: int | None = option(None, help="maximum tokens for all model calls in an attempt", minimum=1)
    max_cost_usd: float | None = option(None, help="maximum US dollars for all model calls in an attempt", minimum=0)


@attrs.frozen(kw_only=True)
class ArtifactSettings:
    """Files to save from every attempt; they override the task's settings, except for ``redact``."""

    keep_workspace: bool | None = option(
        None, help="save differences from the prepared workspace; null: same as the task"
    )
    full_logs: bool | None = option(None, help="also save complete logs; null: same as the task")
    redact: tuple[str, ...] = option(
        (), help="names of environment variables whose values are redacted, in addition to those listed by the task"
    )


@attrs.frozen(kw_only=True)
class RunSettings:
    """The suite to run, and the destination of the results."""

    suite: str = option("custom-dev", help="suite to run")
    tasks: str = option("tasks", help="directory that contains the suites")
    out: str = option("artifacts/runs", help="directory for run directories")
    workers: int = option(2, help="number of attempts to run in parallel", minimum=1, maximum=1000)
    repeats: int = option(1, help="number of attempts per task and variant", minimum=1)
    max_cost_usd: float | None = option(None, help="maximum cost of each run in US dollars", minimum=0)
    preflight_sec: float = option(
        120.0, help="time limit for the preflight checks of the sandbox and the model, in seconds", minimum=1
    )
    min_free_mb: int = option(200, help="free disk space in MB below which a run pauses", minimum=0)


@attrs.frozen(kw_only=True)
class Settings:
    """All settings of one variant of a run."""

    run: RunSettings = RunSettings()  #: the suite to run, and the destination of the results
    agent: Choice = Choice()  #: the agent; without a name, each task's own
    llm: Choice = Choice()  #: the model provider
    sandbox: Choice = Choice(name="local")  #: the sandbox
    scorer: Choice = Choice(name="tests")  #: the scorer
    executor: Choice = Choice(name="threads")  #: where attempts run
    model: ModelSettings = ModelSettings()  #: the model and its sampling parameters
    limits: LimitSettings = LimitSettings()  #: limits of every attempt; they override the task's limits
    artifacts: ArtifactSettings = ArtifactSettings()  #: files to save from every attempt
    tools: tuple[str, ...] = ("apply_patch", "list_files", "read_file", "run", "search")  #: names of the tools
    tool: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)  #: options of tools, by name
    auditors: tuple[str, ...] = ()  #: names of the auditors
    auditor: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)  #: options of auditors, by name
    reporters: tuple[str, ...] = ("console",)  #: names of the reporters
    reporter: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)  #: options of reporters, by name


_FIELDS = {field.name: field for field in attrs.fields(Settings)}
_CHOICES = [name for name, field in _FIELDS.items() if isinstance(field.default, Choice)]
"""Sections that select a component; every key in them except ``name`` is one of its options."""

_UNITED = {("artifacts", "redact")}
"""Lists to which every layer adds its names."""

_LISTS = {f"{name}s": name for name in _FIELDS if f"{name}s" in _FIELDS}
"""Settings that are lists of names, with the section that holds options by name."""


@attrs.frozen(kw_only=True)
class Layer:
    """Some settings and their origin: a file path, or a flag as typed."""

    origin: str
    values: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Resolved:
    """Settings, with value and origin of each leaf."""

    settings: Settings
    leaves: Mapping[str, Setting]


def layer(origin: str, values: object, *, sections: Iterable[str] = ()) -> Layer:
    """Validate plain data and build a layer from it.

    Args:
        origin: the file or flag, for messages and for ``config show``.
        values: nested mappings; ``agent: NAME`` is short for ``agent: {name: NAME}``, and so on.
        sections: the allowed sections; all if empty.

    Raises:
        InputError: a section or key is unknown, or a value has the wrong type.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{origin}: expected a mapping of settings, found {values!r}")
    for key in values:
        if sections and key not in sections:
            nearest = did_you_mean(str(key), sections)
            raise InputError(f"{origin}: {key}: not allowed here{nearest}; allowed: {', '.join(sections)}")
    short = (*_CHOICES, "model")
    plain = {key: {"name": v} if key in short and isinstance(v, str) else v for key, v in values.items()}
    _check_known(plain, origin)
    _load(plain, origin)
    return Layer(origin=origin, values=plain)


def _check_known(plain: Mapping[str, Any], origin: str) -> None:
    """Raise InputError for keys that are not sections, with a hint such as ``run.workers`` for ``workers``."""
    known = [*_FIELDS, *(".".join(key) for key, _ in _flatten(_defaults()))]
    wrong = [
        f"{origin}: {key}: unknown field{did_you_mean(str(key), known) or '; known: ' + ', '.join(_FIELDS)}"
        for key in plain
        if key not in _FIELDS
    ]
    if wrong:
        raise InputError("\n".join(wrong))


def assignment(text: str) -> Layer:
    """The layer of ``--set a.b=value``; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(f"--set {text}: expected KEY=VALUE, for example --set limits.max_steps=10")
    return layer(f"--set {text}", _nested({tuple(key.split(".")): parse_yaml(value, f"--set {key}")}))


def recorded(origin: str, leaves: Mapping[str, Setting]) -> Layer:
    """The layer for settings that an earlier :func:`resolve` returned."""
    return layer(origin, _nested({tuple(key.split(".", 2)): leaf.value for key, leaf in leaves.items()}, origin))


def resolve(layers: Sequence[Layer], name_of: Callable[[str, str], str] = lambda kind, name: name) -> Resolved:
    """Merge layers over the defaults; later layers win.

    Args:
        layers: lowest precedence first.
        name_of: maps a kind and a name or alias to the component's name, so that aliases select the same component.
    """
    leaves: dict[_Key, Setting] = {}
    for source in (Layer(origin="default", values=_defaults()), *layers):
        flat = dict(_named(_flatten(source.values), name_of))
        for section in _CHOICES:
            chosen, known = flat.get((section, "name")), leaves.get((section, "name"))
            if chosen is not None and known is not None and known.value != chosen:
                leaves = {key: leaf for key, leaf in leaves.items() if key[0] != section}
        before = leaves
        for key, value in flat.items():
            leaves = {old: leaf for old, leaf in leaves.items() if not _overlap(old, key)}
            new = Setting(value=value, origin=source.origin)
            leaves[key] = _united(before[key], new) if key in _UNITED and key in before else new
    settings = _load(_nested({key: leaf.value for key, leaf in leaves.items()}), "settings")
    return Resolved(settings=settings, leaves={".".join(key): leaf for key, leaf in sorted(leaves.items())})


def _united(one: Setting, other: Setting) -> Setting:
    """The names of both lists, with the origins of all names."""
    added = [name for name in other.value if name not in one.value]
    if not one.value or not added:
        return one if one.value else other
    return Setting(value=[*one.value, *added], origin=f"{one.origin}, {other.origin}")


def _overlap(one: _Key, other: _Key) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _load(plain: Mapping[str, Any], origin: str) -> Settings:
    split = dict(plain)
    for section in _CHOICES:
        if isinstance(split.get(section), Mapping):
            options = {key: value for key, value in split[section].items() if key != "name"}
            split[section] = {"options": options} | {k: v for k, v in split[section].items() if k == "name"}
    return load(split, Settings, where=origin)


def _defaults() -> dict[str, Any]:
    plain: dict[str, Any] = dump(Settings())
    for section in _CHOICES:
        plain[section] = {"name": plain[section]["name"]}
    return plain


def _flatten(values: Mapping[str, Any], prefix: _Key = ()) -> Iterable[tuple[_Key, Any]]:
    """Leaves by key: settings, and options of components, whose values may be mappings; none for an empty section."""
    for key, value in values.items():
        depth = 2 if (prefix or (key,))[0] in _LISTS.values() else 1
        if isinstance(value, Mapping) and len(prefix) < depth:
            yield from _flatten(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def _named(leaves: Iterable[tuple[_Key, Any]], name_of: Callable[[str, str], str]) -> Iterator[tuple[_Key, Any]]:
    """The same leaves, with aliases replaced by component names."""
    for (section, *rest), value in leaves:
        if section in _CHOICES and rest == ["name"]:
            yield (section, "name"), name_of(section, value)
        elif section in _LISTS:
            yield (section,), [name_of(_LISTS[section], name) for name in value]
        elif section in _LISTS.values() and rest:
            yield (section, name_of(section, rest[0]), *rest[1:]), value
        else:
            yield (section, *rest), value


def _nested(flat: Mapping[_Key, Any], where: str = "settings") -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for (*sections, leaf), value in flat.items():
        node = nested
        for section in sections:
            node = node.setdefault(section, {})
            if not isinstance(node, dict):  # possible in a run.json written by others
                raise InputError(f"{where}: {'.'.join((*sections, leaf))}: {section!r} is not a section")
        node[leaf] = value
    return nested
