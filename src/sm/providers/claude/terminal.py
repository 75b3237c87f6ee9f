"""Reads the title and the screen of a claude's terminal as observations. Pure.

`screen` knows how claude draws, `trouble` what to do about an obstacle; this module says what both mean for a status.
"""

from collections.abc import Sequence

from sm.core.observation import Activity, Observation, Source
from sm.core.text import folded
from sm.providers.claude.screen import Obstacle, State, read_screen, read_title
from sm.providers.claude.trouble import explain
from sm.providers.readers import StartProblem

_STOP_HOOK = "running stop hook"
_ACTIVITIES = {
    State.IDLE: Activity.IDLE,
    State.WORKING: Activity.BUSY,
    State.PERMISSION: Activity.BLOCKED,
    State.QUESTION: Activity.BLOCKED,
    State.DIALOG: Activity.BLOCKED,
    State.BLOCKED: Activity.BLOCKED,
}
_ANSWERS_NO_PROMPT = frozenset({Obstacle.LOGIN, Obstacle.BAD_MODEL})
"""claude has started, has an input box and fails each turn until a person acts."""


class ClaudeScreenReader:
    """`ScreenReader` for claude."""

    def title(self, glyph: str, at: float) -> Observation | None:
        match read_title(f"{glyph} "):
            case State.WORKING:
                return Observation(Source.TITLE, Activity.BUSY, at, "its title turns")
            case State.IDLE:
                return Observation(Source.TITLE, Activity.IDLE, at, "its title stands", doubtful=True)
            case _:
                return None

    def screen(self, lines: Sequence[str], at: float) -> Observation | None:
        seen = read_screen(lines)
        if seen.obstacle in _ANSWERS_NO_PROMPT and (why := explain(lines, working_dir="", exited=False)):
            reason = f"{why.message}; hint: {why.hint}"
            return Observation(Source.SCREEN, Activity.BLOCKED, at, folded(reason, 300))
        activity = _ACTIVITIES.get(seen.state)
        if activity is None or _STOP_HOOK in seen.what:  # the turn is over: claude waits for `sm hook`
            return None
        return Observation(Source.SCREEN, activity, at, folded(seen.what, 200))

    def start_problem(self, lines: Sequence[str], working_dir: str) -> StartProblem | None:
        found = explain(lines, working_dir=working_dir, exited=False)
        if found is None or found.ended:  # its end follows at once and is reported with the same words
            return None
        return StartProblem(folded(found.message, 300), folded(found.hint, 300))
