"""A minimal ELF program for images without Python. It installs the seccomp filter of :mod:`.inside.guard`, then
executes its arguments."""

from __future__ import annotations

import os
import struct

from agentbench_docker.inside.guard import instructions

_BASE = 0x400000
_HEADERS = 64 + 56
_FAILED = bytes.fromhex(
    "b83c000000 bf7e000000 0f05"  # exit(126)
)
_EXECUTE = bytes.fromhex(
    "488b0c24 488d742410 488b3e 488d54cc10"  # argc; argv + 1; argv[1]; envp
    "b83b000000 0f05"  # execve
)
_NO_NEW_PRIVILEGES = bytes.fromhex("b89d000000 bf26000000 be01000000 31d2 4d31d2 4d31c0 0f05")  # prctl(38, 1, 0, 0, 0)


def elf_program() -> bytes:
    """The program, or empty bytes if this machine's architecture is not supported."""
    if os.uname().machine != "x86_64":
        return b""
    filter_ = instructions()
    jump = bytes([0x85, 0xC0, 0x75, len(_EXECUTE)])  # to _FAILED if prctl returned an error
    length = len(_NO_NEW_PRIVILEGES) + 22 + len(jump) + len(_EXECUTE) + len(_FAILED)
    data = _HEADERS + -(-length // 8) * 8
    install = bytes.fromhex("b89d000000 bf16000000 be02000000 ba") + struct.pack("<I", _BASE + data) + b"\x0f\x05"
    code = (_NO_NEW_PRIVILEGES + install + jump + _EXECUTE + _FAILED).ljust(data - _HEADERS, b"\0")
    filter_program = struct.pack("<H6xQ", len(filter_) // 8, _BASE + data + 16)
    size = data + 16 + len(filter_)
    identity = b"\x7fELF\2\1\1".ljust(16, b"\0")  # 64 bits, little-endian
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, 62, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code + filter_program + filter_
