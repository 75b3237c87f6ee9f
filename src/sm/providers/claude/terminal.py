"""Turns the title and screen of claude's terminal into observations. Pure.

`screen` parses the drawing and `trouble` has the hints; this module maps both to activities.
"""

from collections.abc import Sequence

from sm.core.observation import Activity, Observation, Source
from sm.core.text import folded
from sm.providers.claude.screen import (
    Obstacle,
    State,
    find_start_dialog,
    read_output,
    read_screen,
    read_title,
)
from sm.providers.claude.trouble import explain
from sm.providers.readers import CONFIRM_KEY, SetupDialog, SetupQuestion, StartProblem

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
"""claude started and has an input box, but each turn fails until a person acts."""


class ClaudeScreenReader:
    def title(self, glyph: str, at: float) -> Observation | None:
        match read_title(f"{glyph} "):
            case State.WORKING:
                return Observation(Source.TITLE, Activity.BUSY, at, "the title shows a moving spinner")
            case State.IDLE:
                return Observation(
                    Source.TITLE, Activity.IDLE, at, "the title shows no spinner", doubtful=True
                )
            case _:
                return None

    def screen(self, lines: Sequence[str], at: float) -> Observation | None:
        content = read_screen(lines)
        if content.obstacle in _ANSWERS_NO_PROMPT and (why := explain(lines, working_dir="", exited=False)):
            reason = f"{why.message}; hint: {why.hint}"
            return Observation(Source.SCREEN, Activity.BLOCKED, at, folded(reason, 300))
        activity = _ACTIVITIES.get(content.state)
        if activity is None or _STOP_HOOK in content.what:  # the turn is over: claude waits for `sm hook`
            return None
        return Observation(Source.SCREEN, activity, at, folded(content.what, 200))

    def output(self, lines: Sequence[str]) -> Sequence[str]:
        return read_output(lines)

    def start_problem(self, lines: Sequence[str], working_dir: str) -> StartProblem | None:
        problem = explain(lines, working_dir=working_dir, exited=False)
        if (
            problem is None or problem.ended
        ):  # the exit of the process follows and is reported with the same text
            return None
        return StartProblem(folded(problem.message, 300), folded(problem.hint, 300))

    def limit_dialog(self, lines: Sequence[str]) -> bool:
        return read_screen(lines).usage_limit

    def setup_dialog(self, lines: Sequence[str], directory: str) -> SetupDialog | None:
        dialog = find_start_dialog(lines)
        if dialog is None:
            return None
        key = CONFIRM_KEY if dialog.steps == 0 else "Down" if dialog.steps > 0 else "Up"
        match dialog.obstacle:
            case Obstacle.TRUST:
                return SetupDialog(SetupQuestion.TRUST, f"Trust {directory} for Claude Code?", key)
            case Obstacle.BYPASS_WARNING:
                text = (
                    "Allow agents of Claude Code to bypass permissions and run every command without asking?"
                )
                return SetupDialog(SetupQuestion.BYPASS, text, key)
            case _:
                return None
