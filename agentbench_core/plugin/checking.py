"""What can be said of a plugin without running it on a task; the conformance kit says the rest."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.component_checks import check_component
from agentbench_core.plugin.discovery import Plugin, Plugins, entry_point_of
from agentbench_core.plugin.findings import Finding, advice, ok, problem

_CORE = "agentbench-core"
_IMPORT_SEC = 60.0
_SLOW_SEC = 0.25


def check_plugin(plugin: Plugin, plugins: Plugins, loaded_anyway: Sequence[str]) -> Iterator[Finding]:
    """Look at one plugin: how it loads, what it registers, what its distribution says.

    Its module is imported in a process of its own, after the modules that are ``loaded_anyway`` by every command. Its
    factories are called here, with the defaults of their options, and nothing else. Commands and variants are left to
    who knows what they may be.
    """
    if plugin.status == "disabled":
        yield advice(f"not looked at: {plugin.problem}")
        return
    if plugin.status == "broken":
        yield problem(plugin.problem, f"See the traceback: agentbench --debug plugins show {plugin.source.plugin}")
        return
    yield from _check_import(plugin, plugins.environ, loaded_anyway)
    for note in plugin.notes:
        if not note.startswith("it prints"):  # which the import alone has shown better
            yield advice(note)
    yield from _check_version(plugin)
    registry = plugins.registry
    components = [component for component in registry.all() if component.source == plugin.source]
    if not components:
        yield problem("it registers nothing", "Implement a hook: see agentbench_core/plugin/hookspecs.py")
    conflicts = registry.conflicts()
    for component in components:
        for name in sorted(component.names):
            if (component.kind, name) in conflicts:
                others = {c.source.distribution for c in registry.all(component.kind) if name in c.names}
                yield problem(
                    f"{component.kind} {name!r} is also registered by {', '.join(sorted(others))}",
                    "Choose another name: whoever has both installed can use neither.",
                )
        yield from check_component(component)
    yield from _check_metadata(plugin)


def _check_import(plugin: Plugin, environ: Mapping[str, str], loaded_anyway: Sequence[str]) -> Iterator[Finding]:
    """The module alone in a fresh process: what it loads, prints and changes."""
    module = entry_point_of(plugin.source).module
    with tempfile.TemporaryDirectory(prefix="agentbench-check-") as place:
        written = Path(place) / "found.json"
        command = [sys.executable, "-m", "agentbench_core.plugin.probing", module, str(written), *loaded_anyway]
        path = os.pathsep.join(part for part in sys.path if part)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                text=True,
                errors="replace",
                timeout=_IMPORT_SEC,
                env={**environ, "PYTHONPATH": path},
            )
        except subprocess.TimeoutExpired:
            yield problem(
                f"importing {module} alone takes more than {_IMPORT_SEC:g} s", "Work belongs into the factory."
            )
            return
        if done.returncode != 0 or not written.exists():
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            yield problem(f"{module} cannot be imported alone: {last}")
            return
        found = json.loads(written.read_text(encoding="utf-8"))
    wrong = []
    if said := (done.stdout + done.stderr).strip():
        wrong.append(
            problem(
                f"it prints when it is loaded: {said.splitlines()[0]!r}", "Every command would print it: remove it."
            )
        )
    if found["modules"]:
        wrong.append(
            problem(
                f"loading it imports {', '.join(found['modules'])}, for every command",
                "Import these inside the factory, or in a module that only the factory imports.",
            )
        )
    if found["changed"]:
        wrong.append(problem(f"loading it changes {', '.join(found['changed'])}", "Do that in the factory, or never."))
    yield from wrong
    if found["seconds"] > _SLOW_SEC:
        yield advice(f"loading it took {found['seconds']:.2f} s, for every command")
    elif not wrong:
        yield ok("loads alone, imports nothing heavy, prints nothing")


def _check_version(plugin: Plugin) -> Iterator[Finding]:
    if hasattr(entry_point_of(plugin.source).load(), "AGENTBENCH_API"):
        yield ok(f"written for version {hookspecs.API_VERSION} of the plugin API, which this core has")
    else:
        yield advice(
            "it does not say for which version of the plugin API it was written",
            f"Add to its module: AGENTBENCH_API = {hookspecs.API_VERSION}",
        )


def _check_metadata(plugin: Plugin) -> Iterator[Finding]:
    name = plugin.source.distribution
    if canonicalize_name(name) == _CORE:
        return
    needs = None
    for text in importlib.metadata.distribution(name).requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            yield problem(f"{name} requires {text!r}, which pip does not understand")
            continue
        if canonicalize_name(requirement.name) == _CORE and requirement.marker is None:
            needs = requirement
    if needs is None:
        yield advice(
            f"{name} does not require {_CORE}", 'In pyproject.toml: dependencies = ["agentbench-core>=0.1,<0.2"]'
        )
    elif not any(part.operator in ("<", "<=", "==", "~=") for part in needs.specifier):
        yield advice(
            f"{name} takes every later {_CORE}: {needs}",
            "Bound it, so that pip never pairs it with what breaks it: <0.2",
        )
    else:
        yield ok(f"requires {needs}")
