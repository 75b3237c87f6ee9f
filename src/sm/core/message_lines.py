"""Formats the outcome of a message. Pure."""

from sm.core.lines import JsonObject, line
from sm.core.session_lines import label, name_to_type
from sm.core.states import OPEN_STATES, MessageState
from sm.errors import IllegalState, WaitTimeout

_ARRIVED = (MessageState.SUBMITTED, MessageState.ACKNOWLEDGED)


def status_of(message: JsonObject) -> str:
    """The status, and for a submitted message also why its recipient has not read it yet."""
    status, reason = line(message["status"]), message["reason"]
    return f"{status} ({line(reason)})" if status == MessageState.SUBMITTED and reason else status


def outcome(message: JsonObject, *, must_arrive: bool) -> str:
    """Describe a message's outcome in one line, and say if the message has unarchived its session.

    Raises IllegalState for a message that failed, and WaitTimeout when `must_arrive` and the message is still open or
    not settled.
    """
    words = _outcome(message, must_arrive=must_arrive)
    return f"{words}; the session was unarchived" if message.get("unarchived") else words


def _outcome(message: JsonObject, *, must_arrive: bool) -> str:
    number, reason, name = message["message_id"], line(message["reason"] or ""), label(message)
    status = message["status"]
    if message.get("request_id"):
        return f"Answered {message['request_id']} of session {name}: {reason}"
    if message["session_id"] is None and status in _ARRIVED:
        return f"The operator has read message {number}"
    if message["session_id"] is None and not must_arrive:
        return f"Message {number} is in the operator's inbox"
    if status in _ARRIVED and must_arrive and not message.get("settled", True):
        raise WaitTimeout(
            f"message {number} is not in the conversation of session {name} yet: only its prompt hook has reported it",
            f"sm log {name_to_type(message)}",
        )
    if status in _ARRIVED:
        return f"Input sent to session {name}" + (f" ({reason})" if reason else "")
    if status == MessageState.UNCONFIRMED and not must_arrive:
        return f"typed, not confirmed, message {number}"
    if status not in OPEN_STATES:
        raise IllegalState(f"message {number} to session {name} is {line(status)}: {reason}")
    if must_arrive:
        raise WaitTimeout(
            f"message {number} is still {line(status)} ({reason}); it was not cancelled",
            f"sm log {name_to_type(message)}",
        )
    return f"{line(status)} ({reason}), message {number}" if reason else f"{line(status)}, message {number}"
