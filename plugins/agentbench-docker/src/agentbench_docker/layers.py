"""Layers: images with the pinned packages that the setups of several tasks have in common.

The first commands of a setup often only install pinned packages. Their result does not depend on the workspace, so they
run once, in a container with an empty workspace, and the result is committed as an image. The environments of all tasks
with the same commands start from this image.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterable
from pathlib import Path

import attrs

from agentbench_core import (
    EnvironmentSpec,
    ExecResult,
    InputError,
    Output,
    SetupLog,
    digest,
    dump,
    load,
    pinned_installs,
    remove_tree,
)
from agentbench_docker.cache import Entry, now
from agentbench_docker.hardening import Hardening
from agentbench_docker.images import BaseImage, image_exists
from agentbench_docker.setup_containers import SetupContainers

RECIPE = 1
"""Version of the procedure that makes a layer. Increase it when the result changes."""
_LOG = "log.json"
_HARMLESS_VARIABLES = frozenset(
    {
        *("PIP_BREAK_SYSTEM_PACKAGES", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_DEFAULT_TIMEOUT"),
        *("PIP_DISABLE_PIP_VERSION_CHECK", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_NO_CACHE_DIR", "PIP_NO_COLOR"),
        *(
            "PIP_NO_BINARY",
            "PIP_NO_INDEX",
            "PIP_NO_INPUT",
            "PIP_ONLY_BINARY",
            "PIP_PREFER_BINARY",
            "PIP_PROGRESS_BAR",
            "PIP_PROXY",
            "PIP_QUIET",
        ),
        *("PIP_RETRIES", "PIP_ROOT_USER_ACTION", "PIP_TIMEOUT", "PIP_TRUSTED_HOST", "PIP_UPLOADED_PRIOR_TO"),
    }
)
"""Variables of pip that normally do not name files of a workspace."""


@attrs.frozen(kw_only=True)
class Layer:
    """A layer, and whether this setup has made it."""

    entry: Entry
    made: bool


@attrs.frozen
class _Ran:
    """A successful command of a layer."""

    command: str
    duration_sec: float
    stdout: str
    stderr: str


class _Results:
    """Passes commands on to a setup log, and keeps their results."""

    def __init__(self, log: SetupLog) -> None:
        self._log = log
        self.commands: list[_Ran] = []

    def started(self, command: str) -> None:
        """A command starts."""
        self._log.started(command)

    def finished(self, command: str, result: ExecResult) -> None:
        """A command has ended."""
        self._log.finished(command, result)
        self.commands.append(_Ran(command, result.duration_sec, result.stdout.text, result.stderr.text))

    def reused(self, command: str, result: ExecResult) -> None:
        """A command was not run."""
        self._log.reused(command, result)


def split_setup(spec: EnvironmentSpec, variables: Iterable[str]) -> tuple[EnvironmentSpec, EnvironmentSpec]:
    """The parts of a setup that run in a layer and in the environment itself.

    ``variables`` are the names of the environment variables of setup. With variables that may make pip read files of
    the workspace, no commands run in a layer.
    """
    fixed = not any(
        name == "PYTHONPATH" or (name.startswith("PIP_") and name not in _HARMLESS_VARIABLES) for name in variables
    )
    commands = spec.setup.commands
    count = pinned_installs(commands) if fixed else 0
    return (
        attrs.evolve(spec, setup=attrs.evolve(spec.setup, commands=commands[:count], capture=())),
        attrs.evolve(spec, setup=attrs.evolve(spec.setup, commands=commands[count:])),
    )


def identity(spec: EnvironmentSpec, base: BaseImage, hardening: Hardening) -> dict[str, object]:
    """What determines the result of a setup, apart from the procedure and the workspace.

    The variables in ``setup_environment`` are not included: their values may be secrets, and digests are published.
    """
    settings = dump(spec.settings)
    # Included only if false, so that the digests of other environments are the same as before this setting existed.
    separate = {} if spec.setup.shared_cache else {"shared_cache": False}
    return {
        "base": base.image.id,
        "commands": list(spec.setup.commands),
        "settings": {name: value for name, value in settings.items() if not name.endswith("timeout_sec")},
        "user": hardening.user.uid_gid,
        **separate,
    }


def layer_digest(spec: EnvironmentSpec, base: BaseImage, hardening: Hardening, version: str) -> str:
    """Cache key of the layer with the commands of ``spec``; ``version`` is the version of this plugin."""
    return digest({"sandbox": "docker layer", "recipe": [RECIPE, version], **identity(spec, base, hardening)})


def open_layer(containers: SetupContainers, log: SetupLog) -> Layer:
    """Find the layer of ``containers``, or make it, and keep it until the provider is closed.

    Waits while another thread or process makes it. Raises SetupError if a command fails.
    """
    cache, key, deadline = containers.cache, containers.key, containers.deadline
    with cache.lock(key, deadline):
        entry = cache.find(key)
        made = entry is None or not image_exists(containers.launcher.client, entry.image, deadline)
        if entry is None or made:
            entry = _make(containers, log)
        cache.mark_used(key)
    if not made:
        for command, result in _saved(containers, entry):
            log.reused(command, result)
    return Layer(entry=entry, made=made)


def _make(containers: SetupContainers, log: SetupLog) -> Entry:
    cache, key, base, tree = containers.cache, containers.key, containers.base, secrets.token_hex(8)
    workspace = cache.new_tree(key, tree)
    results = _Results(log)
    try:
        workspace.mkdir()
        containers.launcher.hardening.user.chown(workspace)
        with containers.running(base.image, workspace, set_up=True) as sandbox:
            containers.run_commands(sandbox, results)
            image = containers.commit(sandbox)
        remove_tree(workspace)  # packages may have written to it
        entry = Entry(
            key=key,
            kind="layer",
            image=image,
            base=base.name,
            base_id=base.image.id,
            hosted=containers.launcher.hosted(base.image.id),
            variables=base.image.variables,
            commit="",
            tree=tree,
            volumes=base.image.volumes,
            facts=containers.facts(image),
            created_at=now(),
        )
        _log_path(containers, entry).write_text(json.dumps(dump(results.commands)))
        cache.save(entry)
    except BaseException:
        cache.discard_tree(key, tree)
        raise
    return entry


def _saved(containers: SetupContainers, entry: Entry) -> list[tuple[str, ExecResult]]:
    """The commands of a layer and their results, with empty output if the log is damaged. All were successful."""
    known = _ran(_log_path(containers, entry))
    empty = _Ran("", 0.0, "", "")
    return [(command, _result(known.get(command, empty))) for command in containers.spec.setup.commands]


def _ran(log: Path) -> dict[str, _Ran]:
    """The commands in a log, or none if it is damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, InputError):
        commands = [load(each, _Ran, where=str(log)) for each in json.loads(log.read_text())]
        return {ran.command: ran for ran in commands}
    return {}


def _result(ran: _Ran) -> ExecResult:
    stdout, stderr = (Output(head=text.encode("utf-8", "backslashreplace")) for text in (ran.stdout, ran.stderr))
    return ExecResult(exit_code=0, stdout=stdout, stderr=stderr, duration_sec=ran.duration_sec)


def _log_path(containers: SetupContainers, entry: Entry) -> Path:
    return containers.cache.workspace(entry).with_name(_LOG)
