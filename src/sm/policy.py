"""What a caller may do. Pure: `server.py` says who calls, the manager says how the two are related."""

from enum import StrEnum
from typing import assert_never

from sm.models import Caller, CallerKind, Session, TrustLevel


class Action(StrEnum):
    """What can be asked for. The value is the verb of a refusal."""

    SEE = "see"
    SPAWN = "spawn a child of"
    KILL = "kill"
    READ = "read the terminal of"
    REPORT = "report for"
    SEND = "send to"
    ANSWER = "answer"
    ARCHIVE = "archive"
    REMOVE = "remove"
    REPARENT = "give another parent to"
    ATTACH = "attach to"
    INTERRUPT = "interrupt"
    RESTORE = "restore"
    FORK = "fork"
    ADOPT = "adopt an agent as"
    ADD_ARGUMENTS = "give extra arguments to"
    STOP_DAEMON = "stop"


class Relation(StrEnum):
    """What the target is to the calling session."""

    SELF = "self"
    DESCENDANT = "descendant"
    OTHER = "other"


_OWN = frozenset({Relation.SELF})
_BELOW = frozenset({Relation.DESCENDANT})
_OWN_AND_BELOW = _OWN | _BELOW
_ALL = frozenset(Relation)
_OTHERS = frozenset(Relation) - _OWN
_NONE: frozenset[Relation] = frozenset()


def _session_may(action: Action) -> frozenset[Relation]:
    match action:
        case Action.SEE:
            return _ALL
        case Action.SPAWN:
            return _OWN_AND_BELOW
        case Action.SEND:
            return _OTHERS
        case (
            Action.KILL
            | Action.READ
            | Action.ATTACH
            | Action.ANSWER
            | Action.ARCHIVE
            | Action.REMOVE
            | Action.REPARENT
            | Action.INTERRUPT
            | Action.RESTORE
            | Action.FORK
        ):
            return _BELOW
        case Action.REPORT:
            return _OWN
        case Action.ADOPT | Action.ADD_ARGUMENTS | Action.STOP_DAEMON:
            return _NONE
        case _:
            assert_never(action)


def may(caller: Caller, action: Action, relation: Relation = Relation.OTHER) -> bool:
    """Whether `caller` may do `action` to a target that stands in `relation` to it.

    The operator may do everything but report for a session: only the session itself knows what it did.
    """
    match caller.kind:
        case CallerKind.OPERATOR:
            return action is not Action.REPORT
        case CallerKind.SESSION:
            return relation in _session_may(action)
        case _:
            assert_never(caller.kind)


def visible(viewer: Session | None, target: Session) -> bool:
    """Whether `target` exists for `viewer` (None: the operator). "Not there" and "not yours" are one answer.

    A session sees its own workspace; a sandboxed one only what is sandboxed too. Sessions without a workspace
    count together as one.
    """
    if viewer is None or viewer.id == target.id:
        return True
    if viewer.workspace != target.workspace:
        return False
    return viewer.effective_mode is TrustLevel.DIRECT or target.effective_mode is TrustLevel.SANDBOXED
