"""The text of a progress card, and the decision to change it."""

from dataclasses import replace

import pytest

from sm.core.effects import EffectState
from sm.core.models import Checkpoint, Session
from sm.core.pause_states import Held
from sm.core.pauses import Pause
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.core.telegram_model import BotMethod, Need, NewCall, TelegramChange
from sm.core.telegram_threads import ProgressCard
from sm.core.usage import SessionUsage, TokenCounts, ToolUse
from sm.telegram.progress_card import card_change, elapsed, is_due, progress_text
from tests.samples import AT, session

WORKING = replace(session("aaaa1111", status=Status.RUNNING), friendly_name="engineer-login", started_at=AT)
NOTHING = SessionUsage()
USED = SessionUsage(TokenCounts(input=45_000, output=120), 1.234, 38, ToolUse("t1", "Bash", AT))
LATER = "2026-01-27T15:22:30.000Z"
CARD = ProgressCard("aaaa1111", 7, message_id=501, shown="old")
UNSENT = replace(CARD, message_id=None)
FORUM = -1_001_000_000_001


def test_card_shows_every_measurement() -> None:
    working = replace(WORKING, note="Fixing <b>it</b>\nnow")
    children = [
        session("b", status=Status.RUNNING),
        session("c", status=Status.KILLED),
        session("d", status=Status.RUNNING),
    ]
    checkpoint = Checkpoint(LATER, "tests pass (3/5 tasks)", {})
    assert progress_text(working, USED, "runs the tests", checkpoint, children, LATER) == (
        "<b>engineer-login</b> (aaaa1111): running\n"
        "12 min · 45,120 tokens · $1.23 · context 38%\n"
        "note: Fixing &lt;b&gt;it&lt;/b&gt; now\n"
        "activity: runs the tests\n"
        "last tool: Bash\n"
        "checkpoint: tests pass (3/5 tasks)\n"
        "children: 2 running, 1 killed"
    )


def test_card_says_paused_only_when_nothing_spends() -> None:
    pausing = replace(WORKING, paused=Pause(AT, "operator", "too dear"))
    assert "(aaaa1111): pausing (running)\n" in progress_text(pausing, NOTHING, None, None, [], LATER)
    paused = replace(WORKING, paused=Pause(AT, "operator", "too dear", settled_at=AT, held=Held.TOLD))
    assert "(aaaa1111): paused (running)\n" in progress_text(paused, NOTHING, None, None, [], LATER)


def test_card_without_measurements_has_two_lines() -> None:
    assert progress_text(WORKING, NOTHING, None, None, [], LATER) == (
        "<b>engineer-login</b> (aaaa1111): running\n12 min"
    )


def test_summary_shows_the_result_and_the_time_of_the_whole_run() -> None:
    done = replace(
        WORKING,
        status=Status.COMPLETED,
        completed_at="2026-01-27T16:15:00.000Z",
        completion_message="all <done>",
    )
    assert progress_text(
        done, replace(USED, cost_usd=None), "runs the tests", None, [], "2026-01-28T00:00:00.000Z"
    ) == (
        "<b>engineer-login</b> (aaaa1111): completed\n"
        "1 h 05 min · 45,120 tokens · context 38%\n"
        "result: all &lt;done&gt;\n"
        "reason: made for a test"
    )


def test_idle_time_does_not_count() -> None:
    idle = replace(WORKING, status=Status.IDLE, status_at="2026-01-27T15:11:00.000Z")
    assert progress_text(idle, NOTHING, None, None, [], LATER).endswith("idle\n1 min")


def test_words_of_a_sandboxed_agent_are_marked() -> None:
    sandboxed = replace(WORKING, effective_mode=TrustLevel.SANDBOXED, note="trust\u202eme")
    assert "note: trust me (untrusted)" in progress_text(sandboxed, NOTHING, None, None, [], LATER)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "less than a minute"),
        (59, "less than a minute"),
        (60, "1 min"),
        (3900, "1 h 05 min"),
        (97_200, "1 d 3 h"),
    ],
)
def test_elapsed_time_is_shown_in_whole_minutes(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("status", "chat_id", "since_s", "is_news", "due"),
    [
        (Status.RUNNING, 7, 4.9, True, False),
        (Status.RUNNING, 7, 5.0, False, True),
        (Status.RUNNING, FORUM, 19.9, True, False),
        (Status.RUNNING, FORUM, 20.0, False, True),
        (Status.WAITING_INPUT, 7, 5.0, False, True),
        (Status.IDLE, 7, 3600.0, False, False),
        (Status.IDLE, 7, 4.9, True, False),
        (Status.IDLE, 7, 5.0, True, True),
        (Status.KILLED, FORUM, 0.0, False, True),
    ],
)
def test_card_is_due_after_5_s_in_a_private_chat_and_20_s_in_a_group(
    status: Status, chat_id: int, since_s: float, is_news: bool, due: bool
) -> None:
    now: Session = replace(WORKING, status=status)
    assert is_due(now, chat_id, since_s, is_news=is_news) is due


def edit(need: Need) -> NewCall:
    parameters = {"text": "new", "parse_mode": "HTML", "message_id": 501}
    return NewCall(7, BotMethod.EDIT_MESSAGE_TEXT, parameters, need, "progress aaaa1111")


def test_card_is_edited_only_when_its_text_differs() -> None:
    assert card_change(CARD, "old", None, ended=False) == TelegramChange()
    changed = TelegramChange([edit(Need.PROGRESS)], cards=[replace(CARD, shown="new")])
    assert card_change(CARD, "new", None, ended=False) == changed
    assert card_change(CARD, "new", EffectState.PENDING, ended=False) == changed


def test_last_edit_is_more_needed_and_ends_the_card() -> None:
    assert card_change(CARD, "new", None, ended=True) == TelegramChange(
        [edit(Need.ENDING)], cards=[replace(CARD, shown="new", is_live=False)]
    )
    assert card_change(CARD, "old", None, ended=True) == TelegramChange(cards=[replace(CARD, is_live=False)])


def test_card_that_waits_gets_the_new_text_in_its_first_message() -> None:
    change = card_change(UNSENT, "new", EffectState.PENDING, ended=False)
    (call,) = change.calls
    assert (call.method, call.replaces, call.parameters["text"]) == (BotMethod.SEND_MESSAGE, True, "new")
    assert change.cards == [replace(UNSENT, shown="new")]


def test_card_that_is_being_sent_waits_for_its_message() -> None:
    assert card_change(UNSENT, "new", EffectState.TAKEN, ended=True) == TelegramChange()


def test_card_whose_message_was_left_out_is_forgotten() -> None:
    assert card_change(UNSENT, "new", None, ended=False) == TelegramChange(lost_cards=[UNSENT])
