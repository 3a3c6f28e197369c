"""Templates: from text to nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pressroom.errors import TemplateSyntaxError

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*(?:\|\s*(.*?)\s*)?\}\}", re.DOTALL)
_INCLUDE = re.compile(r'\{%\s*include\s+"([^"]+)"(\s+optional)?\s*%\}')


@dataclass(frozen=True)
class Text:
    """Text that stays as it is."""

    text: str


@dataclass(frozen=True)
class Variable:
    """The value of a variable, or its default."""

    name: str
    default: str | None = None


@dataclass(frozen=True)
class Include:
    """Another template."""

    name: str
    optional: bool = False


Node = Text | Variable | Include


@dataclass(frozen=True)
class Template:
    """A parsed template."""

    name: str
    nodes: tuple[Node, ...]


def parse(name: str, text: str) -> Template:
    """Parse the text of the template called ``name``."""
    nodes: list[Node] = []
    position = 0
    for tag in _TAG.finditer(text):
        if tag.start() > position:
            nodes.append(Text(text[position : tag.start()]))
        position = tag.end()
        if variable := _VARIABLE.fullmatch(tag[0]):
            nodes.append(Variable(variable[1], variable[2]))
        elif include := _INCLUDE.fullmatch(tag[0]):
            nodes.append(Include(include[1], optional=include[2] is not None))
        else:
            raise TemplateSyntaxError(name, text.count("\n", 0, tag.start()) + 1, tag[0])
    if position < len(text):
        nodes.append(Text(text[position:]))
    return Template(name, tuple(nodes))
