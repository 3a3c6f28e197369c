"""Render templates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from html import escape

from pressroom.cache import RenderCache, Rendered
from pressroom.dependencies import Recorder, unchanged
from pressroom.errors import IncludeCycle, UndefinedVariable
from pressroom.loader import Loader
from pressroom.sources import Source
from pressroom.template import Include, Node, Template, Text, Variable


class Engine:
    """Renders the templates of a source, and keeps what it rendered for as long as it is right."""

    def __init__(self, source: Source, *, cache_size: int = 256) -> None:
        self.source = source
        self.cache = RenderCache(cache_size)
        self._recorder = Recorder()
        self._loader = Loader(source, self._recorder)
        self._open: list[str] = []

    def render(self, name: str, variables: Mapping[str, object] | None = None) -> str:
        """The text of a template with these variables."""
        values = {key: str(value) for key, value in (variables or {}).items()}
        return self._render(name, values)

    def _render(self, name: str, values: Mapping[str, str]) -> str:
        key = (name, tuple(sorted(values.items())))
        kept = self.cache.get(key, partial(unchanged, source=self.source))
        if kept is not None:
            return kept.text
        if name in self._open:
            raise IncludeCycle([*self._open[self._open.index(name) :], name])
        self._open.append(name)
        try:
            with self._recorder.frame() as dependencies:
                text = self._expand(self._loader.load(name), values)
        finally:
            self._open.pop()
        self.cache.put(key, Rendered(text, dependencies))
        return text

    def _expand(self, template: Template, values: Mapping[str, str]) -> str:
        return "".join(self._text(node, template, values) for node in template.nodes)

    def _text(self, node: Node, template: Template, values: Mapping[str, str]) -> str:
        match node:
            case Text(text):
                return text
            case Variable(name, default):
                value = values.get(name, default)
                if value is None:
                    raise UndefinedVariable(template.name, name)
                return escape(value)
            case Include(name, optional):
                if optional and self._loader.load_if_there(name) is None:
                    return ""
                return self._render(name, values)
