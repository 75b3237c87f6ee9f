"""What a caller may do: one function per action, over how the two stand to each other. Pure.

`server.py` says who calls, the manager how the caller stands to the session that is meant. Every rule reads the
effective mode, what a session really runs in, never the trust level that was asked for. Nothing is possible on
what a caller may not see: `may` asks that first, whatever the action.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from sm.core.models import Caller, CallerKind, Session, TrustLevel


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


class Relation(StrEnum):
    """What the target is to the calling session. Of several the first: below it and elsewhere is elsewhere."""

    SELF = "self"
    FOREIGN = "foreign"
    """In another workspace, or nothing of the session's at all."""
    DESCENDANT = "descendant"
    TEAM = "team"
    """In the same workspace. Sessions without one count together as one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Who stands how to whom. Of the operator only `kind` counts.

    A workspace as the target is SELF for the sessions in it, else FOREIGN; so is what is about no session at all.
    """

    kind: CallerKind
    mode: TrustLevel = TrustLevel.SANDBOXED
    """The caller's effective mode."""
    relation: Relation = Relation.FOREIGN
    target_mode: TrustLevel = TrustLevel.DIRECT
    """The target's effective mode."""

    @property
    def operator(self) -> bool:
        return self.kind is CallerKind.OPERATOR

    @property
    def itself(self) -> bool:
        return self.kind is CallerKind.SESSION and self.relation is Relation.SELF

    @property
    def below(self) -> bool:
        return self.kind is CallerKind.SESSION and self.relation is Relation.DESCENDANT


# The rules


def may_see(s: Standing) -> bool:
    """The operator everything; a session itself and its team, a sandboxed one of its team what is sandboxed too."""
    if s.operator or s.relation is Relation.SELF:
        return True
    if s.relation is Relation.FOREIGN:
        return False
    return s.mode is TrustLevel.DIRECT or s.target_mode is TrustLevel.SANDBOXED


def may_send(s: Standing) -> bool:
    """Whoever sees it; a session not to itself."""
    return s.operator or (may_see(s) and not s.itself)


def may_spawn(s: Standing) -> bool:
    """A session gets children of its own, and gives some to what stands below it."""
    return s.operator or s.itself or s.below


def may_report(s: Standing) -> bool:
    """Only a session itself knows what it did: complete, checkpoint, note, ask, its agent's hooks."""
    return s.itself


def may_kill(s: Standing) -> bool:
    """The operator, and whoever it stands below: since one agent killed all others (lessons.md, Authority)."""
    return s.operator or s.below


def may_read(s: Standing) -> bool:
    """What is said and done in it: its terminal, its actions, its log, a summary of them."""
    return s.operator or s.below


def may_answer(s: Standing) -> bool:
    """What it asks, and whether it is done: approve, deny, answer."""
    return s.operator or s.below


def may_archive(s: Standing) -> bool:
    return s.operator or s.below


def may_remove(s: Standing) -> bool:
    return s.operator or s.below


def may_reparent(s: Standing) -> bool:
    """The one that is moved; whom it is given to must be one that the caller may spawn a child of."""
    return s.operator or s.below


def may_attach(s: Standing) -> bool:
    return s.operator or s.below


def may_interrupt(s: Standing) -> bool:
    return s.operator or s.below


def may_restore(s: Standing) -> bool:
    return s.operator or s.below


def may_fork(s: Standing) -> bool:
    return s.operator or s.below


def may_see_workspace(s: Standing) -> bool:
    """A session the one that it is in."""
    return s.operator or s.itself


def may_manage_workspaces(s: Standing) -> bool:
    return s.operator


def may_restore_all(s: Standing) -> bool:
    return s.operator


def may_adopt(s: Standing) -> bool:
    """Whoever adopts says what an agent was trusted with that nobody here has started."""
    return s.operator


def may_add_arguments(s: Standing) -> bool:
    """They reach the agent CLI unread, and could give it any permission. `child_agents.allow_args` opens it."""
    return s.operator


def may_stop_daemon(s: Standing) -> bool:
    return s.operator


_RULES: Mapping[Action, Callable[[Standing], bool]] = {
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


def may(standing: Standing, action: Action) -> bool:
    """Whether a caller that stands so may do `action`; never to what it may not see."""
    return may_see(standing) and _RULES[action](standing)


def may_at_all(caller: Caller, action: Action) -> bool:
    """Whether `caller` may do `action`, one that is about no session."""
    return may(Standing(caller.kind), action)


def standing(viewer: Session | None, target: Session, *, below: bool) -> Standing:
    """How `viewer` (None: the operator) stands to `target`. `below`: whether that is one of its descendants."""
    if viewer is None:
        return Standing(CallerKind.OPERATOR)
    relation = _relation(viewer, target, below=below)
    return Standing(CallerKind.SESSION, viewer.effective_mode, relation, target.effective_mode)


def _relation(viewer: Session, target: Session, *, below: bool) -> Relation:
    if viewer.id == target.id:
        return Relation.SELF
    if viewer.workspace != target.workspace:
        return Relation.FOREIGN
    return Relation.DESCENDANT if below else Relation.TEAM


def visible(viewer: Session | None, target: Session) -> bool:
    """Whether `target` exists for `viewer` (None: the operator). "Not there" and "not yours" are one answer."""
    if viewer is None:
        return True
    relation = _relation(viewer, target, below=False)  # a descendant is no more to be seen than a team
    return _sees(viewer.effective_mode, relation, target.effective_mode)


@cache
def _sees(mode: TrustLevel, relation: Relation, target_mode: TrustLevel) -> bool:
    """Asked of every session for every list: kept, there are but sixteen answers."""
    return may_see(Standing(CallerKind.SESSION, mode, relation, target_mode))


def visible_workspace(viewer: Session | None, slug: str) -> bool:
    """Whether the workspace `slug` exists for `viewer` (None: the operator)."""
    if viewer is None:
        return True
    relation = Relation.SELF if viewer.workspace == slug else Relation.FOREIGN
    return may(Standing(CallerKind.SESSION, viewer.effective_mode, relation), Action.SEE_WORKSPACE)
