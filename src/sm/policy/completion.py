"""Decides what follows a finished turn: completion, a question, reports, reminders. Pure."""

from dataclasses import dataclass

from sm.core.states import Mode
from sm.core.text import quoted
from sm.core.timers import TimerKind
from sm.core.turns import Classification, Ending, FollowUp, TurnEnd, Wait

_TYPED_WITHIN_S = 60.0
"""A person who typed in the last minute is at work in the terminal."""
_NOT_READ = Classification(Ending.UNCLEAR, "not-read", "")


@dataclass(frozen=True, slots=True)
class CompletionRules:
    """The settings of `child_agents.auto_complete`."""

    enabled: bool = True
    reads_messages: bool = True
    quiet_s: float = 10.0
    idle_timeout_s: float = 600.0
    remind_after_s: tuple[float, ...] = ()
    warns_of_missing_report: bool = True
    """`warnings.report_missing` is not off."""
    needs_approval: bool = False


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


def after_turn(mode: Mode, rules: CompletionRules, turn: TurnEnd, reminders: int) -> FollowUp | None:
    """Decide what follows `turn` if nothing new happens. `reminders`: the number of those sent to this run."""
    if mode not in (Mode.AUTO, Mode.SUPERVISED) or not rules.enabled:
        return None
    if not rules.reads_messages:
        turn = TurnEnd(_NOT_READ, "", turn.background)
    said = (
        turn.classification.settled
    )  # what is left only delays the completion: it may end without another turn
    words = quoted(said.quote, 120) if said.quote else ""
    match said.ending:
        case Ending.DONE:
            data = {
                "rule": said.rule,
                "quote": said.quote,
                "summary": turn.summary,
                "background": turn.background,
            }
            return FollowUp(waits=(Wait(TimerKind.COMPLETION, rules.quiet_s, data),), is_reported=True)
        case Ending.QUESTION:
            return FollowUp(question=said.quote or turn.summary, is_reported=True)
        case Ending.FAILED | Ending.BLOCKED:
            waits = _reminder(rules, reminders, turn)
            return FollowUp(waits=waits, reason=f"{said.ending}: {words or said.rule}")
        case Ending.PROGRESS | Ending.UNCLEAR:
            waits = _reminder(rules, reminders, turn)
            if any(wait.kind == TimerKind.MISSING_REPORT for wait in waits):
                return FollowUp(waits=waits)  # it reports the same
            unclear = Wait(
                TimerKind.UNCLEAR,
                rules.idle_timeout_s,
                {"background": turn.background, "summary": turn.summary},
            )
            return FollowUp(waits=(unclear, *waits))


def _reminder(rules: CompletionRules, sent: int, turn: TurnEnd) -> tuple[Wait, ...]:
    """The wait for the next reminder, and after the last one for the warning."""
    after_s = rules.remind_after_s
    if sent < len(after_s):
        found = {"number": sent + 1, "background": turn.background}
        return (Wait(TimerKind.REMINDER, after_s[sent], found),)
    if not after_s or not rules.warns_of_missing_report:
        return ()
    data = {"reminders": sent, "background": turn.background}
    return (Wait(TimerKind.MISSING_REPORT, rules.quiet_s, data),)


def needs_approval(mode: Mode, rules: CompletionRules) -> bool:
    """Return whether sm only proposes a detected completion, and the parent decides."""
    return mode is Mode.SUPERVISED or rules.needs_approval


def reason_to_wait(left: Unfinished) -> str | None:
    """The reason why an idle session is not finished; None: there is none."""
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
    """The reason why a person at the terminal keeps a session from being completed; None: there is none."""
    if use.closed is not None:
        return f"its input box takes no text: {use.closed}"
    if use.draft:
        return "a draft is in its input box"
    if use.stashed:
        return "a draft was put aside; it comes back into the input box with the next message"
    return "a person types in its terminal" if use.typed_s < _TYPED_WITHIN_S else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
