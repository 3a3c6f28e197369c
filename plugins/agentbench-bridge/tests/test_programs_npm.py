"""Programs from npm: a real npm, and a registry on loopback whose packages are harmless, damaged or hostile."""

import base64
import gzip
import hashlib
import io
import json
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_bridge.programs import registry, store
from agentbench_bridge.programs.unpack import unpack
from agentbench_bridge.programs.versions import Build, Known, Wanted, known_programs, parse
from agentbench_core import UnavailableError

CODEX = parse("codex@9.9.9")
"""A version that the registry of these tests has; its hash is not pinned."""
SCRIPTS = dict.fromkeys(("preinstall", "install", "postinstall", "prepare", "prepack"), 'touch "$MARKER"')
PACKAGE, _, VERSION = CODEX.build.package.replace("{version}", "9.9.9").rpartition("@")


def entry(name: str, data: bytes = b"", mode: int = 0o644, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive."""
    info = tarfile.TarInfo(name)
    info.mode, info.size = mode, len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def archive(*members: tuple[tarfile.TarInfo, bytes], name: str = "thing") -> bytes:
    """A package with an executable file, and more members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        manifest = json.dumps({"name": name, "version": "1.0.0", "scripts": SCRIPTS}).encode()
        for info, data in (entry("package/package.json", manifest), *members):
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def integrity_of(data: bytes) -> str:
    return f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"


@attrs.frozen
class Npm:
    """A registry on loopback."""

    site: Any

    def publish(self, package: str, version: str, data: bytes, **fields: Any) -> None:
        """Publish a package. ``fields``: of its ``dist``; by default, its true hash."""
        path = f"/{package.replace('/', '%2f')}"
        tarball = f"/{package}/-/{version}.tgz"
        dist = {"tarball": f"{self.site.url}{tarball}", "integrity": integrity_of(data), **fields}
        known = json.loads(self.site.pages.get(path, b'{"versions": {}}'))["versions"]
        known[version] = {"name": package, "version": version, "dist": dist, "scripts": SCRIPTS}
        document = {"name": package, "dist-tags": {"latest": version}, "versions": known}
        self.site.pages[path] = json.dumps(document).encode()
        self.site.pages[tarball] = data

    def downloads(self) -> list[str]:
        return [path for path in self.site.asked if path.endswith(".tgz")]


@pytest.fixture
def npm(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs_cache: Path) -> Npm:
    """The registry of the user's settings. The settings of a project above the temporary directory are hostile."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "npm_config_registry"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "npmrc").write_text(f"registry={site.url}/\nfetch-retries=0\nupdate-notifier=false\n")
    monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "npmrc"))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("MARKER", str(tmp_path / "marker"))
    above = tmp_path / "above"
    (above / "tmp").mkdir(parents=True)
    (above / "package.json").write_text('{"workspaces": ["tmp/*"]}')
    (above / ".npmrc").write_text("registry=http://127.0.0.1:9/\n")
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(above / "tmp"))
    return Npm(site)


def thing(integrity: str = "") -> Wanted:
    """A program that is in no table of the product."""
    build = Build(package="thing@{version}", integrity=integrity, entry="package/thing")
    known = Known(version="1.0.0", builds={"linux-x64": build, "linux-arm64": build})
    return parse("thing", {"thing": known})


def good(name: str = "thing") -> bytes:
    script = b'#!/bin/sh\necho "hello from $0"\n'
    return archive(entry("package/thing", script, 0o755), entry(CODEX.build.entry, script, 0o755), name=name)


@pytest.mark.long
@pytest.mark.npm
def test_install_list_run_and_remove(npm: Npm, run_agentbench: Any, programs_cache: Path, tmp_path: Path) -> None:
    """N01, N03, N04: two installations at once download once; list, run; remove, but not while in use."""
    data = good(PACKAGE)
    npm.publish(PACKAGE, VERSION, data)
    command = [str(Path(sys.executable).parent / "agentbench"), "agents", "install", "codex@9.9.9"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    outputs = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], outputs
    assert all("installed codex@9.9.9" in output for output in outputs)
    assert len(npm.downloads()) == 1
    assert not (tmp_path / "marker").exists()
    assert sorted(path.name for path in programs_cache.iterdir()) == [".lock", "codex-9.9.9"]

    (listed,) = json.loads(run_agentbench("agents", "list", "--json").out)["programs"]
    assert (listed["name"], listed["version"], listed["default"]) == ("codex", "9.9.9", False)
    assert listed["integrity"] == integrity_of(data)
    assert "codex" in run_agentbench("agents", "list").out
    program = Path(listed["directory"], listed["entry"])
    assert subprocess.run([program], capture_output=True, text=True).stdout == f"hello from {program}\n"

    holding = (
        "from agentbench_bridge.programs import store, versions; "
        "store.find(versions.parse('codex@9.9.9')); print('ready', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "ready\n"
        refused = run_agentbench("agents", "remove", "codex@9.9.9")
        assert (refused.code, refused.err.splitlines()[0]) == (2, "error: codex@9.9.9 is in use by a run")
        assert program.exists()
        user.communicate("\n")
    done = run_agentbench("agents", "remove", "codex@9.9.9")
    assert (done.code, done.out) == (0, "removed codex@9.9.9\n")
    assert sorted(path.name for path in programs_cache.iterdir()) == [".lock"]


@pytest.mark.npm
def test_the_pinned_hash(npm: Npm, run_agentbench: Any, programs_cache: Path) -> None:
    """N01: a default version with other content is refused, even if the registry states the hash of that content."""
    wanted = parse("codex")
    package, _, version = wanted.build.package.replace("{version}", wanted.version).rpartition("@")
    npm.publish(package, version, good(package))
    done = run_agentbench("agents", "install", "codex")
    assert done.code == 3
    assert f"does not have the expected hash {wanted.build.integrity}" in done.err
    assert run_agentbench("agents", "list").out.startswith("no programs are installed; run: agentbench agents install")
    assert [path.name for path in programs_cache.iterdir()] == [".lock"]


@pytest.mark.npm
@pytest.mark.parametrize(
    ("version", "fields", "message"),
    [
        ("1.0.0", {"integrity": integrity_of(b"other")}, "npm cannot download thing@1.0.0:\nnpm error code EINTEGRITY"),
        ("1.0.1", {}, "npm cannot download thing@1.0.0:\nnpm error code E"),
        ("1.0.0", {"integrity": None}, "thing@1.0.0 or its hash was not found in the npm registry"),
    ],
    ids=["another hash than stated", "unknown version", "no hash"],
)
def test_errors_in_registry_metadata_have_a_remedy(
    npm: Npm, tmp_path: Path, version: str, fields: Any, message: str
) -> None:
    """N01: what npm finds, and what it does not check, is an error with a remedy."""
    npm.publish("thing", version, good(), **fields)
    with pytest.raises(UnavailableError) as caught:
        registry.fetch(thing(), tmp_path / "files")
    assert message in str(caught.value)
    assert caught.value.remedy


@pytest.mark.npm
def test_offline(npm: Npm, run_agentbench: Any, tmp_path: Path) -> None:
    (tmp_path / "npmrc").write_text("registry=http://127.0.0.1:9/\nfetch-retries=0\n")
    done = run_agentbench("agents", "install", "codex@9.9.9")
    assert done.code == 3
    assert f"npm cannot download {PACKAGE}@{VERSION}:\nnpm error code ECONNREFUSED" in done.err
    assert "registry settings" in done.err


def test_without_npm(run_agentbench: Any, tmp_path: Path) -> None:
    """The message names the other way."""
    done = run_agentbench("agents", "install", "codex", PATH=str(tmp_path))
    assert done.code == 3
    assert "npm, which downloads" in done.err
    assert "--set agent.program=DIR" in done.err


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("codec", "no program 'codec' (did you mean 'codex'?)"),
        ("codex@latest", "'latest' is not a valid version of codex"),
        ("codex@1/../..", "'1/../..' is not a valid version of codex"),
        ("codex@1 --registry=x", "'1 --registry=x' is not a valid version of codex"),
        ("codex@9.9.9-musl", "codex has no build for linux-"),
    ],
)
def test_invalid_program_names(run_agentbench: Any, program: str, message: str) -> None:
    done = run_agentbench("agents", "install", program)
    assert done.code in (2, 3)
    assert message in done.err


OUT = "../../out"
HOSTILE = {
    "traversal": (entry("package/../../out"), "'package/../../out' points outside the archive"),
    "absolute path": (entry("/tmp/out"), "'/tmp/out' points outside the archive"),
    "symbolic link": (entry("package/x", type=tarfile.SYMTYPE, linkname=OUT), "'package/x' is neither a file nor"),
    "link inside": (entry("package/x", type=tarfile.SYMTYPE, linkname="thing"), "'package/x' is neither a file nor"),
    "hard link": (entry("package/x", type=tarfile.LNKTYPE, linkname=OUT), "'package/x' is neither a file nor"),
    "setuid": (entry("package/x", b"x", 0o4755), "'package/x' is a setuid or setgid file"),
    "setgid": (entry("package/x", b"x", 0o2755), "'package/x' is a setuid or setgid file"),
    "device": (entry("package/x", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "neither a file nor"),
    "pipe": (entry("package/x", type=tarfile.FIFOTYPE), "'package/x' is neither a file nor"),
    "twice": (entry("package/package.json", b"{}"), "File exists"),
    "a file as directory": (entry("package/package.json/x", b"x"), "File exists"),
    "long name": (entry(f"package/{'x' * 300}"), "File name too long"),
    "null byte": (entry("package/y", pax_headers={"path": "package/x\0y"}), "control characters"),
}  # fmt: skip


@pytest.mark.npm
@pytest.mark.parametrize("name", ["traversal", "absolute path", "symbolic link", "hard link", "setuid", "device"])
def test_hostile_packages(npm: Npm, programs_cache: Path, tmp_path: Path, name: str) -> None:
    """N02, N03: nothing is installed, and nothing is written elsewhere."""
    member, message = HOSTILE[name]
    data = archive(entry("package/thing", mode=0o755), member)
    npm.publish("thing", "1.0.0", data)
    wanted = thing(integrity_of(data))
    with pytest.raises(UnavailableError, match="cannot unpack") as caught:
        store.add(wanted, lambda into: registry.fetch(wanted, into))
    assert message in str(caught.value)
    assert [path.name for path in programs_cache.iterdir()] == [".lock"]
    assert not list(tmp_path.rglob("out"))
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives(tmp_path: Path, name: str) -> None:
    """N02: also those that no real registry would accept."""
    member, message = HOSTILE[name]
    (tmp_path / "x.tgz").write_bytes(archive(member))
    (tmp_path / "a/b").mkdir(parents=True)
    with pytest.raises(UnavailableError, match=r"cannot unpack x.tgz") as caught:
        unpack(tmp_path / "x.tgz", tmp_path / "a/b")
    assert message in str(caught.value)
    assert not list(tmp_path.rglob("out"))


def zeros(size: int) -> bytes:
    return gzip.compress(bytes(1 << 20), 1) * (size >> 20)


def raw(info: tarfile.TarInfo, size: int) -> bytes:
    """A compressed header for a member of this size, without its content."""
    info.size = size
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT))


DAMAGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "empty file"),
    "not compressed": (lambda: b"x" * 1000, "Not a gzipped file"),
    "ends early": (lambda: good()[: len(good()) // 2], "end"),
    "no archive": (lambda: gzip.compress(b"x" * 2000), "header"),
    "content is missing": (lambda: raw(tarfile.TarInfo("package/x"), 5000), "end of data"),
    "negative size": (lambda: raw(tarfile.TarInfo("package/x"), -512), "neither a file nor a directory"),
    "huge": (lambda: raw(tarfile.TarInfo("package/x"), 1 << 60), "end of data"),
    "long header": (
        lambda: raw(entry("x", type=tarfile.XHDTYPE)[0], 64 << 20) + zeros(64 << 20),
        "a header of 67108864 bytes",
    ),
    "negative header": (lambda: raw(entry("x", type=tarfile.GNUTYPE_LONGNAME)[0], -1024), "a header of -"),
    "many headers": (lambda: gzip.compress(entry("x", type=tarfile.XHDTYPE)[0].tobuf() * 20_000), "recursion"),
    "too many files": (lambda: gzip.compress(entry("x", type=tarfile.DIRTYPE)[0].tobuf() * 20_001, 1),
                       "more than 20000 files"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archives(tmp_path: Path, name: str) -> None:
    """N02: each is an error, which takes neither memory nor time."""
    make, message = DAMAGED[name]
    (tmp_path / "x.tgz").write_bytes(make())
    with pytest.raises(UnavailableError, match=r"cannot unpack x.tgz") as caught:
        unpack(tmp_path / "x.tgz", tmp_path / "files")
    assert message in str(caught.value)


def test_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N02: everyone can read the files, whatever the archive states, and only their owner can write them."""
    (tmp_path / "x.tgz").write_bytes(
        archive(entry("package/a/b", mode=0o700), entry("package/c", mode=0o666), entry("package/d", mode=0))
    )
    unpack(tmp_path / "x.tgz", tmp_path / "files")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "files").rglob("*")}
    assert modes == {"package": 0o755, "package.json": 0o644, "a": 0o755, "b": 0o755, "c": 0o644, "d": 0o644}


def test_every_default_version_of_a_tested_build_is_pinned() -> None:
    """Except the builds whose packages were never downloaded here."""
    unpinned = {
        f"{name} {key}"
        for name, known in known_programs().items()
        for key, build in known.builds.items()
        if not build.integrity and not build.requirements
    }
    assert unpinned == {"opencode linux-arm64", "opencode linux-x64-musl", "opencode linux-arm64-musl"}
