"""The wait of a first turn for the tools of sm, and the sentence about a first request without them."""

import pytest

from sm.monitor.own_tools import (
    ABSENT_AFTER_S,
    LIMIT_S,
    SETTLES_S,
    SLOW_LIMIT_S,
    SLOW_START_S,
    OwnTools,
    missing_tools,
)

START_S = 1000.0
SETTLE_S, LONGEST_SETTLE_S = SETTLES_S


def tools(*, prompt_s: float, began_s: float | None = None, read_s: float | None = None) -> OwnTools:
    """The tools of an agent. Times are seconds after its start."""
    found = OwnTools(START_S)
    if began_s is not None:
        found.begin(START_S + began_s)
    if read_s is not None:
        found.read(START_S + read_s)
    found.submit(START_S + prompt_s)
    return found


@pytest.mark.parametrize(
    ("known", "waits_s"),
    [
        (tools(prompt_s=1.0), 1.0 + LIMIT_S),
        (tools(prompt_s=1.0, began_s=0.9), 0.9 + LIMIT_S),
        (tools(prompt_s=1.0, began_s=1.4), 1.4 + LIMIT_S),
        (tools(prompt_s=SLOW_START_S + 0.1), SLOW_START_S + 0.1 + SLOW_LIMIT_S),
        (tools(prompt_s=1.0, began_s=SLOW_START_S + 0.1), SLOW_START_S + 0.1 + SLOW_LIMIT_S),
        (tools(prompt_s=1.0, began_s=0.9, read_s=1.2), 1.2 + SETTLE_S),
        (tools(prompt_s=60.0, began_s=0.9, read_s=1.2), 1.2 + SETTLE_S),
        (tools(prompt_s=1.0, began_s=2.0, read_s=2.2), 2.2 + 0.5),
        (tools(prompt_s=1.0, began_s=20.0, read_s=21.0), 21.0 + LONGEST_SETTLE_S),
        (tools(prompt_s=60.0, began_s=0.9), 0.9 + LIMIT_S),
        (tools(prompt_s=ABSENT_AFTER_S + 0.1), ABSENT_AFTER_S + 0.1),
    ],
)
def test_first_turn_waits_until_the_tools_are_read_or_the_limit_is_over(
    known: OwnTools, waits_s: float
) -> None:
    assert known.release_s() == pytest.approx(START_S + waits_s)


def test_first_message_of_the_server_counts_when_it_sends_more() -> None:
    found = tools(prompt_s=1.0, began_s=0.9)
    changes = found.changes
    found.begin(START_S + 1.1)
    assert (found.began_s, found.changes) == (START_S + 0.9, changes)


def test_only_the_first_turn_is_released() -> None:
    found = tools(prompt_s=1.0)
    found.release(START_S + 3.0)
    found.submit(START_S + 50.0)
    found.release(START_S + 60.0)
    assert (found.prompt_s, found.released_s) == (START_S + 1.0, START_S + 3.0)


def test_facts_of_an_earlier_daemon_end_the_wait() -> None:
    before = tools(prompt_s=1.0, began_s=0.9, read_s=1.2)
    after = OwnTools(START_S + 1.3)
    after.load(before.facts())
    after.submit(START_S + 1.4)
    assert after.release_s() == pytest.approx(START_S + 1.2 + SETTLE_S)
    before.release(START_S + 1.3)
    after.load(before.facts())
    assert after.is_over


def test_request_without_tools_is_known() -> None:
    found = tools(prompt_s=1.0, began_s=0.9)
    assert missing_tools(found.facts()) is None, "the turn still waits"
    found.release(START_S + 2.9)
    said = "its first request had no tools of sm: sm mcp had not listed them after 1.9 s"
    assert missing_tools(found.facts()) == f"{said}, and has not listed them since"
    found.read(START_S + 4.0)
    assert missing_tools(found.facts()) == f"{said}, but after 3.0 s: later requests have them"


def test_request_with_tools_is_not_mentioned() -> None:
    found = tools(prompt_s=1.0, began_s=0.9, read_s=1.2)
    found.release(START_S + 1.3)
    assert missing_tools(found.facts()) is None
    assert missing_tools(OwnTools(START_S).facts()) is None
