"""Decides what a caller may do, by the relation between caller and target. Pure.

The server identifies the caller, `Authorizer` its relation to the target session. Every rule reads the effective mode
that a session runs in, never the requested trust level.

A person in a chat network is an owner, who may do nearly everything that the operator may, or a paired user. The
sessions of a paired user are to that user what descendants are to a session.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, assert_never

from sm.core.dataclass import dataclass
from sm.core.models import NO_WORKSPACE, BridgeUser, Caller, Session
from sm.core.states import CallerKind, TrustLevel


class Action(StrEnum):
    """An operation that needs permission. Error messages use the value as their verb."""

    SEE = "see"
    SPAWN = "spawn a child of"
    KILL = "kill"
    READ = "read the terminal of"
    EXPORT = "export the archive of"
    REPORT = "report for"
    SEND = "send messages to"
    COMMAND = "send commands to"
    COMPACT = "compact the conversation of"
    ANSWER = "answer requests of"
    ANSWER_SETUP = "answer the first-start dialog of"
    ARCHIVE = "archive"
    REMOVE = "remove"
    MARK_SEEN = "mark as seen"
    REPARENT = "reparent"
    RENAME = "rename"
    ATTACH = "attach to"
    INTERRUPT = "interrupt"
    PAUSE = "pause or resume"
    LOWER_BUDGET = "change the budget of"
    RAISE_BUDGET = "raise the budget of"
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
    MANAGE_DAILY_BUDGET = "see or change the budget of the day"
    PAIR = "pair or revoke users of chat networks"
    MANAGE_BOT = "see or test the bot"
    MUTE_GROUP = "mute all reports in a group"
    READ_CONFIG = "see the configuration of the daemon"
    STOP_DAEMON = "stop the daemon"


class Position(StrEnum):
    """The position of the target relative to the calling session.

    The first matching member wins: a descendant in another workspace is foreign. For a paired user of a chat network,
    a session is a descendant or foreign.
    """

    SELF = "self"
    FOREIGN = "foreign"
    """In another workspace, or unrelated to any session."""
    DESCENDANT = "descendant"
    TEAM = "team"
    """In the same workspace. All sessions without a workspace form one team."""


Principal = Session | BridgeUser | None
"""A caller with the facts that its permissions depend on: a session, a person in a chat network, or the operator."""


class AccessTarget(Protocol):
    """The facts about a session, which may be removed, that the permissions of others depend on."""

    @property
    def id(self) -> str: ...

    @property
    def workspace(self) -> str | None: ...

    @property
    def effective_mode(self) -> TrustLevel: ...

    @property
    def paired_user(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of a caller to a target. For the operator only `kind` matters.

    A workspace as the target is SELF for the sessions in it, and for the users who are paired with it, else FOREIGN. An
    action without a target is FOREIGN.
    """

    kind: CallerKind
    mode: TrustLevel = TrustLevel.SANDBOXED
    """The caller's effective mode; the level of a paired user."""
    position: Position = Position.FOREIGN
    target_mode: TrustLevel = TrustLevel.DIRECT
    """The target's effective mode."""
    owner: bool = False
    """For a caller of kind bridge: one of the owners, for whom nothing else matters."""

    @property
    def is_operator(self) -> bool:
        return self.kind is CallerKind.OPERATOR

    @property
    def is_owner(self) -> bool:
        return self.kind is CallerKind.BRIDGE and self.owner

    @property
    def is_self(self) -> bool:
        return self.kind is CallerKind.SESSION and self.position is Position.SELF


_NOBODY = frozenset[Position]()
_ITSELF = frozenset({Position.SELF})
_DESCENDANTS = frozenset({Position.DESCENDANT})

_TARGETS: Mapping[Action, frozenset[Position]] = {
    Action.SEE: frozenset({Position.SELF, Position.DESCENDANT, Position.TEAM}),
    Action.SEND: frozenset({Position.DESCENDANT, Position.TEAM}),
    # A command of the agent CLI acts without its model: it can end the agent, or change its permissions.
    Action.COMMAND: _NOBODY,
    # Only for the direct parent, which `Messages.send` checks.
    Action.COMPACT: _DESCENDANTS,
    # Moving a session also requires this permission for its new parent.
    Action.SPAWN: _ITSELF | _DESCENDANTS,
    # Complete, checkpoint, note, ask and the hooks of the agent: only the session itself knows its work.
    Action.REPORT: _ITSELF,
    # An agent once killed all other agents.
    Action.KILL: _DESCENDANTS,
    # The terminal, the actions, the log and a summary of them.
    Action.READ: _DESCENDANTS,
    # An archive has rows as they are stored, with the names of sessions that the caller may not see.
    Action.EXPORT: _NOBODY,
    # Approve, deny and answer requests of the target, and approve its completion.
    Action.ANSWER: _DESCENDANTS,
    # The answer changes what the agent CLI asks the user in future.
    Action.ANSWER_SETUP: _NOBODY,
    Action.ARCHIVE: _DESCENDANTS,
    Action.REMOVE: _DESCENDANTS,
    # It says what a person has looked at.
    Action.MARK_SEEN: _NOBODY,
    Action.REPARENT: _DESCENDANTS,
    Action.RENAME: _DESCENDANTS,
    Action.ATTACH: _DESCENDANTS,
    Action.INTERRUPT: _DESCENDANTS,
    Action.PAUSE: _DESCENDANTS,
    # A session may restrain itself. For a descendant, what is left above is the limit.
    Action.LOWER_BUDGET: _ITSELF | _DESCENDANTS,
    Action.RAISE_BUDGET: _DESCENDANTS,
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
    Action.MANAGE_DAILY_BUDGET: _NOBODY,
    # An owner decides on requests with the buttons of a chat.
    Action.PAIR: _NOBODY,
    Action.MANAGE_BOT: _NOBODY,
    # Everybody in the group would miss them. A user may mute each session that they see.
    Action.MUTE_GROUP: _NOBODY,
    Action.READ_CONFIG: _NOBODY,
    Action.STOP_DAEMON: _NOBODY,
}
"""The targets of each action for a session and for a paired user.

The operator may do everything but report for a session, an owner everything that needs no terminal.
"""

_NEEDS_TERMINAL = frozenset(
    {
        Action.ATTACH,
        Action.EXPORT,
        # The answer trusts a directory or a mode of the agent CLI permanently.
        Action.ANSWER_SETUP,
        Action.MANAGE_WORKSPACES,
        Action.MANAGE_ACCOUNTS,
        Action.RESTORE_ALL,
        Action.ADOPT,
        Action.ADD_ARGUMENTS,
        Action.READ_CONFIG,
        Action.STOP_DAEMON,
    }
)
"""Actions that nobody may do from a chat network: whoever finds a phone must not be able to do them."""


def may(relation: Relation, action: Action) -> bool:
    """Return whether a caller in this relation may do `action`. The caller must always see the target."""
    if relation.is_operator:
        return action is not Action.REPORT
    if relation.kind is CallerKind.BRIDGE and (action is Action.REPORT or action in _NEEDS_TERMINAL):
        return False
    if relation.is_owner:
        return True
    is_visible = _may_see(relation.mode, relation.position, relation.target_mode)
    return is_visible and relation.position in _TARGETS[action]


def _may_see(mode: TrustLevel, position: Position, target_mode: TrustLevel) -> bool:
    """A session sees itself and its team; a sandboxed session sees the sandboxed part of its team.

    The same holds for a paired user and their sessions.
    """
    if position in (Position.SELF, Position.FOREIGN):
        return position is Position.SELF
    return mode is TrustLevel.DIRECT or target_mode is TrustLevel.SANDBOXED


def may_at_all(caller: Caller, action: Action) -> bool:
    """Return whether `caller` may do `action`, which has no target session."""
    return may(Relation(caller.kind, owner=caller.user is not None and caller.user.is_owner), action)


def is_unrestricted(caller: Caller) -> bool:
    """True for the operator and for owners, who see every session and are bound by no limit of a caller."""
    return may_at_all(caller, Action.SEE)


def relation(principal: Principal, target: AccessTarget, *, is_descendant: bool) -> Relation:
    """The relation of `principal` to `target`. `is_descendant`: only for a session."""
    match principal:
        case None:
            return Relation(CallerKind.OPERATOR)
        case BridgeUser():
            mode, position = principal.trust, _position_for_user(principal, target)
            return Relation(
                CallerKind.BRIDGE, mode, position, target.effective_mode, owner=principal.is_owner
            )
        case Session():
            position = _position(principal, target, is_descendant=is_descendant)
            return Relation(CallerKind.SESSION, principal.effective_mode, position, target.effective_mode)
        case _:
            assert_never(principal)


def _position_for_user(user: BridgeUser, target: AccessTarget) -> Position:
    """A user who is paired with a workspace has its sessions; any other one has those that the user started."""
    if user.workspace is not None:
        has = target.workspace == user.workspace
    else:
        has = target.paired_user == user.name and target.workspace is None
    return Position.DESCENDANT if has else Position.FOREIGN


def _position(caller_session: Session, target: AccessTarget, *, is_descendant: bool) -> Position:
    if caller_session.id == target.id:
        return Position.SELF
    if caller_session.workspace != target.workspace:
        return Position.FOREIGN
    return Position.DESCENDANT if is_descendant else Position.TEAM


def visible(principal: Principal, target: AccessTarget) -> bool:
    """Return whether `principal` may know that `target` exists.

    Callers must answer in the same way for hidden and for missing sessions.
    """
    if principal is None:
        return True
    # A descendant is as visible as any session of the team.
    return may(relation(principal, target, is_descendant=False), Action.SEE)


def visible_workspace(principal: Principal, slug: str) -> bool:
    """Return whether `principal` may know that the workspace `slug` exists."""
    if principal is None:
        return True
    position = Position.SELF if principal.workspace == slug else Position.FOREIGN
    if isinstance(principal, Session):
        found = Relation(CallerKind.SESSION, principal.effective_mode, position)
    else:
        found = Relation(CallerKind.BRIDGE, principal.trust, position, owner=principal.is_owner)
    return may(found, Action.SEE_WORKSPACE)


def paired_user(caller: Caller, parent: Session | None) -> str | None:
    """The paired user to whom a new session of `caller` belongs: that of its parent, else the caller."""
    if parent is not None:
        return parent.paired_user
    return None if caller.user is None or caller.user.is_owner else caller.user.name


def spawn_workspace(caller: Caller, requested: str | None) -> str | None:
    """The workspace in which `caller` starts a session without a parent: a slug, `-` for none, None for the default.

    A paired user has no choice: the workspace of the pairing, or none. Raises ValueError for another one.
    """
    if caller.user is None or caller.user.is_owner:
        return requested
    own = caller.user.workspace or NO_WORKSPACE
    if requested not in (None, own):
        raise ValueError(requested)
    return own
