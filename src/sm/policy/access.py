"""Decides what a caller may do, by the relation between caller and target. Pure.

The server identifies the caller, the manager its relation to the target session. Every rule reads the effective mode
that a session runs in, never the requested trust level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sm.core.models import Caller, Session
from sm.core.states import CallerKind, TrustLevel


class Action(StrEnum):
    """An operation that needs permission. Error messages use the value as their verb."""

    SEE = "see"
    SPAWN = "spawn a child of"
    KILL = "kill"
    READ = "read the terminal of"
    REPORT = "report for"
    SEND = "send messages to"
    ANSWER = "answer requests of"
    ANSWER_SETUP = "answer the first-start dialog of"
    ARCHIVE = "archive"
    REMOVE = "remove"
    REPARENT = "reparent"
    ATTACH = "attach to"
    INTERRUPT = "interrupt"
    RESTORE = "restore"
    FORK = "fork"
    SEE_WORKSPACE = "see the workspace"
    # About no session at all:
    MANAGE_WORKSPACES = "create, change or delete workspaces"
    MANAGE_SANDBOXES = "manage sandboxes"
    RESTORE_ALL = "restore all sessions"
    ADOPT = "adopt an agent"
    ADD_ARGUMENTS = "pass extra arguments to an agent"
    MANAGE_ACCOUNTS = "see, pause or resume accounts"
    STOP_DAEMON = "stop the daemon"


class Position(StrEnum):
    """The position of the target relative to the calling session.

    The first matching member wins: a descendant in another workspace is foreign.
    """

    SELF = "self"
    FOREIGN = "foreign"
    """In another workspace, or unrelated to any session."""
    DESCENDANT = "descendant"
    TEAM = "team"
    """In the same workspace. All sessions without a workspace form one team."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of a caller to a target. For the operator only `kind` matters.

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


_NOBODY = frozenset[Position]()
_ITSELF = frozenset({Position.SELF})
_DESCENDANTS = frozenset({Position.DESCENDANT})

_TARGETS: Mapping[Action, frozenset[Position]] = {
    Action.SEE: frozenset({Position.SELF, Position.DESCENDANT, Position.TEAM}),
    Action.SEND: frozenset({Position.DESCENDANT, Position.TEAM}),
    # Moving a session also requires this permission for its new parent.
    Action.SPAWN: _ITSELF | _DESCENDANTS,
    # Complete, checkpoint, note, ask and the hooks of the agent: only the session itself knows its work.
    Action.REPORT: _ITSELF,
    # An agent once killed all other agents.
    Action.KILL: _DESCENDANTS,
    # The terminal, the actions, the log and a summary of them.
    Action.READ: _DESCENDANTS,
    # Approve, deny and answer requests of the target, and approve its completion.
    Action.ANSWER: _DESCENDANTS,
    # The answer changes what the agent CLI asks the user in future.
    Action.ANSWER_SETUP: _NOBODY,
    Action.ARCHIVE: _DESCENDANTS,
    Action.REMOVE: _DESCENDANTS,
    Action.REPARENT: _DESCENDANTS,
    Action.ATTACH: _DESCENDANTS,
    Action.INTERRUPT: _DESCENDANTS,
    Action.RESTORE: _DESCENDANTS,
    Action.FORK: _DESCENDANTS,
    Action.SEE_WORKSPACE: _ITSELF,
    Action.MANAGE_WORKSPACES: _NOBODY,
    # Their logins are in the containers' homes.
    Action.MANAGE_SANDBOXES: _NOBODY,
    Action.RESTORE_ALL: _NOBODY,
    # The caller decides the trust level of an agent that sm did not start.
    Action.ADOPT: _NOBODY,
    # The agent CLI gets them unchecked, and they can grant any permission. `child_agents.allow_args` lifts this rule.
    Action.ADD_ARGUMENTS: _NOBODY,
    # An account pays for the work of all teams.
    Action.MANAGE_ACCOUNTS: _NOBODY,
    Action.STOP_DAEMON: _NOBODY,
}
"""The targets of each action for a session. The operator may do everything but report for a session."""


def may(relation: Relation, action: Action) -> bool:
    """Return whether a caller in this relation may do `action`. The caller must always see the target."""
    if relation.is_operator:
        return action is not Action.REPORT
    is_visible = _may_see(relation.mode, relation.position, relation.target_mode)
    return is_visible and relation.position in _TARGETS[action]


def _may_see(mode: TrustLevel, position: Position, target_mode: TrustLevel) -> bool:
    """A session sees itself and its team; a sandboxed session sees the sandboxed part of its team."""
    if position in (Position.SELF, Position.FOREIGN):
        return position is Position.SELF
    return mode is TrustLevel.DIRECT or target_mode is TrustLevel.SANDBOXED


def may_at_all(caller: Caller, action: Action) -> bool:
    """Return whether `caller` may do `action`, which has no target session."""
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
    """Return whether `caller_session` (None: the operator) may know that `target` exists.

    Callers must answer in the same way for hidden and for missing sessions.
    """
    if caller_session is None:
        return True
    # A descendant is as visible as any session of the team.
    position = _position(caller_session, target, is_descendant=False)
    return _may_see(caller_session.effective_mode, position, target.effective_mode)


def visible_workspace(caller_session: Session | None, slug: str) -> bool:
    """Return whether `caller_session` (None: the operator) may know that the workspace `slug` exists."""
    if caller_session is None:
        return True
    position = Position.SELF if caller_session.workspace == slug else Position.FOREIGN
    return may(Relation(CallerKind.SESSION, caller_session.effective_mode, position), Action.SEE_WORKSPACE)
