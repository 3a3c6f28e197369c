"""Fetch from a source into a bare repository in the cache.

Servers may need the user's git settings: credential helpers, an ssh command, proxies, other URLs. Only
these settings are used, and only while fetching from a server. They never reach a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import filelock

from agentbench_core.errors import InputError
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.git import Git, GitFailedError
from agentbench_core.workspace.sources import Source, masked

_OPTIONS = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-show-forced-updates")
_SCOPES = ("system", "global", "command")  # not the scopes of a repository
_SSH_WITHOUT_OPTIONS = ("plink", "putty", "simple", "tortoiseplink")  # values of ssh.variant


def fetch(git: Git, source: Source, *refspecs: str, deadline: Deadline, options: tuple[str, ...] = ()) -> None:
    """Fetch refs, and everything that they need, with the user's settings if the source is on a server.

    Raises:
        GitFailedError: git could not fetch.
        InputError: the user's git configuration cannot be read.
        UnavailableError: git is missing.
        DeadlineExceeded: git was killed at the deadline.
    """
    env = _settings(git, deadline) if source.path is None else {}
    git.run("fetch", *_OPTIONS, *options, "--", source.remote, *refspecs, deadline=deadline, env=env)


@contextmanager
def locked(git: Git, deadline: Deadline) -> Iterator[None]:
    """Hold the lock of a bare repository in the cache, which is created if it does not exist.

    Anything that a killed git left behind is removed. Raises DeadlineExceeded if another process holds the lock for too
    long.
    """
    git.git_dir.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = filelock.FileLock(git.git_dir.with_suffix(".lock"))
    while True:
        deadline.check()
        try:
            lock.acquire(timeout=min(1.0, deadline.remaining()))
            break
        except filelock.Timeout:
            continue
    try:
        git.create()
        for leftover in (*git.git_dir.rglob("*.lock"), *git.git_dir.glob("objects/pack/tmp_*")):
            leftover.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


# --- the user's settings -----------------------------------------------------------------------------------------


def _settings(git: Git, deadline: Deadline) -> dict[str, str]:
    """Environment variables with the user's settings for servers. The harness's own settings precede them."""
    used: list[tuple[str, str]] = []
    env: dict[str, str] = {}
    ssh, variant = "", ""
    for key, value in _configuration(git, deadline):
        if key == "core.sshcommand":
            ssh = value
        elif _is_for_servers(key):
            used.append((key, value))
            variant = value if key == "ssh.variant" else variant
    if ssh and "GIT_SSH_COMMAND" not in os.environ:
        env["GIT_SSH_COMMAND"] = ssh if variant in _SSH_WITHOUT_OPTIONS else f"{ssh} -oBatchMode=yes"
    for number, (key, value) in enumerate(used):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**env, "GIT_CONFIG_COUNT": str(len(used))}


def _is_for_servers(key: str) -> bool:
    """Whether a setting concerns how to reach a server, or how to sign in there."""
    section, variable = key.partition(".")[0], key.rpartition(".")[2]
    if section == "url":
        return variable == "insteadof"
    return key == "ssh.variant" or (section in ("credential", "http") and variable != "savecookies")


def _configuration(git: Git, deadline: Deadline) -> Iterator[tuple[str, str]]:
    """Name and value of each setting of this machine, the user and the environment, but not of a repository."""
    of_git = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG_")}
    of_git.pop("GIT_CONFIG_PARAMETERS", None)
    untraced = dict.fromkeys(("GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF"), "0")
    env = {"GIT_CONFIG_GLOBAL": None, "GIT_CONFIG_NOSYSTEM": None, **of_git, **untraced}
    try:
        output = git.run("config", "--list", "--show-scope", "--includes", "-z", deadline=deadline, env=env)
    except GitFailedError as error:
        raise InputError(
            f"your git configuration cannot be read: {masked(error.stderr.strip())}",
            remedy="Run `git config --list` and fix the problem that it reports.",
        ) from None
    fields = iter(os.fsdecode(output).split("\0"))
    for scope, setting in zip(fields, fields, strict=False):
        key, has_value, value = setting.partition("\n")
        if scope in _SCOPES:
            yield key, value if has_value else "true"
