"""The texts of events, notices and reasons. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from sm.core.faults import Fault, fault_reason
from sm.core.labels import label, label_of, name_to_type, short_label
from sm.core.lines import plural
from sm.core.messages import Message
from sm.core.models import Session, Signal
from sm.core.request_words import words_of_kind
from sm.core.requests import BY_RULE, BY_TERMINAL, Question, Request
from sm.core.states import EventType, MessageState, RequestKind, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.text import TOOL_USE_MAX, folded, is_cut, omission, quoted, tool_use
from sm.core.timers import Timer

AT_TERMINAL = "waits in a dialog that only a person at its terminal can answer"
TOLD_AGAIN = "(told again) "
"""Prefix of a notice in a second message, because the recipient may have read the first one."""
_QUESTIONS_SHOWN = 4
_AWAITED_SHOWN = 5
_MOVES = {
    EventType.RUNNING: "is running",
    EventType.WAITING_INPUT: "is waiting for input",
    EventType.ERROR: "ended with an error",
    EventType.ABANDONED: "was abandoned",
    EventType.REOPENED: "was reopened",
}
"""Phrases in the texts of events, by the type of the event. Other events show their type."""


def subject(session: Session) -> str:
    """Name of the session in an event. Most readers of events are parents, so a session with a parent is a child."""
    return f"{'Session' if session.parent_id is None else 'Child'} {short_label(session)}"


def status_words(session: Session) -> str:
    """`running`; `pausing (running)` and `paused (running)` of a paused session."""
    return session.status.value if session.paused is None else f"{session.paused.state} ({session.status})"


def spawn_event(session: Session) -> str:
    kind = "Session" if session.parent_id is None else "Child"
    return f"{kind} {session.display_name} ({session.id}) started"


def move_event(session: Session, signal: Signal, type: EventType) -> str:
    """Text of the event for a move. `session` is the state before the move."""
    who = subject(session)
    match signal.kind:
        case SignalKind.STARTED:
            return f"{who} is running"
        case SignalKind.START_FAILED:
            return f"{who} did not start: {folded(signal.reason)}"
        case (
            SignalKind.REPORTED_COMPLETED
            | SignalKind.REPORTED_ERROR
            | SignalKind.REPORTED_ABANDONED
            | SignalKind.DETECTED_COMPLETED
        ):
            verb = "failed" if signal.kind is SignalKind.REPORTED_ERROR else type.value
            return f"{who} {verb} - {quoted(signal.message)}" if signal.message else f"{who} {verb}"
        case SignalKind.EXITED:
            return f"{who} completed (exited with code 0)"
        case SignalKind.CRASHED:
            cause = f": {folded(signal.cause)}" if signal.cause else ""
            return f"{who} crashed ({signal.exit}){cause}"
        case SignalKind.RESTART_PLANNED:
            return f"{who} crashed: {folded(signal.reason)}"
        case SignalKind.TERMINAL_LOST | SignalKind.PARENT_ENDED | SignalKind.REOPENED | SignalKind.RESTARTED:
            return f"{who} {_MOVES.get(type, type.value)}: {folded(signal.reason)}"
        case SignalKind.KILLED:
            return f"{who} was killed ({folded(signal.reason)})"
        case SignalKind.BUSY | SignalKind.WENT_IDLE | SignalKind.ASKED | SignalKind.LAUNCHING:
            return f"{who} {_MOVES.get(type, type.value)}: {folded(signal.reason)}"
        case _:
            assert_never(signal.kind)


def waits_for(sessions: Sequence[Session], *, named: bool) -> str:
    """A wait for sessions, with `named` for a reader who may see them."""
    count = len(sessions)
    text = f"waits for {plural(count, 'session')}"
    if not named:
        return text
    names = ", ".join(f"{label(s)} ({s.status})" for s in sessions[:_AWAITED_SHOWN])
    more = f" and {count - _AWAITED_SHOWN} more" if count > _AWAITED_SHOWN else ""
    return f"{text}: {names}{more}"


def name_and_id(session: Session) -> str:
    """`engineer-task1042 (1a2b3c4d)`, for messages and notices: an agent may read the id in them."""
    return f"{folded(session.display_name, 150)} ({session.id})"


def sender_label(sender: str, session: Session | None) -> str:
    """Sender of a message for its reader. `session` is the sending session, if known."""
    return sender if session is None else name_and_id(session)


def quote_session(session: Session, text: str, limit: int = 500) -> str:
    return quoted(text, limit, untrusted=session.effective_mode is TrustLevel.SANDBOXED)


def notice_subject(session: Session) -> str:
    return f"{'session' if session.parent_id is None else 'child'} {name_and_id(session)}"


def transcript_notice(session: Session, trouble: str) -> str:
    """Entry of a notice about the transcript of a live session."""
    return f"{notice_subject(session)}: {trouble}"


def ending_notice(session: Session, signal: Signal) -> str:
    """Entry of a notice about the end of a session. `session` is the state after the end."""
    match session.status:
        case Status.ERROR if signal.kind is SignalKind.REPORTED_ERROR:
            verb = "failed"
        case Status.ERROR:
            verb = "ended with an error"
        case _:
            verb = str(session.status)
    reason = quote_session(session, signal.message) if signal.message else folded(signal.reason)
    return f"{notice_subject(session)} {verb}: {reason}"


def idle_notice(session: Session, answer: str | None = None) -> str:
    """Entry of a notice about an idle session. `answer`: as in `Observation.answer`."""
    words = quote_session(session, answer) if answer else folded(session.status_reason)
    return f"{notice_subject(session)} is idle{'' if answer is None else ' after its turn'}: {words}"


def unclear_notice(session: Session, words: str) -> str:
    """Entry of a notice about a session that is idle for long, and not known to be done. `words`: its last ones."""
    last = f": {quote_session(session, words)}" if words else ""
    who = notice_subject(session)
    return (
        f"{who} is idle, and it is not clear whether its work is done{last}; look with: sm tail {session.id}"
    )


REMINDERS = (
    "You are idle and have not reported. If your task is done, run: sm complete 'WHAT YOU DID'. Otherwise say what is "
    "missing, or continue.",
    "You are idle and still have not reported. If you do not report now, sm tells your parent. If your task is done, "
    "run: sm complete 'WHAT YOU DID'. Otherwise say what is missing.",
)
"""The texts of the reminders to an idle agent, in order."""


def fault_text(session: Session, fault: Fault, at: float) -> str:
    """A failed turn in one line. `at`: the time of the fault, in seconds since the epoch."""
    hint = fault.hint.replace("NAME", name_to_type(session))
    return folded(fault_reason(fault, at), 400) + (f"; hint: {hint}" if hint else "")


def fault_notice(
    session: Session, fault: Fault, at: float, retries: int = 0, *, compacted: bool = False
) -> str:
    """Entry of a notice about a failed turn.

    `retries`: those in a row that failed too. `compacted`: sm has compacted the conversation, which did not help.
    """
    after = _after(retries, compacted)
    return f"{notice_subject(session)} does not go on{after}: {fault_text(session, fault, at)}"


def fault_event(
    session: Session, fault: Fault, at: float, retries: int = 0, *, compacted: bool = False
) -> str:
    """Text of the event for a failed turn, as in `fault_notice`."""
    return f"{subject(session)} does not go on{_after(retries, compacted)}: {fault_text(session, fault, at)}"


def compaction_event(session: Session, fault: Fault, at: float, command: str) -> str:
    """Text of the event for a full context that sm compacts."""
    return f"{subject(session)}: {folded(fault_reason(fault, at), 400)}; {compaction_text(command)}"


def compaction_notice(session: Session, command: Message) -> str:
    """Entry of a notice about a compaction by sm that may not have run."""
    why = f" ({folded(command.reason, 400)})" if command.reason else ""
    return (
        f"{notice_subject(session)} does not go on: its compaction by sm is unconfirmed{why}; "
        f"the message to go on was withdrawn; hint: sm attach {session.id}"
    )


def compaction_text(command: str) -> str:
    return f"sm sends {command}"


def _after(retries: int, compacted: bool) -> str:
    if compacted:
        return " after a compaction by sm"
    return f" after {retries} {'retry' if retries == 1 else 'retries'}" if retries else ""


def retry_event(session: Session, fault: Fault, at: float, retry: Timer) -> str:
    """Text of the event for a failed turn after which sm lets the session go on."""
    return f"{subject(session)}: {fault_text(session, fault, at)}; {retry_text(retry)}"


def retry_text(retry: Timer) -> str:
    """`retry 1 of 3 at 06:00:30`, in local time."""
    due = datetime.fromisoformat(retry.due_at).astimezone()
    return f"retry {retry.data['number']} of {retry.data['max']} at {due:%H:%M:%S}"


def restored_notice(session: Session, why_not: str | None, lost_parent: Session | None) -> str:
    """Entry of a notice about the restore of a session that a loss ended. `why_not`: why it failed."""
    if why_not is not None:
        return f"{notice_subject(session)} could not be restored: {folded(why_not)}"
    if lost_parent is not None:
        until = f"until its parent {name_and_id(lost_parent)} is restored"
        return f"{notice_subject(session)} was restored, and is your child {until}"
    return f"{notice_subject(session)} was restored, and is your child as before"


def left_notice(session: Session) -> str:
    """Entry of a notice for a parent that was restored without the session, which ended by the same loss."""
    return f"{notice_subject(session)} ended with you and is not restored: sm restore {session.id}"


def checkpoint_notice(session: Session, text: str) -> str:
    return f"{notice_subject(session)} reports: {quote_session(session, text)}"


def undelivered_notice(session: Session, message: Message) -> str:
    return f"message {message.id} to {name_and_id(session)} {_outcome(message.state)}: {folded(message.reason or '-')}"


def operator_message_event(session: Session, message: Message, text: str) -> str:
    return f"{subject(session)} sent the operator message {message.id}: {quote_session(session, text)}"


def operator_message_notice(session: Session, message: Message, text: str) -> str:
    return f"message {message.id} from {name_and_id(session)}: {quote_session(session, text)}"


def typed_words_line(message: Message, words: str) -> str:
    """Line for a person at the terminal whose words were submitted together with a message."""
    return f"sm submitted your words together with message {message.id}: {quoted(words, 200)}"


def request_notice(session: Session, request: Request, plan: str | None = None) -> str:
    """Entry of a notice about a request. Ends with the exact command to type.

    `plan`: the plan to approve, for a permission to leave plan mode.
    """
    who, name = notice_subject(session), request.name
    at_terminal = "" if request.reason is None else f"{request.reason}: sm attach {session.id}"
    if (words := words_of_kind(request.kind)) is not None:
        return words.notice(who, name, request.arguments)
    match request.kind:
        case RequestKind.QUESTION:
            arguments = " TEXT" * len(request.questions)
            how = at_terminal or f"answer with: sm answer {name}{arguments}"
            return f"{who} asks {_questions(session, request)}; {how}"
        case RequestKind.COMPLETION:
            summary = quote_session(session, request.text or "done", 400)
            return f"{who} proposes its completion: {summary}; answer with: sm approve {name}, or: sm deny {name} WHY"
        case RequestKind.DIALOG:
            return (
                f"{who} {AT_TERMINAL}: {quote_session(session, request.text, 400)}; "
                f"answer with: sm attach {session.id} ({name})"
            )
        case RequestKind.SETUP:
            return (
                f"{who} waits in a first-start dialog: {quote_session(session, request.text, 400)}; "
                f"answer with: sm approve {name}, or end the agent: sm deny {name}"
            )
        case _:
            if plan is not None:
                omitted = "shortened" if is_cut(plan, 400) else ""
                what = f"asks to approve its plan: {quote_session(session, plan, 400)}"
            else:
                omitted = omission(request.tool, request.arguments)
                tool = tool_use(request.tool, request.arguments)
                what = f"asks for permission to use {quote_session(session, tool, TOOL_USE_MAX)}"
            omitted = "shortened" if request.cut else omitted
            more = f" ({omitted}, see: sm requests {name})" if omitted else ""
            return f"{who} {what}{more}; {at_terminal or f'answer with: sm approve {name}, or: sm deny {name} WHY'}"


def _questions(session: Session, request: Request) -> str:
    """The questions with numbered options. Several questions are shortened to share the line."""
    if len(request.questions) == 1:
        (only,) = request.questions
        options = _options(session, request, only, 8, 40)
        return quote_session(session, only.question, 400) + (f"; {options}" if options else "")
    shown = []
    for question in request.questions[:_QUESTIONS_SHOWN]:
        options = _options(session, request, question, 2, 30)
        shown.append(quote_session(session, question.question, 90) + (f" ({options})" if options else ""))
    more = len(request.questions) - len(shown)
    return " / ".join(shown) + (f" / and {more} more (sm requests {request.name})" if more else "")


def _options(session: Session, request: Request, question: Question, count: int, limit: int) -> str:
    if not question.options:
        return ""
    some = enumerate(question.options[:count], 1)
    shown = ", ".join(f"{n}: {quote_session(session, option, limit)}" for n, option in some)
    more = len(question.options) - count
    left = f" and {more} more (sm requests {request.name})" if more > 0 else ""
    return f"{'options (several possible: 1,2)' if question.multiple else 'options'} {shown}{left}"


def request_opened_event(session: Session, request: Request, plan: str | None = None) -> str:
    """Text of the event for a new request. `plan`: as in `request_notice`."""
    match request.kind:
        case RequestKind.QUESTION:
            what = f"asks {' / '.join(quoted(q.question) for q in request.questions)}"
        case RequestKind.COMPLETION:
            what = f"proposes its completion - {quoted(request.text or 'done')}"
        case RequestKind.SETUP:
            what = f"waits in a first-start dialog: {quoted(request.text)}"
        case RequestKind.DIALOG:
            what = f"{AT_TERMINAL}: {quoted(request.text)}"
        case kind if (words := words_of_kind(kind)) is not None:
            what = words.asks(request.arguments)
        case _:
            what = (
                f"asks for permission to use {quoted(tool_use(request.tool, request.arguments))}"
                if plan is None
                else f"asks to approve its plan - {quoted(plan)}"
            )
    return f"{subject(session)} {what} ({request.name})"


def request_finished_event(session: Session, request: Request, answerer: Session | None = None) -> str:
    """`answerer`: the session that answered, or None for the operator, a rule or the terminal."""
    by = f" {decider(request, answerer)}" if request.answered_by else ""
    reason = folded(request.reason or "")
    if request.answered_by == BY_TERMINAL and request.answer is None:
        details = ""
    elif request.answer is None:
        details = f": {reason}"
    else:
        details = f" - {quoted(outcome(request))}"
        details += f" ({reason})" if request.answered_by == BY_RULE and reason else ""
    return f"{subject(session)}: {request.name} {request.state}{by}{details}"


def request_corrected_event(session: Session, request: Request) -> str:
    """Text of the event for an answer that came too late. `request` has the decision in the terminal."""
    decided = _terminal_decision(request)
    return f"{subject(session)}: {request.name} was {decided} in the terminal; {folded(request.reason or '')}"


def request_ignored_event(session: Session, request: Request, answerer: Session | None = None) -> str:
    """Text of the event for an answer without effect. `request`: with that answer."""
    return f"{subject(session)} did not act on the answer {decider(request, answerer)}: {request.name} is open again"


def ignored_answer_notice(session: Session, request: Request) -> str:
    """Entry of a notice about a request that is open again because the agent ignored the answer."""
    tool = quote_session(session, tool_use(request.tool, request.arguments), TOOL_USE_MAX)
    return (
        f"{notice_subject(session)} did not act on the answer to {request.name}, which is open again: {tool}; "
        f"hint: sm attach {session.id}"
    )


def late_answer_notice(session: Session, request: Request) -> str:
    """Entry of a notice about an answer that came too late. `request` has the decision in the terminal."""
    approved = request.answer is not None and request.answer.approved
    ran = ", and the tool ran" if approved and request.kind is RequestKind.PERMISSION else ""
    tool = quote_session(session, tool_use(request.tool, request.arguments), TOOL_USE_MAX)
    return (
        f"your answer to {request.name} of {notice_subject(session)} came too late: the request was "
        f"{_terminal_decision(request)} in the terminal{ran}: {tool}"
    )


def _terminal_decision(request: Request) -> str:
    approved = request.answer is not None and request.answer.approved
    if not approved:
        return "denied"
    return "answered" if request.kind is RequestKind.QUESTION else "approved"


def decider(request: Request, answerer: Session | None = None) -> str:
    """Phrase that follows `answered`: `by operator`, `by engineer-lead`, `by a rule`, `in the terminal`.

    `answerer`: as in `request_finished_event`.
    """
    by = request.answered_by
    if by == BY_RULE:
        return "by a rule"
    return "in the terminal" if by == BY_TERMINAL else f"by {folded(label_of(by or 'nobody', answerer))}"


def outcome(request: Request) -> str:
    answer = request.answer
    if answer is None:
        return str(request.state)
    if request.kind is RequestKind.QUESTION:
        if answer.answers:
            return " / ".join(answer.answers)
        if answer.approved:
            return request.reason or "answered"
        return f"denied: {answer.message}" if answer.message else "denied"
    decided = "approved" if answer.approved else "denied"
    return f"{decided}: {answer.message}" if answer.message else decided


def message_finished_event(session: Session, message: Message, sender: str) -> str:
    what = f"message {message.id} from {sender}"
    if message.state is MessageState.SUBMITTED:
        return f"{subject(session)} got {what}"
    return f"{subject(session)}: {what} {_outcome(message.state)}: {folded(message.reason or '')}"


def _outcome(state: MessageState) -> str:
    return "is unconfirmed" if state is MessageState.UNCONFIRMED else str(state)
