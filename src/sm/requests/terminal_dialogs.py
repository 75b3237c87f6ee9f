"""Turns dialogs that no hook reports into requests that only a person at the agent's terminal can answer.

claude opens some dialogs without its PermissionRequest hook: checks of the mode `auto`, offers, a question about an old
conversation. `sm` presses no key in them. The request names the command that attaches to the terminal. It is derived
from the session's status and its screen, so that it survives a restart of the daemon.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from sm.core.labels import name_to_type
from sm.core.models import Session
from sm.core.observation import Activity, Source
from sm.core.requests import BY_TERMINAL, Question, Request
from sm.core.states import RequestKind, RequestState
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s
from sm.errors import IllegalState, StorageFull, TerminalError
from sm.providers.base import Provider
from sm.state.notices import Notices
from sm.state.request_steps import NewRequest, finish_request, open_of, open_request
from sm.store import Store, durable
from sm.terminals.base import Terminals

log = logging.getLogger(__name__)

OPENS_AFTER_S = 10.0
"""How long an agent must wait without a request, also after its last one, and no person type at its terminal. A hook
opens its request within a second, and a person who opens a menu mostly closes it sooner."""
_LOOK_EVERY_S = 1.0
_ENDED_MAX = 10
"""The newest requests of a session, whose ends count: agents ask for several tools at once."""
_ABSENT_LOOKS = 2
"""One look may find a screen that is half drawn, or an agent between two dialogs."""
_ANSWERS_WITHIN_S = 5.0


class TerminalDialogs:
    def __init__(
        self, store: Store, notices: Notices, providers: Mapping[str, Provider], terminals: Terminals
    ) -> None:
        self._store = store
        self._notices = notices
        self._providers = providers
        self._terminals = terminals
        self._absent: dict[int, int] = {}
        """How many looks in a row found no dialog for a request."""

    async def run(self) -> None:
        """Open requests for dialogs that no hook reports, and close those of dialogs that have gone. Never returns."""
        while True:
            seen = self._store.last_seq
            try:
                has_work = await self._look()
            except StorageFull as error:
                log.warning("postponed the check of dialogs at terminals: %s", error.message)
                has_work = True
            except Exception:
                log.exception("failed to check dialogs at terminals")
                has_work = True
            if has_work:
                await asyncio.sleep(_LOOK_EVERY_S)
            else:
                await self._store.wait_until(lambda: self._store.last_seq != seen)  # noqa: B023 - awaited

    async def _look(self) -> bool:
        """Return whether a session waits, or a request is open: then another look is due."""
        requests = [
            r for r in self._store.mail.open.requests.values() if r.open and r.kind is RequestKind.DIALOG
        ]
        self._absent = {r.id: self._absent.get(r.id, 0) for r in requests}
        for request in requests:
            await self._check(request)
        waiting = [session for session in self._store.sessions.values() if self._waits(session)]
        for session in waiting:
            if await self._is_due(session):
                await self._open(session)
        return bool(requests or waiting)

    def _waits(self, session: Session) -> bool:
        """Return whether the agent waits for an answer at its terminal, and no request is open."""
        return (
            session.status is Status.WAITING_INPUT
            and session.exit is None
            and session.status_source != Source.PROCESS  # its program reads no input at all
            and self._providers[session.provider].readers.screen is not None
            and not open_of(self._store.mail.open.requests, session.id, list(RequestKind))
        )

    async def _is_due(self, session: Session) -> bool:
        if time.time() - epoch_s(session.status_at) < OPENS_AFTER_S:
            return False
        # An agent that has waited for an answer goes on some moments after it, when its hooks or its screen say so.
        ends = [r.taken_at or r.state_at for r in await self._store.mail.requests(_ENDED_MAX, [session.id])]
        if ends and time.time() - epoch_s(max(ends)) < OPENS_AFTER_S:
            return False
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                return await self._terminals.key_pause_s(session.terminal) >= OPENS_AFTER_S
        except (TerminalError, TimeoutError):
            return False

    async def _open(self, session: Session) -> None:
        reader = self._providers[session.provider].readers.screen
        lines = await self._visible(session)
        if lines is None or (reader is not None and reader.limit_dialog(lines)):
            return  # sm closes the dialog about a usage limit
        shown = None if reader is None else reader.screen(lines, time.time())
        is_shown = shown is not None and shown.activity is Activity.BLOCKED
        text = (
            shown.reason if shown is not None and is_shown else session.status_reason or "an unknown dialog"
        )
        await durable(self._store_request)(session, NewRequest(RequestKind.DIALOG, (Question(text),)))

    async def _store_request(self, before: Session, asked: NewRequest) -> None:
        async with self._store.transaction() as tx:
            session = tx.find(before.id)
            if session is not None and session.status_at == before.status_at and self._waits(session):
                await open_request(tx, self._notices, session, asked, tx.now, None)

    async def _check(self, request: Request) -> None:
        """Close a request whose dialog has gone, or that a hook has reported since."""
        session = self._store.sessions.get(request.session_id)
        if session is None:
            return
        others = open_of(self._store.mail.open.requests, session.id, list(RequestKind))
        by_hook = next((r for r in others if r.hook is not None or r.kind is RequestKind.SETUP), None)
        if by_hook is not None:
            await durable(self._close)(request, by_hook)
            return
        gone = await self._has_gone(request, session)
        self._absent[request.id] = self._absent[request.id] + 1 if gone else 0
        if self._absent[request.id] >= _ABSENT_LOOKS:
            await durable(self._close)(request, None)

    async def _has_gone(self, request: Request, session: Session) -> bool:
        """Return whether other evidence shows that the dialog is over: a screen that cannot be read shows nothing."""
        if session.status is Status.WAITING_INPUT:
            return epoch_s(session.status_at) > epoch_s(request.created_at)  # it waits for something else
        reader, lines = self._providers[session.provider].readers.screen, await self._visible(session)
        if reader is None or lines is None:
            return False
        shown = reader.screen(lines, time.time())
        return shown is not None and shown.activity is not Activity.BLOCKED

    async def _visible(self, session: Session) -> list[str] | None:
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                return list(await self._terminals.capture_visible(session.terminal))
        except (TerminalError, TimeoutError):
            return None

    async def _close(self, request: Request, by_hook: Request | None) -> None:
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request.id)
            session = tx.find(now.session_id)
            if session is None or not now.open:
                return
            if by_hook is not None:
                reason = f"its hook asks: {by_hook.name}"
                await finish_request(tx, session, now, tx.now, state=RequestState.CANCELLED, reason=reason)
                return
            await finish_request(
                tx,
                session,
                now,
                tx.now,
                state=RequestState.ANSWERED,
                answered_by=BY_TERMINAL,
                reason="answered in the terminal",
                taken_at=tx.now,
            )


def only_at_terminal(session: Session, request: Request) -> IllegalState:
    """The error for an answer to such a request."""
    return IllegalState(
        f"request {request.name} can be answered only at its terminal",
        f"sm attach {name_to_type(session)}",
    )
