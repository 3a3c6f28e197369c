"""Named variants and models: ``configs/variants/``, ``configs/models.yaml``, and plugin variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.converter import load
from agentbench_core.errors import InputError, UnknownNameError, did_you_mean
from agentbench_core.inputs.config import Layer, Resolved, layer, resolve
from agentbench_core.inputs.documents import read_yaml

SECTIONS = ("agent", "llm", "sandbox", "model", "limits", "tools", "tool")
"""Sections that a variant may set: settings to compare, and the sandbox it needs, but not ``run``."""

DIRECTORY = Path("configs/variants")

PRESETS_FILE = Path("configs/models.yaml")
PRESET_SECTIONS = ("llm", "model")
"""Sections that a preset may set."""


def variant_files(directory: Path = DIRECTORY) -> Mapping[str, Path]:
    """Variant files by name."""
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def find_variant(name: str, shipped: Mapping[str, Mapping[str, Any]], directory: Path = DIRECTORY) -> tuple[str, Layer]:
    """The name and the layer of a variant, found by its name or by the path of its file.

    Args:
        name: a name, or a path that ends in ``.yaml``.
        shipped: settings of the variants registered by plugins, by name.
        directory: the directory of variant files.

    Raises:
        InputError: a file in ``directory`` has the name of a plugin's variant, or the variant is invalid.
        UnknownNameError: there is no such variant.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        return path.stem, layer(name, read_yaml(path), sections=SECTIONS)
    files = variant_files(directory)
    if name in files and name in shipped:
        raise InputError(
            f"variant {name!r} is defined both by a file ({files[name]}) and by a plugin",
            remedy=f"Rename the file, or pass its path: --variant {files[name]}",
        )
    if name in files:
        return name, layer(str(files[name]), read_yaml(files[name]), sections=SECTIONS)
    if name in shipped:
        return name, layer(f"variant {name!r}", shipped[name], sections=SECTIONS)
    known = sorted({*files, *shipped})
    raise UnknownNameError(
        f"no variant {name!r}{did_you_mean(name, known)}",
        remedy=f"Available: {', '.join(known) or 'none'}. To use a file: --variant path/to/{name}.yaml",
    )


@attrs.frozen(kw_only=True)
class Presets:
    """The contents of ``configs/models.yaml``: settings by model name."""

    version: str
    models: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    default: str = ""
    """The preset to use if an agent needs a model and none is set; may be empty."""


def read_presets(path: Path = PRESETS_FILE) -> Presets:
    """The presets of a file; empty if there is no file. Raises InputError if it is invalid."""
    if not path.exists():
        return Presets(version="none")
    presets = load(read_yaml(path), Presets, where=str(path))
    if presets.default and presets.default not in presets.models:
        nearest = did_you_mean(presets.default, presets.models)
        raise InputError(f"{path}: default: no preset is named {presets.default!r}{nearest}")
    return presets


def default_model(resolved: Resolved, presets: Presets, path: Path = PRESETS_FILE) -> Sequence[Layer]:
    """The layer that selects the default preset, if no other layer sets a model or provider."""
    message = any(leaf.origin != "default" for key, leaf in resolved.leaves.items() if key.startswith("llm."))
    if message or resolved.settings.model.name or not presets.default:
        return []
    return [Layer(origin=f"{path} version {presets.version}, default", values={"model": {"name": presets.default}})]


def with_preset(layers: Sequence[Layer], presets: Presets, path: Path = PRESETS_FILE) -> Sequence[Layer]:
    """``layers`` on top of the preset that matches the model's name, if there is one.

    A preset may set another name, which the provider uses. The origin of a setting contains the file, its version and
    the preset. Raises InputError if the preset is invalid, or has llm options but no llm name: such options would apply
    to any llm, and be dropped when another is selected.
    """
    named = resolve(layers).settings.model.name
    result = presets.models.get(named)
    if result is None:
        return layers
    origin = f"{path} version {presets.version}, {named}"
    preset = layer(origin, result, sections=PRESET_SECTIONS)
    if preset.values.get("llm") and not preset.values["llm"].get("name"):
        raise InputError(f"{origin}: has llm options but no llm name", remedy="Add one: llm: {name: NAME, ...}")
    name = preset.values.get("model", {}).get("name")
    renamed = [Layer(origin=origin, values={"model": {"name": name}})] if name else []
    return [preset, *layers, *renamed]
