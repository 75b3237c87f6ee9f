"""Reads the paths of this machine that containers could write."""

from sm.store.connection import Read


class WritablePathReads:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def of_sessions(self, but: str = "", since: str = "") -> list[tuple[str, str | None]]:
        """(directory, workspace) of the sandboxed sessions, without the one with the id `but`.

        With `since` also of removed ones that were made at that time or later.
        """
        rows = await self._read(
            "SELECT DISTINCT working_dir, workspace FROM sessions"
            " WHERE effective_mode <> 'direct' AND id <> ?1"
            " AND (removed = 0 OR (?2 <> '' AND created_at >= ?2))",
            (but, since),
        )
        return [(row["working_dir"], row["workspace"]) for row in rows]

    async def all(self, but: str | None = None, since: str = "") -> tuple[str, ...]:
        """Every path that a container of any time could write, as it was real when the container was made.

        Without those that were stored for the workspace `but` at the time `since` or later.
        """
        rows = await self._read(
            "SELECT path FROM writable_paths WHERE ?2 = '' OR at < ?2 OR workspace IS NOT ?1 ORDER BY path",
            (but, since),
        )
        return tuple(row["path"] for row in rows)
