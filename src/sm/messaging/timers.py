"""Runs the timers of messages, requests and notices: batching, expiry, confirmation timeouts."""

import logging
import time
from functools import partial

from sm.core.labels import name_to_type
from sm.core.lifecycle import is_ended
from sm.core.messages import INBOX, SM_ITSELF, Message, Notice
from sm.core.states import MessageMode, MessageState, NoticeKind, RequestState
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s, iso
from sm.core.wording import outcome
from sm.errors import StorageFull
from sm.sessions.kill import Kills
from sm.sessions.waits import AFTER_A_RESTART_S, WaitingSessions, WaitKind
from sm.state.message_steps import finish
from sm.state.notices import Notices, has_ended_alive, leave_in_log, notice_recipient, request_occasions
from sm.state.request_steps import finish_request, send_outcome
from sm.store import Open, Store, Transaction

log = logging.getLogger(__name__)

QUIET_S = 0.7
"""Debounce: notices are sent after this time without a new notice for the recipient."""
LONGEST_S = 3.0
"""The longest wait of the first notice of a batch."""
_ENTRIES_MAX = 100
_CONFIRM_WITHIN_S = 20.0
"""How long the reader of an inbox may take to confirm messages. A restart of the daemon resets the timer."""
_CLAIM_WITHIN_S = 8.0
"""How long an answer waits for a caller of `sm ask --wait` before it becomes a message."""
_HELD_S = 5.0
_CLOCK_STEP_S = 0.002  # times are in milliseconds
_NOT_CONFIRMED = "the recipient took it from the inbox but did not confirm it"
_PAUSE_S = 1.0


class MailTimers:
    """One task that runs every due timer, and sleeps until the next one."""

    def __init__(self, store: Store, notices: Notices, kills: Kills, waiting: WaitingSessions) -> None:
        self._store = store
        self._notices = notices
        self._kills = kills
        self._waiting = waiting
        self._seen: dict[int, float] = {}
        """The time at which a notice was first seen (time.monotonic())."""
        self._held: dict[tuple[str, str | None], float] = {}
        """The time until which to hold the notice of an ending, by (session, recipient): an answer reports it."""
        self._requests_held: dict[str, float] = {}
        """The time until which to hold the notices of requests, by recipient: the result of its wait shows them."""
        self._since: dict[tuple[str, int], float] = {}
        self._waited_before: frozenset[str] = frozenset()
        """Sessions whose waits a restart of the daemon may have interrupted."""
        self._resumed_s = 0.0
        """The time (time.monotonic()) at which all interrupted waits have come back."""

    def hold_notice(self, session_id: str, recipient: str | None) -> None:
        """Hold the notice of the session's end: an answer reports the end to `recipient`, which will acknowledge it."""
        self._held[session_id, recipient] = time.monotonic() + _HELD_S

    def hold_requests(self, recipient: str) -> None:
        """Hold the notices of requests to `recipient`: its wait returns with them, and acknowledges them."""
        self._requests_held[recipient] = time.monotonic() + _HELD_S

    async def run(self) -> None:
        """Run the timers. Never returns."""
        self.begin()
        while True:
            seen = self._store.mail.open  # read before, so that no change in between is missed
            try:
                pause_s = await self.run_due()
            except StorageFull as error:
                log.warning("postponed the mail timers: %s", error.message)
                pause_s = _PAUSE_S
            except Exception:
                log.exception("failed to run the mail timers")
                pause_s = _PAUSE_S
            await self._store.wait_until(partial(self._has_changed, seen), pause_s)

    def begin(self) -> None:
        """Hold the notices of endings for the sessions of an earlier daemon: each may repeat an interrupted wait."""
        live = (session.id for session in self._store.sessions.values() if session.exit is None)
        self._waited_before = frozenset(live)
        self._resumed_s = time.monotonic() + AFTER_A_RESTART_S

    def _has_changed(self, seen: Open) -> bool:
        return self._store.mail.open is not seen

    async def run_due(self) -> float | None:
        """Run all due timers. Returns the seconds until the next one; None without one."""
        open = self._store.mail.open
        still = {"message": open.messages, "request": open.requests}
        self._since = {key: since for key, since in self._since.items() if key[1] in still[key[0]]}
        due = [
            *await self._flush(open),
            *await self._expire_messages(open),
            *await self._expire_requests(open),
            *await self._send_answers(open),
        ]
        return max(0.0, min(due)) if due else None

    # Notices

    async def _flush(self, open: Open) -> list[float]:
        now = time.monotonic()
        self._seen = {number: self._seen.get(number, now) for number in open.notices}
        self._held = {key: until for key, until in self._held.items() if until > now}
        self._requests_held = {who: until for who, until in self._requests_held.items() if until > now}
        waits = [until - now for until in (*self._held.values(), *self._requests_held.values())]
        recipients: dict[str | None, list[Notice]] = {}
        for notice in open.notices.values():
            key, is_ending = (notice.session_id, notice.recipient), notice.kind is NoticeKind.ENDING
            if (is_ending and key in self._kills.killing) or self._is_told_by_wait(notice):
                waits.append(_PAUSE_S)
            elif is_ending and notice.recipient in self._waited_before and now < self._resumed_s:
                waits.append(self._resumed_s - now)
            elif not ((is_ending and key in self._held) or self._is_held_request(notice)):
                recipients.setdefault(notice.recipient, []).append(notice)
        for recipient, notices in recipients.items():
            seen = [self._seen[n.id] for n in notices]
            due = min(max(seen) + QUIET_S, min(seen) + LONGEST_S)
            if due <= now:
                await self._send(recipient, {n.id for n in notices})
            else:
                waits.append(due - now)
        return waits

    def _is_held_request(self, notice: Notice) -> bool:
        return notice.kind is NoticeKind.REQUEST and notice.recipient in self._requests_held

    def _is_told_by_wait(self, notice: Notice) -> bool:
        """True while the recipient may repeat a wait that a restart of the daemon has interrupted."""
        is_result = notice.kind in (NoticeKind.ENDING, NoticeKind.REQUEST)
        return is_result and self._waiting.may_wait_again(notice.recipient)

    async def _send(self, recipient: str | None, notice_ids: set[int]) -> None:
        async with self._store.transaction() as tx:
            notices = [tx.mail.open.notices[n] for n in sorted(notice_ids) if n in tx.mail.open.notices]
            notices = [n for n in notices if n.recipient == recipient]
            session = tx.find(recipient)
            if recipient is not None and (session is None or is_ended(session.status)):
                if session is not None and has_ended_alive(session):
                    leave_in_log(tx, session, [notice.text for notice in notices])
                heir = None if session is None else notice_recipient(tx, session)
                await self._notices.readdress(tx, notices, heir)
                return
            old = [n for n in notices if _is_outdated(tx, n, notices)]
            tx.mail.finish_notices(old, "dropped")
            current = [n for n in notices if n not in old][:_ENTRIES_MAX]
            if current:
                message = Message(
                    id=tx.mail.new_id("messages"),
                    session_id=recipient,
                    sender=SM_ITSELF,
                    mode=MessageMode.AUTO,
                    state=MessageState.QUEUED,
                    created_at=tx.now,
                    state_at=tx.now,
                )
                tx.mail.add_message(message, "\n".join(n.text for n in current))
                tx.mail.finish_notices(current, "sent", message.id)

    # Messages

    async def _expire_messages(self, open: Open) -> list[float]:
        # Compares times as texts: this runs after every change, for up to thousands of messages.
        wall_s = time.time()
        now, earliest = iso(wall_s), None
        waits, over = [], list[tuple[Message, MessageState, str]]()
        for message in open.messages.values():
            if message.state is MessageState.QUEUED and message.expires_at is not None:
                if message.expires_at <= now:
                    why = f" ({message.reason})" if message.reason else ""
                    over.append((message, MessageState.EXPIRED, f"not delivered in time{why}"))
                elif earliest is None or message.expires_at < earliest:
                    earliest = message.expires_at
            elif message.state is MessageState.DELIVERING and message.via == INBOX:
                left = self._seconds_left("message", message.id, _CONFIRM_WITHIN_S)
                if left > 0:
                    waits.append(left)
                else:
                    over.append((message, MessageState.UNCONFIRMED, _NOT_CONFIRMED))
        for message, state, reason in over:
            async with self._store.transaction() as tx:
                now_there = tx.mail.open.messages.get(message.id)
                if now_there is not None and now_there.state is message.state:
                    await finish(tx, self._notices, now_there, state, reason)
        return waits if earliest is None else [*waits, epoch_s(earliest) - wall_s + _CLOCK_STEP_S]

    # Requests

    async def _expire_requests(self, open: Open) -> list[float]:
        waits = []
        for request in open.requests.values():
            if not request.open or request.has_proposed_answer or request.expires_at is None:
                continue  # a proposed answer is taken or withdrawn within seconds
            left = epoch_s(request.expires_at) - time.time()
            if left > 0:
                waits.append(left)
                continue
            async with self._store.transaction() as tx:
                now = await tx.mail.request(request.id)
                session = tx.find(now.session_id)
                if session is None:
                    reason = "the session was removed"
                    tx.mail.change_request(now, state=RequestState.CANCELLED, state_at=tx.now, reason=reason)
                elif now.open and not now.has_proposed_answer:
                    reason = "nobody answered in time"
                    if now.hook is not None:
                        reason += f"; the dialog is still open: sm attach {name_to_type(session)}"
                    done = await finish_request(
                        tx, session, now, tx.now, state=RequestState.EXPIRED, reason=reason
                    )
                    if (
                        now.hook is None
                        and session.exit is None
                        and not self._waiting.is_waiting(session.id, WaitKind.ANSWER)
                    ):
                        send_outcome(tx, done, f"{done.name} expired: {reason}")
        return waits

    async def _send_answers(self, open: Open) -> list[float]:
        waits = []
        for request in open.requests.values():
            if not request.unclaimed:
                continue
            left = self._seconds_left("request", request.id, _CLAIM_WITHIN_S)
            if left > 0 and self._may_be_claimed(request.session_id):
                waits.append(left)
                continue
            async with self._store.transaction() as tx:
                now = await tx.mail.request(request.id)
                session = tx.find(now.session_id)
                if now.unclaimed:
                    tx.mail.change_request(now, taken_at=tx.now)
                if now.unclaimed and session is not None and session.exit is None:
                    send_outcome(tx, now, f"answer to {now.name}: {outcome(now)}")
        return waits

    def _may_be_claimed(self, session_id: str) -> bool:
        session, waiting = self._store.sessions.get(session_id), self._waiting
        # The status changes when the daemon has sent the answer, before the command has confirmed that it printed it.
        return (
            waiting.is_waiting(session_id, WaitKind.ANSWER)
            or waiting.has_just_succeeded(session_id, WaitKind.ANSWER)
            or (session is not None and session.status is Status.WAITING_INPUT)
        )

    def _seconds_left(self, kind: str, number: int, within_s: float) -> float:
        """Seconds that remain of `within_s` since this daemon first saw the message or request."""
        now = time.monotonic()
        return self._since.setdefault((kind, number), now) + within_s - now


def _is_outdated(tx: Transaction, notice: Notice, all: list[Notice]) -> bool:
    if notice.kind is NoticeKind.REQUEST:  # its message may have been given up after the request was closed
        open = (r for r in tx.mail.open.requests.values() if r.open)
        return not any(notice.occasion in request_occasions(request) for request in open)
    if notice.kind not in (NoticeKind.IDLE, NoticeKind.CHECKPOINT):
        return False
    if any(n.kind is notice.kind and n.session_id == notice.session_id and n.id > notice.id for n in all):
        return True
    session = tx.find(notice.session_id)
    if session is None or notice.kind is NoticeKind.CHECKPOINT:
        return session is None or is_ended(session.status)
    return session.status is not Status.IDLE
