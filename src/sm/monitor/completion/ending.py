"""The kinds of final messages, the facts of a turn, and the result of the classifier. Pure data."""

from dataclasses import dataclass
from enum import StrEnum

QUOTE_MAX = 120
"""Characters of a message that a classification quotes."""


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
    """Uses of tools that ended with an error."""
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
