"""Passes each operation to the sandbox in which the session runs."""

from sm.core.models import Exit, Launch, Process, Session, Workspace
from sm.core.states import TrustLevel
from sm.errors import SandboxUnavailable
from sm.sandboxes.base import ProcessEnding, Sandbox


class Sandboxes:
    """`Sandbox` for all sessions: those with the effective mode `sandboxed` run in `container`, the others on `host`.

    `container` is None if no session can be sandboxed.
    """

    def __init__(self, host: Sandbox, container: Sandbox | None = None) -> None:
        self._host = host
        self._container = container

    def _of(self, session: Session) -> Sandbox:
        # Without containers, this host at least ends an agent that an earlier version left in one.
        if session.effective_mode is TrustLevel.DIRECT or self._container is None:
            return self._host
        return self._container

    async def require_available(self, workspace: Workspace | None) -> tuple[str, ...]:
        """As in `Sandbox`, for sandboxed sessions."""
        if self._container is None:
            raise SandboxUnavailable("this version has no sandbox")
        return await self._container.require_available(workspace)

    async def prepare(self, session: Session, launch: Launch, token: str | None = None) -> tuple[str, ...]:
        return await self._of(session).prepare(session, launch, token)

    async def wait_started(self, session: Session, pid: int) -> Process | None:
        return await self._of(session).wait_started(session, pid)

    async def end(self, session: Session, process: Process, *, force: bool) -> None:
        await self._of(session).end(session, process, force=force)

    async def ending(self, session: Session, terminal: Exit) -> ProcessEnding:
        return await self._of(session).ending(session, terminal)

    async def appeared(self, session: Session) -> tuple[str, ...]:
        return await self._of(session).appeared(session)

    def ended(self, session: Session) -> None:
        self._of(session).ended(session)

    async def forget(self, session_id: str) -> None:
        """As in `Sandbox`, wherever the session ran."""
        await self._host.forget(session_id)
        if self._container is not None:
            await self._container.forget(session_id)
