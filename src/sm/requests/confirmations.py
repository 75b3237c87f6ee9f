"""Compares answers that hooks took with the agent's own report of the tool use.

A person at the terminal may have decided just before: then the agent ignores the hook's output. The report corrects
the record.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

from sm.core.models import Caller, Session
from sm.core.observation import Activity
from sm.core.requests import Request
from sm.core.statuses import Status
from sm.core.text import escape_marks
from sm.core.timestamps import epoch_s, iso
from sm.errors import IllegalState, TerminalError
from sm.providers.base import Provider
from sm.providers.readers import ToolEnd
from sm.sessions.acknowledgements import acknowledge
from sm.state.notices import Notices, late_answer_occasion
from sm.state.request_steps import IGNORED, answer_ignored, correct_answer, reopen_request, too_late
from sm.store import Store, durable
from sm.terminals.base import Screen

_SCREEN_WITHIN_S = 5.0
CONFIRMED_WITHIN_S = 3.0
"""How long a caller that refused waits for the agent's report. The report of a refused use comes within a second."""
IGNORED_AFTER_S = 3.0
"""A dialog that is still open this long after its hook printed the answer was not closed by the answer. claude closes a
dialog within a tenth of a second (measured)."""
_ACTED_WITHIN_S = IGNORED_AFTER_S + 2.0
"""How long a caller waits to learn that: the check comes every half second, and reads the screen."""
_IDLE_S = 10.0
"""A session that was idle for this time has reported all uses of its tools."""


class DialogScreens:
    def __init__(self, providers: Mapping[str, Provider], terminals: Screen) -> None:
        self._providers = providers
        self._terminals = terminals

    async def shows_dialog(self, session: Session) -> bool | None:
        """Return whether a dialog is on the session's screen. Returns None if it cannot be known."""
        reader = self._providers[session.provider].readers.screen
        if reader is None:
            return None
        try:
            async with asyncio.timeout(_SCREEN_WITHIN_S):
                lines = await self._terminals.capture_visible(session.terminal)
        except (TerminalError, TimeoutError):
            return None
        observation = reader.screen(lines, time.time())
        return observation is not None and observation.activity is Activity.BLOCKED


def name_of(caller: Caller) -> str:
    """The `answered_by` of an answer of `caller`."""
    return caller.name


def answered_by_caller(request: Request, caller: Caller) -> Request:
    """The request if `caller` answered it. Raises IllegalState otherwise."""
    if request.open:
        raise IllegalState(
            f"request {request.name} accepts no answer: session {request.session_id} no longer waits for an answer",
            f"answer in the terminal: sm attach {request.session_id}",
        )
    if request.answered_by != name_of(caller):
        raise too_late(request)
    return request


def is_contradicted(approved: bool, taken_at: str, end: ToolEnd) -> bool:
    """True if a tool use ended otherwise than the answer that its hook took at `taken_at`.

    A hook reports the end of a tool that ran before the transcript shows an error, so an error of unknown cause does
    not contradict a refusal. A use that was refused after the approval had begun, and was interrupted.
    """
    if not approved:
        return end.allowed is True
    return end.allowed is False and end.at is not None and iso(end.at) < taken_at


def is_told_otherwise(answers: Sequence[str], told: Sequence[str]) -> bool:
    """True if the agent got other answers to its questions than these. White space and escapes make no difference."""

    def letters(text: str) -> str:
        return "".join(text.split())

    return len(answers) == len(told) and any(
        letters(got) not in (letters(answer), letters(escape_marks(answer)))
        for answer, got in zip(answers, told, strict=True)
    )


class Confirmations:
    def __init__(self, store: Store, notices: Notices, screens: DialogScreens) -> None:
        self._store = store
        self._notices = notices
        self._screens = screens
        self._newest: dict[str, int] = {}
        """The last request that a hook of each session opened since the start of the daemon."""
        self._idle: dict[int, float] = {}
        """The time since which the session of a request has been idle (time.monotonic())."""

    @property
    def pending(self) -> list[Request]:
        return [r for r in self._store.mail.open.requests.values() if r.unconfirmed]

    async def tool_ended(self, session_id: str, end: ToolEnd) -> None:
        """Confirm or correct the answer about this tool use."""
        for request in self.pending:
            if (request.session_id, request.tool_use) == (session_id, end.tool_use):
                await durable(self._compare)(request.id, end)

    async def _compare(self, request_id: int, end: ToolEnd) -> None:
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request_id)
            session = tx.find(now.session_id)
            if not now.unconfirmed or session is None or now.answer is None:
                return
            if is_told_otherwise(now.answer.answers, end.answers):
                notices = self._notices
                await correct_answer(tx, notices, session, now, allowed=True, answers=end.answers)
            elif is_contradicted(now.answer.approved, now.state_at, end):
                approved = not now.answer.approved
                await correct_answer(tx, self._notices, session, now, allowed=approved)
            else:
                tx.mail.change_request(now, taken_at=tx.now)

    async def wait(self, request: Request, caller: Caller) -> Request:
        """Return the request after a refusal of `caller` was confirmed or corrected, or after a moment.

        Waits until the agent acts on an approval, but not for the end of the tool, which confirms it. Raises
        IllegalState when another answer decided, or when the agent ignored the answer.
        """

        def known() -> bool:
            now = self._store.mail.open.requests.get(request.id)
            return now is None or not now.unconfirmed

        if request.unconfirmed and request.answer is not None and not request.answer.approved:
            await self._store.wait_until(known, CONFIRMED_WITHIN_S)
        await self._store.wait_until(lambda: known() or not self._may_be_ignored(request), _ACTED_WITHIN_S)
        done = await self._store.mail.request(request.id)
        if done.open and done.reason == IGNORED:
            raise answer_ignored(done)
        occasion = late_answer_occasion(done)  # the answer to the caller reports the same as the notice
        await acknowledge(self._store, caller, [done.session_id], lambda n: n.occasion == occasion)
        return answered_by_caller(done, caller)

    def dialog_opened(self, request: Request) -> None:
        """Note the request that a hook has just opened."""
        self._newest[request.session_id] = request.id

    def _may_be_ignored(self, request: Request) -> bool:
        """Return whether the session has waited since before the answer, and not for another dialog.

        Dialogs of sub-agents are not judged: several may wait, and the session's status is not theirs.
        """
        session = self._store.sessions.get(request.session_id)
        return (
            session is not None
            and not request.agent
            and session.status is Status.WAITING_INPUT
            and session.status_at <= request.state_at
            and self._newest_of(session.id) == request.id
            and not any(
                r.session_id == session.id and r.open and r.hook
                for r in self._store.mail.open.requests.values()
            )
        )

    def _newest_of(self, session_id: str) -> int | None:
        """Find the last request of a hook. An earlier daemon may have seen it, and left its answer to confirm."""
        known = self._newest.get(session_id)
        if known is not None:
            return known
        return max((r.id for r in self.pending if r.session_id == session_id), default=None)

    async def reopen_ignored(self) -> None:
        """Open requests again whose dialog is still open although their hook printed the answer."""
        for request in self.pending:
            session = self._store.sessions.get(request.session_id)
            is_due = time.time() - epoch_s(request.state_at) >= IGNORED_AFTER_S
            if session is None or not is_due or not self._may_be_ignored(request):
                continue
            if await self._screens.shows_dialog(session):
                await durable(self._reopen)(request)

    async def _reopen(self, request: Request) -> None:
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request.id)
            session = tx.find(now.session_id)
            if session is not None and now.unconfirmed and self._may_be_ignored(now):
                await reopen_request(tx, self._notices, session, now)

    async def expire(self) -> None:
        """Keep the answers of sessions that have been idle for a while: no report can come any more."""
        pending, now = self.pending, time.monotonic()
        self._idle = {r.id: self._idle.get(r.id, now) for r in pending if self._is_idle(r.session_id)}
        for request in pending:
            if now - self._idle.get(request.id, now) < _IDLE_S:
                continue
            async with self._store.transaction() as tx:
                current = await tx.mail.request(request.id)
                if current.unconfirmed:
                    tx.mail.change_request(current, taken_at=tx.now)

    def _is_idle(self, session_id: str) -> bool:
        session = self._store.sessions.get(session_id)
        return session is None or session.exit is not None or session.status is Status.IDLE
