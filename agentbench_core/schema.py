"""Fields with help texts, and descriptions of the data that a frozen class accepts: an option table and a JSON Schema.

Every class that is written as data (``task.yaml``, options, tool arguments) declares its fields with :func:`option`,
so each field has its own help text.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

T = TypeVar("T")


class FieldValueError(ValueError):
    """A value of the right type that violates a constraint of its field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@typing.overload
def option(*, help: str, pattern: str = ..., minimum: float = ..., maximum: float = ...) -> Any: ...
@typing.overload
def option(default: T, *, help: str, pattern: str = ..., minimum: float = ..., maximum: float = ...) -> T: ...
def option(
    default: Any = attrs.NOTHING,
    *,
    help: str,  # noqa: A002 - matches the name of the field
    pattern: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """A field of a frozen class, with help.

    Args:
        default: value of the field if it is omitted; without a default, the field is required.
        help: one line of text, shown by ``plugins show``, READMEs and the JSON Schema.
        pattern: for text, a regular expression that the whole value must match.
        minimum: for numbers, the smallest value allowed.
        maximum: for numbers, the largest value allowed.
    """

    def check(_: object, field: attrs.Attribute[Any], value: Any) -> None:
        if pattern and isinstance(value, str) and not re.fullmatch(pattern, value):
            raise FieldValueError(field.name, f"{value!r} does not match {pattern}")
        if minimum is not None and isinstance(value, (int, float)) and value < minimum:
            raise FieldValueError(field.name, f"{value!r} is below {minimum:g}")
        if maximum is not None and isinstance(value, (int, float)) and value > maximum:
            raise FieldValueError(field.name, f"{value!r} is above {maximum:g}")

    metadata = {"help": help, "pattern": pattern, "minimum": minimum, "maximum": maximum}
    limited = pattern or minimum is not None or maximum is not None
    return attrs.field(default=default, validator=check if limited else None, metadata=metadata)


def key_of(field: attrs.Attribute[Any]) -> str:
    """The name of a field in data: ``from`` for ``from_``, since ``from`` is a Python keyword."""
    return field.name.rstrip("_")


@attrs.frozen(kw_only=True)
class OptionDescription:
    """One row of an option table."""

    name: str  #: key in YAML
    type: str  #: type in plain words, such as `list of text`
    default: str  #: `required`, or the value as YAML
    help: str  #: one line of text


def describe(cls: type) -> tuple[OptionDescription, ...]:
    """The options of a frozen class in the order of their definition."""
    hints = get_type_hints(cls)
    return tuple(
        OptionDescription(
            name=key_of(field),
            type=type_name(hints[field.name]),
            default="required" if field.default is attrs.NOTHING else _written(_default(field)),
            help=str(field.metadata.get("help", "")),
        )
        for field in attrs.fields(cls)
    )


def json_schema(cls: type) -> dict[str, Any]:
    """JSON Schema (2020-12) of a frozen class; unknown keys are forbidden, as in the converter."""
    hints = get_type_hints(cls)
    properties: dict[str, Any] = {}
    for field in attrs.fields(cls):
        schema = _schema_of(hints[field.name])
        if field.metadata.get("help"):
            schema["description"] = field.metadata["help"]
        if field.metadata.get("pattern"):
            schema["pattern"] = f"^(?:{field.metadata['pattern']})$"
        for limit in ("minimum", "maximum"):
            if field.metadata.get(limit) is not None:
                schema[limit] = field.metadata[limit]
        properties[key_of(field)] = schema
    for key, value in defaults(cls).items():
        properties[key]["default"] = value
    required = [key_of(field) for field in attrs.fields(cls) if field.default is attrs.NOTHING]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def defaults(cls: type) -> dict[str, Any]:
    """The defaults of a frozen class, by key in data, without required fields and nested classes."""
    optional = [field for field in attrs.fields(cls) if field.default is not attrs.NOTHING]
    return {key_of(field): _plain(_default(field)) for field in optional if not attrs.has(type(_default(field)))}


def type_name(hint: Any) -> str:
    """A type in plain words: ``text``, ``number``, ``list of text``, ``one of a, b``."""
    plain = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null"}
    if hint in plain:
        return plain[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(argument) for argument in arguments)
    if origin is Literal:
        return "one of " + ", ".join(str(argument) or '""' for argument in arguments)
    if origin in (tuple, Sequence):
        return f"list of {type_name(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping of text to {type_name(arguments[1])}"
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return "one of " + ", ".join(hint)
    if isinstance(hint, type) and attrs.has(hint):
        return "mapping with " + ", ".join(key_of(field) for field in attrs.fields(hint))
    return getattr(hint, "__name__", str(hint))


def _schema_of(hint: Any) -> dict[str, Any]:
    plain = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    if hint in plain:
        return {"type": plain[hint]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(argument) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, Sequence):
        return {"type": "array", "items": _schema_of(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return {"enum": list(hint)}
    if isinstance(hint, type) and attrs.has(hint):
        return json_schema(hint)
    if hint is Any or hint is object:
        return {}
    raise TypeError(f"no JSON Schema for {hint!r}")


def _default(field: attrs.Attribute[Any]) -> Any:
    default: Any = field.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _written(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(_written(item) for item in value) + "]"
    if isinstance(value, str):
        return value if value and value == value.strip() else f'"{value}"'
    return str(value)
