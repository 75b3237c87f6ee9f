"""The contract of sandboxes: where the process of an agent runs."""

from typing import Protocol

from sm.core.models import Launch, Process


class Sandbox(Protocol):
    """One place for processes: this host, or a container.

    `prepare` may be called again after a crash and then gives the same answer; `wait_started` only
    after the terminal was opened; `end` at any time, also for a process that is gone.
    """

    async def prepare(self, session_id: str, launch: Launch, token: str | None = None) -> tuple[str, ...]:
        """Make ready what the start needs and return the argv that the terminal runs. Raises StorageFull.

        `token` is the text for the file that SM_TOKEN_FILE names; None leaves the file as it is, and so it does with
        the one of MCP servers while the argv names that.
        """

    async def wait_started(self, session_id: str, pid: int) -> Process | None:
        """Wait until the agent itself runs, and return its process; None if it has ended meanwhile.

        Raises AgentStartFailed when the launch script could not exec it.
        """

    async def end(self, process: Process, *, force: bool) -> None:
        """Return when the process and everything it started is gone: asked first, forced after a grace time."""

    async def forget(self, session_id: str) -> None:
        """Remove what `prepare` made. Idempotent."""
