"""The contract of sandboxes: where the process of an agent runs."""

from typing import Protocol

from sm.core.models import Launch, Process


class Sandbox(Protocol):
    """A place for processes: this host, or a container.

    `prepare` is idempotent, also after a crash. Call `wait_started` only after the terminal was opened, `end` at any
    time, also for a process that is gone.
    """

    async def prepare(self, session_id: str, launch: Launch, token: str | None = None) -> tuple[str, ...]:
        """Write the files that the start needs and return the argv for the terminal. Raises StorageFull.

        `token` is the content of the file that SM_TOKEN_FILE names. None keeps the file unchanged. A launch without
        an MCP configuration keeps the file of MCP servers as long as the argv names it.
        """

    async def wait_started(self, session_id: str, pid: int) -> Process | None:
        """Wait until the agent itself runs, and return its process; None when it has ended meanwhile.

        Raises AgentStartFailed when the launch script could not exec it.
        """

    async def end(self, process: Process, *, force: bool) -> None:
        """End the process and all its descendants: terminate them, and kill them after a grace time."""

    async def forget(self, session_id: str) -> None:
        """Remove the files of `prepare`. Idempotent."""
