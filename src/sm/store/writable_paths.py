"""Reads the paths of this machine that containers could write."""

from sm.store.connection import Read


class WritablePathReads:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def all(self) -> tuple[str, ...]:
        """Every path that a container of any time could write, as it was real when the container was made."""
        return tuple(
            row["path"] for row in await self._read("SELECT path FROM writable_paths ORDER BY path", ())
        )
