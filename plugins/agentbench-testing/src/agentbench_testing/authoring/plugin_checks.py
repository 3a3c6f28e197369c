"""Check a plugin without running it on a task; the conformance classes check behavior."""

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
    """Check how a plugin loads, what it registers, and the metadata of its distribution.

    Its module is imported in a separate process, after the modules that are ``loaded_anyway`` by every command. Its
    factories are called here with default options. The caller checks commands, attacks and
    variants.
    """
    if plugin.status == "disabled":
        yield advice(f"not checked: {plugin.problem}")
        return
    if plugin.status == "broken":
        ours = isinstance(plugin.error, PluginError)  # its message is sufficient
        traceback = f"See the traceback: agentbench --debug plugins show {plugin.source.plugin}"
        yield problem(plugin.problem, "" if ours else traceback)
        return
    yield from _check_import(plugin, plugins.environ, loaded_anyway)
    for note in plugin.notes:
        if not note.startswith("it prints"):  # already reported by the separate import
            yield advice(note)
    yield from surviving(_check_version(plugin), "its module")
    registry = plugins.registry
    components = [component for component in registry.all() if component.source == plugin.source]
    if not components:
        yield problem("it registers nothing", "Implement a hook; see agentbench_core/plugin/hookspecs.py")
    conflicts = registry.conflicts()
    for component in components:
        for name in sorted(component.names):
            if (component.kind, name) in conflicts:
                others = {c.source for c in registry.all(component.kind) if name in c.names} - {plugin.source}
                owners = ", ".join(sorted(f"{source.distribution} (plugin {source.plugin!r})" for source in others))
                yield problem(
                    f"the {name!r} {component.kind} is also registered by {owners}",
                    "Choose another name: if both are installed, neither can be used.",
                )
        yield from surviving(check_component(component), f"the {component.name!r} {component.kind}")
    yield from surviving(_check_metadata(plugin), "its metadata")


def _check_import(plugin: Plugin, environ: Mapping[str, str], loaded_anyway: Sequence[str]) -> Iterator[Finding]:
    """Check the imports, output and side effects of the module when it is imported in a fresh process."""
    module = module_of(entry_point_of(plugin.source))
    exit_code, message, result = _probe(module, environ, loaded_anyway)
    for _ in range(_LOOKS - 1):  # repeat, since the machine may be busy
        if result is not None and result["seconds"] > _SLOW_SEC:
            exit_code, message, result = _probe(module, environ, loaded_anyway)
    if exit_code is None:
        yield problem(f"importing {module} takes more than {_IMPORT_SEC:g} s", "Move work into the factory.")
        return
    if result is None:
        last = (message.splitlines() or [f"exit code {exit_code}"])[-1]
        yield problem(f"{module} cannot be imported: {last}")
        return
    wrong = []
    if message:
        wrong.append(
            problem(
                f"it prints when loaded: {message.splitlines()[0]!r}",
                "Remove the output: every command would print it.",
            )
        )
    if result["modules"]:
        wrong.append(
            problem(
                f"loading it imports {', '.join(result['modules'])} for every command",
                "Import these inside the factory, or in a module that only the factory imports.",
            )
        )
    if result["changed"]:
        wrong.append(
            problem(f"loading it changes {', '.join(result['changed'])}", "Move that into the factory, or remove it.")
        )
    yield from wrong
    if result["seconds"] > _SLOW_SEC:
        yield advice(f"loading it takes {result['seconds']:.2f} s for every command")
    elif not wrong:
        yield ok("imports cleanly: no heavy modules, no output")


def _probe(
    module: str, environ: Mapping[str, str], loaded_anyway: Sequence[str]
) -> tuple[int | None, str, dict[str, Any] | None]:
    """Exit code, output, and the report of ``import_probe``, if there is one.

    The exit code is None after a timeout. All child processes are killed.
    """
    path = os.pathsep.join(part for part in sys.path if part)
    with tempfile.TemporaryDirectory(prefix="agentbench-check-") as directory:
        written, printed = Path(directory) / "found.json", Path(directory) / "printed.txt"
        # Without -P, files in the working directory would shadow Python's own.
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
        message = printed.read_text(encoding="utf-8", errors="replace").strip()
        result = json.loads(written.read_text(encoding="utf-8")) if exit_code == 0 and written.exists() else None
    return exit_code, message, result


def _check_version(plugin: Plugin) -> Iterator[Finding]:
    if hasattr(import_entry_point(entry_point_of(plugin.source)), "AGENTBENCH_API"):
        yield ok(f"requires version {hookspecs.API_VERSION} of the plugin API, which this core provides")
    else:
        yield advice(
            "it does not declare the version of the plugin API",
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
            yield problem(f"{name} requires {text!r}, which pip cannot parse")
            continue
        if canonicalize_name(requirement.name) == _CORE and requirement.marker is None:
            needs = requirement
    if needs is None:
        yield advice(
            f"{name} does not require {_CORE}", 'In pyproject.toml: dependencies = ["agentbench-core>=0.1,<0.2"]'
        )
    elif not any(part.operator in ("<", "<=", "==", "~=") for part in needs.specifier):
        yield advice(
            f"{name} allows all later versions of {_CORE}: {needs}",
            "Add an upper bound, so that pip never installs an incompatible version: <0.2",
        )
    else:
        yield ok(f"requires {needs}")
