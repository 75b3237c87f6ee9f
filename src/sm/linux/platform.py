"""The platform: the supported kernels, the boot id, the limit of open files, the C library."""

import ctypes
import functools
import platform
import re
import resource

from sm.errors import PlatformUnsupported

KERNEL_MIN = (5, 4)


def check_platform() -> None:
    """Raise PlatformUnsupported unless this is Linux with a kernel of 5.4 or newer."""
    system, release = platform.system(), platform.release()
    if system != "Linux":
        raise PlatformUnsupported(f"sm runs only on Linux (including WSL2), not on {system or 'unknown'}")
    version = re.match(r"(\d+)\.(\d+)", release)
    if version is None or (int(version[1]), int(version[2])) < KERNEL_MIN:
        raise PlatformUnsupported(f"sm needs Linux kernel 5.4 or newer, this is {release}")


@functools.cache
def boot_id() -> str:
    """The id of the current boot, which changes with each reboot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def raise_fd_limit() -> None:
    """Let this process open 8,192 files, or as many as the hard limit allows: each live agent takes one.

    Not more, because child processes (a tmux server, and so agents) inherit the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library of this process, with errno kept for `ctypes.get_errno`."""
    return ctypes.CDLL(None, use_errno=True)
