"""Named variants and models: ``configs/variants/``, ``configs/models.yaml``, and the variants that plugins ship."""

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
"""What a variant may set: what is compared, and the sandbox that it needs; not how often it runs."""

DIRECTORY = Path("configs/variants")

PRESETS_FILE = Path("configs/models.yaml")
PRESET_SECTIONS = ("llm", "model")
"""What a preset may set."""


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
            remedy=f"Rename the file, or pass its path: --variant {files[name]}",
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


@attrs.frozen(kw_only=True)
class Presets:
    """What the file says: settings by the name that people type for a model."""

    version: str
    models: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    default: str = ""
    """The preset of agents that need a model where nobody names one; none when empty."""


def read_presets(path: Path = PRESETS_FILE) -> Presets:
    """The presets of a file; none where there is no file. Raises InputError."""
    if not path.exists():
        return Presets(version="none")
    presets = load(read_yaml(path), Presets, where=str(path))
    if presets.default and presets.default not in presets.models:
        nearest = did_you_mean(presets.default, presets.models)
        raise InputError(f"{path}: default: no preset is named {presets.default!r}{nearest}")
    return presets


def default_model(resolved: Resolved, presets: Presets, path: Path = PRESETS_FILE) -> Sequence[Layer]:
    """The layer that names the default preset, where no other says which model, or who serves it."""
    said = any(leaf.origin != "default" for key, leaf in resolved.leaves.items() if key.startswith("llm."))
    if said or resolved.settings.model.name or not presets.default:
        return []
    return [Layer(origin=f"{path} version {presets.version}, default", values={"model": {"name": presets.default}})]


def with_preset(layers: Sequence[Layer], presets: Presets, path: Path = PRESETS_FILE) -> Sequence[Layer]:
    """The same layers above those of the preset that the model's name asks for, if there is one.

    A preset may give a model another name, as its provider calls it. Each setting's origin names the file, its version
    and the preset. Raises InputError, also when a preset has options for an llm that it does not name: they would be
    given to any, and be lost when theirs is named.
    """
    named = resolve(layers).settings.model.name
    found = presets.models.get(named)
    if found is None:
        return layers
    origin = f"{path} version {presets.version}, {named}"
    preset = layer(origin, found, sections=PRESET_SECTIONS)
    if preset.values.get("llm") and not preset.values["llm"].get("name"):
        raise InputError(f"{origin}: has llm options but no llm name", remedy="Add it there: llm: {name: NAME, ...}")
    name = preset.values.get("model", {}).get("name")
    renamed = [Layer(origin=origin, values={"model": {"name": name}})] if name else []
    return [preset, *layers, *renamed]
