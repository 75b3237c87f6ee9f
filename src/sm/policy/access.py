"""Decides what a caller may do: one function per action, of the relation between caller and target. Pure.

The server identifies the caller, the manager its relation to the target session. Every rule reads the effective mode
that a session runs in, never the requested trust level. `may` first asks whether the caller may see the target, for
every action.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from sm.core.models import Caller, Session
from sm.core.states import CallerKind, TrustLevel


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
    SEE_WORKSPACE = "see the workspace"
    # About no session at all:
    MANAGE_WORKSPACES = "make, change or delete workspaces"
    RESTORE_ALL = "restore all sessions"
    ADOPT = "adopt an agent"
    ADD_ARGUMENTS = "give an agent extra arguments"
    STOP_DAEMON = "stop the daemon"


class Position(StrEnum):
    """The position of the target relative to the calling session. The first that fits counts: a descendant in another
    workspace is foreign.
    """

    SELF = "self"
    FOREIGN = "foreign"
    """In another workspace, or nothing of the session's at all."""
    DESCENDANT = "descendant"
    TEAM = "team"
    """In the same workspace. Sessions without one count together as one."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of a caller to a target. For the operator only `kind` counts.

    A workspace as the target is SELF for the sessions in it, else FOREIGN. An action without a target is FOREIGN.
    """

    kind: CallerKind
    mode: TrustLevel = TrustLevel.SANDBOXED
    """The caller's effective mode."""
    position: Position = Position.FOREIGN
    target_mode: TrustLevel = TrustLevel.DIRECT
    """The target's effective mode."""

    @property
    def is_operator(self) -> bool:
        return self.kind is CallerKind.OPERATOR

    @property
    def is_self(self) -> bool:
        return self.kind is CallerKind.SESSION and self.position is Position.SELF

    @property
    def is_descendant(self) -> bool:
        return self.kind is CallerKind.SESSION and self.position is Position.DESCENDANT


# The rules


def may_see(relation: Relation) -> bool:
    """The operator everything; a session itself and its team, a sandboxed one of its team what is sandboxed too."""
    if relation.is_operator or relation.position is Position.SELF:
        return True
    if relation.position is Position.FOREIGN:
        return False
    return relation.mode is TrustLevel.DIRECT or relation.target_mode is TrustLevel.SANDBOXED


def may_send(relation: Relation) -> bool:
    """Whoever sees it; a session not to itself."""
    return relation.is_operator or (may_see(relation) and not relation.is_self)


def may_spawn(relation: Relation) -> bool:
    """A session gets children of its own, and gives some to what stands below it."""
    return relation.is_operator or relation.is_self or relation.is_descendant


def may_report(relation: Relation) -> bool:
    """Only a session itself knows what it did: complete, checkpoint, note, ask, its agent's hooks."""
    return relation.is_self


def may_kill(relation: Relation) -> bool:
    """The operator, and whoever it stands below: since one agent killed all others (lessons.md, Authority)."""
    return relation.is_operator or relation.is_descendant


def may_read(relation: Relation) -> bool:
    """What is said and done in it: its terminal, its actions, its log, a summary of them."""
    return relation.is_operator or relation.is_descendant


def may_answer(relation: Relation) -> bool:
    """What it asks, and whether it is done: approve, deny, answer."""
    return relation.is_operator or relation.is_descendant


def may_archive(relation: Relation) -> bool:
    return relation.is_operator or relation.is_descendant


def may_remove(relation: Relation) -> bool:
    return relation.is_operator or relation.is_descendant


def may_reparent(relation: Relation) -> bool:
    """The one that is moved; whom it is given to must be one that the caller may spawn a child of."""
    return relation.is_operator or relation.is_descendant


def may_attach(relation: Relation) -> bool:
    return relation.is_operator or relation.is_descendant


def may_interrupt(relation: Relation) -> bool:
    return relation.is_operator or relation.is_descendant


def may_restore(relation: Relation) -> bool:
    return relation.is_operator or relation.is_descendant


def may_fork(relation: Relation) -> bool:
    return relation.is_operator or relation.is_descendant


def may_see_workspace(relation: Relation) -> bool:
    """A session the one that it is in."""
    return relation.is_operator or relation.is_self


def may_manage_workspaces(relation: Relation) -> bool:
    return relation.is_operator


def may_restore_all(relation: Relation) -> bool:
    return relation.is_operator


def may_adopt(relation: Relation) -> bool:
    """Whoever adopts says what an agent was trusted with that nobody here has started."""
    return relation.is_operator


def may_add_arguments(relation: Relation) -> bool:
    """They reach the agent CLI unread, and could give it any permission. `child_agents.allow_args` opens it."""
    return relation.is_operator


def may_stop_daemon(relation: Relation) -> bool:
    return relation.is_operator


_RULES: Mapping[Action, Callable[[Relation], bool]] = {
    Action.SEE: may_see,
    Action.SPAWN: may_spawn,
    Action.KILL: may_kill,
    Action.READ: may_read,
    Action.REPORT: may_report,
    Action.SEND: may_send,
    Action.ANSWER: may_answer,
    Action.ARCHIVE: may_archive,
    Action.REMOVE: may_remove,
    Action.REPARENT: may_reparent,
    Action.ATTACH: may_attach,
    Action.INTERRUPT: may_interrupt,
    Action.RESTORE: may_restore,
    Action.FORK: may_fork,
    Action.SEE_WORKSPACE: may_see_workspace,
    Action.MANAGE_WORKSPACES: may_manage_workspaces,
    Action.RESTORE_ALL: may_restore_all,
    Action.ADOPT: may_adopt,
    Action.ADD_ARGUMENTS: may_add_arguments,
    Action.STOP_DAEMON: may_stop_daemon,
}


# Asking them


def may(relation: Relation, action: Action) -> bool:
    """Whether a caller in this relation may do `action`; never to a target that it may not see."""
    return may_see(relation) and _RULES[action](relation)


def may_at_all(caller: Caller, action: Action) -> bool:
    """Whether `caller` may do `action`, one that is about no session."""
    return may(Relation(caller.kind), action)


def relation(caller_session: Session | None, target: Session, *, is_descendant: bool) -> Relation:
    """The relation of `caller_session` (None: the operator) to `target`."""
    if caller_session is None:
        return Relation(CallerKind.OPERATOR)
    position = _position(caller_session, target, is_descendant=is_descendant)
    return Relation(CallerKind.SESSION, caller_session.effective_mode, position, target.effective_mode)


def _position(caller_session: Session, target: Session, *, is_descendant: bool) -> Position:
    if caller_session.id == target.id:
        return Position.SELF
    if caller_session.workspace != target.workspace:
        return Position.FOREIGN
    return Position.DESCENDANT if is_descendant else Position.TEAM


def visible(caller_session: Session | None, target: Session) -> bool:
    """Whether `target` exists for `caller_session` (None: the operator). "Not there" and "not yours" are one answer."""
    if caller_session is None:
        return True
    # A descendant is as visible as any session of the team.
    position = _position(caller_session, target, is_descendant=False)
    return _sees(caller_session.effective_mode, position, target.effective_mode)


@cache
def _sees(mode: TrustLevel, position: Position, target_mode: TrustLevel) -> bool:
    """Asked of every session for every list: kept, there are but sixteen answers."""
    return may_see(Relation(CallerKind.SESSION, mode, position, target_mode))


def visible_workspace(caller_session: Session | None, slug: str) -> bool:
    """Whether the workspace `slug` exists for `caller_session` (None: the operator)."""
    if caller_session is None:
        return True
    position = Position.SELF if caller_session.workspace == slug else Position.FOREIGN
    return may(Relation(CallerKind.SESSION, caller_session.effective_mode, position), Action.SEE_WORKSPACE)
