"""Named variants: files in ``configs/variants/``, and those that plugins ship."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentbench_core.errors import InputError, UnknownNameError, did_you_mean
from agentbench_core.inputs.config import Layer, layer
from agentbench_core.inputs.documents import read_yaml

SECTIONS = ("agent", "llm", "sandbox", "model", "limits", "tools", "tool")
"""What a variant may set: what is compared, and the sandbox that it needs; not how often it runs."""

DIRECTORY = Path("configs/variants")


def variant_files(directory: Path = DIRECTORY) -> Mapping[str, Path]:
    """Variant files by name."""
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def find_variant(name: str, shipped: Mapping[str, Mapping[str, Any]], directory: Path = DIRECTORY) -> tuple[str, Layer]:
    """The variant of that name, or in the file of that path, with its name.

    Args:
        name: a name, or a path that ends in ``.yaml``.
        shipped: settings of the variants that plugins register, by name.
        directory: where variant files are looked for.

    Raises:
        InputError: a file in ``directory`` has the name of a variant that a plugin registers.
        UnknownNameError: there is none.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        return path.stem, layer(name, read_yaml(path), sections=SECTIONS)
    files = variant_files(directory)
    if name in files and name in shipped:
        raise InputError(
            f"variant {name!r} is both {files[name]} and registered by a plugin",
            remedy=f"Rename the file, or name it by its path: --variant {files[name]}",
        )
    if name in files:
        return name, layer(str(files[name]), read_yaml(files[name]), sections=SECTIONS)
    if name in shipped:
        return name, layer(f"variant {name!r}", shipped[name], sections=SECTIONS)
    known = sorted({*files, *shipped})
    raise UnknownNameError(
        f"no variant {name!r}{did_you_mean(name, known)}",
        remedy=f"Available: {', '.join(known) or 'none'}. A file works too: --variant path/to/{name}.yaml",
    )
