"""The variables and private directories of a command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import Deadline
from agentbench_local.launcher import setup_variables
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from agentbench_local.sandbox import LocalSandbox

Make = SpecOf = Any
"""Types from conftest.py, which test modules cannot import."""
SOON = 60.0
SECRET = "sk-planted-0123456789"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret, and variables that would change Python's behaviour."""
    monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)
    monkeypatch.setenv("PIP_INDEX_URL", f"https://user:{SECRET}@index.invalid/simple")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PYTHONHASHSEED", "1")


def variables(sandbox: LocalSandbox, **more: str) -> dict[str, str]:
    result = sandbox.exec(["env", "-0"], deadline=Deadline(SOON), env=more)
    return dict(each.split("=", 1) for each in result.stdout.text.split("\0") if each)


@pytest.mark.usefixtures("planted")
def test_only_expected_variables_are_set(sandbox: LocalSandbox) -> None:
    """Only these, and none of the host."""
    seen = variables(sandbox, MORE="given")
    seen.pop("VIRTUAL_ENV", None)  # set if the tests run in one
    assert sorted(seen) == [
        *("HOME", "LANG", "MORE", "PATH", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTHONDONTWRITEBYTECODE", "TMPDIR")
    ]
    assert SECRET not in str(seen)
    assert (seen["LANG"], seen["MORE"]) == ("C.UTF-8", "given")


@pytest.mark.usefixtures("planted")
def test_supervisors_do_not_have_host_variables(sandbox: LocalSandbox) -> None:
    """The processes that supervise a command do not have the host's variables either."""
    result = sandbox.exec("cat /proc/$PPID/environ /proc/$PPID/cmdline", deadline=Deadline(SOON))
    assert b"supervise.py" in result.stdout.data
    assert SECRET.encode() not in result.stdout.data


@pytest.mark.usefixtures("planted", "scratch")
def test_passing_variables_through(pristine: Path, spec_of: SpecOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only named variables that exist; the host's PATH comes after that of the environment."""
    monkeypatch.setenv("WANTED", "yes")
    provider = LocalProvider(LocalOptions(pass_environment=("WANTED", "NOT_THERE", "PATH")))
    monkeypatch.setenv("PATH", "/host/bin:/bin:/usr/bin")
    sandbox = provider._launcher.start(spec_of(), pristine, None)
    seen = variables(sandbox)
    provider.close()
    assert seen["WANTED"] == "yes"
    assert "NOT_THERE" not in seen
    assert seen["PATH"].endswith(":/host/bin:/bin:/usr/bin")
    assert "OPENROUTER_API_KEY" not in seen


def test_python_and_pytest_are_those_of_the_harness(sandbox: LocalSandbox) -> None:
    """Without setup commands, no other interpreter has the dependencies of the tests."""
    result = sandbox.exec("python -c 'import sys; print(sys.prefix)'; pytest --version", deadline=Deadline(SOON))
    prefix, version = result.stdout.text.splitlines()
    assert prefix == sys.prefix
    assert version == f"pytest {pytest.__version__}"


def test_home_and_temporary_directory_are_private(make: Make, workspace: Path) -> None:
    """New for each start, writable, and removed afterwards."""
    environment = make()
    places = []
    for _ in range(2):
        sandbox = environment.start(workspace, read_only=False, network=False, deadline=Deadline(SOON))
        seen = variables(sandbox)
        result = sandbox.exec(
            'ls -A "$HOME" "$TMPDIR" | wc -w; touch ~/a $(mktemp); mkdir ~/b; chmod 0 ~/b', deadline=Deadline(SOON)
        )
        assert (result.exit_code, result.stdout.text.strip()) == (0, "2")  # only the two directory names
        places += [Path(seen["HOME"]), Path(seen["TMPDIR"])]
        assert all(place.stat().st_mode & 0o077 == 0 for place in {place.parent for place in places if place.exists()})
        sandbox.close()
    assert len(set(places)) == 4
    assert not any(place.exists() for place in places)


def test_additional_variables_of_setup() -> None:
    """Variables for pip's index, but none that change where it installs, and no other secrets."""
    host = {
        "PIP_INDEX_URL": "https://index.invalid/simple",
        "PIP_USER": "1",
        "PIP_TARGET": "/elsewhere",
        "https_proxy": "http://proxy.invalid",
        "NO_PROXY": "localhost",
        "SSL_CERT_FILE": "/certs.pem",
        "OPENROUTER_API_KEY": SECRET,
        "PIP_CONFIG_FILE": "/pip.conf",
    }
    seen = setup_variables(host)
    assert Path(seen.pop("PIP_CACHE_DIR")).is_absolute()
    assert sorted(seen) == ["NO_PROXY", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "SSL_CERT_FILE", "https_proxy"]
    separate = setup_variables(host, shared_cache=False)
    assert separate.pop("PIP_NO_CACHE_DIR") == "1"
    assert separate == seen
