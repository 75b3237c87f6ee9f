"""Decides what a caller may do, by the relation between caller and target and the declared audience. Pure.

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
from sm.operations.access_rules import SEE, Audience, CallerRole
from sm.operations.workspace_operations import SEE_WORKSPACE


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


_ROLES: Mapping[tuple[CallerKind, Position], CallerRole] = {
    (CallerKind.SESSION, Position.SELF): CallerRole.ITSELF,
    (CallerKind.SESSION, Position.DESCENDANT): CallerRole.ANCESTOR,
    (CallerKind.SESSION, Position.TEAM): CallerRole.TEAM,
    (CallerKind.BRIDGE, Position.SELF): CallerRole.PAIRED_WITH_IT,
    (CallerKind.BRIDGE, Position.DESCENDANT): CallerRole.PAIRED_USER,
}
"""The roles of sessions and paired users by the position of the target."""


def may(relation: Relation, audience: Audience) -> bool:
    """Return whether a caller in this relation is in the audience. The caller must always see the target."""
    if relation.is_operator:
        return CallerRole.OPERATOR in audience.members
    if relation.is_owner:
        return CallerRole.OWNER in audience.members
    is_visible = _may_see(relation.mode, relation.position, relation.target_mode)
    return is_visible and _ROLES.get((relation.kind, relation.position)) in audience.members


def _may_see(mode: TrustLevel, position: Position, target_mode: TrustLevel) -> bool:
    """A session sees itself and its team; a sandboxed session sees the sandboxed part of its team.

    The same holds for a paired user and their sessions.
    """
    if position in (Position.SELF, Position.FOREIGN):
        return position is Position.SELF
    return mode is TrustLevel.DIRECT or target_mode is TrustLevel.SANDBOXED


def may_at_all(caller: Caller, audience: Audience) -> bool:
    """Return whether `caller` may do something that has no target session."""
    return may(Relation(caller.kind, owner=_is_owner(caller)), audience)


def may_for_itself(caller: Caller, audience: Audience) -> bool:
    """Return whether `caller` may do something whose target is the caller."""
    return may(Relation(caller.kind, position=Position.SELF, owner=_is_owner(caller)), audience)


def _is_owner(caller: Caller) -> bool:
    return caller.user is not None and caller.user.is_owner


def is_unrestricted(caller: Caller) -> bool:
    """True for the operator and for owners, who see every session and are bound by no limit of a caller."""
    return may_at_all(caller, SEE)


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
    return may(relation(principal, target, is_descendant=False), SEE)


def visible_workspace(principal: Principal, slug: str) -> bool:
    """Return whether `principal` may know that the workspace `slug` exists."""
    if principal is None:
        return True
    position = Position.SELF if principal.workspace == slug else Position.FOREIGN
    if isinstance(principal, Session):
        found = Relation(CallerKind.SESSION, principal.effective_mode, position)
    else:
        found = Relation(CallerKind.BRIDGE, principal.trust, position, owner=principal.is_owner)
    return may(found, SEE_WORKSPACE)


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
