"""A griffe extension for the API reference. It is loaded by mkdocs.yml and by tests/docs/test_api_reference.py.

Descriptions are read from ``option(help=...)`` and from ``#:`` comments at the end of a line, as Sphinx does, in
addition to docstrings. Tables show the fields of value classes, the members of enumerations, and the checks of the
conformance classes. A public class is shown with the members that it inherits from classes that are not public.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import griffe

_COMMENT = re.compile(r"#: (.+)$")
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")


class Reference(griffe.Extension):
    """Changes the objects that griffe has read; see the docstring of the module."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Add the description of an attribute. A call that creates a field is replaced by the default."""
        comment = _COMMENT.search(attr.lines[-1])
        text = comment[1] if comment else ""
        call = attr.value
        if isinstance(call, griffe.ExprCall) and str(call.function) in ("option", "attrs.field"):
            named = {each.name: each.value for each in call.arguments if isinstance(each, griffe.ExprKeyword)}
            unnamed = [each for each in call.arguments if not isinstance(each, griffe.ExprKeyword)]
            text = text or ast.literal_eval(str(named.get("help", "''")))
            attr.value = _default(named, unnamed)
            attr.labels |= {"keyword-only"} if "kw_only" in named else set()
        if text and not attr.docstring:
            start = text[0] if re.match(r"\w+:", text) else text[0].upper()  # `true: ...` is about that value
            attr.docstring = griffe.Docstring(f"{start}{text[1:].rstrip('.')}.", parent=attr)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Simplify, and add tables and inherited members, after all modules are read."""
        objects = list(_objects(pkg))
        attributes = [each for each in objects if isinstance(each, griffe.Attribute)]
        literals = {each.path: each.value for each in attributes if str(each.value).startswith("Literal[")}
        for attribute in attributes:
            _simplify(attribute, literals)
        for each in objects:
            if each.docstring:
                each.docstring.value = _markdown(each.docstring.value)
        public = set(_public(pkg))
        classes = [each for each in objects if isinstance(each, griffe.Class)]
        for cls in classes:
            if cls.path in public:
                _inherit(cls, [base for base in cls.mro() if base.path not in public and base.package is pkg])
        tables = [(cls.docstring, *table) for cls in classes if cls.docstring and (table := _table(cls))]
        for docstring, section, members in tables:
            docstring.parsed.append(section)
            for member in members:
                member.docstring = None  # without a docstring, a member is not shown again below the table


def _objects(parent: griffe.Module | griffe.Class) -> Iterator[griffe.Object]:
    for member in parent.members.values():
        if isinstance(member, griffe.Object):
            yield member
            if isinstance(member, (griffe.Module, griffe.Class)):
                yield from _objects(member)


def _public(pkg: griffe.Module) -> Iterator[str]:
    """Where the names that users import are defined."""
    for module in (pkg, *(module for name, module in pkg.modules.items() if name == "harness")):
        yield from (each.target_path for each in module.members.values() if isinstance(each, griffe.Alias))


def _default(named: Mapping[str, Any], unnamed: Sequence[Any]) -> Any:
    value = named.get("default", unnamed[0] if unnamed else None)
    factory = named.get("factory")
    if isinstance(value, griffe.ExprCall) and str(value.function) == "attrs.Factory":
        factory = value.arguments[0]
    return value if factory is None else "{}" if str(factory) == "dict" else f"{factory}()"


def _simplify(attribute: griffe.Attribute, literals: Mapping[str, Any]) -> None:
    """Replace what tells a reader nothing: aliases of a ``Literal``, private defaults, values from parameters."""
    if isinstance(attribute.annotation, griffe.ExprName):
        attribute.annotation = literals.get(attribute.annotation.canonical_path, attribute.annotation)
    if str(attribute.value).startswith("_"):
        attribute.value = "..."
    init = attribute.parent.members.get("__init__") if attribute.parent else None
    if isinstance(init, griffe.Function) and attribute.labels == {"instance-attribute"}:
        parameters = {each.name: each.annotation for each in init.parameters}
        if not parameters.keys().isdisjoint(re.findall(r"\w+", str(attribute.value))):
            attribute.annotation = attribute.annotation or parameters.get(str(attribute.value))
            attribute.value = None


def _markdown(text: str) -> str:
    """A docstring without the roles and the double colons of reStructuredText."""
    text = _ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", text)
    return text.replace("\n::\n", "\n").replace("::\n", ":\n")


def _inherit(cls: griffe.Class, bases: Sequence[griffe.Class]) -> None:
    """Show the public members of ``bases`` with a class."""
    for base in bases:
        for name, member in base.members.items():
            if name not in cls.members and not name.startswith("_"):
                cls.set_member(name, griffe.Alias(name, member))


def _table(cls: griffe.Class) -> tuple[griffe.DocstringSection, Sequence[Any]] | None:
    """A table of the fields, members or checks of a class, if it has any, and what is in it."""
    kind = " ".join(str(each) for each in (*(decorator.value for decorator in cls.decorators), *cls.bases))
    members = {name: _final(each) for name, each in cls.members.items() if not name.startswith("_")}
    if "attrs." in kind or "msgspec.Struct" in kind:
        lines = [*reversed(cls.mro()), cls]
        fields = {name: _final(each) for base in lines for name, each in base.members.items() if _is_field(each)}
        keyword_only = "kw_only=True" in kind or "msgspec.Struct" in kind
        parameters = griffe.Parameters(*(_parameter(each, keyword_only) for each in fields.values()))
        cls.set_member("__init__", griffe.Function("__init__", parameters=parameters))
        if not fields:
            return None
        rows = [
            griffe.DocstringParameter(name, annotation=each.annotation, value=each.value, description=_text(each))
            for name, each in fields.items()
        ]
        return griffe.DocstringSectionParameters(rows, title="Fields:"), list(fields.values())
    if "enum." in kind:
        words = [griffe.DocstringAttribute(n, annotation=e.value, description=_text(e)) for n, e in members.items()]
        return griffe.DocstringSectionAttributes(words, title="Members:"), list(members.values())
    if tests := {name: each for name, each in members.items() if name.startswith("test_")}:
        checks = [griffe.DocstringFunction(name, description=_text(each)) for name, each in tests.items()]
        return griffe.DocstringSectionFunctions(checks, title="Checks:"), list(tests.values())
    return None


def _final(member: griffe.Object | griffe.Alias) -> Any:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _is_field(member: griffe.Object | griffe.Alias) -> bool:
    labels = member.labels if member.is_attribute else set()
    return "instance-attribute" in labels and "property" not in labels and not member.is_private


def _parameter(field: griffe.Attribute, keyword_only: bool) -> griffe.Parameter:
    kinds = griffe.ParameterKind
    kind = kinds.keyword_only if keyword_only or "keyword-only" in field.labels else kinds.positional_or_keyword
    return griffe.Parameter(field.name, kind=kind, default=field.value)


def _text(member: griffe.Object) -> str:
    return member.docstring.value if member.docstring else ""
