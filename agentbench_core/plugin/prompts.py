"""Prompts in files of a package, named by what they say."""

from __future__ import annotations

import hashlib
import importlib.resources

import attrs


@attrs.frozen
class Prompt:
    """A prompt. ``version`` is its name and the digest of its text, for ``AgentResult.prompt_version``."""

    name: str
    text: str

    @property
    def version(self) -> str:
        """``system_v1@sha256:...``: another word is another version."""
        return f"{self.name}@sha256:{hashlib.sha256(self.text.encode()).hexdigest()}"

    @classmethod
    def read(cls, package: str, name: str) -> Prompt:
        """The file ``prompts/NAME.txt`` of a package."""
        file = importlib.resources.files(package) / "prompts" / f"{name}.txt"
        return cls(name, file.read_text(encoding="utf-8").strip())
