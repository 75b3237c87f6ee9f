"""Delivery receipts from an agent's reports, on a real database and with claude's composer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sm.core.messages import (
    IN_CONVERSATION,
    IN_ITS_QUEUE,
    INBOX,
    QUEUED_BY_AGENT,
    SM_ITSELF,
    TERMINAL,
    Message,
    Notice,
)
from sm.core.models import Exit, Signal
from sm.core.observation import Source
from sm.core.program_states import ProgramState
from sm.core.states import EventType, MessageMode, MessageState, NoticeKind, SignalKind
from sm.core.statuses import Status
from sm.core.text import render_message
from sm.messaging.receipts import DeliveryReceipts
from sm.providers.base import PromptRefusal
from sm.providers.claude.pasted_text import without_paste_tags
from sm.providers.readers import AcceptedInput
from sm.state.session_steps import move
from sm.store import Store
from tests import samples
from tests.state_parts import StateParts, open_parts

ID, OTHER = "1a2b3c4d", "5e6f7a8b"
BEGIN_S = datetime.fromisoformat(samples.AT).timestamp()
HOOK = "its UserPromptSubmit hook"


@dataclass
class Mail:
    """Two claude sessions, their messages and the daemon's clock."""

    store: Store
    parts: StateParts
    receipts: DeliveryReceipts
    clock: list[int]

    def at(self, second: int) -> float:
        return BEGIN_S + second

    async def add(
        self,
        number: int,
        text: str = "run the tests",
        state: MessageState = MessageState.DELIVERING,
        *,
        to: str = ID,
        via: str | None = TERMINAL,
        typed_at: int = 0,
    ) -> str:
        """Add a message in `state`, which was typed at this second; return its letter."""
        state_at = f"2026-01-27T15:10:{typed_at:02}.000Z" if typed_at else samples.AT
        message = Message(number, to, "operator", MessageMode.AUTO, state, samples.AT, state_at, via=via)
        async with self.store.transaction() as tx:
            tx.mail.add_message(message, text)
        return render_message("operator", number, text)

    async def report(
        self, text: str, second: int = 1, source: Source = Source.HOOK, *, to: str = ID, **how: Any
    ) -> None:
        self.clock[0] = max(self.clock[0], second)
        hook = "UserPromptSubmit" if source is Source.HOOK else ""
        await self.receipts.prompt_accepted(
            to, AcceptedInput(text, self.at(second), hook=hook, **how), source
        )

    async def message(self, number: int) -> Message:
        return await self.store.mail.message(number)

    async def report_prompt(self, text: str, second: int, parent: str) -> None:
        """Report a prompt of the transcript."""
        await self.receipts.prompt_accepted(
            ID, AcceptedInput(text, self.at(second), parent=parent), Source.TRANSCRIPT
        )

    async def end_process(self) -> None:
        """Record the end of the agent's process, as the process watcher does."""
        await self.parts.ends.process_ended(ID, None, Exit(None, 9))
        self.receipts.process_gone(ID)

    async def state(self, number: int) -> MessageState:
        return (await self.message(number)).state

    def undelivered(self) -> list[str]:
        return [notice.occasion for notice in self.store.mail.open.notices.values()]


@pytest.fixture
async def mail(tmp_path: Path) -> AsyncIterator[Mail]:
    clock = [0]

    def now() -> str:
        return f"2026-01-27T15:10:{clock[0]:02}.500Z"

    async with open_parts(tmp_path, now) as (store, parts):
        async with store.transaction() as tx:
            for session_id in (ID, OTHER):
                session = replace(samples.session(session_id, status=Status.IDLE), provider="claude")
                await tx.insert(session, samples.LAUNCH, None)
        yield Mail(store, parts, DeliveryReceipts(store, parts.notices, parts.providers), clock)


async def test_prompt_hook_marks_the_message_submitted(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(f"{sent} ", 3)
    found = await mail.message(57)
    assert (found.state, found.evidence, found.reason) == (MessageState.SUBMITTED, HOOK, None)
    assert found.submitted_at == "2026-01-27T15:10:03.000Z", "the agent's time, not the daemon's"


async def test_repeated_evidence_marks_the_message_submitted_once(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1, Source.TRANSCRIPT, queued=True)
    assert (await mail.message(57)).evidence == QUEUED_BY_AGENT
    await mail.report(sent, 4)
    assert (await mail.message(57)).evidence == HOOK
    await mail.report(sent, 5, Source.TRANSCRIPT)
    await mail.report(sent, 6)
    found = await mail.message(57)
    assert (found.state, found.evidence, found.submitted_at) == (
        MessageState.SUBMITTED,
        IN_CONVERSATION,
        "2026-01-27T15:10:01.000Z",
    )
    assert len(await mail.store.events(sessions=[ID], type=EventType.MESSAGE)) == 1


async def test_late_evidence_marks_an_unconfirmed_or_queued_message_submitted(mail: Mail) -> None:
    for state in (MessageState.UNCONFIRMED, MessageState.QUEUED):
        number = 57 + list(MessageState).index(state)
        await mail.report(await mail.add(number, state=state))
        assert await mail.state(number) is MessageState.SUBMITTED


@pytest.mark.parametrize("state", [MessageState.FAILED, MessageState.EXPIRED, MessageState.ACKNOWLEDGED])
async def test_evidence_changes_nothing_when_the_message_is_finished(mail: Mail, state: MessageState) -> None:
    await mail.report(await mail.add(57, state=state))
    assert await mail.state(57) is state


async def test_submitted_time_is_never_in_the_future_when_the_agents_clock_is_ahead(mail: Mail) -> None:
    sent = await mail.add(57)
    mail.clock[0] = 2
    await mail.receipts.prompt_accepted(ID, AcceptedInput(sent, mail.at(3600)), Source.TRANSCRIPT)
    assert (await mail.message(57)).submitted_at == "2026-01-27T15:10:02.500Z"


@pytest.mark.parametrize(
    "prompt",
    [
        "{sent} and then rest",
        "{sent}\n[sm] from operator, message 58\nmore",
        "a draft {sent}",
        "a draft\n\n{sent}\nand more of it",
        "[sm] from operator, message 57\nrun the test",
    ],
)
async def test_message_is_unconfirmed_when_it_arrives_with_other_text(mail: Mail, prompt: str) -> None:
    sent = await mail.add(57)
    await mail.report(prompt.format(sent=sent))
    found = await mail.message(57)
    assert (found.state, found.reason) == (
        MessageState.UNCONFIRMED,
        "the message arrived changed, or together with other text",
    )
    assert mail.undelivered() == ["message:57"], "the sender gets a notice"
    await mail.report(sent)
    assert await mail.state(57) is MessageState.SUBMITTED


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("source", [Source.HOOK, Source.TRANSCRIPT])
async def test_submitted_message_is_unconfirmed_when_only_a_prompt_with_other_text_is_kept(
    mail: Mail, acknowledged: bool, source: Source
) -> None:
    """The interrupt of an urgent message puts it back into the box, where a person goes on typing."""
    sent = await mail.add(57)
    await mail.report(sent, 1)
    if acknowledged:
        await mail.receipts.turn_ended(ID, mail.at(2))
        assert await mail.state(57) is MessageState.ACKNOWLEDGED
    await mail.report(f"{sent} and my own words", 3, source)
    found = await mail.message(57)
    assert (found.state, found.acknowledged_at) == (MessageState.UNCONFIRMED, None)
    assert found.reason == "the message arrived changed, or together with other text"
    assert mail.undelivered() == ["message:57"], "the sender gets a notice"
    await mail.receipts.turn_ended(ID, mail.at(4))
    assert await mail.state(57) is MessageState.UNCONFIRMED


@pytest.mark.parametrize("late", [False, True])
async def test_message_in_the_conversation_stays_when_a_later_prompt_repeats_it(
    mail: Mail, late: bool
) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    if late:  # the transcript is read after the end of the turn
        await mail.receipts.turn_ended(ID, mail.at(2))
    await mail.report_prompt(sent, 1, "a1")
    await mail.receipts.turn_ended(ID, mail.at(2))
    await mail.report(f"{sent} and once more", 3)
    assert await mail.state(57) is MessageState.ACKNOWLEDGED
    assert mail.undelivered() == []


async def test_message_is_unconfirmed_when_a_prompt_with_other_text_replaces_it_in_the_conversation(
    mail: Mail,
) -> None:
    sent = await mail.add(57)
    await mail.report_prompt(sent, 1, "a1")
    await mail.report_prompt(f"{sent} and my own words", 2, "a1")
    found = await mail.message(57)
    assert (found.state, found.reason) == (
        MessageState.UNCONFIRMED,
        "the message arrived changed, or together with other text",
    )


async def test_late_report_of_an_earlier_prompt_with_other_text_changes_nothing(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 3)
    await mail.report(f"{sent} and my own words", 2, Source.TRANSCRIPT)
    assert await mail.state(57) is MessageState.SUBMITTED


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("{sent} hel", "hel"),
        ("{sent}hel\nlo #(x)", "hel\nlo #(x)"),
        ("a draft {sent} more", "a draft more"),
        ("{sent}", ""),
        ("[sm] from operator, message 57\nrun theltests", ""),
    ],
)
async def test_words_that_arrived_with_a_message_are_reported_once(
    mail: Mail, prompt: str, words: str
) -> None:
    sent = await mail.add(57)
    await mail.report(prompt.format(sent=sent))
    assert mail.receipts.take_typed_words(ID, 58) == ""
    assert mail.receipts.take_typed_words(ID, 57) == words
    assert mail.receipts.take_typed_words(ID, 57) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what does [sm] from operator, message 57 mean?",
        "it said:\n[sm] from operator, message 57\nand nothing else",
        "> [sm] from operator, message 57\nrun the tests",
        "[sm] from operator, message 57: run the tests",
        "[sm] from operator, message 057\nrun the tests",
        "[sm] from operator, message 5757\nrun the tests",
        "[SM] from operator, message 57\nrun the tests",
        "[sm] from operator\u2028, message 57\u2028run the tests",
        "[sm] from " + "x" * 500 + ", message 57\nrun the tests",
        "[sm] from operator, message 99999999999999999999\nrun the tests",
        "[sm] from a" * 50_000,
    ],
)
async def test_text_that_only_looks_like_a_message_changes_nothing(mail: Mail, text: str) -> None:
    await mail.add(57)
    await mail.report(text)
    assert await mail.state(57) is MessageState.DELIVERING


async def test_message_that_quotes_another_is_not_evidence_for_the_quoted_one(mail: Mail) -> None:
    other = await mail.add(57)
    forged = await mail.add(58, f"look:\n{other}\n\u200b{other}")
    await mail.report(forged)
    assert (await mail.state(57), await mail.state(58)) == (MessageState.DELIVERING, MessageState.SUBMITTED)
    forged = await mail.add(59, f"look: {other}")  # a quote in the middle of a line
    await mail.report(forged)
    assert (await mail.state(57), await mail.state(59)) == (MessageState.DELIVERING, MessageState.SUBMITTED)


async def test_evidence_of_another_session_changes_nothing(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, to=OTHER)
    await mail.report(sent, to="00000000")
    assert await mail.state(57) is MessageState.DELIVERING


async def test_prompt_is_not_evidence_when_the_message_was_not_sent_to_the_terminal(mail: Mail) -> None:
    await mail.report(await mail.add(57, via=INBOX))
    await mail.report(await mail.add(58, state=MessageState.QUEUED, via=None))
    assert (await mail.state(57), await mail.state(58)) == (MessageState.DELIVERING, MessageState.QUEUED)


# -------------------------------------------------------------------------------------------------- withdrawn


async def test_message_is_unconfirmed_when_a_person_takes_it_out_of_the_agents_queue(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1, Source.TRANSCRIPT, queued=True)
    await mail.report(sent, 2, Source.TRANSCRIPT, withdrawn=True)
    found = await mail.message(57)
    assert (found.state, found.reason) == (
        MessageState.UNCONFIRMED,
        "the message was taken back from the agent's queue in the terminal",
    )
    assert mail.undelivered() == ["message:57"]
    await mail.report(sent, 3)
    assert await mail.state(57) is MessageState.SUBMITTED, "sent after all"


async def test_message_stays_submitted_when_it_is_withdrawn_after_the_agent_read_it(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.report(sent, 2, Source.TRANSCRIPT, withdrawn=True)
    assert await mail.state(57) is MessageState.SUBMITTED


# ------------------------------------------------------------------------------------------------- acknowledged


async def test_turn_end_acknowledges_only_messages_submitted_before_it(mail: Mail) -> None:
    await mail.report(await mail.add(57), 1)
    await mail.report(await mail.add(58), 5)
    await mail.receipts.turn_ended(ID, mail.at(4))
    found = await mail.message(57)
    assert (found.state, found.acknowledged_at) == (MessageState.ACKNOWLEDGED, "2026-01-27T15:10:04.000Z")
    assert await mail.state(58) is MessageState.SUBMITTED, "submitted after the end of the turn"
    await mail.receipts.turn_ended(ID, mail.at(6))
    assert await mail.state(58) is MessageState.ACKNOWLEDGED


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [({"queue": False}, MessageState.SUBMITTED), ({"queue": True}, MessageState.ACKNOWLEDGED)],
)
async def test_turn_end_acknowledges_nothing_while_the_queue_of_the_program_cannot_be_followed(
    mail: Mail, outcomes: dict[str, bool], state: MessageState
) -> None:
    program = ProgramState("claude", "2.1.333", "2026-11-29", outcomes)
    mail.receipts = DeliveryReceipts(
        mail.store, mail.parts.notices, mail.parts.providers, lambda session: program
    )
    await mail.report(await mail.add(57), 1)
    await mail.receipts.turn_ended(ID, mail.at(4))
    assert await mail.state(57) is state


async def test_turn_end_does_not_acknowledge_a_message_in_the_agents_queue(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1, Source.TRANSCRIPT, queued=True)
    await mail.receipts.turn_ended(ID, mail.at(2))
    assert await mail.state(57) is MessageState.SUBMITTED
    await mail.report(sent, 3, Source.TRANSCRIPT)
    await mail.receipts.turn_ended(ID, mail.at(2))
    assert await mail.state(57) is MessageState.SUBMITTED
    await mail.receipts.turn_ended(ID, mail.at(4))
    assert await mail.state(57) is MessageState.ACKNOWLEDGED


async def set_running(mail: Mail, second: int) -> None:
    """Let the session work on a turn since this second."""
    since = f"2026-01-27T15:10:{second:02}.000Z"
    mail.clock[0] = second
    async with mail.store.transaction() as tx:
        await move(tx, mail.parts.notices, ID, Signal(SignalKind.BUSY, "hook", "a turn began", since))


async def test_prompt_hook_in_the_middle_of_a_turn_is_no_proof_that_the_message_was_read(mail: Mail) -> None:
    """claude 2.1.332 runs the hook when it puts the prompt into its queue."""
    sent = await mail.add(57, typed_at=3)
    await set_running(mail, 1)
    await mail.report(sent, 4)
    found = await mail.message(57)
    assert (found.state, found.evidence, found.reason) == (
        MessageState.SUBMITTED,
        f"{HOOK}: queued",
        IN_ITS_QUEUE,
    )
    assert not found.settled
    await mail.receipts.turn_ended(ID, mail.at(5))
    assert await mail.state(57) is MessageState.SUBMITTED
    await mail.report(sent, 6, Source.TRANSCRIPT)
    found = await mail.message(57)
    assert (found.evidence, found.reason) == (IN_CONVERSATION, None)
    await mail.receipts.turn_ended(ID, mail.at(7))
    assert await mail.state(57) is MessageState.ACKNOWLEDGED


async def test_prompt_hook_is_a_proof_when_the_turn_began_with_the_message(mail: Mail) -> None:
    sent = await mail.add(57, typed_at=3)
    await set_running(mail, 4)
    await mail.report(sent, 4)
    assert (await mail.message(57)).evidence == HOOK


async def test_message_is_in_the_queue_when_the_transcript_says_so_after_the_hook(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 2)
    await mail.receipts.turn_ended(ID, mail.at(4))
    assert await mail.state(57) is MessageState.ACKNOWLEDGED
    await mail.report(sent, 3, Source.TRANSCRIPT, queued=True)
    found = await mail.message(57)
    assert (found.state, found.evidence, found.reason) == (
        MessageState.SUBMITTED,
        QUEUED_BY_AGENT,
        IN_ITS_QUEUE,
    )
    assert found.settled


async def test_late_line_of_the_queue_changes_nothing_when_the_hook_came_after_it(mail: Mail) -> None:
    """claude 2.1.197 runs the hook when it takes the prompt out of its queue."""
    sent = await mail.add(57)
    await mail.report(sent, 3)
    await mail.report(sent, 2, Source.TRANSCRIPT, queued=True)
    assert (await mail.message(57)).evidence == HOOK


async def test_message_that_the_agent_marked_as_pasted_may_differ_in_white_space(mail: Mail) -> None:
    sent = await mail.add(57, "one two\n\nthree")
    await mail.report(sent.replace("\n\n", "\n"), 1, pasted=True)
    assert (await mail.message(57)).evidence == HOOK
    other = await mail.add(58, "one two\n\nthree")
    await mail.report(other.replace("\n\n", "\n"), 2)
    assert await mail.state(58) is MessageState.UNCONFIRMED
    third = await mail.add(59, "one two\n\nthree")
    await mail.report(f"{third} and more", 3, pasted=True)
    assert await mail.state(59) is MessageState.UNCONFIRMED


@pytest.mark.parametrize("pasted", [False, True])
async def test_message_that_quotes_the_tags_of_a_paste_arrives_whole(mail: Mail, pasted: bool) -> None:
    """2.1.332 escapes the tags. 2.1.197 does not, so the reader of the report takes them for those of a paste."""
    quoted = '<pasted_content id="8885">\nquoted\n</pasted_content id="8885">\nand more'
    sent = await mail.add(57, quoted)
    reported = without_paste_tags(sent)[0] if pasted else sent.replace("<", "<\\")
    await mail.report(reported, 1, pasted=pasted)
    assert (await mail.message(57)).evidence == HOOK


async def test_turn_end_acknowledges_no_message_of_another_session_or_a_later_time(mail: Mail) -> None:
    await mail.receipts.turn_ended(ID, mail.at(1))
    await mail.report(await mail.add(57), 2)
    await mail.report(await mail.add(58, to=OTHER), 2, to=OTHER)
    await mail.receipts.turn_ended(OTHER, mail.at(1))
    await mail.receipts.turn_ended(ID, mail.at(3))
    assert (await mail.state(57), await mail.state(58)) == (MessageState.ACKNOWLEDGED, MessageState.SUBMITTED)


# ------------------------------------------------------------------------------------ lost with the process


async def test_message_is_unconfirmed_when_the_process_ends_before_its_conversation_holds_it(
    mail: Mail,
) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.end_process()
    found = await mail.message(57)
    assert (found.state, found.submitted_at, found.acknowledged_at) == (MessageState.UNCONFIRMED, None, None)
    assert (found.reason or "").endswith(
        "the agent accepted the message, but did not store it in its conversation"
    )
    assert "message:57" in mail.undelivered(), "the sender gets a notice"
    await mail.receipts.turn_ended(ID, mail.at(9))
    assert await mail.state(57) is MessageState.UNCONFIRMED, "the next process works without the message"
    await mail.report_prompt(sent, 1, "a1")
    assert await mail.state(57) is MessageState.SUBMITTED, "the end of the transcript was read late"


async def test_message_stays_submitted_when_the_process_ends_after_its_conversation_holds_it(
    mail: Mail,
) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.report_prompt(sent, 1, "a1")
    await mail.end_process()
    assert await mail.state(57) is MessageState.SUBMITTED
    await mail.receipts.turn_ended(ID, mail.at(9))
    assert await mail.state(57) is MessageState.ACKNOWLEDGED, "the restored process has the message"


async def test_notice_goes_to_the_operator_when_it_is_lost_with_the_process(mail: Mail) -> None:
    text = "child claude-5e6f7a8b has ended"
    async with mail.store.transaction() as tx:
        message = Message(
            57, ID, SM_ITSELF, MessageMode.AUTO, MessageState.DELIVERING, samples.AT, samples.AT, via=TERMINAL
        )
        notice = Notice(3, OTHER, ID, NoticeKind.ENDING, "ending:1", text, samples.AT)
        await tx.mail.add_notice(notice)
        tx.mail.add_message(message, text)
        tx.mail.finish_notices([notice], "sent", 57)
    await mail.report(render_message("sm", 57, text), 1)
    assert await mail.state(57) is MessageState.SUBMITTED
    await mail.end_process()
    assert (text, None) in [(n.text, n.recipient) for n in mail.store.mail.open.notices.values()]


# --------------------------------------------------------------------------------------------------- returned


async def test_message_is_unconfirmed_when_it_is_back_in_the_box_of_an_idle_agent(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    assert await mail.receipts.message_in_draft(ID, sent) == sent
    found = await mail.message(57)
    assert (found.state, "removed the message from the input box" in (found.reason or "")) == (
        MessageState.UNCONFIRMED,
        True,
    )


async def test_message_stays_acknowledged_when_a_copy_is_back_in_the_box(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.receipts.turn_ended(ID, mail.at(4))
    assert await mail.receipts.message_in_draft(ID, sent) == sent
    assert await mail.state(57) is MessageState.ACKNOWLEDGED


async def test_returned_ignores_drafts_that_are_not_a_submitted_message_of_the_session(mail: Mail) -> None:
    waits, others = await mail.add(57), await mail.add(58, to=OTHER)
    await mail.report(others, 1, to=OTHER)
    for draft in (waits, others, "my draft"):
        assert await mail.receipts.message_in_draft(ID, draft) is None
    assert await mail.state(58) is MessageState.SUBMITTED


async def test_message_is_unconfirmed_when_the_conversation_continues_without_it(mail: Mail) -> None:
    first, second = await mail.add(57), await mail.add(58)
    await mail.report(first, 1)
    await mail.report_prompt(first, 1, "a1")
    await mail.report_prompt(second, 3, "a1")
    found = await mail.message(57)
    assert (found.state, "continues without the message" in (found.reason or "")) == (
        MessageState.UNCONFIRMED,
        True,
    )
    assert await mail.state(58) is MessageState.SUBMITTED
    await mail.report_prompt("", 5, "a1")
    assert await mail.state(58) is MessageState.UNCONFIRMED, "also when a person continues without text"


@pytest.mark.parametrize(
    ("then", "parent"),
    [("again", "a1"), ("other", "b2")],
    ids=["repeated", "followed by another prompt"],
)
async def test_message_stays_submitted_when_the_conversation_still_contains_it(
    mail: Mail, then: str, parent: str
) -> None:
    first = await mail.add(57)
    await mail.report_prompt(first, 1, "a1")
    await mail.report_prompt({"again": first, "other": "mine"}[then], 3, parent)
    assert await mail.state(57) is MessageState.SUBMITTED


async def test_message_stays_acknowledged_when_a_person_rewinds_the_conversation(mail: Mail) -> None:
    first = await mail.add(57)
    await mail.report_prompt(first, 1, "")
    await mail.receipts.turn_ended(ID, mail.at(2))
    await mail.report_prompt("mine", 3, "")
    assert await mail.state(57) is MessageState.ACKNOWLEDGED


async def test_returned_message_is_submitted_again_only_by_newer_evidence(mail: Mail) -> None:
    first = await mail.add(57)
    await mail.report(first, 1)
    await mail.report_prompt("", 2, "a1")
    mail.clock[0] = 5
    assert await mail.receipts.message_in_draft(ID, first) == first
    await mail.report_prompt(first, 1, "a1")
    assert await mail.state(57) is MessageState.UNCONFIRMED
    await mail.report_prompt(first, 9, "a1")
    assert await mail.state(57) is MessageState.SUBMITTED, "a person sent the message after all"


async def test_acknowledgement_is_revoked_when_the_turn_did_not_contain_the_message(mail: Mail) -> None:
    first = await mail.add(57)
    await mail.report_prompt(first, 1, "a1")
    await mail.receipts.turn_ended(ID, mail.at(5))
    assert await mail.state(57) is MessageState.ACKNOWLEDGED
    await mail.report_prompt("mine", 3, "a1")
    found = await mail.message(57)
    assert (found.state, found.acknowledged_at) == (MessageState.UNCONFIRMED, None)


# --------------------------------------------------------------------------------- refused by a user's hook

REFUSED = 'a hook of the user refused the message: "no secrets here"'


async def refuse(mail: Mail, text: str, second: int = 2, **how: Any) -> None:
    await mail.report(text, second, Source.TRANSCRIPT, **{"refused": "no secrets\nhere"} | how)


@pytest.mark.parametrize("reported_first", [True, False])
async def test_message_fails_when_a_user_hook_refuses_it(mail: Mail, reported_first: bool) -> None:
    sent = await mail.add(57)
    if reported_first:
        await mail.report(sent, 1)
    await refuse(mail, sent)
    await mail.report(sent, 3)
    found = await mail.message(57)
    assert (found.state, found.reason) == (MessageState.FAILED, REFUSED), "the hook of sm runs in parallel"
    assert mail.undelivered() == ["message:57"], "the sender gets a notice"


async def test_message_fails_when_a_user_hook_refuses_it_at_the_end_of_the_queue(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1, Source.TRANSCRIPT, queued=True)
    await refuse(mail, sent)
    assert await mail.state(57) is MessageState.FAILED


async def test_acknowledgement_is_revoked_when_a_hook_refused_the_message_earlier(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.receipts.turn_ended(ID, mail.at(5))
    assert await mail.state(57) is MessageState.ACKNOWLEDGED
    await refuse(mail, sent, 2)
    found = await mail.message(57)
    assert (found.state, found.acknowledged_at, found.reason) == (MessageState.FAILED, None, REFUSED)


async def test_message_stays_acknowledged_when_a_hook_refuses_a_later_copy(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.receipts.turn_ended(ID, mail.at(2))
    await refuse(mail, sent, 4)
    assert await mail.state(57) is MessageState.ACKNOWLEDGED, "a person sent the message a second time"


async def test_refusal_ignores_messages_of_other_sessions_and_quoted_messages(mail: Mail) -> None:
    other, quoted = await mail.add(57, to=OTHER), await mail.add(58)
    await mail.report(other, 1, to=OTHER)
    await mail.report(quoted, 1)
    await refuse(mail, other)
    await refuse(mail, f"look at this:\n\n{quoted}\nwhich I got")
    assert {await mail.state(57), await mail.state(58)} == {MessageState.SUBMITTED}


async def test_message_fails_when_a_hook_refuses_it_together_with_other_text(mail: Mail) -> None:
    mixed = f"a draft {await mail.add(57)}"
    await mail.report(mixed, 1)
    assert await mail.state(57) is MessageState.UNCONFIRMED
    await refuse(mail, mixed)
    assert await mail.state(57) is MessageState.FAILED


async def test_message_is_unconfirmed_when_a_hook_stops_its_turn_but_keeps_the_prompt(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.report_prompt(sent, 1, "a1")
    await refuse(mail, "", 2, kept=True)
    found = await mail.message(57)
    assert (found.state, found.reason) == (
        MessageState.UNCONFIRMED,
        'a hook of the user stopped the turn: "no secrets here"; the agent reads the message with its next prompt',
    )
    assert mail.undelivered() == ["message:57"]
    await mail.report_prompt(sent, 1, "a1")
    assert await mail.state(57) is MessageState.UNCONFIRMED


@pytest.mark.parametrize("reported_first", [True, False])
async def test_refusal_without_text_applies_to_the_latest_message(mail: Mail, reported_first: bool) -> None:
    before, sent = await mail.add(57), await mail.add(58)
    await mail.report(before, 1)
    await mail.report_prompt(before, 1, "a1")
    if reported_first:
        await mail.report(sent, 3)
    await refuse(mail, "", 3)
    if not reported_first:
        await mail.report(sent, 3)
    found = await mail.message(58)
    assert (found.state, found.reason) == (MessageState.UNCONFIRMED, REFUSED)
    assert await mail.state(57) is MessageState.SUBMITTED
    await mail.report(sent, 5)
    await mail.report_prompt(sent, 5, "b2")
    assert await mail.state(58) is MessageState.SUBMITTED, "the hook finally accepted the message"


async def restart(mail: Mail) -> None:
    """Lose what the daemon has in memory."""
    mail.clock[0] += 1
    mail.receipts = DeliveryReceipts(mail.store, mail.parts.notices, mail.parts.providers)


@pytest.mark.parametrize("acknowledged", [False, True])
async def test_refusal_without_text_applies_to_the_message_that_a_hook_reported_to_an_earlier_daemon(
    mail: Mail, acknowledged: bool
) -> None:
    before, sent = await mail.add(57), await mail.add(58)
    await mail.report(before, 1)
    await mail.report_prompt(before, 1, "a1")
    await mail.report(sent, 3)
    await restart(mail)
    if acknowledged:  # the transcript is read after the end of the turn
        await mail.receipts.turn_ended(ID, mail.at(4))
    await refuse(mail, "", 3)
    found = await mail.message(58)
    assert (found.state, found.reason) == (MessageState.UNCONFIRMED, REFUSED)
    assert mail.undelivered() == ["message:58"]
    assert await mail.state(57) in (MessageState.SUBMITTED, MessageState.ACKNOWLEDGED)


async def test_refusal_without_text_leaves_a_message_in_the_conversation_after_a_restart(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.report_prompt(sent, 1, "a1")
    await mail.report("mine", 3)
    await restart(mail)
    await refuse(mail, "", 3)
    assert await mail.state(57) is MessageState.SUBMITTED


async def test_refusal_without_text_changes_no_message_when_it_concerns_a_persons_prompt(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report(sent, 1)
    await mail.report("mine", 3)
    await refuse(mail, "", 3)
    assert await mail.state(57) is MessageState.SUBMITTED
    await refuse(mail, "", 5)
    await mail.report("mine", 5)
    await mail.report(await mail.add(58), 5)
    await refuse(mail, "", 7)
    await refuse(mail, "", 8)
    await mail.report(await mail.add(59), 9)
    assert (await mail.state(58), await mail.state(59)) == (MessageState.UNCONFIRMED, MessageState.SUBMITTED)


async def test_hook_stop_changes_no_message_when_a_person_typed_the_prompt(mail: Mail) -> None:
    sent = await mail.add(57)
    await mail.report_prompt(sent, 1, "a1")
    await mail.report_prompt("", 2, "b2")
    await refuse(mail, "", 3, kept=True)
    assert await mail.state(57) is MessageState.SUBMITTED


@pytest.mark.parametrize("kept", [False, True])
async def test_refused_notice_goes_to_the_parent_of_its_recipient(mail: Mail, kept: bool) -> None:
    text = "child claude-5e6f7a8b has ended"
    async with mail.store.transaction() as tx:
        sm = Message(
            57, ID, SM_ITSELF, MessageMode.AUTO, MessageState.QUEUED, samples.AT, samples.AT, via=TERMINAL
        )
        notice = Notice(3, OTHER, ID, NoticeKind.ENDING, "ending:1", text, samples.AT)
        await tx.mail.add_notice(notice)
        tx.mail.add_message(sm, text)
        tx.mail.finish_notices([notice], "sent", 57)
    sent = render_message("sm", 57, text)
    await mail.report_prompt(sent, 1, "a1")
    await refuse(mail, "" if kept else sent, kept=kept)
    assert await mail.state(57) is MessageState.FAILED
    assert [n.recipient for n in mail.store.mail.open.notices.values()] == [None]


async def add_command(mail: Mail, number: int, state: MessageState, text: str = "/compact") -> None:
    via = None if state is MessageState.QUEUED else TERMINAL
    message = Message(number, ID, "operator", MessageMode.COMMAND, state, samples.AT, samples.AT, via=via)
    async with mail.store.transaction() as tx:
        tx.mail.add_message(message, text)


async def test_hook_confirms_a_typed_command_and_the_transcript_stores_it(mail: Mail) -> None:
    await add_command(mail, 57, MessageState.DELIVERING)
    await mail.receipts.prompt_accepted(
        ID, AcceptedInput("/compact", mail.at(1), hook="PreCompact", command=True), Source.HOOK
    )
    assert (await mail.message(57)).evidence == "its PreCompact hook"
    await mail.report("/compact", 1, Source.TRANSCRIPT, command=True)
    assert (await mail.message(57)).evidence == IN_CONVERSATION


@pytest.mark.parametrize(
    ("state", "text", "second"),
    [
        (MessageState.QUEUED, "/compact", 1),
        (MessageState.DELIVERING, "/clear", 1),
        (MessageState.DELIVERING, "/compact", -1),
    ],
    ids=["of a person while it waits", "another command", "before it was typed"],
)
async def test_other_commands_confirm_no_message(
    mail: Mail, state: MessageState, text: str, second: int
) -> None:
    await add_command(mail, 57, state)
    await mail.report(text, second, Source.TRANSCRIPT, command=True)
    assert await mail.state(57) is state


async def test_late_report_makes_an_unconfirmed_command_submitted(mail: Mail) -> None:
    await add_command(mail, 57, MessageState.UNCONFIRMED)
    await mail.report("/compact", 1, Source.TRANSCRIPT, command=True)
    assert await mail.state(57) is MessageState.SUBMITTED


async def test_line_of_an_earlier_command_does_not_confirm_the_next_one(mail: Mail) -> None:
    await add_command(mail, 57, MessageState.SUBMITTED)
    await add_command(mail, 58, MessageState.QUEUED)
    await mail.report("/compact", 1, Source.TRANSCRIPT, command=True)
    assert [(await mail.message(n)).evidence for n in (57, 58)] == [IN_CONVERSATION, None]


@pytest.mark.parametrize(("ends_at", "state"), [(5, MessageState.SUBMITTED), (7, MessageState.UNCONFIRMED)])
async def test_message_of_which_the_transcript_shows_nothing_is_unconfirmed_after_the_turn(
    mail: Mail, ends_at: int, state: MessageState
) -> None:
    """claude 2.1.332 writes nothing of a prompt that a hook of the user refuses while it works."""
    sent = await mail.add(57, typed_at=3)
    await set_running(mail, 1)
    await mail.report(sent, 4)
    await mail.receipts.transcript_turn_ended(ID, mail.at(ends_at))
    found = await mail.message(57)
    assert found.state is state
    assert ("a hook of the user may have refused it" in (found.reason or "")) is (
        state is MessageState.UNCONFIRMED
    )


async def test_message_in_the_transcripts_queue_stays_there_after_the_turn(mail: Mail) -> None:
    sent = await mail.add(57, typed_at=3)
    await set_running(mail, 1)
    await mail.report(sent, 4)
    await mail.report(sent, 5, Source.TRANSCRIPT, queued=True)
    await mail.receipts.transcript_turn_ended(ID, mail.at(9))
    assert await mail.state(57) is MessageState.SUBMITTED


@pytest.mark.parametrize(
    ("is_named", "state"), [(True, MessageState.FAILED), (False, MessageState.UNCONFIRMED)]
)
async def test_message_ends_with_the_words_of_the_hook_that_refused_it_before_the_queue(
    mail: Mail, is_named: bool, state: MessageState
) -> None:
    sent = await mail.add(57, typed_at=3)
    await set_running(mail, 1)
    await mail.report(sent, 4)
    refusal = PromptRefusal("no such words", is_named=is_named)
    await mail.receipts.refuse_queued(ID, 57, refusal)
    found = await mail.message(57)
    assert found.state is state
    assert "a hook of the user refused the message" in (found.reason or "")
    assert "no such words" in (found.reason or "")
    await mail.add(58)
    await mail.receipts.refuse_queued(ID, 58, refusal)
    assert await mail.state(58) is MessageState.DELIVERING
