"""Decides what follows a finished turn: completion, a question, reports, reminders. Pure."""

from sm.capabilities.completion.model import (
    Classification,
    CompletionTimer,
    Ending,
    TurnEnd,
    TurnFollowUp,
    Wait,
)
from sm.capabilities.completion.settings import AutoComplete
from sm.core.states import Mode
from sm.core.text import quoted

_NOT_READ = Classification(Ending.UNCLEAR, "not-read", "")


def after_turn(
    mode: Mode, settings: AutoComplete, turn: TurnEnd, reminders: int, *, warns: bool = True
) -> TurnFollowUp | None:
    """Decide what follows `turn` if nothing new happens.

    `reminders`: the number of those sent to this run. `warns`: `warnings.report_missing` is not off.
    """
    if mode not in (Mode.AUTO, Mode.SUPERVISED) or not settings.enabled:
        return None
    if not settings.detect_completion_phrases:
        turn = unread(turn)
    # What is left only delays the completion: it may end without another turn.
    said = turn.classification.settled
    words = quoted(said.quote, 120) if said.quote else ""
    match said.ending:
        case Ending.DONE:
            data = {
                "rule": said.rule,
                "quote": said.quote,
                "summary": turn.summary,
                "background": turn.background,
            }
            quiet = Wait(CompletionTimer.COMPLETION, settings.completion_quiet_s, data)
            return TurnFollowUp(waits=(quiet,), is_reported=True)
        case Ending.QUESTION:
            return TurnFollowUp(question=said.quote or turn.summary, is_reported=True)
        case Ending.FAILED | Ending.BLOCKED:
            waits = _reminder(settings, reminders, turn, warns=warns)
            return TurnFollowUp(waits=waits, reason=f"{said.ending}: {words or said.rule}")
        case Ending.PROGRESS | Ending.UNCLEAR:
            waits = _reminder(settings, reminders, turn, warns=warns)
            if any(wait.kind == CompletionTimer.MISSING_REPORT for wait in waits):
                return TurnFollowUp(waits=waits)  # it reports the same
            unclear = Wait(
                CompletionTimer.UNCLEAR,
                settings.idle_timeout,
                {"background": turn.background, "summary": turn.summary},
            )
            return TurnFollowUp(waits=(unclear, *waits))


def unread(turn: TurnEnd) -> TurnEnd:
    """The turn as if nobody had read its final message."""
    return TurnEnd(_NOT_READ, "", turn.background)


def _reminder(settings: AutoComplete, sent: int, turn: TurnEnd, *, warns: bool) -> tuple[Wait, ...]:
    """The wait for the next reminder, and after the last one for the warning."""
    after_s = settings.remind_after_s
    if sent < len(after_s):
        found = {"number": sent + 1, "background": turn.background}
        return (Wait(CompletionTimer.REMINDER, float(after_s[sent]), found),)
    if not after_s or not warns:
        return ()
    data = {"reminders": sent, "background": turn.background}
    return (Wait(CompletionTimer.MISSING_REPORT, settings.completion_quiet_s, data),)


def needs_approval(mode: Mode, settings: AutoComplete) -> bool:
    """Return whether sm only proposes a detected completion, and the parent decides."""
    return mode is Mode.SUPERVISED or settings.require_parent_approval
