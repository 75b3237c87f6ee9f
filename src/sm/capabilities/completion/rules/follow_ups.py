"""Decides what follows a finished turn: completion, a question, reports, reminders. Pure."""

from dataclasses import dataclass

from sm.capabilities.completion.model import (
    Classification,
    CompletionTimer,
    Ending,
    TurnEnd,
    TurnFollowUp,
    Wait,
)
from sm.core.states import Mode
from sm.core.text import quoted

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


def after_turn(mode: Mode, rules: CompletionRules, turn: TurnEnd, reminders: int) -> TurnFollowUp | None:
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
            return TurnFollowUp(
                waits=(Wait(CompletionTimer.COMPLETION, rules.quiet_s, data),), is_reported=True
            )
        case Ending.QUESTION:
            return TurnFollowUp(question=said.quote or turn.summary, is_reported=True)
        case Ending.FAILED | Ending.BLOCKED:
            waits = _reminder(rules, reminders, turn)
            return TurnFollowUp(waits=waits, reason=f"{said.ending}: {words or said.rule}")
        case Ending.PROGRESS | Ending.UNCLEAR:
            waits = _reminder(rules, reminders, turn)
            if any(wait.kind == CompletionTimer.MISSING_REPORT for wait in waits):
                return TurnFollowUp(waits=waits)  # it reports the same
            unclear = Wait(
                CompletionTimer.UNCLEAR,
                rules.idle_timeout_s,
                {"background": turn.background, "summary": turn.summary},
            )
            return TurnFollowUp(waits=(unclear, *waits))


def _reminder(rules: CompletionRules, sent: int, turn: TurnEnd) -> tuple[Wait, ...]:
    """The wait for the next reminder, and after the last one for the warning."""
    after_s = rules.remind_after_s
    if sent < len(after_s):
        found = {"number": sent + 1, "background": turn.background}
        return (Wait(CompletionTimer.REMINDER, after_s[sent], found),)
    if not after_s or not rules.warns_of_missing_report:
        return ()
    data = {"reminders": sent, "background": turn.background}
    return (Wait(CompletionTimer.MISSING_REPORT, rules.quiet_s, data),)


def needs_approval(mode: Mode, rules: CompletionRules) -> bool:
    """Return whether sm only proposes a detected completion, and the parent decides."""
    return mode is Mode.SUPERVISED or rules.needs_approval
