"""The audiences of operations: who may carry them out, on which sessions. `policy.relations` decides by them.

The kernel and the doors know no other permission, so who may do what stands in the declarations of operations.
"""

from enum import StrEnum

from sm.core.dataclass import dataclass


class CallerRole(StrEnum):
    """A caller in an audience, by its relation to the target, which the caller must see."""

    OPERATOR = "operator"
    ITSELF = "itself"
    """A session, also to its own workspace."""
    ANCESTOR = "ancestors"
    TEAM = "team"
    """The other sessions of its workspace: all sessions without a workspace form one team."""
    OWNER = "owners"
    PAIRED_USER = "paired users"
    """To their sessions."""
    PAIRED_WITH_IT = "users paired with it"
    """With a workspace."""


OPERATOR = frozenset({CallerRole.OPERATOR})
"""Nobody may do it from a chat network: whoever finds a phone must not be able to."""
OPERATOR_AND_OWNERS = OPERATOR | {CallerRole.OWNER}
ITSELF = frozenset({CallerRole.ITSELF})
"""Not even the operator: only the session itself knows its work."""
ABOVE = OPERATOR_AND_OWNERS | {CallerRole.ANCESTOR, CallerRole.PAIRED_USER}
"""Everybody to whom the session belongs."""
SESSION_AND_ABOVE = ABOVE | ITSELF


@dataclass(frozen=True, slots=True, eq=False)
class Audience:
    """The callers that may do something. Several operations may have the same one."""

    name: str
    """In the audit log."""
    action: str
    """A verb for errors. The name of a session follows, if it is about one."""
    members: frozenset[CallerRole]

    @property
    def has_sessions(self) -> bool:
        return not self.members.isdisjoint({CallerRole.ITSELF, CallerRole.ANCESTOR, CallerRole.TEAM})


_EVERYBODY = SESSION_AND_ABOVE | {CallerRole.TEAM}
EVERY_CALLER = Audience("call", "call", _EVERYBODY)
"""Needs no permission, because the caller has its own answer: `Operation.rules` decide what that has."""
SEE = Audience("see", "see", _EVERYBODY)
READ = Audience("read", "read the terminal of", ABOVE)
"""Its terminal, its actions, its log and a summary of them."""
READ_ALSO_ITSELF = Audience("read_also_itself", "see the contents of", SESSION_AND_ABOVE)
"""Its contents apart from its terminal."""
REPORT = Audience("report", "report for", ITSELF)
"""Complete, checkpoint, note, ask and the hooks of the agent."""
