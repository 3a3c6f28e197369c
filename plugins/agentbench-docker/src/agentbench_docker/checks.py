"""The checks of the ``docker`` sandbox for ``agentbench doctor``. They remove and pull nothing."""

from __future__ import annotations

import configparser
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs
import platformdirs

from agentbench_core import Checks, Deadline, Finding, size_text
from agentbench_docker import building, owner, storage
from agentbench_docker.cache import Cache
from agentbench_docker.client import Client
from agentbench_docker.engine import EngineFacts
from agentbench_docker.images import RUNNER
from agentbench_docker.options import DockerOptions
from agentbench_docker.runc import vulnerabilities

if TYPE_CHECKING:
    from python_on_whales import DockerClient, Image

T = TypeVar("T")

LEAST_FREE = 1 << 30
"""Free bytes below which no run starts."""
_LOW = 10 << 30  # bytes
_CALL_SEC = 20.0
_NO_LEGACY_BUILDER = 23
"""First major version of the engine whose client warns that the builder without buildx will be removed."""
STALE_DAYS = 30.0
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_UNITS = (("year", 365 * 86_400), ("month", 30 * 86_400), ("day", 86_400), ("hour", 3600), ("minute", 60))


@attrs.frozen(kw_only=True)
class Inspection:
    """The objects of the checks: the engine, the options of the sandbox, and everything that a run would prepare."""

    client: Client
    facts: EngineFacts
    options: DockerOptions
    cache: Cache
    images: Sequence[str]
    """Names of the base images of the tasks."""

    def checks(self) -> Checks:
        """Everything except the engine itself."""
        return {
            "runc": self._runc,
            "buildx": self._buildx,
            "disk": self._disk,
            **{self._image_check(name): partial(self._image, name) for name in self.images},
            "proxy": self._proxy,
            "environments": self._environments,
            "pip cache": self._pip_cache,
            "leftovers": self._leftovers,
        }

    def _runc(self) -> Finding:
        found = [warning.partition("; ") for warning in vulnerabilities(self.facts.runc)]
        if not found:
            return Finding("ok", f"{self.facts.runc}, without known vulnerabilities")
        advice = "check the runc security advisories for this version"
        remedies = dict.fromkeys(remedy or advice for _, _, remedy in found)
        return Finding(
            "warning",
            "; ".join(problem for problem, _, _ in found),
            "\n".join(f"{each[:1].upper()}{each[1:]}." for each in remedies),
        )

    def _buildx(self) -> Finding:
        if self._ask(lambda docker: docker.buildx.is_installed()):
            return Finding("ok", "installed")
        major = self.facts.client.partition(".")[0]
        if major.isdecimal() and int(major) >= _NO_LEGACY_BUILDER:
            detail = f"not installed; `agentbench docker build` uses the legacy builder, deprecated in {major}"
            return Finding("warning", detail, "Run: apt-get install docker-buildx-plugin (or docker-buildx)")
        return Finding("ok", "not installed; `agentbench docker build` uses the legacy builder of this engine")

    def _disk(self) -> Finding:
        """Free space where the engine keeps images and containers, and where environments are cached."""
        places = {self.facts.root: self._engine_free(), str(self.cache.root): _free(self.cache.root)}
        known = {place: free for place, free in places.items() if free is not None}
        detail = ", ".join(f"{size_text(free)} free in {place}" for place, free in known.items()) or "unknown"
        least = min(known.values(), default=_LOW)
        if least >= _LOW:
            return Finding("ok", detail)
        remedy = (
            f"Images and environments need up to {size_text(_LOW)}. To free disk space, run: agentbench docker prune; "
        )
        return Finding("warning" if least >= LEAST_FREE else "failed", detail, f"{remedy}docker image prune")

    def _engine_free(self) -> int | None:
        """Free bytes in the engine's own directory. If it is in a virtual machine, a container measures them."""
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self.facts.root).free
        name = next((name for name in self.images if self._inspect(name) is not None), None)
        if name is None:
            return None
        command = ["-c", "df -Pk / | tail -n 1"]
        answer = self._ask(
            lambda docker: docker.container.run(name, command, entrypoint="/bin/sh", remove=True, networks=["none"])
        )
        with contextlib.suppress(ValueError, IndexError):
            return int(str(answer).split()[3]) << 10
        return None

    def _image_check(self, name: str) -> str:
        return "image" if len(self.images) == 1 else f"image {name}"

    def _image(self, name: str) -> Finding:
        image = self._inspect(name)
        if image is None:
            return self._missing(name)
        labels = image.config.labels or {}
        detail = f"{name}, {size_text(image.size or 0)}, built {_ago(time.time() - image.created.timestamp())}"
        if name != building.TAG:
            return Finding("ok", detail)
        detail += f" from {labels.get('agentbench.base', 'an unknown base').partition('@')[0]}"
        if labels.get(building.RECIPE) == building.recipe():
            return Finding("ok", f"{detail}, with the current recipe")
        remedy = f"To rebuild it, run: docker image rm {name} && agentbench docker build"
        return Finding("warning", f"{detail}, with the recipe of a different release", remedy)

    def _missing(self, name: str) -> Finding:
        if name.partition(":")[0] == RUNNER:
            hint = f" --ca-bundle {bundle[1]}" if (bundle := certificates()) else ""
            return Finding("failed", f"image {name!r} was not found", f"Run: agentbench docker build{hint}")
        if self.options.pull == "never":
            return Finding("failed", f"image {name!r} was not found", f"Run: docker pull {name}")
        return Finding(
            "warning", f"{name} is not present; the first run pulls it", f"To pull it now, run: docker pull {name}"
        )

    def _proxy(self) -> Finding:
        """Whether setup in containers can reach servers that the host reaches through a proxy."""
        problems, remedies = [], []
        bundle = certificates()
        if bundle is not None and not self.options.ca_bundle:
            problems.append(
                f"{bundle[0]} is {bundle[1]}, but setup in containers does not use it; "
                "if a proxy re-signs TLS connections here, downloads in setup fail"
            )
            remedies.append(
                f"Behind such a proxy, pass --set sandbox.ca_bundle={bundle[1]} (or set it in agentbench.toml)"
            )
        passed = self.options.setup_environment
        proxies = [name for name in _PROXIES if os.environ.get(name) and name not in passed]
        if proxies:
            names = ",".join((*passed, *proxies))
            verb = "is" if len(proxies) == 1 else "are"
            problems.append(f"{', '.join(proxies)} {verb} set, but not passed to setup in containers")
            remedies.append(f"To use the proxy in setup, pass --set sandbox.setup_environment=[{names}]")
        if problems:
            return Finding("warning", "; ".join(problems), "\n".join(remedies))
        used = f"setup trusts {self.options.ca_bundle}" if self.options.ca_bundle else "none detected"
        return Finding("ok", used)

    def _environments(self) -> Finding:
        stored = storage.stored_environments(self.client, self.cache)
        stale = storage.select_for_removal(stored, older_than_days=STALE_DAYS, max_bytes=None)
        detail = f"{len(stored)} prepared in {self.cache.root}, {size_text(sum(item.bytes for item in stored))}"
        if not stale:
            return Finding("ok", detail)
        old = size_text(sum(item.bytes for item in stale))
        detail += f"; {len(stale)} unused for {STALE_DAYS:.0f} days, {old}"
        return Finding("warning", detail, f"Run: agentbench docker prune --older-than {STALE_DAYS:.0f}")

    def _pip_cache(self) -> Finding:
        total = 0
        for directory, _, names in os.walk(self.cache.pip):
            for name in names:
                with contextlib.suppress(OSError):
                    total += Path(directory, name).lstat().st_blocks * 512
        return Finding("ok", f"{size_text(total)} in {self.cache.pip}")

    def _leftovers(self) -> Finding:
        left = [*owner.leftovers(self.client), *storage.leftover_images(self.client, self.cache)]
        if not left:
            return Finding("ok", "none left by killed runs")
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        return Finding("warning", f"left by killed runs: {shown}", "Run: agentbench docker prune")

    def _inspect(self, name: str) -> Image | None:
        from python_on_whales.exceptions import NoSuchImage

        with contextlib.suppress(NoSuchImage):
            found: Image = self._ask(lambda docker: docker.image.inspect(name))
            return found
        return None

    def _ask(self, work: Callable[[DockerClient], T]) -> T:
        return self.client.call(work, Deadline(_CALL_SEC), at_most=_CALL_SEC)


def certificates(environ: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """The user's setting for additional trusted certificates, and its file: a sign of a proxy that re-signs TLS.

    ``None`` if there is no such setting.
    """
    values = os.environ if environ is None else environ
    for name in building.CERTIFICATE_VARIABLES:
        if values.get(name):
            return name, values[name]
    for path in _pip_files():
        parser = configparser.RawConfigParser()
        with contextlib.suppress(OSError, ValueError, configparser.Error):
            parser.read(path)
            if file := parser.get("global", "cert", fallback=""):
                return f"cert in {path}", file
    return None


def _pip_files() -> Iterator[Path]:
    if (chosen := os.environ.get("PIP_CONFIG_FILE")) == os.devnull:
        return  # then pip reads no file
    if chosen:
        yield Path(chosen)
    yield platformdirs.user_config_path("pip", appauthor=False) / "pip.conf"
    yield Path.home() / ".pip" / "pip.conf"
    yield Path("/etc/pip.conf")


def _free(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(next(each for each in (path, *path.parents) if each.exists())).free
    return None


def _ago(seconds: float) -> str:
    for unit, length in _UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
