"""Requests: what a session waits for, and how it was decided. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sm.core.states import RequestKind, RequestState


@dataclass(frozen=True, slots=True)
class Question:
    question: str
    options: tuple[str, ...] = ()
    multiple: bool = False
    """Several of the options may be chosen."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided on a request: `approved` for permissions and completions, `answers` for questions."""

    approved: bool
    answers: tuple[str, ...] = ()
    """One for each question; of several chosen options their words, joined by `, `."""
    message: str | None = None


BY_RULE = "rule"
"""Who answered a request that the configuration has decided (`auto_allow`, `auto_deny`)."""


BY_TERMINAL = "terminal"
"""Who answered one in the dialog itself: whoever sat there."""


@dataclass(frozen=True, slots=True)
class Request:
    """Something a session waits for. `r57` to people."""

    id: int
    session_id: str
    kind: RequestKind
    state: RequestState
    created_at: str
    state_at: str
    expires_at: str | None = None
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    questions: tuple[Question, ...] = ()
    answer: Answer | None = None
    answered_by: str | None = None
    reason: str | None = None
    """Why it ended without an answer."""
    taken_at: str | None = None
    """When the session that asked got its answer."""
    hook: str | None = None
    """The key of the agent's own hook that waits for the answer while its dialog is open; None: nothing like it.

    Such a request is `open` until that hook has taken the answer; before, `answer` and `answered_by` are an offer.
    """
    tool_use: str | None = None
    """The agent CLI's own id of the use of the tool that it asks about."""
    agent: str = ""
    """The sub-agent that asks; empty: the agent itself."""
    cut: bool = False
    """`arguments` are too long to be kept: their texts are cut."""

    @property
    def name(self) -> str:
        return f"r{self.id}"

    @property
    def has_proposed_answer(self) -> bool:
        """It has an answer, which the hook that waits for it has not taken yet."""
        return self.open and self.answer is not None

    @property
    def words(self) -> str:
        """What is asked, or what a session proposes to complete with."""
        return " / ".join(question.question for question in self.questions)

    @property
    def open(self) -> bool:
        return self.state is RequestState.OPEN

    @property
    def unclaimed(self) -> bool:
        """Answered, and the session that asked has not taken the answer."""
        return self.state is RequestState.ANSWERED and self.taken_at is None
