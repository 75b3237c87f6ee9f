"""Acts after the end of a turn: sets timers, asks, completes, reminds and reports. Functions of a transaction."""

from collections.abc import Mapping
from typing import Any

from sm.capabilities.completion.model import CompletionTimer, TurnFollowUp
from sm.capabilities.completion.rules.follow_ups import needs_approval
from sm.capabilities.completion.settings import AutoComplete
from sm.core.lifecycle import is_live
from sm.core.lines import plural
from sm.core.messages import SM_ITSELF
from sm.core.models import Session, Signal
from sm.core.requests import Question
from sm.core.states import EventType, RequestKind, RequestState, SignalKind
from sm.core.statuses import Status
from sm.core.text import quoted
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.core.turns import FROM_FINAL_MESSAGE, FinishedTurn
from sm.core.usage import FollowUpKind
from sm.core.warnings import Sign, WarningKind
from sm.core.wording import REMINDERS, subject
from sm.policy.unfinished import reason_to_wait
from sm.sessions.reports import Reports
from sm.state.message_steps import send
from sm.state.notices import Notices
from sm.state.request_steps import NewRequest, finish_request, open_of, open_request
from sm.state.signs import show_sign
from sm.state.turns import unfinished_work
from sm.store import Transaction
from sm.store.transaction import SessionFollower


class TurnFollower(SessionFollower):
    """Sets the timers of a finished turn and asks its question, until the session works again or has ended."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices

    async def follow_turn(self, tx: Transaction, session: Session, turn: FinishedTurn) -> Session:
        tx.timers.remove(session.id, *CompletionTimer)
        follow_up = turn.follow_up
        if not isinstance(follow_up, TurnFollowUp):
            return session
        for wait in follow_up.waits:
            due_at = later(tx.now, wait.seconds)
            tx.timers.set(Timer(session.id, wait.kind, due_at, wait.seconds, wait.data))
        if follow_up.question is not None:
            questions = (Question(follow_up.question),)
            asked = NewRequest(RequestKind.QUESTION, questions, evidence=FROM_FINAL_MESSAGE)
            await open_request(tx, self._notices, session, asked, tx.now, None)
        left = unfinished_work(tx.unfinished_sessions(), tx.mail.open, session.id)
        reason = reason_to_wait(left) or follow_up.reason
        return session if reason is None else await tx.update(session, status_reason=reason)

    async def follow_status(self, tx: Transaction, session: Session) -> None:
        if session.status in (Status.IDLE, Status.WAITING_INPUT):
            return
        tx.timers.remove(session.id, *CompletionTimer)
        reason = "the session works again" if is_live(session.status) else "the session has ended"
        for request in open_of(tx.mail.open.requests, session.id, list(RequestKind)):
            if request.evidence == FROM_FINAL_MESSAGE:
                await finish_request(
                    tx, session, request, tx.now, state=RequestState.CANCELLED, reason=reason
                )


async def end_detected(
    tx: Transaction, reports: Reports, session: Session, found: Mapping[str, Any], settings: AutoComplete
) -> None:
    """End an idle session whose agent says that it is done, or propose that.

    `found`: the `rule`, the `quote` and the `summary` of its final message.
    """
    words, reason = found["summary"] or None, f"{found['rule']}: {quoted(found['quote'], 120)}"
    if needs_approval(session.mode, settings):
        if not open_of(tx.mail.open.requests, session.id, [RequestKind.COMPLETION]):
            session = await reports.propose(tx, session, words, tx.now, evidence=FROM_FINAL_MESSAGE)
            await tx.update(session, status_reason="waiting for the approval of its completion")
        return
    signal = Signal(SignalKind.DETECTED_COMPLETED, FROM_FINAL_MESSAGE, reason, tx.now, message=words)
    await reports.complete_session(tx, session.id, signal)


async def report_unclear(
    tx: Transaction, notices: Notices, session: Session, found: Mapping[str, Any]
) -> None:
    """Report a session that is idle for long, and not known to be done."""
    text = f"{subject(session)} is idle: completion unclear"
    await tx.event(EventType.IDLE, session, tx.now, text, {"source": FROM_FINAL_MESSAGE})
    await notices.add_for_unclear(tx, session, found["summary"])


async def remind(tx: Transaction, session: Session, found: Mapping[str, Any]) -> None:
    """Send the reminder with the `number` in `found` (from 1)."""
    number = int(found["number"])
    session = await tx.update(session, reminders=number)
    tx.sums.add_follow_up(session.id, FollowUpKind.REMINDER, tx.now)
    send(tx, session.id, SM_ITSELF, REMINDERS[min(number, len(REMINDERS)) - 1])


async def warn_of_missing_report(tx: Transaction, session: Session, found: Mapping[str, Any]) -> None:
    """Warn of an idle agent that has not reported after its last reminder. `found`: the number of `reminders`."""
    sent = int(found["reminders"])
    evidence = f"sm has sent {plural(sent, 'reminder')}"
    await show_sign(tx, session, Sign(WarningKind.REPORT_MISSING, sent, evidence, sent))
