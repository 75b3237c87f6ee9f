"""A turn of an agent: its work, and its end, also as it was reported before the status follows. Pure data."""

from dataclasses import field, replace
from typing import Self

from sm.core.dataclass import dataclass
from sm.core.observation import Observation

FROM_FINAL_MESSAGE = "completion"
"""The evidence of a request, and the source of a status, that rest on the final message of a turn."""
FINAL_MESSAGE_MAX = 50_000
"""Characters of a final message that are read. A longer message is cut in its middle."""


def cut_message(message: str) -> str:
    """`message` without its middle if it is too long: both ends say what the agent did, and what it needs."""
    half = FINAL_MESSAGE_MAX // 2
    return message if len(message) <= FINAL_MESSAGE_MAX else f"{message[:half]}\n…\n{message[-half + 3 :]}"


@dataclass(frozen=True, slots=True)
class TurnWork:
    """The work of an agent in its current turn so far, by its hooks or by its transcript. Sub-agents do not count."""

    task: str = field(default="", repr=False)
    """The task of the turn's prompt, or of an earlier one, shortened, or empty if unknown."""
    added_task: str = field(default="", repr=False)
    """The task of the last message that reached the agent within the turn."""
    tools_used: int = 0
    errors: int = 0
    """Uses of tools that ended with an error or were refused."""
    last_tool_failed: bool | None = None
    """None if no use of a tool has ended."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """The acts of a capability after a finished turn, as long as nothing new happens."""

    is_reported: bool = False
    """Another report takes the place of the notice that the session is idle."""


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A finished turn, and what follows (None for nothing)."""

    ended_at: str
    """ISO 8601, UTC."""
    follow_up: FollowUp | None


@dataclass(frozen=True, slots=True)
class ReportedEnd:
    """The end of a turn that was reported in the `runs`-th run of the session (`Session.runs`)."""

    session_id: str
    runs: int
    observation: Observation
    work: TurnWork
    """In the turn, by its hooks."""
