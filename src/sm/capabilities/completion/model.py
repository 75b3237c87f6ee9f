"""The meaning of the end of a turn, and what follows it. Pure data."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.turns import FollowUp

QUOTE_MAX = 120
"""Characters of a message that a classification quotes."""


class CompletionTimer(StrEnum):
    """The kinds of its timers. They are stored, so they never change."""

    COMPLETION = "completion"
    """The quiet window after a finished turn is over: the session may be completed."""
    UNCLEAR = "unclear"
    """A session has been idle for long, and it is not known whether its work is done."""
    REMINDER = "reminder"
    """An idle agent has not reported yet."""
    MISSING_REPORT = "missing_report"
    """An idle agent has not reported after its last reminder."""


class Ending(StrEnum):
    """The meaning of the final message of a turn for the session's task."""

    DONE = "done"
    """The agent says that it has finished the task, and needs nothing more."""
    QUESTION = "question"
    """The agent needs an answer or a decision."""
    PROGRESS = "progress"
    """The agent reports on unfinished work, or waits for work of others."""
    FAILED = "failed"
    """The agent, or the service behind it, says that the work failed."""
    BLOCKED = "blocked"
    """The agent cannot continue until somebody removes an obstacle."""
    UNCLEAR = "unclear"
    """The message does not say enough."""


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """Facts of the turn, from hooks and the transcript. The defaults mean that nothing is known."""

    tools_used: int = 0
    errors: int = 0
    """Uses of tools that ended with an error or were refused."""
    last_tool_failed: bool = False
    open_tasks: int = 0
    """Entries of the agent's list of tasks that are not completed."""
    pending_question: bool = False
    live_children: int = 0
    background: int = 0
    """Background tasks and shells that still run."""
    interrupted: bool = False
    failure: str | None = None
    """The kind of error that the provider reported for the turn, such as `rate_limit`."""


@dataclass(frozen=True, slots=True)
class Classification:
    """An ending, the rule that decided, and the words of the message that the rule rests on."""

    ending: Ending
    rule: str
    """A stable identifier, such as `done-statement`."""
    quote: str
    """At most 120 characters of the message, on one line of it. Empty if the rule rests on facts."""
    later: "Classification | None" = None
    """The ending without the facts that can change before the next turn: children, background tasks, open tasks and
    requests, or None if the classification does not rest on them."""

    @property
    def settled(self) -> "Classification":
        """The ending when no work of others is left."""
        return self.later or self


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A turn that the agent finished: it was not interrupted and did not fail."""

    classification: Classification
    summary: str
    """The first paragraph of the final message, on one line."""
    background: int = 0
    """Background tasks and shells that still run."""

    @property
    def ending(self) -> Ending:
        return self.classification.ending


@dataclass(frozen=True, slots=True)
class Wait:
    """A timer to set, in seconds from now."""

    kind: CompletionTimer
    seconds: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TurnFollowUp(FollowUp):
    """The actions of sm after a finished turn, as long as nothing new happens."""

    waits: tuple[Wait, ...] = ()
    question: str | None = None
    """The question that the final message asks, for a request."""
    reason: str | None = None
    """The reason of the idle status: the agent failed or is blocked, in its words."""
