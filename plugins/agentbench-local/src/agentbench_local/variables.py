"""The environment variables that commands see: few, and each one on purpose."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import platformdirs

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETUP_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
MISLEADING_PIP = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
"""These would make pip install somewhere else than into the environment."""


def command_variables(
    *, bin_dirs: Sequence[Path], home: Path, tmp: Path, virtual_env: Path | None, borrowed: bool, passed: Sequence[str]
) -> dict[str, str]:
    """The variables of every command: nothing of this machine but what ``passed`` names.

    ``borrowed`` says that the Python is not the task's own: then what is installed beside it for others, such as
    plugins of pytest, must not change the task's tests.
    """
    host = {name: os.environ[name] for name in passed if name in os.environ}
    path = host.pop("PATH", STANDARD_PATH)
    variables = {
        "PATH": os.pathsep.join([*map(str, bin_dirs), path]),
        "HOME": str(home),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if virtual_env is not None:
        variables["VIRTUAL_ENV"] = str(virtual_env)
    if borrowed:
        variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return variables | host


def setup_variables(host: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What set-up commands see in addition: how pip reaches its index from this machine, and its cache."""
    variables = {
        name: value
        for name, value in host.items()
        if name in SETUP_NAMES
        or name.upper().endswith("_PROXY")
        or (name.startswith("PIP_") and name not in MISLEADING_PIP)
    }
    # Both are found through HOME, which is another one inside.
    variables.setdefault("PIP_CACHE_DIR", str(platformdirs.user_cache_path("pip", appauthor=False)))
    if "PIP_CONFIG_FILE" not in variables and (config := _pip_config()):
        variables["PIP_CONFIG_FILE"] = str(config)
    return variables


def _pip_config() -> Path | None:
    places = (platformdirs.user_config_path("pip", appauthor=False) / "pip.conf", Path.home() / ".pip" / "pip.conf")
    return next((place for place in places if place.is_file()), None)
