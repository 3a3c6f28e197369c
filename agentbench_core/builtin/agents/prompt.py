"""Prompts in files of a package, named by what they say."""

from __future__ import annotations

import hashlib
import importlib.resources

import attrs


@attrs.frozen
class Prompt:
    """A prompt. ``version``, for ``AgentResult.prompt_version``, is its name and the digest of its file or text.

    ``file`` holds the bytes that it was read from, if any.
    """

    name: str
    text: str
    file: bytes = b""

    @property
    def version(self) -> str:
        """``system_v1@sha256:...``: what ``sha256sum system_v1.txt`` prints; another word is another version."""
        return f"{self.name}@sha256:{hashlib.sha256(self.file or self.text.encode()).hexdigest()}"

    @classmethod
    def read(cls, package: str, name: str) -> Prompt:
        """The file ``prompts/NAME.txt`` of a package."""
        file = (importlib.resources.files(package) / "prompts" / f"{name}.txt").read_bytes()
        return cls(name, file.decode().strip(), file)
