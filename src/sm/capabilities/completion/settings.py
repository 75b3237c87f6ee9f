"""The section `child_agents.auto_complete`: how sm detects that a session has completed."""

from typing import Annotated

from pydantic import AfterValidator, Field

from sm.capabilities.completion.patterns import CompletionPattern
from sm.section import Section, without_nul

PATTERNS_MAX = 50


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > PATTERNS_MAX:
        raise ValueError(f"must not contain more than {PATTERNS_MAX} patterns")
    return value


def _pattern(value: str) -> str:
    CompletionPattern(without_nul(value))
    return value


CompletionPatterns = Annotated[
    tuple[Annotated[str, AfterValidator(_pattern)], ...], AfterValidator(_patterns)
]


class AutoComplete(Section):
    """How sm finds out that an agent with turns, such as claude, has finished its work (docs/lifecycle.md)."""

    enabled: bool = True
    """Detect that a session has completed, asks a question or cannot go on. If false, only `sm complete` ends a
    session."""
    detect_completion_phrases: bool = True
    """Read the last message of a turn. If false, only `sm complete` ends a session, with the reports of idle_timeout
    and remind_after_s."""
    completion_patterns: CompletionPatterns = ()
    """Regular expressions that mean that the work is done, without regard to case. A match outweighs doubt about
    the message, but neither a failure, unfinished work nor a question. It counts only after a turn that used tools and
    whose last use of a tool succeeded."""
    completion_quiet_s: float = Field(default=10, ge=0, le=86_400, allow_inf_nan=False)
    """Seconds without anything new, after a turn that says that the work is done, until the session is completed."""
    idle_timeout: int = Field(default=600, ge=1, le=604_800)
    """Seconds until a session that is idle, and not known to be done, is reported to its parent and to you."""
    remind_after_s: tuple[Annotated[int, Field(ge=1, le=604_800)], ...] = Field(default=(), max_length=2)
    """Seconds after which an idle agent that has not reported gets a reminder, at most two. Each one costs a turn.
    Example: [180, 900]"""
    require_parent_approval: bool = False
    """Ask for approval (`sm approve`) when sm detects that a session has completed, also in mode auto."""


class CompletionKeys(Section):
    """The keys that completion adds to `child_agents`."""

    auto_complete: AutoComplete = AutoComplete()
    """How sm detects that a session has completed."""


CHILD_AGENTS = CompletionKeys
