"""Load templates, and parse each only once."""

from __future__ import annotations

from pressroom.dependencies import Recorder
from pressroom.errors import TemplateNotFound
from pressroom.sources import Source
from pressroom.template import Template, parse


class Loader:
    """Parsed templates of a source. Each one that is loaded is recorded as a dependency."""

    def __init__(self, source: Source, recorder: Recorder) -> None:
        self._source = source
        self._recorder = recorder
        self._parsed: dict[str, tuple[str, Template]] = {}

    def load(self, name: str) -> Template:
        """The template as it is now. Raises TemplateNotFound."""
        fingerprint = self._source.fingerprint(name)
        if fingerprint is None:
            raise TemplateNotFound(name)
        self._recorder.record({name: fingerprint})
        known = self._parsed.get(name)
        if known is not None and known[0] == fingerprint:
            return known[1]
        template = parse(name, self._source.read(name))
        self._parsed[name] = (fingerprint, template)
        return template

    def load_if_there(self, name: str) -> Template | None:
        """The template as it is now, or None if there is none."""
        if self._source.fingerprint(name) is None:
            return None
        return self.load(name)
