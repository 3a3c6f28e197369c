"""Installed programs and directories of the user: digests, locks, interruptions, and what is refused."""

import errno
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentbench_bridge.programs import store
from agentbench_bridge.programs.elf import libc_of
from agentbench_bridge.programs.files import digest
from agentbench_bridge.programs.versions import Build, Known, parse
from agentbench_core import InputError, SandboxError, UnavailableError
from agentbench_testing.chat_server import DEFAULT_MODEL, LoopbackServer, error
from agentbench_testing.fixtures import MakeTask, RunAgentbench

THING = parse(
    "thing",
    {"thing": Known(version="1.0", builds={f"linux-{cpu}": Build(entry="bin/thing") for cpu in ("x64", "arm64")})},
)
LOADERS = {"glibc": b"/lib64/ld-linux-x86-64.so.2\0", "musl": b"/lib/ld-musl-x86_64.so.1\0"}


def elf(loader: bytes = b"", *, offset: int = 64, count: int = 2) -> bytes:
    """A small ELF file with a loadable segment and, if it is not static, the name of a loader."""
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, offset, 0, 0, 64, 56, count, 0, 0, 0)
    start = 64 + 2 * 56
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, start, start, 4096)
    interpreter = struct.pack("<IIQQQQQQ", 3 if loader else 0, 4, start, 0, 0, len(loader), len(loader), 1)
    return head + load + interpreter + loader


def fill(text: str = "", data: bytes | None = None) -> Callable[[Path], tuple[str, str]]:
    """Writes a small program."""

    def write(into: Path) -> tuple[str, str]:
        (into / "bin").mkdir()
        (into / "bin/thing").write_bytes(elf() if data is None else data)
        (into / "more.txt").write_text(text)
        return "thing@1.0", ""

    return write


def end_of_use() -> None:
    """What the end of this process would do."""
    while store._held:
        store._held.popitem()[1].close()


def unneeded(into: Path) -> tuple[str, str]:
    raise AssertionError("it is installed")


@pytest.fixture(autouse=True)
def _cache(programs_cache: Path) -> Iterator[None]:
    """Each test has no installed programs."""
    yield
    end_of_use()


@pytest.mark.parametrize("libc", ["glibc", "musl"])
def test_the_c_library(tmp_path: Path, libc: str) -> None:
    """It is recorded, and an image with another one is refused with the command that helps."""
    program = store.add(THING, fill(data=elf(LOADERS[libc])))
    assert program.manifest.libc == libc
    image = {"glibc": "/lib/ld-linux-aarch64.so.1\n", "musl": "/lib/ld-musl-aarch64.so.1\n"}
    program.check_fits(image[libc])
    with pytest.raises(SandboxError, match=rf"thing 1.0 needs {libc}, which this task's image does not have"):
        program.check_fits(image["musl" if libc == "glibc" else "glibc"])
    probed = subprocess.run(program.probe, shell=True, capture_output=True, text=True)
    assert (probed.returncode, probed.stderr) == (0, "")


def test_the_build_for_another_c_library(tmp_path: Path) -> None:
    """Of a directory: the user has to find it; of an installed program: the command is known."""
    (tmp_path / "claude").write_bytes(elf(LOADERS["glibc"]))
    (tmp_path / "claude").chmod(0o755)
    program = store.from_directory(str(tmp_path), "claude-code")
    with pytest.raises(SandboxError) as caught:
        program.check_fits("/lib/ld-musl-x86_64.so.1\n")
    assert "Pass the directory of a build for musl as agent.program" in caught.value.remedy
    wanted = parse("claude-code@9.9.9")

    def write(into: Path) -> tuple[str, str]:
        (into / "package").mkdir()
        (into / "package/claude").write_bytes(elf(LOADERS["glibc"]))
        return "claude", ""

    with pytest.raises(SandboxError, match=r"agents install claude-code@9.9.9-musl\n.*agent.version=9.9.9-musl"):
        store.add(wanted, write).check_fits("/lib/ld-musl-x86_64.so.1\n")


@pytest.mark.parametrize(
    ("data", "libc"),
    [
        (elf(LOADERS["glibc"]), "glibc"),
        (elf(LOADERS["musl"]), "musl"),
        (elf(), "static"),
        (elf(b"/system/bin/linker64\0"), ""),
        (b"", ""),
        (b"#!/bin/sh\n" * 20, ""),
        (elf(LOADERS["musl"])[:100], ""),
        (elf(LOADERS["musl"], offset=1 << 63), ""),
        (elf(LOADERS["musl"], offset=(1 << 64) - 1), ""),
        (elf(LOADERS["musl"], count=65535), "musl"),
        (b"\x7fELF\x01" + elf()[5:], ""),
    ],
)
def test_elf_files(tmp_path: Path, data: bytes, libc: str) -> None:
    """Static, dynamic, damaged, and no ELF file at all."""
    (tmp_path / "program").write_bytes(data)
    assert libc_of(tmp_path / "program") == libc


def test_the_elf_file_of_this_python() -> None:
    found = libc_of(Path(sys.executable).resolve())
    assert found == platform.libc_ver()[0] or found in ("musl", "static")
    assert found


def test_a_program_is_checked_before_use() -> None:
    """N04: a change is noticed, also in a process that has used it, and installing again repairs it."""
    program = store.add(THING, fill())
    assert store.find(THING) == program
    assert store.add(THING, unneeded) == program
    for change in (
        lambda: (program.directory / "more.txt").write_text("changed"),
        (program.directory / "more").mkdir,
        lambda: (program.directory / "more.txt").chmod(0o755),
        lambda: (program.directory / "link").symlink_to("more.txt"),
        (program.directory / "more.txt").unlink,
    ):
        change()
        with pytest.raises(UnavailableError, match=r"the files of thing@1.0 in .* have been changed") as caught:
            store.find(THING)
        assert caught.value.remedy == "Run: agentbench agents install thing@1.0"
        end_of_use()
        assert store.add(THING, fill()) == program
        assert store.find(THING) == program


def test_a_program_in_use_is_neither_replaced_nor_removed() -> None:
    """N04: not even if it has been changed."""
    program = store.add(THING, fill())
    store.find(THING)
    (program.directory / "more.txt").write_text("changed")
    with pytest.raises(InputError, match="in use"):
        store.add(THING, fill("new"))
    with pytest.raises(InputError, match="in use"):
        store.remove(THING)
    assert (program.directory / "more.txt").read_text() == "changed"
    assert [path.name for path in store.root().iterdir() if path.name.startswith((".new", ".old"))] == []
    end_of_use()
    store.remove(THING)
    assert store.installed() == []


@pytest.mark.parametrize("damage", ["absent", "no JSON", "another form", "no files"])
def test_damaged_entries(damage: str) -> None:
    """They are not listed, are refused with the remedy, and can be removed or installed again."""
    for _ in range(2):
        program = store.add(THING, fill())
        manifest = program.directory.parent / "program.json"
        if damage == "absent":
            manifest.unlink()
        elif damage == "no files":
            program.directory.rename(program.directory.with_name("elsewhere"))
        else:
            manifest.write_text({"no JSON": "{", "another form": '{"name": 3}'}[damage])
        with pytest.raises(UnavailableError, match=r"is not installed|is damaged") as caught:
            store.find(THING)
        assert caught.value.remedy == "Run: agentbench agents install thing@1.0"
        end_of_use()
        store.add(THING, fill())
        store.remove(THING)
    with pytest.raises(InputError, match=r"thing@1.0 is not installed"):
        store.remove(THING)


def test_an_interrupted_installation_leaves_nothing() -> None:
    """N04: killed while it downloads: not listed, and cleaned up by the next one."""
    script = (
        "import sys; from agentbench_bridge.programs import store, versions\n"
        "def fill(into): (into / 'half').touch(); print('filling', flush=True); sys.stdin.read()\n"
        "store.add(versions.parse('codex@9.9.9'), fill)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"filling\n"
        (left,) = store.root().glob(".new-*")
        (left / "program.json").write_text("{}")
        assert store.installed() == []
        killed.kill()
    assert killed.returncode == -signal.SIGKILL
    store.add(THING, fill())
    assert sorted(path.name for path in store.root().iterdir()) == [".lock", "thing-1.0"]


def test_a_failed_installation_keeps_the_installed_program() -> None:
    program = store.add(THING, fill())
    (program.directory / "more.txt").write_text("changed")

    def fails(into: Path) -> tuple[str, str]:
        (into / "half").touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(UnavailableError, match=r"cannot change the installed programs in .*No space left"):
        store.add(THING, fails)
    with pytest.raises(UnavailableError, match="does not contain 'bin/thing'"):
        store.add(THING, lambda into: ("thing@1.0", ""))
    assert (program.directory / "more.txt").read_text() == "changed"
    assert sorted(path.name for path in store.root().iterdir()) == [".lock", "thing-1.0"]


def test_a_cache_that_cannot_be_written() -> None:
    store.root().parent.mkdir(parents=True)
    store.root().write_text("a file")
    with pytest.raises(UnavailableError, match="cannot change the installed programs"):
        store.add(THING, fill())
    assert store.installed() == []


def test_what_is_installed_does_not_depend_on_the_umask() -> None:
    """The sandbox's user can read it, and the entry is executable whatever the package states."""
    before = os.umask(0o077)
    try:
        program = store.add(THING, fill())
    finally:
        os.umask(before)
    assert program.directory.stat().st_mode & 0o777 == 0o755
    assert (program.directory / "bin/thing").stat().st_mode & 0o777 == 0o755


def executable(path: Path, data: bytes = b"#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def test_a_directory_of_the_user(tmp_path: Path) -> None:
    """N06: through a link; the nearest executable file is used, and a change gives another identity."""
    executable(tmp_path / "codex-1/deep/er/codex")
    executable(tmp_path / "codex-1/vendor/codex", elf(LOADERS["musl"]))
    (tmp_path / "codex-1/codex").write_text("documentation, which is not executable")
    (tmp_path / "codex-1/bin").mkdir()
    (tmp_path / "codex-1/bin/codex").symlink_to("../../outside")
    executable(tmp_path / "outside")
    (tmp_path / "current").symlink_to("codex-1")
    program = store.program_for("codex", "", str(tmp_path / "current"))
    assert program.directory == tmp_path / "codex-1"
    assert program.entry == "vendor/codex"
    assert program.manifest.libc == "musl"
    assert program.identity == {"program": "codex", "digest": digest(tmp_path / "codex-1")}
    (tmp_path / "codex-1/more").write_text("x")
    assert store.program_for("codex", "", str(tmp_path / "current")).identity != program.identity


def test_links_inside_a_directory_of_the_user(tmp_path: Path) -> None:
    """N06: they are not followed, so that neither loops nor other directories are read."""
    executable(tmp_path / "program/lib/node/real")
    (tmp_path / "program/bin").mkdir()
    (tmp_path / "program/bin/codex").symlink_to("../lib/node/real")
    (tmp_path / "program/codex").symlink_to("codex")
    (tmp_path / "program/loop").symlink_to(".")
    (tmp_path / "program/root").symlink_to("/")
    assert store.from_directory(str(tmp_path / "program"), "codex").entry == "bin/codex"
    (tmp_path / "program/bin/codex").unlink()
    (tmp_path / "program/bin/codex").symlink_to(tmp_path / "program/lib/node/real")
    with pytest.raises(InputError, match="or a link to a file outside this directory: bin/codex, codex"):
        store.from_directory(str(tmp_path / "program"), "codex")
    one = digest(tmp_path / "program")
    (tmp_path / "program/root").unlink()
    (tmp_path / "program/root").symlink_to("/etc")
    assert digest(tmp_path / "program") != one


def test_directories_that_are_refused(tmp_path: Path) -> None:
    """N06: each with what is wrong and what to do."""
    (tmp_path / "file").write_text("x")
    for path in (f"{tmp_path}/file", f"{tmp_path}/absent", "~no-such-user/x", "\0"):
        with pytest.raises(InputError, match=r"agent.program: '.*' is not a directory"):
            store.from_directory(path)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="contains no executable file 'claude'\n") as caught:
        store.from_directory(str(empty), "claude-code")
    assert str(caught.value).startswith("agent.program:")
    (empty / "claude").write_text("x")
    with pytest.raises(InputError, match="'claude'; not executable, or a link to a file outside this directory"):
        store.from_directory(str(empty), "claude-code")
    os.mkfifo(empty / "pipe")
    with pytest.raises(InputError, match="pipe is not a file, directory or link"):
        store.from_directory(str(empty))
    (empty / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(empty / "socket"))
        with pytest.raises(InputError, match="socket is not a file, directory or link"):
            store.from_directory(str(empty))
    (empty / "socket").unlink()
    with (empty / "large").open("wb") as file:
        file.truncate((8 << 30) + 1)
    with pytest.raises(InputError, match="too large for a program") as caught:
        store.from_directory(str(empty))
    assert caught.value.remedy == "Use a directory that contains only the program."


def test_digest_includes_unusual_file_names(tmp_path: Path) -> None:
    """Also one that is not UTF-8, and one that looks like two files."""
    (tmp_path / "a").mkdir()
    (tmp_path / os.fsdecode(b"a/\xff")).write_text("x")
    one = digest(tmp_path)
    (tmp_path / os.fsdecode(b"a/\xff")).rename(tmp_path / "a/b\n3 c")
    assert digest(tmp_path) != one
    assert json.dumps(one)


@pytest.mark.parametrize(
    ("setting", "code", "message"),
    [
        ("agent.version=9.9.9", 3, "codex@9.9.9 is not installed\nRun: agentbench agents install codex@9.9.9\n"),
        ("agent.program=absent", 2, "agent.program: 'absent' is not a directory"),
    ],
    ids=["not installed", "no directory"],
)
def test_unusable_program_is_reported_before_the_run(
    run_agentbench: RunAgentbench, make_task: MakeTask, tmp_path: Path, setting: str, code: int, message: str
) -> None:
    """Known before the first attempt, and nothing is recorded."""
    make_task()
    words = ("--suite", "mini", "--agent", "codex", "--sandbox", "local", "--allow-unisolated")
    with LoopbackServer(lambda request: error(500, "no request is expected")) as server:
        model = ("--llm", "openrouter", "--model", DEFAULT_MODEL, "--set", f"llm.base_url={server.base_url}")
        done = run_agentbench("run", *words, *model, "--set", setting, OPENROUTER_API_KEY="key-of-the-user")
    assert done.code == code, done.err
    assert message in done.err
    assert not (tmp_path / "artifacts/runs").exists()
