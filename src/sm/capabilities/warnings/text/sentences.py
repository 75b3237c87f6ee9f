"""Sentences about warnings: events and notices. Pure."""

from sm.capabilities.warnings.model import SessionWarning
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.timestamps import span
from sm.core.warnings import WarningKind
from sm.core.wording import notice_subject, quote_session, subject

_WARNING_WORDS = {
    WarningKind.LOOP: "repeats itself",
    WarningKind.NO_PROGRESS: "makes no progress",
    WarningKind.BURN: "uses tokens unusually fast",
    WarningKind.CONTEXT: "has nearly filled its context window",
    WarningKind.UNANSWERED: "waits for an answer",
    WarningKind.MEMORY: "uses much memory",
    WarningKind.CRASH_LOOP: "has crashed",
    WarningKind.REPORT_MISSING: "is idle and has not reported",
    WarningKind.SILENT: "reports nothing, but its process is busy",
    WarningKind.DENIED: "is denied what it tries, and nobody is asked",
    WarningKind.HOOKS_MISSING: "reports nothing through its hooks",
    WarningKind.TOOLS_MISSING: "has no tools of sm",
    WarningKind.PING_PONG: "takes part in an exchange of messages without work",
}
_WARNING_ACTS = {"interrupt": "sm interrupted its turn; ", "pause": "sm paused the session; "}
_WARNING_COMMANDS = {
    WarningKind.UNANSWERED: "answer with: sm requests",
    WarningKind.MEMORY: "look with: sm attach {id}",
    WarningKind.CRASH_LOOP: "look with: sm output {id}",
    WarningKind.REPORT_MISSING: "look with: sm tail {id}",
    WarningKind.SILENT: "look with: sm attach {id}",
    WarningKind.DENIED: "look with: sm why {id}",
    WarningKind.HOOKS_MISSING: "look with: sm why {id}; sm daemon restart installs the command of its hooks again",
    WarningKind.TOOLS_MISSING: "/mcp in its terminal connects again (sm attach {id}), or: sm kill {id}, then: "
    "sm restore {id}",
    WarningKind.PING_PONG: "look with: sm log {id}; stop with: sm pause {id}",
}


def _warning_words(warning: SessionWarning) -> str:
    return _WARNING_WORDS.get(warning.kind, warning.kind.value)


def warning_event(session: Session, warning: SessionWarning) -> str:
    """Text of the event for a warning that opens."""
    return f"{subject(session)} {_warning_words(warning)}: {warning.evidence}"


def warning_goes_on_event(session: Session, warning: SessionWarning) -> str:
    """Text of the event for a warning of which only the agent was told, and after which it goes on as before."""
    return f"{subject(session)} still {_warning_words(warning)}: {warning.evidence}"


def warning_ended_event(session: Session, warning: SessionWarning) -> str:
    """Text of the event for a warning whose cause has ended."""
    which = f": {warning.evidence}" if warning.subject else ""
    return f"{subject(session)}: the warning {warning.kind.value} has ended{which}"


def unanswered_evidence(request: Request, seconds: float) -> str:
    """The evidence of a request that has been open for `seconds`."""
    return f"request {request.name} ({request.kind.value}) has been open for {span(seconds)}"


def warning_notice(session: Session, warning: SessionWarning, act: str | None = None) -> str:
    """Entry of a notice about a warning, with the command to type. `act`: `interrupt` or `pause`, if sm did that."""
    command = _WARNING_COMMANDS.get(warning.kind, "look with: sm tail {id}")
    if act == "pause":
        command += "; go on with: sm resume {id}"
    elif warning.kind not in _WARNING_COMMANDS:
        command += "; stop with: sm pause {id}"
    words = f"{_warning_words(warning)}: {quote_session(session, warning.evidence)}"
    then = _WARNING_ACTS.get(act or "", "") + command.format(id=session.id)
    return f"{notice_subject(session)} {words}; {then}"
