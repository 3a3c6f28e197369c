"""Where templates come from."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from pressroom.errors import TemplateNotFound


class Source(Protocol):
    """Gives templates by name."""

    def read(self, name: str) -> str:
        """The text of a template. Raises TemplateNotFound."""
        ...

    def fingerprint(self, name: str) -> str | None:
        """Something that changes with the text of a template; None if it does not exist."""
        ...


class MemorySource(dict[str, str]):
    """Templates in a dictionary."""

    def __init__(self, templates: Mapping[str, str] | None = None) -> None:
        super().__init__(templates or {})

    def read(self, name: str) -> str:
        try:
            return self[name]
        except KeyError:
            raise TemplateNotFound(name) from None

    def fingerprint(self, name: str) -> str | None:
        text = self.get(name)
        return None if text is None else sha256(text.encode()).hexdigest()


class DirectorySource:
    """Templates in the ``*.tmpl`` files of one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> str:
        try:
            return self._path(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TemplateNotFound(name) from None

    def fingerprint(self, name: str) -> str | None:
        try:
            return sha256(self._path(name).read_bytes()).hexdigest()
        except FileNotFoundError:
            return None

    def _path(self, name: str) -> Path:
        if "/" in name or name.startswith("."):
            raise TemplateNotFound(name)
        return self.root / f"{name}.tmpl"
