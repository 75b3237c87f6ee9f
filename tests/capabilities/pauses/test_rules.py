"""The decisions about paused sessions: an order is taken for done only when its effect was seen."""

from dataclasses import replace

import pytest

from sm.capabilities.pauses.rules import (
    FORCE_AFTER_S,
    PRESS_AGAIN_S,
    PRESSES_MAX,
    QUIET_S,
    TELL_AFTER_S,
    PauseStep,
    Seen,
    after_look,
)
from sm.core.pause_states import Held, PauseState, spending_words
from sm.core.pauses import Pause
from sm.core.timestamps import later

AT = "2026-11-28T12:00:00.000Z"
ORDERED = Pause(AT, "operator", "lunch", presses=1, cut_off=True)
BUSY, IDLE, UNKNOWN = Seen(works=True, agents=3), Seen(works=False), Seen(works=None)


def after(seconds: float) -> str:
    return later(AT, seconds)


def test_order_is_no_effect() -> None:
    assert ORDERED.state is PauseState.PAUSING
    for seconds in (0, 1, 100, 100_000):
        _, pause = after_look(ORDERED, BUSY, after(seconds))
        assert pause.state is PauseState.PAUSING
        assert pause.spends == ("3 background agents",)


def test_agent_that_works_on_is_interrupted_a_few_times_and_then_stopped_without_its_help() -> None:
    pause, steps = ORDERED, []
    for half_seconds in range(1, 20):
        step, pause = after_look(pause, BUSY, after(half_seconds / 2))
        if step is PauseStep.PRESS:
            pause = replace(pause, presses=pause.presses + 1)
        steps.append((half_seconds / 2, step))
    presses = [at for at, step in steps if step is PauseStep.PRESS]
    assert presses == [PRESS_AGAIN_S * n for n in range(1, PRESSES_MAX)]
    assert min(at for at, step in steps if step is PauseStep.FORCE) == FORCE_AFTER_S


def test_agent_that_was_told_to_stop_has_stopped_after_it_was_quiet() -> None:
    _, pause = after_look(ORDERED, IDLE, after(1))
    _, still = after_look(pause, IDLE, after(1 + QUIET_S - 0.1))
    assert (still.state, still.spends) == (PauseState.PAUSING, ())
    _, quiet = after_look(pause, IDLE, after(1 + QUIET_S))
    assert (quiet.state, quiet.held, quiet.settled_at) == (PauseState.PAUSED, Held.TOLD, after(1 + QUIET_S))


def test_usage_begins_the_quiet_time_anew() -> None:
    _, pause = after_look(ORDERED, IDLE, after(1))
    spent = replace(pause, used_at=after(4))
    assert after_look(spent, IDLE, after(4 + QUIET_S - 0.1))[1].state is PauseState.PAUSING
    assert after_look(spent, IDLE, after(4 + QUIET_S))[1].state is PauseState.PAUSED


def test_usage_that_goes_on_is_stopped_although_the_agent_reports_that_nothing_runs() -> None:
    pause = replace(ORDERED, quiet_since=AT, used_at=after(FORCE_AFTER_S))
    assert after_look(pause, IDLE, after(FORCE_AFTER_S + 1))[0] is PauseStep.FORCE


def test_agent_that_nobody_had_to_stop_is_paused_at_once_only_by_its_own_report() -> None:
    pause = Pause(AT, "operator", "lunch")
    assert after_look(pause, IDLE, AT)[1].state is PauseState.PAUSED
    step, unknown = after_look(pause, UNKNOWN, AT)
    assert (step, unknown.state) == (PauseStep.WAIT, PauseState.PAUSING)
    assert after_look(unknown, UNKNOWN, after(QUIET_S))[1].state is PauseState.PAUSED


@pytest.mark.parametrize(
    ("seen", "held"),
    [
        (Seen(works=True, frozen=True), Held.FROZEN),
        (Seen(works=False, has_process=False), Held.ENDED),
        (Seen(works=False, still=True, tells=False), Held.TOLD),
    ],
)
def test_what_cannot_spend_is_paused_at_once(seen: Seen, held: Held) -> None:
    _, pause = after_look(ORDERED, seen, after(1))
    assert (pause.state, pause.held, pause.spends) == (PauseState.PAUSED, held, ())
    assert after_look(pause, seen, after(60))[1] == pause


def test_session_that_somebody_has_thawed_is_stopped_anew() -> None:
    _, frozen = after_look(ORDERED, Seen(works=False, frozen=True), after(1))
    step, pause = after_look(frozen, BUSY, after(100))
    assert (step, pause.state, pause.ordered_at) == (PauseStep.PRESS, PauseState.PAUSING, after(100))


def test_soft_pause_neither_interrupts_nor_ends_anything() -> None:
    soft = Pause(AT, "operator", "lunch", soft=True)
    step, pause = after_look(soft, Seen(works=True), after(1000))
    assert (step, pause.state, pause.spends) == (PauseStep.WAIT, PauseState.PAUSING, ("its turn",))
    assert not Seen(works=True).goes_on_after(pause, after(1000))
    assert after_look(pause, IDLE, after(1001))[1].state is PauseState.PAUSED


def test_long_spending_after_the_order_is_told() -> None:
    assert not BUSY.goes_on_after(ORDERED, after(TELL_AFTER_S - 1))
    assert BUSY.goes_on_after(ORDERED, after(TELL_AFTER_S))
    assert not IDLE.goes_on_after(ORDERED, after(TELL_AFTER_S))
    assert IDLE.goes_on_after(replace(ORDERED, used_at=after(TELL_AFTER_S - 1)), after(TELL_AFTER_S))


def test_unreadable_times_keep_the_pause_without_an_effect() -> None:
    pause = Pause("", "sm", "unknown", quiet_since="soon")
    assert after_look(pause, BUSY, AT)[1].state is PauseState.PAUSING


@pytest.mark.parametrize(
    ("spends", "words"),
    [
        ((), "it may still spend"),
        (("its turn",), "its turn still spends"),
        (("1 background agent",), "1 background agent still spends"),
        (("3 background agents",), "3 background agents still spend"),
        (("its turn", "background work"), "its turn and background work still spend"),
    ],
)
def test_words_for_what_still_spends(spends: tuple[str, ...], words: str) -> None:
    assert spending_words(spends) == words
