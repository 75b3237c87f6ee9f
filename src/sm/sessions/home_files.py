"""Writes the files that an agent CLI needs in the home directory of its container, before the agent starts."""

import asyncio
import errno
from collections.abc import Callable, Mapping

from sm.core.dataclass import dataclass
from sm.core.models import Launch, Session
from sm.errors import AgentStartFailed, StorageFull
from sm.sandboxes.home import ContainerHome, HomeOf

UserOf = Callable[[str | None], tuple[int, int] | None]
"""The uid and gid of the agents in the container of a workspace, or None if no container is known."""


@dataclass(frozen=True, slots=True, eq=False)
class HomeFiles:
    """`files_of`: the files of a session's agent CLI, by their paths in the container."""

    _home_of: HomeOf
    _user_of: UserOf
    _files_of: Callable[[Session, Launch], Mapping[str, str]]

    async def ready_for(self, session: Session, launch: Launch) -> None:
        """Write the files that are missing. Does nothing for a session on this host.

        Raises StorageFull, AgentStartFailed.
        """
        home = self._home_of(session)
        if home is None:
            return
        await write_missing(home, self._files_of(session, launch), self._user_of(session.workspace))


async def write_missing(home: ContainerHome, files: Mapping[str, str], user: tuple[int, int] | None) -> None:
    """Write the files, by their paths in the container, that do not exist. `user`: the uid and gid of their owner.

    Raises StorageFull, AgentStartFailed.
    """
    try:
        await asyncio.to_thread(_write, home, files, user)
    except OSError as error:
        reason = f"in the home directory of the container: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"cannot write {reason}", "free disk space, then try again") from None
        raise AgentStartFailed(f"cannot write {reason}", f"look at {home.directory}") from None


def _write(home: ContainerHome, files: Mapping[str, str], user: tuple[int, int] | None) -> None:
    for inside, content in files.items():
        path = home.host_path(inside)
        if path is not None:
            home.add_file(path, content.encode(), user)
