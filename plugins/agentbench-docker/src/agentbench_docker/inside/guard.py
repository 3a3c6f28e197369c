"""Prevents commands from ending PID 1, which has the same user, and from escaping through sockets."""

from __future__ import annotations

import ctypes
import os
import struct

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2

_LIBC = ctypes.CDLL(None, use_errno=True)
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06  # BPF operations
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the latter with EPERM
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in seccomp_data, little-endian
_REFUSED: dict[int, tuple[tuple[int, int | None], ...]] = {
    0xC000003E: ((302, 1), (41, 40), (425, None)),  # x86-64; x32 reports the same architecture
    0x40000003: ((340, 1), (359, 40), (102, None), (425, None)),  # x86
    0xC00000B7: ((261, 1), (198, 40), (425, None)),  # ARM, 64 bits
    0x40000028: ((369, 1), (281, 40), (425, None)),  # ARM, 32 bits
}
"""Refused system calls by audit architecture: number and refused first argument, or None to refuse all calls.

``prlimit`` of PID 1, since the kernel kills PID 1 when a CPU time limit is exceeded.
``socket`` with AF_VSOCK, which can reach the host from a virtual machine without a network.
``socketcall``, since a filter cannot inspect its arguments, and ``io_uring_setup``, which bypasses filters.
"""
_X32 = 0x40000000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def untraceable() -> None:
    """Deny other processes of this user access to this process. Applies to children until they execute a program."""
    _LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the subreaper of all descendants."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def install_filter() -> bool:
    """Install the filter for this process and its children. Refused calls fail with EPERM. Return success."""
    if os.uname().machine not in ("x86_64", "aarch64"):
        return False
    data = instructions()
    _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filter_ = ctypes.byref(_Program(len(data) // 8, data))
    return bool(_LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) == 0)


def instructions() -> bytes:
    """The filter as BPF code, eight bytes per instruction."""
    program: list[tuple[int, int, int, int]] = []
    for architecture, refused in _REFUSED.items():
        block = [step for number, argument in refused for step in _refusal(number, argument)]
        if architecture == 0xC000003E:
            block += [step for number, argument in refused for step in _refusal(number | _X32, argument)]
        program += [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 0, len(block) + 1, architecture)]
        program += [*block, (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in [*program, (_RETURN, 0, 0, _ALLOW)])


def _refusal(number: int, argument: int | None) -> list[tuple[int, int, int, int]]:
    """Instructions: operation, number of instructions to skip if equal and if not equal, operand.

    Compares the lower 32 bits of the argument, which are all that the kernel uses.
    """
    if argument is None:
        return [(_LOAD, 0, 0, _NUMBER), (_EQUALS, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    compared = [(_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUALS, 0, 1, argument), (_RETURN, 0, 0, _REFUSE)]
    return [(_LOAD, 0, 0, _NUMBER), (_EQUALS, 0, len(compared), number), *compared]
