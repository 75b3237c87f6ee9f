"""Names of sessions in texts that people read, and in commands to type. Pure.

People read the friendly name. The id follows it only if another session has the same friendly name.
"""

from sm.core.models import Session
from sm.core.text import folded

_NAME_MAX = 150


def label(session: Session) -> str:
    """`engineer-login`; without a friendly name `engineer-1a2b3c4d`."""
    return _friendly(session) or folded(session.name, _NAME_MAX)


def short_label(session: Session) -> str:
    """As `label`, but without a friendly name only the id. For texts such as `session 1a2b3c4d has ended`."""
    return _friendly(session) or session.id


def name_to_type(session: Session) -> str:
    """The word for the session in a command: its friendly name, or its id if that name is not unique."""
    if session.friendly_name is None or session.shares_name:
        return session.id
    return folded(session.friendly_name, _NAME_MAX)


def label_of(word: str, session: Session | None) -> str:
    """The label of the party `word`: of a session with this id, else `word` itself, such as `operator`."""
    return word if session is None else label(session)


def _friendly(session: Session) -> str | None:
    if session.friendly_name is None:
        return None
    name = folded(session.friendly_name, _NAME_MAX)
    return f"{name} ({session.id})" if session.shares_name else name
