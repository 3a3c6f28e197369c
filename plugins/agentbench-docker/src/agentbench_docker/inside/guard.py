"""What keeps commands from ending process 1: they have its user, so that some system calls reach it."""

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
_PRLIMIT = {
    0xC000003E: (302, 302 | 0x40000000),  # x86-64, and x32 under the same name
    0x40000003: (340,),  # x86
    0xC00000B7: (261,),  # ARM, 64 bits
    0x40000028: (369,),  # ARM, 32 bits
}
"""Numbers of the system call by architecture, as the kernel's audit names them."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def untraceable() -> None:
    """Close this process's memory and descriptors to others of its user; children are closed until they execute."""
    _LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of all descendants that lose theirs."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def spare_process_1() -> bool:
    """Refuse this process and its children ``prlimit`` of process 1; whether that holds.

    A limit of CPU time is the one thing by which an ordinary process can have the kernel kill process 1.
    """
    if os.uname().machine not in ("x86_64", "aarch64"):
        return False
    program = _program()
    data = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filter_ = ctypes.byref(_Program(len(program), data))
    return bool(_LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) == 0)


def _program() -> list[tuple[int, int, int, int]]:
    """Instructions: operation, steps to skip if equal, steps to skip if not, operand."""
    program: list[tuple[int, int, int, int]] = []
    for architecture, numbers in _PRLIMIT.items():
        left = len(numbers)
        program += [
            (_LOAD, 0, 0, _ARCHITECTURE),
            (_EQUALS, 0, left + 6, architecture),
            (_LOAD, 0, 0, _NUMBER),
            *((_EQUALS, left - index, 0, number) for index, number in enumerate(numbers)),
            (_RETURN, 0, 0, _ALLOW),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUALS, 0, 1, 1),
            (_RETURN, 0, 0, _REFUSE),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return [*program, (_RETURN, 0, 0, _ALLOW)]
