"""``tasks mine`` on real histories: consecutive releases of two packages, from their source distributions.

The expected failing tests were determined without AgentBench: with the tests of each release on the source of the
release before it, and on its own.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
import yaml

from agentbench_testing.fixtures import RunAgentbench

pytestmark = [pytest.mark.docker, pytest.mark.index]

_ASK_PIP = (
    "from pip._internal.commands import create_command\n"
    "print(create_command('download').parser.get_default_values().index_url)"
)
_GENERATED = ("PKG-INFO", "*.egg-info")
"""Files that source distributions contain, and repositories do not."""


@attrs.frozen(kw_only=True)
class Package:
    """A package, and what its releases are expected to become."""

    name: str
    messages: Mapping[str, str]  #: message of each release's commit, oldest first; empty for its changelog entry
    failing: Mapping[str, tuple[str, ...]]  #: fail-to-pass tests of the releases that become tasks
    codes: Mapping[str, str]  #: codes of the others, except for the oldest, which has no parent
    environment: str  #: part of the recipe
    run: bool = True  #: whether the tasks are also run, and the history mined again


HUMANIZE = Package(
    name="humanize",  # hatchling, version from tags, src layout, extras, translations that a script must compile
    messages={
        "4.12.0": "Format decimal numbers of intcomma in the current locale",
        "4.12.1": "Fix a regression in naturalsize\n\nFractions of bytes are not shown: 1.5 is 1 Bytes.",
        "4.12.2": "Fix the license file, and an example in the documentation",
        "4.12.3": "naturalsize: one byte is always an integer\n\nThe text '1' and the number 1.0 gave '1.0 Byte'.",
    },
    failing={
        "4.12.1": (
            "tests/test_filesize.py::test_naturalsize[test_args62-1 Bytes]",
            "tests/test_filesize.py::test_naturalsize[test_args65-1B]",
        ),
        "4.12.3": (
            "tests/test_filesize.py::test_naturalsize[test_args58-1 Byte]",
            "tests/test_filesize.py::test_naturalsize[test_args59-1 Byte]",
        ),
    },
    codes={"4.12.2": "NO_TEST_CHANGE"},
    environment="extra tests",
)
VOLUPTUOUS = Package(
    run=False,
    name="voluptuous",  # setup.py without a build system, dependencies of tests in tox.ini, tests inside the package
    messages=dict.fromkeys(("0.14.0", "0.14.1", "0.14.2", "0.15.0", "0.15.1", "0.15.2"), ""),
    failing={
        "0.15.1": ("voluptuous/tests/tests.py::test_remove_with_error",),
        "0.15.2": ("voluptuous/tests/tests.py::test_key3",),
    },
    codes={"0.14.1": "NO_TEST_CHANGE", "0.14.2": "TOO_LARGE", "0.15.0": "TESTS_PASS_BEFORE"},
    environment="tox.ini [testenv]",
)


@attrs.frozen(kw_only=True)
class Release:
    """A source distribution."""

    version: str
    uploaded: str  #: ISO 8601
    files: Path


@pytest.mark.release
@pytest.mark.parametrize(
    "package",
    [pytest.param(HUMANIZE, id="humanize"), pytest.param(VOLUPTUOUS, id="voluptuous")],
)
def test_fixes_between_releases_become_tasks(package: Package, run_agentbench: RunAgentbench, tmp_path: Path) -> None:
    """Exactly the releases with a fix and its tests become tasks, with exactly the tests that the fix makes pass."""
    commits = _commit_all(package, _download(package, tmp_path / "releases"), tmp_path / package.name)
    sandbox = ["--sandbox", "docker"]
    if bundle := os.environ.get("SSL_CERT_FILE"):
        sandbox += ["--set", f"sandbox.ca_bundle={bundle}"]
    mine = ["tasks", "mine", "--repo", str(tmp_path / package.name), "--suite", "real", "--json", *sandbox]
    done = run_agentbench(*mine, seconds=600)
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in (tmp_path / "tasks/real/mining.jsonl").read_text().splitlines()]
    entries = {commits[line["commit"]]: line for line in lines if line["type"] == "commit"}
    found = {version: entry["task"] for version, entry in entries.items() if entry["task"]}
    assert set(found) == set(package.failing), entries
    assert {version: entry["code"] for version, entry in entries.items() if entry["code"]} == package.codes, entries
    for version, tests in package.failing.items():
        spec = yaml.safe_load((tmp_path / "tasks/real" / found[version] / "task.yaml").read_text())
        assert sorted(spec["validation"]["fail_to_pass"]) == sorted(tests)
        assert commits[spec["provenance"]["commit"]] == version
        assert spec["provenance"]["figures"]["checks"] == 3
        assert package.environment in spec["provenance"]["recipe"]
        assert "valid in 3 of 3 checks" in entries[version]["reason"]

    if not package.run:
        return
    run = run_agentbench("run", "--suite", "real", *sandbox, "--variant", "scripted", "--variant", "idle", seconds=600)
    assert run.code == 0, run.err
    number = len(package.failing)
    assert f"variant scripted: {number} of {number} scored attempts passed" in run.out
    assert f"variant idle: 0 of {number} scored attempts passed" in run.out

    again = run_agentbench(*mine, seconds=600)
    assert (again.code, json.loads(again.out)["new"]) == (0, []), again.err


def _download(package: Package, directory: Path) -> list[Release]:
    """Download and unpack source distributions from the index that pip uses. Nothing of them is run."""
    index = subprocess.run([sys.executable, "-c", _ASK_PIP], capture_output=True, text=True, check=True).stdout.strip()
    request = urllib.request.Request(
        f"{index.rstrip('/')}/{package.name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        files = {file["filename"]: file for file in json.load(response)["files"]}
        base = response.url
    releases = []
    for version in package.messages:
        file = files[f"{package.name}-{version}.tar.gz"]
        with urllib.request.urlopen(urllib.parse.urljoin(base, file["url"]), timeout=60) as response:
            data = response.read()
        assert hashlib.sha256(data).hexdigest() == file["hashes"]["sha256"]
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(directory, filter="data")
        releases.append(
            Release(version=version, uploaded=file["upload-time"], files=directory / f"{package.name}-{version}")
        )
    return releases


def _commit_all(package: Package, releases: list[Release], repository: Path) -> Mapping[str, str]:
    """Commit the files of each release with the date of its upload, and return versions by commit."""
    changelog = next(releases[-1].files.glob("CHANGELOG*"), None)
    entries = changelog.read_text() if changelog else ""
    commits = {}
    repository.mkdir()
    _git(repository, "init", "-q", "-b", "main")
    for release in releases:
        for path in repository.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(release.files, repository, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_GENERATED))
        message = package.messages[release.version] or _entry(entries, release.version)
        _git(repository, "add", "-A")
        _git(repository, "commit", "-q", "-m", message, date=release.uploaded)
        _git(repository, "tag", f"v{release.version}")
        commits[_git(repository, "rev-parse", "HEAD").strip()] = release.version
    return commits


def _entry(changelog: str, version: str) -> str:
    """The entry of a release in a changelog."""
    match = re.search(rf"^## \[{re.escape(version)}\]\n+(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    assert match is not None
    return match[1]


def _git(repository: Path, *arguments: str, date: str = "") -> str:
    who = {f"GIT_{role}_{what}": "releases" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}
    env = {**os.environ, **who, **dates, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *arguments], cwd=repository, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
