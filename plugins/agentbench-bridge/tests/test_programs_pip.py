"""Programs from wheels: a real pip and an index on loopback, and how such a program is started."""

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_bridge.programs import registry, store
from agentbench_bridge.programs.versions import Wanted, known_programs, parse
from agentbench_core import SandboxError, UnavailableError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MODULE = """
import json, os, subprocess, sys
def run():
    child = subprocess.run([sys.executable, "-c", "import thing"], capture_output=True, text=True)
    print(json.dumps({"file": __file__, "arguments": sys.argv[1:], "path": sys.path, "child": child.stderr,
                      "environment": dict(os.environ)}))
"""
TABLE = """
[thing]
version = "1.0"
[thing.builds.linux-x64]
requirements = "thing.txt"
python = "PYTHON"
start = "import thing; thing.run()"
entry = "bin/thing"
[thing.builds.linux-arm64]
requirements = "thing.txt"
python = "PYTHON"
start = "import thing; thing.run()"
entry = "bin/thing"
"""


def wheel(name: str = "thing", **files: str) -> bytes:
    """A wheel with a module of its name, and more files."""
    info = f"{name}-1.0.dist-info"
    members = {
        f"{name}.py": MODULE,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **files,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**members, f"{info}/RECORD": "".join(f"{path},,\n" for path in members)}.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def source_package(marker: Path) -> bytes:
    """A source distribution whose setup.py leaves a file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in {
            "thing-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
            "thing-1.0/setup.py": f"open({str(marker)!r}, 'w')\nfrom setuptools import setup\nsetup(name='thing')\n",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@attrs.frozen
class Index:
    """A package index, and a table of programs."""

    site: Any
    directory: Path

    def publish(self, project: str, file: str, data: bytes) -> str:
        """Publish a file. Returns its hash."""
        digest = hashlib.sha256(data).hexdigest()
        self.site.pages[f"/files/{file}"] = data
        self.site.pages[f"/simple/{project}/"] = f'<a href="/files/{file}#sha256={digest}">{file}</a>'.encode()
        return digest

    def wanted(self, digest: str) -> Wanted:
        """The program ``thing``, which is in no table of the product, with a pinned hash."""
        (self.directory / "versions.toml").write_text(TABLE.replace("PYTHON", PYTHON))
        (self.directory / "thing.txt").write_text(f"thing==1.0 --hash=sha256:{digest}\n")
        return parse("thing", known_programs(self.directory))


@pytest.fixture
def index(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs_cache: Path) -> Iterator[Index]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    (tmp_path / "table").mkdir()
    yield Index(site, tmp_path / "table")
    while store._held:  # what the end of this process would do
        store._held.popitem()[1].close()


def test_install_and_start(index: Index, tmp_path: Path) -> None:
    """N03, N05: it has its own packages and the standard library; what it starts does not have its packages."""
    wanted = index.wanted(index.publish("thing", "thing-1.0-py3-none-any.whl", wheel()))
    program = store.add(wanted, lambda into: registry.fetch(wanted, into))
    assert (program.manifest.libc, program.manifest.python) == ("glibc", PYTHON)
    assert not list(program.directory.rglob("*.pyc"))

    project = tmp_path / "project's"
    (project / "site").mkdir(parents=True)
    for name in ("thing.py", "json.py", "site/thing.py", "site/sitecustomize.py"):
        (project / name).write_text("raise SystemExit('from the project')")
    done = subprocess.run(
        [program.directory / program.entry, "a b", "--c"],
        cwd=project,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(project / "site")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    library = str(program.directory / "lib")
    assert found["file"] == f"{library}/thing.py"
    assert found["arguments"] == ["a b", "--c"]
    assert found["path"][0] == library
    assert not [path for path in found["path"] if path == "" or "project" in path or "-packages" in path]
    assert not [name for name, value in found["environment"].items() if library in value]
    assert "from the project" in found["child"]
    assert not list(program.directory.rglob("*.pyc"))
    assert store.find(wanted).manifest == program.manifest


def test_it_starts_from_any_directory(index: Index, tmp_path: Path) -> None:
    """N05: quotes in its path are not Python code."""
    wanted = index.wanted(index.publish("thing", "thing-1.0-py3-none-any.whl", wheel()))
    files = tmp_path / "it's"
    registry.fetch(wanted, files)
    done = subprocess.run([files / "bin/thing"], capture_output=True, text=True)
    assert json.loads(done.stdout)["file"] == f"{files}/lib/thing.py"


def test_incompatible_images_are_refused(index: Index) -> None:
    """Another Python, none, or another C library: refused with the reason."""
    wanted = index.wanted(index.publish("thing", "thing-1.0-py3-none-any.whl", wheel()))
    program = store.add(wanted, lambda into: registry.fetch(wanted, into))
    here = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    found = subprocess.run(program.probe, shell=True, capture_output=True, text=True, env=here)
    assert f"python {PYTHON}\n" in found.stdout
    loader = "/lib64/ld-linux-x86-64.so.2\n"
    program.check_fits(f"{loader}python {PYTHON}\n")
    with pytest.raises(SandboxError, match=f"needs Python {PYTHON}, which this task's image does not have"):
        program.check_fits(f"{loader}python {PYTHON}1\n")
    with pytest.raises(SandboxError, match=r"thing 1.0 needs glibc, which this task's image does not have") as caught:
        program.check_fits(f"/lib/ld-musl-x86_64.so.1\npython {PYTHON}\n")
    assert caught.value.remedy == "thing has no build for musl. Use an image with glibc."


def test_hash_mismatch_is_an_error(index: Index, tmp_path: Path) -> None:
    """N01: a wheel of the same name and version."""
    index.publish("thing", "thing-1.0-py3-none-any.whl", wheel())
    with pytest.raises(UnavailableError, match=r"pip cannot download thing@1.0:") as caught:
        registry.fetch(index.wanted("0" * 64), tmp_path / "files")
    assert "DO NOT MATCH THE HASHES" in str(caught.value)


def test_source_distributions_are_refused(index: Index, tmp_path: Path) -> None:
    """N03: building one would run its code."""
    digest = index.publish("thing", "thing-1.0.tar.gz", source_package(tmp_path / "marker"))
    with pytest.raises(UnavailableError, match=r"No matching distribution found for thing==1.0"):
        registry.fetch(index.wanted(digest), tmp_path / "files")
    assert not (tmp_path / "marker").exists()


def test_a_wheel_that_leaves_its_directory(index: Index, programs_cache: Path, tmp_path: Path) -> None:
    """N02: nothing is installed, and nothing is written elsewhere."""
    data = wheel(**{"../../../../out.py": "x"})
    wanted = index.wanted(index.publish("thing", "thing-1.0-py3-none-any.whl", data))
    with pytest.raises(UnavailableError, match="outside the target directory"):
        store.add(wanted, lambda into: registry.fetch(wanted, into))
    assert [path.name for path in programs_cache.iterdir()] == [".lock"]
    assert not list(tmp_path.rglob("out.py"))


def test_changed_pins_install_again(index: Index) -> None:
    """The version is the same, and a dependency has another hash."""
    for text in ("1", "2"):
        digest = index.publish("thing", "thing-1.0-py3-none-any.whl", wheel(**{"data.txt": text}))
        known_programs.cache_clear()
        wanted = index.wanted(digest)
        program = store.add(wanted, lambda into: registry.fetch(wanted, into))  # noqa: B023 - called in this round
        assert (program.directory / "lib/data.txt").read_text() == text


def test_other_versions_are_refused(index: Index, tmp_path: Path) -> None:
    index.wanted("0" * 64)
    wanted = parse("thing@2.0", known_programs(index.directory))
    with pytest.raises(UnavailableError, match=r"only version 1.0 of thing can be installed") as caught:
        registry.fetch(wanted, tmp_path / "files")
    assert "agent.program=DIR" in caught.value.remedy


def test_without_pip(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a module nor as a command."""
    wanted = index.wanted("0" * 64)
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"pip, which downloads thing@1.0, was not found"):
        registry.fetch(wanted, tmp_path / "files")


def test_the_command(index: Index, run_agentbench: Any) -> None:
    """N01: the product's own pins refuse a wheel of the same name and version."""
    pin = known_programs()["mini-swe-agent"].builds["linux-x64"].requirements.split()[0]
    project, _, version = pin.partition("==")
    index.publish(project, f"{project.replace('-', '_')}-{version}-py3-none-any.whl", wheel(project))
    done = run_agentbench("agents", "install", "mini-swe-agent")
    assert done.code == 3
    assert "pip cannot download mini-swe-agent@" in done.err or "has no build for" in done.err
    assert "DO NOT MATCH THE HASHES" in done.err or "has no build for" in done.err


def test_several_versions_of_python(index: Index, tmp_path: Path) -> None:
    """Compiled wheels are there for each version; the program starts with those of the Python that runs it."""
    other = "3.50"
    lines = [f"thing==1.0 --hash=sha256:{index.publish('thing', 'thing-1.0-py3-none-any.whl', wheel())}"]
    files, hashes = {}, []
    for version in (other, PYTHON):
        tag = f"cp{version.replace('.', '')}"
        info = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}-{tag}-manylinux_2_17_{platform.machine()}\n"
        text = f"built_for = {version!r}"
        data = wheel("fast", **{"fast.py": text, "fast-1.0.dist-info/WHEEL": info})
        files[f"fast-1.0-{tag}-{tag}-manylinux_2_17_{platform.machine()}.whl"] = data
        hashes.append(hashlib.sha256(data).hexdigest())
    page = ""
    for name, data in files.items():
        index.site.pages[f"/files/{name}"] = data
        page += f'<a href="/files/{name}#sha256={hashlib.sha256(data).hexdigest()}">{name}</a>'
    index.site.pages["/simple/fast/"] = page.encode()
    lines.append("fast==1.0 \\\n" + " \\\n".join(f"    --hash=sha256:{one}" for one in hashes))
    table = TABLE.replace("PYTHON", f"{other} {PYTHON}").replace("thing.run()", "import fast; print(fast.built_for)")
    (index.directory / "versions.toml").write_text(table)
    (index.directory / "thing.txt").write_text("\n".join(lines) + "\n")
    wanted = parse("thing", known_programs(index.directory))
    program = store.add(wanted, lambda into: registry.fetch(wanted, into))
    assert sorted(path.name for path in program.directory.iterdir()) == ["bin", "lib", f"lib-{PYTHON}"]
    assert not (program.directory / f"lib-{PYTHON}/thing.py").exists()
    done = subprocess.run([program.directory / "bin/thing"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{PYTHON}\n", "")
    program.check_fits(f"/lib64/ld-linux-x86-64.so.2\npython {other}\n")
    with pytest.raises(SandboxError, match=f"needs Python {other} or {PYTHON}, which"):
        program.check_fits("/lib64/ld-linux-x86-64.so.2\n")
