"""Reads the paths of this machine that containers could write."""

from sm.store.connection import Read


class WritablePathReads:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def of_sessions(self) -> list[tuple[str, str | None]]:
        """(directory, workspace) of the sandboxed sessions."""
        rows = await self._read(
            "SELECT DISTINCT working_dir, workspace FROM sessions WHERE effective_mode <> 'direct' AND removed = 0",
            (),
        )
        return [(row["working_dir"], row["workspace"]) for row in rows]

    async def all(self) -> tuple[str, ...]:
        """Every path that a container of any time could write, as it was real when the container was made."""
        return tuple(
            row["path"] for row in await self._read("SELECT path FROM writable_paths ORDER BY path", ())
        )
