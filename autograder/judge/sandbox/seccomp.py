"""The filter of system calls: what no course needs is refused, for good, to a process and all its children."""

import ctypes
import errno
import platform
import socket
import struct
from dataclasses import dataclass

from autograder.judge.sandbox.libc import LIBC, NEW_CGROUP, NEW_IPC, NEW_NET, NEW_NS, NEW_PID, NEW_USER, NEW_UTS, check

# New namespaces, mounts and kernel interfaces widen what can be attacked; memory that no process has mapped (memfd,
# System V, pages in pipes, queues of inotify) would not be seen by the keeper.
_DENIED = {
    "x86_64": {"unshare": 272, "setns": 308, "clone3": 435, "mount": 165, "umount2": 166, "pivot_root": 155,
               "move_mount": 429, "fsopen": 430, "open_tree": 428, "ptrace": 101, "process_vm_readv": 310,
               "process_vm_writev": 311, "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68,
               "mq_open": 240, "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298,
               "userfaultfd": 323, "io_uring_setup": 425, "open_by_handle_at": 304, "pidfd_getfd": 438, "chroot": 161,
               "capset": 126, "vmsplice": 278, "inotify_init": 253, "inotify_init1": 294, "fanotify_init": 300},
    "aarch64": {"unshare": 97, "setns": 268, "clone3": 435, "mount": 40, "umount2": 39, "pivot_root": 41,
                "move_mount": 429, "fsopen": 430, "open_tree": 428, "ptrace": 117, "process_vm_readv": 270,
                "process_vm_writev": 271, "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "msgget": 186,
                "mq_open": 180, "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
                "userfaultfd": 282, "io_uring_setup": 425, "open_by_handle_at": 265, "pidfd_getfd": 438, "chroot": 51,
                "capset": 91, "vmsplice": 75, "inotify_init1": 26, "fanotify_init": 262},
}  # fmt: skip # a drawn table
_LOOKED_AT = {
    "x86_64": {"clone": 56, "mmap": 9, "socket": 41, "socketpair": 53, "setsockopt": 54},
    "aarch64": {"clone": 220, "mmap": 222, "socket": 198, "socketpair": 199, "setsockopt": 208},
}
"""Calls of which an argument decides."""
_MACHINE = platform.machine()
NUMBERS = _DENIED.get(_MACHINE, {})
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(_MACHINE, 0)
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_REFUSE = _ERROR | errno.EPERM
_NAMESPACES = NEW_NS | NEW_USER | NEW_PID | NEW_NET | NEW_IPC | NEW_UTS | NEW_CGROUP
_SHARED_ANONYMOUS = 0x01 | 0x20
_LOAD, _AND, _EQUAL, _AT_LEAST, _GIVE = 0x20, 0x54, 0x15, 0x35, 0x06


@dataclass
class _Program:
    """A filter, instruction by instruction."""

    code: bytes = b""

    def add(self, operation: int, value: int, yes: int = 0, no: int = 0) -> None:
        self.code += struct.pack("HBBI", operation, yes, no, value)

    def refuse(self, number: int, verdict: int) -> None:
        self.add(_EQUAL, number, 0, 1)
        self.add(_GIVE, verdict)

    def look(self, number: int, argument: int, mask: int, value: int, equal: int, other: int) -> None:
        """The verdict by whether the argument has this value in these bits."""
        self.add(_EQUAL, number, 0, 5)
        self.add(_LOAD, 16 + 8 * argument)
        self.add(_AND, mask)
        self.add(_EQUAL, value, 0, 1)
        self.add(_GIVE, equal)
        self.add(_GIVE, other)


def install_filter() -> None:
    program = _Program()
    program.add(_LOAD, 4)
    program.add(_EQUAL, _ARCH, 1, 0)
    program.add(_GIVE, _REFUSE)
    program.add(_LOAD, 0)
    program.add(_AT_LEAST, 0x40000000, 0, 1)  # the x32 calls have other numbers for the same things
    program.add(_GIVE, _REFUSE)
    for name, number in NUMBERS.items():
        program.refuse(number, _ERROR | errno.ENOSYS if name == "clone3" else _REFUSE)  # glibc takes clone instead
    _look_at_arguments(program)
    program.add(_GIVE, _ALLOW)
    buffer = ctypes.create_string_buffer(program.code)
    pointer = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program.code) // 8, ctypes.addressof(buffer)))
    check(LIBC.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(pointer)), 0, 0), "seccomp")


def _look_at_arguments(program: _Program) -> None:
    """No new namespace; no network, those that are in no namespace (vsock) neither; no memory that belongs to no file
    and to no process alone (what was taken out of a shared map again is in nobody's RSS); and socket buffers stay as
    large as they are: who asks for more is told yes, for nothing depends on it."""
    number, whole = _LOOKED_AT[_MACHINE], 0xFFFFFFFF
    program.look(number["clone"], 0, _NAMESPACES, 0, _ALLOW, _REFUSE)
    for name in ("socket", "socketpair"):
        program.look(number[name], 0, whole, socket.AF_UNIX, _ALLOW, _ERROR | errno.EAFNOSUPPORT)
    program.look(number["mmap"], 3, _SHARED_ANONYMOUS, _SHARED_ANONYMOUS, _REFUSE, _ALLOW)
    program.look(number["setsockopt"], 2, whole, socket.SO_SNDBUF, _ERROR, _ALLOW)
