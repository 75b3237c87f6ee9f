"""The contract of sandboxes: where the process of an agent runs."""

from collections.abc import Iterable
from typing import Protocol

from sm.core.dataclass import dataclass
from sm.core.models import Exit, Launch, Process, Session, Workspace
from sm.errors import ExternalError


@dataclass(frozen=True, slots=True)
class ProcessEnding:
    """How the process of an agent ended."""

    exit: Exit
    reason: str | None = None
    """A cause that the exit does not show, such as a lack of memory."""
    cut_off: bool = False
    """The engine of the process ended or restarted, and with it the process."""
    place_ended: bool = False
    """The container of the process ended without an order of sm, and with it the process."""


def did_not_end(left: Iterable[Process]) -> ExternalError:
    """The error of `Sandbox.end` for processes that are left."""
    pids = ", ".join(str(process.pid) for process in left)
    return ExternalError(
        f"process {pids} did not end: it is stuck in the kernel, or belongs to another user",
        f"ps -o pid,user,stat,args -p {pids.replace(' ', '')}",
    )


class Sandbox(Protocol):
    """A place for processes: this host, or a container.

    `prepare` is idempotent, also after a crash. Call `wait_started` only after the terminal was opened, `end` at any
    time, also for a process that is gone.
    """

    async def require_available(self, workspace: Workspace | None) -> tuple[str, ...]:
        """Return warnings for an agent that is about to start in the workspace, or in none if None.

        Raises SandboxUnavailable and SandboxBusy.
        """

    async def prepare(self, session: Session, launch: Launch, token: str | None = None) -> tuple[str, ...]:
        """Write the files that the start needs and return the argv for the terminal.

        Raises StorageFull and SandboxUnavailable.

        `token` is the content of the file that SM_TOKEN_FILE names. None keeps the file unchanged. A launch without
        an MCP configuration keeps the file of MCP servers as long as the argv names it.
        """

    async def wait_started(self, session: Session, pid: int) -> Process | None:
        """Wait until the agent itself runs, and return its process; None when it has ended meanwhile.

        `pid`: the process of the terminal.

        Raises AgentStartFailed when the launch script could not exec it.
        """

    async def end(self, session: Session, process: Process, *, force: bool) -> None:
        """End the process and every other process of the session: terminate them, and kill them after a grace time.

        The process may be gone. Returns when all of them are gone. Raises ExternalError when one is left.
        """

    async def ending(self, session: Session, terminal: Exit) -> ProcessEnding:
        """Return how the agent's process ended. `terminal`: how the process of its terminal ended.

        Raises SandboxUnreachable while the engine does not answer. Later, `terminal` may be known.
        """

    async def appeared(self, session: Session) -> tuple[str, ...]:
        """Return the protected paths of the workspace that were made or changed since `prepare`. Call it at the end.

        A person or an editor could execute these files outside of the sandbox.
        """

    def ended(self, session: Session) -> None:
        """Note that the process of the session has ended, and that its end is recorded."""

    async def forget(self, session_id: str) -> None:
        """Remove the files of `prepare`. Idempotent."""
