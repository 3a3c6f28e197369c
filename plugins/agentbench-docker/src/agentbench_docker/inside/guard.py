"""What keeps commands from ending process 1, whose user they have, and from leaving the container by a socket."""

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
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06  # operations of the filter's little machine (BPF)
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the latter with EPERM
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # where the machine finds them, on little-endian systems
_REFUSED: dict[int, tuple[tuple[int, int | None], ...]] = {
    0xC000003E: ((302, 1), (41, 40), (425, None)),  # x86-64; x32 reports the same architecture
    0x40000003: ((340, 1), (359, 40), (102, None), (425, None)),  # x86
    0xC00000B7: ((261, 1), (198, 40), (425, None)),  # ARM, 64 bits
    0x40000028: ((369, 1), (281, 40), (425, None)),  # ARM, 32 bits
}
"""System calls by architecture, as the kernel's audit names it: the number, and the first argument that is refused.

``prlimit`` of process 1: a limit of CPU time is the one thing by which an ordinary process can have the kernel kill it.
``socket`` of the family AF_VSOCK, which leads out of a virtual machine past all networks; ``socketcall``, whose
arguments no filter sees; and ``io_uring_setup``, which makes sockets past every filter.
"""
_X32 = 0x40000000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def untraceable() -> None:
    """Close this process's memory and descriptors to others of its user; children are closed until they execute."""
    _LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of all descendants that lose theirs."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def refuse_ways_out() -> bool:
    """Refuse this process and its children, with EPERM, what leads out; whether that holds."""
    if os.uname().machine not in ("x86_64", "aarch64"):
        return False
    data = instructions()
    _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filter_ = ctypes.byref(_Program(len(data) // 8, data))
    return bool(_LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) == 0)


def instructions() -> bytes:
    """The filter, as the kernel reads it: eight bytes for each instruction."""
    program: list[tuple[int, int, int, int]] = []
    for architecture, refused in _REFUSED.items():
        block = [step for number, argument in refused for step in _refusal(number, argument)]
        if architecture == 0xC000003E:
            block += [step for number, argument in refused for step in _refusal(number | _X32, argument)]
        program += [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 0, len(block) + 1, architecture)]
        program += [*block, (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in [*program, (_RETURN, 0, 0, _ALLOW)])


def _refusal(number: int, argument: int | None) -> list[tuple[int, int, int, int]]:
    """Instructions: operation, steps to skip if equal, steps to skip if not, operand.

    The lower half of an argument is compared: the kernel looks at no more of it.
    """
    if argument is None:
        return [(_LOAD, 0, 0, _NUMBER), (_EQUALS, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    compared = [(_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUALS, 0, 1, argument), (_RETURN, 0, 0, _REFUSE)]
    return [(_LOAD, 0, 0, _NUMBER), (_EQUALS, 0, len(compared), number), *compared]
