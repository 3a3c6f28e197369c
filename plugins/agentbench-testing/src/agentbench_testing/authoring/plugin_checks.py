"""What can be said of a plugin without running it on a task; the conformance kit says the rest."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from agentbench_core.errors import PluginError
from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.discovery import Plugin, Plugins, entry_point_of
from agentbench_core.plugin.loading import import_entry_point, module_of
from agentbench_testing.authoring.component_checks import Finding, advice, check_component, ok, problem, surviving

_CORE = "agentbench-core"
_IMPORT_SEC = 60.0
_SLOW_SEC = 0.5
_LOOKS = 3


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
        ours = isinstance(plugin.error, PluginError)  # which says all that there is to say
        traceback = f"See the traceback: agentbench --debug plugins show {plugin.source.plugin}"
        yield problem(plugin.problem, "" if ours else traceback)
        return
    yield from _check_import(plugin, plugins.environ, loaded_anyway)
    for note in plugin.notes:
        if not note.startswith("it prints"):  # which the import alone has shown better
            yield advice(note)
    yield from surviving(_check_version(plugin), "its module")
    registry = plugins.registry
    components = [component for component in registry.all() if component.source == plugin.source]
    if not components:
        yield problem("it registers nothing", "Implement a hook: see agentbench_core/plugin/hookspecs.py")
    conflicts = registry.conflicts()
    for component in components:
        for name in sorted(component.names):
            if (component.kind, name) in conflicts:
                others = {c.source for c in registry.all(component.kind) if name in c.names} - {plugin.source}
                owners = ", ".join(sorted(f"{source.distribution} (plugin {source.plugin!r})" for source in others))
                yield problem(
                    f"{component.kind} {name!r} is also registered by {owners}",
                    "Choose another name: whoever has both installed can use neither.",
                )
        yield from surviving(check_component(component), f"{component.kind} {component.name!r}")
    yield from surviving(_check_metadata(plugin), "its metadata")


def _check_import(plugin: Plugin, environ: Mapping[str, str], loaded_anyway: Sequence[str]) -> Iterator[Finding]:
    """The module alone in a fresh process: what it loads, prints and changes."""
    module = module_of(entry_point_of(plugin.source))
    exit_code, said, found = _probe(module, environ, loaded_anyway)
    for _ in range(_LOOKS - 1):  # the machine may have been busy
        if found is not None and found["seconds"] > _SLOW_SEC:
            exit_code, said, found = _probe(module, environ, loaded_anyway)
    if exit_code is None:
        yield problem(f"importing {module} alone takes more than {_IMPORT_SEC:g} s", "Work belongs into the factory.")
        return
    if found is None:
        last = (said.splitlines() or [f"exit code {exit_code}"])[-1]
        yield problem(f"{module} cannot be imported alone: {last}")
        return
    wrong = []
    if said:
        wrong.append(
            problem(f"it prints when loaded: {said.splitlines()[0]!r}", "Every command would print it: remove it.")
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
        yield advice(f"loading it takes {found['seconds']:.2f} s, for every command")
    elif not wrong:
        yield ok("loads alone, imports nothing heavy, prints nothing")


def _probe(
    module: str, environ: Mapping[str, str], loaded_anyway: Sequence[str]
) -> tuple[int | None, str, dict[str, Any] | None]:
    """Exit code, what is printed, and what ``import_probe`` found, if the process got so far.

    The code is None if it did not end in time. What it has started ends with it.
    """
    path = os.pathsep.join(part for part in sys.path if part)
    with tempfile.TemporaryDirectory(prefix="agentbench-check-") as place:
        written, printed = Path(place) / "found.json", Path(place) / "printed.txt"
        # Without -P, files of the working directory would be found before Python's own.
        command = [
            sys.executable,
            "-P",
            "-m",
            "agentbench_testing.authoring.import_probe",
            module,
            str(written),
            *loaded_anyway,
        ]
        with printed.open("wb") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**environ, "PYTHONPATH": path},
                start_new_session=True,
            )
            try:
                exit_code = process.wait(_IMPORT_SEC)
            except subprocess.TimeoutExpired:
                exit_code = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said = printed.read_text(encoding="utf-8", errors="replace").strip()
        found = json.loads(written.read_text(encoding="utf-8")) if exit_code == 0 and written.exists() else None
    return exit_code, said, found


def _check_version(plugin: Plugin) -> Iterator[Finding]:
    if hasattr(import_entry_point(entry_point_of(plugin.source)), "AGENTBENCH_API"):
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
