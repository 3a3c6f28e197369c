"""The one strict converter between plain data (YAML, JSON, flags) and frozen values.

cattrs is lax by default (``id: 3`` becomes ``"3"``, ``tags: abc`` becomes three tags). Here nothing is coerced
except integers to floats, unknown keys are errors, and messages contain the file, the path and a remedy.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.schema import FieldValueError, key_of, type_name

T = TypeVar("T")
_MOST = 30
"""Maximum number of problems in one message, so that it fits on a screen."""


def load(data: object, cls: type[T], *, where: str) -> T:
    """Convert plain data to a frozen value.

    Args:
        data: parsed YAML, JSON or command-line values.
        cls: the attrs class to build.
        where: the file or flag that the data comes from, for messages.

    Raises:
        InputError: the data is invalid; the message lists the problems with their paths, for example
            ``task.yaml: agent.stps: unknown field (did you mean 'max_steps'?)``.
    """
    try:
        return _CONVERTER.structure(data, cls)
    except _REFUSALS as error:
        problems = _problems(error, "")
        shown = problems[:_MOST]
        lines = [f"{where}: {path.lstrip('.')}{': ' if path else ''}{text}" for path, text in shown]
        if len(problems) > len(shown):
            lines.append(f"{where}: and {len(problems) - len(shown)} more")
        raise InputError("\n".join(lines)) from None


def dump(value: object) -> Any:
    """A frozen value as plain data: mappings, lists, text, numbers, booleans, ``None``."""
    return _CONVERTER.unstructure(value)


class _MismatchError(ValueError):
    """The problems in a piece of data: paths relative to it, each with a message."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__(problems)
        self.problems = problems


_Structure = Callable[[object, Any], Any]


def _expected(hint: Any, value: object) -> _MismatchError:
    shown = repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "..."
    quotable = hint is str and isinstance(value, (bool, int, float, datetime.date))
    hint_text = did_you_mean(value, _choices(hint)) if isinstance(value, str) else ""
    return _MismatchError(
        ("", f"expected {type_name(hint)}, found {shown}{' (put it in quotes)' * quotable}{hint_text}")
    )


def _choices(hint: Any) -> list[str]:
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return [member.value for member in hint]
    return [str(choice) for choice in get_args(hint)] if get_origin(hint) is Literal else []


def _exactly(hint: type) -> _Structure:
    def structure(value: object, _: object) -> object:
        if hint is float and isinstance(value, (int, float)) and type(value) is not bool:
            with contextlib.suppress(OverflowError):
                if math.isfinite(value):
                    return float(value)
        elif type(value) is hint:
            return value
        raise _expected(hint, value)

    return structure


def _structure_enum(value: object, hint: type[enum.StrEnum]) -> enum.StrEnum:
    if isinstance(value, str) and value in list(hint):
        return hint(value)
    raise _expected(hint, value)


def _structure_literal(value: object, hint: Any) -> object:
    if any(type(choice) is type(value) and choice == value for choice in get_args(hint)):
        return value
    raise _expected(hint, value)


def _union_hook(hint: Any, converter: cattrs.Converter) -> _Structure:
    rest = [argument for argument in get_args(hint) if argument is not type(None)]
    optional = len(rest) < len(get_args(hint))

    def structure(value: object, _: object) -> object:
        if value is None and optional:
            return None
        if len(rest) == 1:
            return converter.structure(value, rest[0])
        for argument in rest:
            with contextlib.suppress(*_REFUSALS):
                return converter.structure(value, argument)
        raise _expected(hint, value)

    return structure


def _each(pairs: Iterable[tuple[str, Callable[[], object]]]) -> list[Any]:
    """Structure all elements before raising, so that one error lists every problem."""
    built, result = [], []
    for step, build in pairs:
        try:
            built.append(build())
        except _REFUSALS as error:
            result += _problems(error, step)
    if result:
        raise _MismatchError(*result)
    return built


def _sequence_hook(hint: Any, converter: cattrs.Converter) -> _Structure:
    element = get_args(hint)[0]

    def structure(value: object, _: object) -> object:
        if not isinstance(value, (list, tuple)):
            raise _expected(hint, value)
        try:
            return tuple([converter.structure(item, element) for item in value])
        except _REFUSALS:  # again, to find all problems
            pairs = enumerate(value)
            return tuple(_each((f"[{index}]", partial(converter.structure, item, element)) for index, item in pairs))

    return structure


def _mapping_hook(hint: Any, converter: cattrs.Converter) -> _Structure:
    key_type, value_type = get_args(hint)

    def structure(value: object, _: object) -> object:
        if not isinstance(value, Mapping):
            raise _expected(hint, value)
        try:
            return {
                converter.structure(key, key_type): converter.structure(item, value_type) for key, item in value.items()
            }
        except _REFUSALS:  # again, to find all problems
            pass
        keys = _each((f".{key}", partial(converter.structure, key, key_type)) for key in value)
        items = _each((f".{key}", partial(converter.structure, item, value_type)) for key, item in value.items())
        return dict(zip(keys, items, strict=True))

    return structure


def _class_hook(cls: type, converter: cattrs.Converter) -> _Structure:
    generated: Any = make_dict_structure_fn(cls, converter, **_renamed(cls))

    def structure(value: object, hint: Any) -> object:
        if not isinstance(value, Mapping):
            raise _expected(cls, value)
        unnamed = [key for key in value if not isinstance(key, str)]
        if unnamed:
            raise _MismatchError(("", f"field names must be strings, found {unnamed[0]!r} (put it in quotes)"))
        return generated(value, hint)

    return structure


def _unstructure_class(cls: type, converter: cattrs.Converter) -> Callable[[Any], dict[str, Any]]:
    return make_dict_unstructure_fn(cls, converter, **_renamed(cls))


def _renamed(cls: type) -> dict[str, Any]:
    """Overrides for fields whose name in data differs from the Python name."""
    return {field.name: override(rename=key_of(field)) for field in attrs.fields(cls) if key_of(field) != field.name}


_REFUSALS = (ClassValidationError, _MismatchError)


def _problems(error: BaseException, path: str) -> list[tuple[str, str]]:
    """Every leaf of cattrs' exception tree as (path, message)."""
    if isinstance(error, ClassValidationError):
        noted, bare = error.group_exceptions()
        results = [problem for inner, note in noted for problem in _problems(inner, f"{path}.{note.name.rstrip('_')}")]
        return results + [problem for inner in bare for problem in _problems(inner, path)]
    if isinstance(error, ForbiddenExtraKeysError):
        names = [key_of(field) for field in attrs.fields(error.cl)]
        known = f"; known: {', '.join(names) or 'none'}"
        extra = sorted(error.extra_fields)
        near = [did_you_mean(key, names) for key in extra[:_MOST]]  # the search is slow
        near += [""] * (len(extra) - len(near))
        return [(f"{path}.{key}", f"unknown field{each or known}") for key, each in zip(extra, near, strict=True)]
    if isinstance(error, _MismatchError):
        return [(f"{path}{below}", message) for below, message in error.problems]
    if isinstance(error, FieldValueError):
        return [(f"{path}.{error.field}", error.problem)]
    if isinstance(error, KeyError):
        return [(path, "required field is missing")]
    return [(path, str(error))]


def _is_sequence(hint: Any) -> bool:
    return get_origin(hint) in (tuple, Sequence)


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _is_literal(hint: Any) -> bool:
    return get_origin(hint) is Literal


def _build() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
    for plain in (str, int, float, bool):
        converter.register_structure_hook(plain, _exactly(plain))
    converter.register_structure_hook_func(lambda hint: hint in (Any, object), lambda value, _: value)
    converter.register_structure_hook_factory(_is_sequence, _sequence_hook)
    converter.register_structure_hook_factory(_is_mapping, _mapping_hook)
    converter.register_structure_hook_func(_is_literal, _structure_literal)
    converter.register_structure_hook_factory(_is_union, _union_hook)
    converter.register_structure_hook(enum.StrEnum, _structure_enum)  # by class, since the `str` hook would match first
    converter.register_structure_hook_factory(attrs.has, _class_hook)
    converter.register_unstructure_hook_factory(attrs.has, _unstructure_class)
    converter.register_unstructure_hook_func(_is_sequence, lambda items: [converter.unstructure(i) for i in items])
    converter.register_unstructure_hook(tuple, lambda items: [converter.unstructure(item) for item in items])
    return converter


_CONVERTER = _build()
