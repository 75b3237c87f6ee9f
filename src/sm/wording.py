"""What is said of a session: the texts of events and reasons. Pure."""

from typing import assert_never

from sm.models import (
    EventType,
    Message,
    MessageState,
    Request,
    RequestKind,
    Session,
    Signal,
    SignalKind,
    Status,
    TrustLevel,
)
from sm.text import folded, quoted


def subject(session: Session) -> str:
    """What an event calls the session: readers of events are mostly parents."""
    return f"{'Session' if session.parent_id is None else 'Child'} {session.id}"


def spawned(session: Session) -> str:
    kind = "Session" if session.parent_id is None else "Child"
    return f"{kind} {session.display_name} ({session.id}) started"


def moved(session: Session, signal: Signal, type: EventType) -> str:
    """The line of the event that records a move; `session` is as it was before."""
    who = subject(session)
    match signal.kind:
        case SignalKind.STARTED:
            return f"{who} running"
        case SignalKind.START_FAILED:
            return f"{who} did not start: {folded(signal.reason)}"
        case SignalKind.REPORTED_COMPLETED | SignalKind.REPORTED_ERROR | SignalKind.REPORTED_ABANDONED:
            verb = "failed" if signal.kind is SignalKind.REPORTED_ERROR else type.value
            return f"{who} {verb} - {quoted(signal.message)}" if signal.message else f"{who} {verb}"
        case SignalKind.EXITED:
            return f"{who} completed (exited with code 0)"
        case SignalKind.CRASHED:
            return f"{who} crashed ({signal.exit})"
        case SignalKind.TERMINAL_LOST | SignalKind.PARENT_ENDED | SignalKind.REOPENED | SignalKind.RESTARTED:
            return f"{who} {type.value}: {folded(signal.reason)}"
        case SignalKind.KILLED:
            return f"{who} killed ({folded(signal.reason)})"
        case SignalKind.BUSY | SignalKind.WENT_IDLE | SignalKind.ASKED | SignalKind.LAUNCHING:
            return f"{who} {type.value.replace('_', ' ')}: {folded(signal.reason)}"
        case _:
            assert_never(signal.kind)


def label(session: Session) -> str:
    """`engineer-task1042 (1a2b3c4d)`."""
    return f"{folded(session.display_name, 150)} ({session.id})"


def sender_label(sender: str, session: Session | None) -> str:
    """A message's sender as its reader sees it; `session` is the one that it names, if it is known."""
    return sender if session is None else label(session)


def words_of(session: Session, text: str, limit: int = 500) -> str:
    """What a session said, for the eyes of its parent."""
    return quoted(text, limit, untrusted=session.effective_mode is TrustLevel.SANDBOXED)


def kin(session: Session) -> str:
    """What a notice calls the session that it is about."""
    return f"{'session' if session.parent_id is None else 'child'} {label(session)}"


def ending(session: Session, signal: Signal) -> str:
    """The entry of a notice that tells of an ending; `session` as it is now."""
    match session.status:
        case Status.ERROR if signal.kind is SignalKind.REPORTED_ERROR:
            verb = "failed"
        case Status.ERROR:
            verb = "ended with an error"
        case _:
            verb = str(session.status)
    said = f": {words_of(session, signal.message)}" if signal.message else f": {folded(signal.reason)}"
    return f"{kin(session)} {verb}{said}"


def idle(session: Session) -> str:
    return f"{kin(session)} is idle: {folded(session.status_reason)}"


def milestone(session: Session, text: str) -> str:
    return f"{kin(session)} reports: {words_of(session, text)}"


def undelivered(session: Session, message: Message) -> str:
    return f"message {message.id} to {label(session)} is {message.state}: {folded(message.reason or '-')}"


def asked(session: Session, request: Request) -> str:
    """The entry of a notice that tells of a request. It ends with the exact command to type."""
    who = kin(session)
    match request.kind:
        case RequestKind.QUESTION:
            asks = " / ".join(words_of(session, q.question, 400) for q in request.questions)
            options = request.questions[0].options if len(request.questions) == 1 else ()
            choice = ""
            if options:
                shown = ", ".join(f"{n}: {words_of(session, o, 40)}" for n, o in enumerate(options[:8], 1))
                more = f" and {len(options) - 8} more (sm requests)" if len(options) > 8 else ""
                choice = f" options {shown}{more};"
            return f"{who} asks {asks};{choice} answer with: sm answer {request.name} TEXT"
        case RequestKind.COMPLETION:
            said = words_of(session, request.words or "done", 400)
            return f"{who} says that it is done: {said}; sm approve {request.name} or: sm reject {request.name} WHY"
        case _:
            used = words_of(session, use(request), 400)
            return f"{who} asks for permission to use {used}; sm approve {request.name} or: sm deny {request.name}"


def use(request: Request) -> str:
    """The tool and its arguments that a permission is asked for."""
    arguments = " ".join(f"{name}={value}" for name, value in (request.arguments or {}).items())
    return f"{request.tool or 'a tool'} {arguments}".strip()


def request_opened(session: Session, request: Request) -> str:
    """The line of the event that records a request."""
    match request.kind:
        case RequestKind.QUESTION:
            what = f"asks {' / '.join(quoted(q.question) for q in request.questions)}"
        case RequestKind.COMPLETION:
            what = f"proposes its completion - {quoted(request.words or 'done')}"
        case _:
            what = f"asks for permission to use {quoted(use(request))}"
    return f"{subject(session)} {what} ({request.name})"


def request_settled(session: Session, request: Request) -> str:
    """The line of the event that records what became of a request."""
    by = f" by {request.answered_by}" if request.answered_by else ""
    said = f" - {quoted(outcome(request))}" if request.answer else f": {folded(request.reason or '')}"
    return f"{subject(session)}: {request.name} {request.state}{by}{said}"


def outcome(request: Request) -> str:
    """What was decided on a request, in its own words."""
    answer = request.answer
    if answer is None:
        return str(request.state)
    if request.kind is RequestKind.QUESTION:
        return " / ".join(answer.answers) if answer.answers else answer.message or "declined"
    decided = "approved" if answer.approved else "rejected"
    return f"{decided}: {answer.message}" if answer.message else decided


def message_settled(session: Session, message: Message, sender: str) -> str:
    """The line of the event that records what became of a message."""
    what = f"message {message.id} from {sender}"
    if message.state is MessageState.SUBMITTED:
        return f"{subject(session)} got {what}"
    return f"{subject(session)}: {what} {message.state}: {folded(message.reason or '')}"
