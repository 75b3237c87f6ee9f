"""Decides what keeps an idle session waiting: its own unfinished work, and a person at its terminal. Pure."""

from sm.core.dataclass import dataclass

_TYPED_WITHIN_S = 60.0
"""A person who typed in the last minute is at work in the terminal."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Work for which a session waits, or that it has not finished, while its agent is idle."""

    children: int = 0
    messages: int = 0
    """Messages and notices to the session that are not delivered."""
    requests: tuple[str, ...] = ()
    """Names of its open requests."""
    background: int = 0
    open_tasks: int = 0


@dataclass(frozen=True, slots=True)
class TerminalUse:
    """How a person uses the terminal of a session."""

    draft: bool = False
    """The input box holds text."""
    stashed: bool = False
    """A draft was put aside, and the input box is empty."""
    closed: str | None = None
    """The reason why the input box takes no text."""
    typed_s: float = float("inf")
    """Seconds since a person pressed a key."""


def reason_to_wait(left: Unfinished) -> str | None:
    """The reason why an idle session is not finished, or None if there is none."""
    if left.children:
        return f"waiting for {left.children} {'child' if left.children == 1 else 'children'}"
    if left.messages:
        return f"waiting for {_count(left.messages, 'message')}"
    if left.requests:
        return f"waiting for {', '.join(left.requests)}"
    if left.background:
        return f"waiting for {_count(left.background, 'background task')}"
    if left.open_tasks:
        return f"waiting for {_count(left.open_tasks, 'open task')} of its list"
    return None


def reason_of_person(use: TerminalUse) -> str | None:
    """The reason why a person at the terminal keeps a session from being completed, or None if there is none."""
    if use.closed is not None:
        return f"its input box takes no text: {use.closed}"
    if use.draft:
        return "a draft is in its input box"
    if use.stashed:
        return "a draft was put aside; it comes back into the input box with the next message"
    return "a person types in its terminal" if use.typed_s < _TYPED_WITHIN_S else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
