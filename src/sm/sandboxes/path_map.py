"""Maps paths of a container to paths of this host. Pure."""

from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.errors import InvalidPath
from sm.paths import is_within


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host at a path of the container. Both paths are absolute and normalized."""

    source: str
    """Without symbolic links."""
    target: str
    writable: bool = False


class PathMap:
    """The mapping of a container's mounts. Both sides are absolute paths without symbolic links.

    The map compares names only. A caller that opens a mapped path must not follow links, because an agent can create
    links in every directory that it can write.
    """

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self._mounts = tuple(mounts)

    def to_host(self, inside: str) -> str:
        """The path on the host of a path in the container. Raises InvalidPath for a path outside of the mounts."""
        path = _checked(inside)
        mount = self.mount_of(path)
        if mount is None:
            raise InvalidPath(f"{inside} is not in a directory that the container shares with this machine")
        return _moved(path, mount.target, mount.source)

    def mount_of(self, inside: str) -> Mount | None:
        """The innermost mount that shows a normalized path of the container."""
        shown = (mount for mount in self._mounts if is_within(inside, mount.target))
        return max(shown, key=lambda mount: len(mount.target), default=None)


def _checked(path: str) -> str:
    """The path without empty and `.` parts. Raises InvalidPath."""
    if not path.startswith("/") or "\0" in path:
        raise InvalidPath(f"{path!r} is not an absolute path")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidPath(f"{path} contains ..")
    return "/" + "/".join(parts)


def _moved(path: str, old: str, new: str) -> str:
    return new.rstrip("/") + path[len(old.rstrip("/")) :] or "/"
