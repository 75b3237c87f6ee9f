"""The end of a turn: its facts, and what its final message says. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from sm.core.timers import TimerKind

QUOTE_MAX = 120
"""Characters of a message that a classification quotes."""


FINAL_MESSAGE_MAX = 50_000
"""Characters of a final message that are read. A longer message is cut in its middle."""


def cut_message(message: str) -> str:
    """`message` without its middle if it is too long: both ends say what the agent did, and what it needs."""
    half = FINAL_MESSAGE_MAX // 2
    return message if len(message) <= FINAL_MESSAGE_MAX else f"{message[:half]}\n…\n{message[-half + 3 :]}"


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
class TurnWork:
    """The work of an agent in its current turn so far, by its hooks or by its transcript. Sub-agents do not count."""

    task: str = field(default="", repr=False)
    """The task of the turn's prompt, or of an earlier one, shortened; empty: unknown."""
    added_task: str = field(default="", repr=False)
    """The task of the last message that reached the agent within the turn."""
    tools_used: int = 0
    errors: int = 0
    """Uses of tools that ended with an error or were refused."""
    last_tool_failed: bool | None = None
    """None: no use of a tool has ended."""
    whole: bool = False
    """The turn was seen from its beginning on."""

    def begin(self, task: str | None) -> Self:
        """The work of a new turn. `task`: None for a prompt that gives no task: the one before stays."""
        return replace(
            self,
            task=task or self.last_task,
            added_task="",
            tools_used=0,
            errors=0,
            last_tool_failed=None,
            whole=True,
        )

    @property
    def last_task(self) -> str:
        return self.added_task or self.task

    def add_task(self, task: str | None) -> Self:
        """The turn goes on with another task, if the text gives one."""
        return self if task is None else replace(self, added_task=task)

    def start_tool(self) -> Self:
        return replace(self, tools_used=self.tools_used + 1)

    def end_tool(self, *, failed: bool) -> Self:
        return replace(self, errors=self.errors + failed, last_tool_failed=failed)

    def completed_by(self, other: Self) -> Self:
        """This work, as the hooks told it, with what the transcript (`other`) knows of the same turn.

        Hooks do not report messages that reach the agent within a turn, and miss the turns of another daemon.
        """
        if self.whole and self.task:
            return replace(self, added_task=other.added_task if other.task == self.task else "")
        if self.whole:
            return replace(self, task=other.task, added_task=other.added_task)
        failed = other.last_tool_failed if self.last_tool_failed is None else self.last_tool_failed
        return replace(
            other,
            tools_used=max(self.tools_used, other.tools_used),
            errors=max(self.errors, other.errors),
            last_tool_failed=failed,
        )


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
    requests. None: the classification does not rest on them."""

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

    kind: TimerKind
    seconds: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The actions of sm after a finished turn, as long as nothing new happens."""

    waits: tuple[Wait, ...] = ()
    question: str | None = None
    """The question that the final message asks, for a request."""
    reason: str | None = None
    """The reason of the idle status: the agent failed or is blocked, in its words."""
    is_reported: bool = False
    """Another report takes the place of the notice that the session is idle."""


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A finished turn, and what follows (None: nothing)."""

    ended_at: str
    """ISO 8601, UTC."""
    follow_up: FollowUp | None
