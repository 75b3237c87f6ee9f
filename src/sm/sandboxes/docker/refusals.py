"""Refuses directories that a container must not see: of the system, of engines, of sm, and with a person's credentials.

A name is compared after its symbolic links are resolved, and a path that contains a link is refused: an agent can turn
a directory into a link after the check. `mounts.changed` finds a link that was made between the check and the mount.
"""

import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from sm.core.dataclass import dataclass
from sm.errors import SandboxUnavailable
from sm.paths import InstancePaths, is_within
from sm.policy.mounts import engine_sockets, home_secrets, overlap, system_refusal


@dataclass(frozen=True, slots=True)
class Host:
    """The user of the daemon, and what belongs to the user on this machine."""

    uid: int
    gid: int
    homes: tuple[str, ...]
    """Home directories whose credentials no container sees."""
    sockets: tuple[str, ...] = ()
    """Sockets of engines."""

    @classmethod
    def current(cls, environ: Mapping[str, str], engine: str | None) -> Self:
        """This process. `engine`: `sandbox.engine`, or None for the engine that DOCKER_HOST names."""
        uid = os.geteuid()
        homes = (environ.get("HOME", ""), *homes_of(uid))
        sockets = (engine or "", environ.get("DOCKER_HOST", ""))
        return cls(
            uid,
            os.getegid(),
            tuple(dict.fromkeys(home for home in homes if home.startswith("/"))),
            tuple(url.removeprefix("unix://") for url in sockets if url.startswith("unix:///")),
        )


def homes_of(uid: int) -> tuple[str, ...]:
    """The home directory of a user; empty for a user without an entry in the database of users."""
    with suppress(KeyError):
        return (pwd.getpwuid(uid).pw_dir,)
    return ()


@dataclass(frozen=True, slots=True)
class MountPath:
    """A path that somebody wants to mount. `what`: its name, such as "the directory of workspace shop"."""

    path: str
    what: str
    hint: str
    """The command or the setting that names another path."""


def check_directory(mount: MountPath, paths: InstancePaths, host: Host) -> str:
    """Return the directory as it can be mounted: absolute, without symbolic links.

    Raises SandboxUnavailable with the reason.
    """
    real = check_path(mount, paths, host)
    if not os.path.isdir(real):
        raise SandboxUnavailable(f"{mount.what} is not a directory: {mount.path}", mount.hint)
    return real


def check_path(mount: MountPath, paths: InstancePaths, host: Host) -> str:
    """`check_directory` for a file or a directory."""
    path = mount.path
    real = os.path.realpath(path)
    reason = refusal(real, paths, host)
    if reason is None and not os.path.lexists(real):
        reason = "it does not exist"
    if reason is None and real != os.path.normpath(path):
        reason = f"it contains a symbolic link, and its real path is {real}"
    if reason is not None:
        raise SandboxUnavailable(
            f"{mount.what} cannot be mounted into a container: {path}: {reason}", mount.hint
        )
    return real


def refusal(real: str, paths: InstancePaths, host: Host) -> str | None:
    """The reason why no container may see `real`, a path without symbolic links, or None if it may."""
    return (
        system_refusal(real)
        or _refused_of_homes(real, host.homes)
        or _refused_of_sm(real, paths)
        or _refused_socket(real, host.sockets)
    )


def _refused_of_homes(real: str, homes: tuple[str, ...]) -> str | None:
    for home in homes:
        if is_within(os.path.realpath(home), real):
            return f"it contains the home directory {home}"
        secrets = {f"~/{name}": os.path.realpath(f"{home}/{name}") for name in home_secrets()}
        for name, secret in secrets.items():
            if overlap(real, (secret,)):
                return f"{name} can hold credentials"
    return None


def _refused_of_sm(real: str, paths: InstancePaths) -> str | None:
    own = {
        "state": (paths.state,),
        "configuration": (paths.config, paths.rules, f"{paths.home}/agents"),
    }
    for name, files in own.items():
        for file in files:
            if overlap(real, (os.path.realpath(file),)):
                return f"{file} belongs to the {name} of sm"
    return None


def _refused_socket(real: str, sockets: tuple[str, ...]) -> str | None:
    inside = [f"{real}/{name}" for name in engine_sockets()]
    below = [socket for socket in map(os.path.realpath, sockets) if is_within(socket, real)]
    if _is_socket(real):
        return "it is a socket"
    found = next(filter(_is_socket, inside + below), None)
    return None if found is None else f"it contains the socket {found}"


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
