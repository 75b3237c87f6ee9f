"""Requests of sessions for a permission, an answer or a completion. Pure data."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.states import RequestKind, RequestState
from sm.wire import encode

_DIGEST_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Question:
    question: str
    options: tuple[str, ...] = ()
    multiple: bool = False
    """Allows several options."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision on a request: `approved` for permissions and completions, `answers` for questions."""

    approved: bool
    answers: tuple[str, ...] = ()
    """One for each question. Several chosen options are joined by `, `. The chosen one of `Request.decisions`."""
    message: str | None = None


BY_RULE = "rule"
"""`answered_by` of a request decided by the configuration (`auto_allow`, `auto_deny`)."""

BY_TERMINAL = "terminal"
"""`answered_by` of a request that a person answered in the agent's own dialog."""


class RequestOrigin(StrEnum):
    """The way on which a session asked."""

    SESSION = "session"
    """The session itself, with a command or a tool of sm."""
    HOOK = "hook"
    LINK = "link"


_LINK_KEY = "link\x1f"
"""Begins the key of a request on a link. No hook can send it: the key of a hook is printable."""


def link_key(*parts: str) -> str:
    """The key of a request on a link, which these parts tell from all others."""
    return _LINK_KEY + "\x1f".join(parts)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that a session waits for. People see the id as `r57`."""

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
    """The reason why the request ended without an answer."""
    taken_at: str | None = None
    """The time at which the session that asked got its answer. With a hook: at which the agent's report of the tool
    use confirmed the answer, or no such report can come any more.
    """
    hook: str | None = None
    """Key of the agent's hook or link that waits for the answer while a dialog is open, or None if neither waits.

    Such a request stays `open` until the hook has taken the answer, or the link says whose answer decided. Until then,
    `answer` and `answered_by` are a proposed answer.
    """
    tool_use: str | None = None
    """The agent CLI's id of the tool use."""
    agent: str = ""
    """Id of the sub-agent that asks, or empty for the agent itself."""
    cut: bool = False
    """`arguments` were too long: their texts are truncated."""
    evidence: str | None = None
    """`completion` if sm found the question in the last words of a turn, None if the session asked."""

    @property
    def name(self) -> str:
        return f"r{self.id}"

    @property
    def origin(self) -> RequestOrigin:
        if self.hook is None:
            return RequestOrigin.SESSION
        return RequestOrigin.LINK if self.hook.startswith(_LINK_KEY) else RequestOrigin.HOOK

    @property
    def decisions(self) -> tuple[str, ...]:
        """The names of the decisions that a permission on a link offers, beside yes and no."""
        is_link = self.kind is RequestKind.PERMISSION and self.origin is RequestOrigin.LINK
        return self.questions[0].options if is_link and self.questions else ()

    @property
    def has_proposed_answer(self) -> bool:
        """Has an answer that the waiting hook or link has not taken yet."""
        return self.open and self.answer is not None

    @property
    def text(self) -> str:
        """The text of the questions, or of a proposed completion."""
        return " / ".join(question.question for question in self.questions)

    @property
    def digest(self) -> str:
        """Of everything that a person decides on: equal texts of the agent have equal digests."""
        questions = [[q.question, list(q.options), q.multiple] for q in self.questions]
        decided = [self.id, str(self.kind), self.tool, self.arguments, questions, self.agent, self.cut]
        text = encode(decided).encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).hexdigest()[:_DIGEST_LENGTH]

    @property
    def open(self) -> bool:
        return self.state is RequestState.OPEN

    @property
    def unclaimed(self) -> bool:
        """Answered without a hook, but the session has not taken the answer."""
        return self.hook is None and self.state is RequestState.ANSWERED and self.taken_at is None

    @property
    def unconfirmed(self) -> bool:
        """The hook took the answer, but the agent has not shown yet that the answer decided."""
        return self.hook is not None and self.state is RequestState.ANSWERED and self.taken_at is None

    @property
    def confirmed(self) -> bool:
        return self.state is RequestState.ANSWERED and not self.unconfirmed
