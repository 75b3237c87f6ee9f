"""What arrived, by what the agent says of it: on a real database, read by the composer of claude."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sm.core.messages import INBOX, QUEUED_BY_AGENT, SM_ITSELF, TERMINAL, Message, Notice
from sm.core.observation import Source
from sm.core.states import EventType, MessageMode, MessageState, NoticeKind
from sm.core.statuses import Status
from sm.core.text import letter
from sm.messaging.receipts import DeliveryReceipts
from sm.providers.readers import AcceptedInput
from sm.store import Store
from tests import samples
from tests.managed import managed

ID, OTHER = "1a2b3c4d", "5e6f7a8b"
BEGIN_S = datetime.fromisoformat(samples.AT).timestamp()
HOOK = "its UserPromptSubmit hook"


@dataclass
class Post:
    """Two sessions of claude, what was sent to them, and the daemon's clock."""

    store: Store
    receipts: DeliveryReceipts
    clock: list[int]

    def at(self, second: int) -> float:
        return BEGIN_S + second

    async def sent(
        self,
        number: int,
        text: str = "run the tests",
        state: MessageState = MessageState.DELIVERING,
        *,
        to: str = ID,
        via: str | None = TERMINAL,
    ) -> str:
        """The letter of a message that came so far."""
        message = Message(number, to, "operator", MessageMode.AUTO, state, samples.AT, samples.AT, via=via)
        async with self.store.transaction() as tx:
            tx.mail.add_message(message, text)
        return letter("operator", number, text)

    async def heard(
        self, text: str, second: int = 1, source: Source = Source.HOOK, *, to: str = ID, **how: Any
    ) -> None:
        self.clock[0] = max(self.clock[0], second)
        hook = "UserPromptSubmit" if source is Source.HOOK else ""
        await self.receipts.prompt_accepted(
            to, AcceptedInput(text, self.at(second), hook=hook, **how), source
        )

    async def message(self, number: int) -> Message:
        return await self.store.mail.message(number)

    async def prompt(self, text: str, second: int, parent: str) -> None:
        """A line of its transcript."""
        await self.receipts.prompt_accepted(
            ID, AcceptedInput(text, self.at(second), parent=parent), Source.TRANSCRIPT
        )

    async def state(self, number: int) -> MessageState:
        return (await self.message(number)).state

    def undelivered(self) -> list[str]:
        return [notice.occasion for notice in self.store.mail.open.notices.values()]


@pytest.fixture
async def post(tmp_path: Path) -> AsyncIterator[Post]:
    clock = [0]

    def now() -> str:
        return f"2026-01-27T15:10:{clock[0]:02}.500Z"

    async with managed(tmp_path, now) as (store, manager):
        async with store.transaction() as tx:
            for each in (ID, OTHER):
                made = replace(samples.session(each, status=Status.IDLE), provider="claude")
                await tx.insert(made, samples.LAUNCH, None)
        yield Post(store, DeliveryReceipts(store, manager), clock)


async def test_the_hook_of_its_prompt_submits_a_message(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(f"{sent} ", 3)
    found = await post.message(57)
    assert (found.state, found.evidence, found.reason) == (MessageState.SUBMITTED, HOOK, None)
    assert found.submitted_at == "2026-01-27T15:10:03.000Z", "the agent's time, not ours"


async def test_all_that_tells_of_one_message_counts_once(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1, Source.TRANSCRIPT, queued=True)
    assert (await post.message(57)).evidence == QUEUED_BY_AGENT
    await post.heard(sent, 4)
    await post.heard(sent, 5, Source.TRANSCRIPT)
    found = await post.message(57)
    assert (found.state, found.evidence, found.submitted_at) == (
        MessageState.SUBMITTED,
        HOOK,
        "2026-01-27T15:10:01.000Z",
    )
    assert len(await post.store.events(sessions=[ID], type=EventType.MESSAGE)) == 1


async def test_late_evidence_submits_what_was_given_up(post: Post) -> None:
    for state in (MessageState.UNCONFIRMED, MessageState.QUEUED):
        number = 57 + list(MessageState).index(state)
        await post.heard(await post.sent(number, state=state))
        assert await post.state(number) is MessageState.SUBMITTED


@pytest.mark.parametrize("state", [MessageState.FAILED, MessageState.EXPIRED, MessageState.ACKNOWLEDGED])
async def test_what_is_over_stays_as_it_is(post: Post, state: MessageState) -> None:
    await post.heard(await post.sent(57, state=state))
    assert await post.state(57) is state


async def test_a_clock_that_is_ahead_does_not_submit_in_the_time_to_come(post: Post) -> None:
    sent = await post.sent(57)
    post.clock[0] = 2
    await post.receipts.prompt_accepted(ID, AcceptedInput(sent, post.at(3600)), Source.TRANSCRIPT)
    assert (await post.message(57)).submitted_at == "2026-01-27T15:10:02.500Z"


@pytest.mark.parametrize(
    "made",
    [
        "{sent} and then rest",
        "{sent}\n[sm] from operator, message 58\nmore",
        "a draft {sent}",
        "a draft\n\n{sent}\nand more of it",
        "[sm] from operator, message 57\nrun the test",
    ],
)
async def test_a_message_among_other_text_is_unconfirmed(post: Post, made: str) -> None:
    sent = await post.sent(57)
    await post.heard(made.format(sent=sent))
    found = await post.message(57)
    assert (found.state, found.reason) == (
        MessageState.UNCONFIRMED,
        "it arrived changed, or together with other text",
    )
    assert post.undelivered() == ["message:57"], "its sender is told"
    await post.heard(sent)
    assert await post.state(57) is MessageState.SUBMITTED


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
async def test_what_only_looks_like_a_message_changes_nothing(post: Post, text: str) -> None:
    await post.sent(57)
    await post.heard(text)
    assert await post.state(57) is MessageState.DELIVERING


async def test_a_message_cannot_tell_of_another(post: Post) -> None:
    other = await post.sent(57)
    forged = await post.sent(58, f"look:\n{other}\n\u200b{other}")
    await post.heard(forged)
    assert (await post.state(57), await post.state(58)) == (MessageState.DELIVERING, MessageState.SUBMITTED)
    forged = await post.sent(59, f"look: {other}")  # in the middle of a line nobody looks for ours
    await post.heard(forged)
    assert (await post.state(57), await post.state(59)) == (MessageState.DELIVERING, MessageState.SUBMITTED)


async def test_a_session_tells_of_its_own_messages_only(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, to=OTHER)
    await post.heard(sent, to="00000000")
    assert await post.state(57) is MessageState.DELIVERING


async def test_what_an_inbox_handed_over_is_confirmed_there(post: Post) -> None:
    await post.heard(await post.sent(57, via=INBOX))
    await post.heard(await post.sent(58, state=MessageState.QUEUED, via=None))
    assert (await post.state(57), await post.state(58)) == (MessageState.DELIVERING, MessageState.QUEUED)


# ------------------------------------------------------------------------------------------------- taken back


async def test_what_was_taken_out_of_the_agents_queue_was_not_read(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1, Source.TRANSCRIPT, queued=True)
    await post.heard(sent, 2, Source.TRANSCRIPT, withdrawn=True)
    found = await post.message(57)
    assert (found.state, found.reason) == (
        MessageState.UNCONFIRMED,
        "it was taken back out of the agent's queue, at its terminal",
    )
    assert post.undelivered() == ["message:57"]
    await post.heard(sent, 3)
    assert await post.state(57) is MessageState.SUBMITTED, "and sent on"


async def test_what_was_read_cannot_be_taken_back(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1)
    await post.heard(sent, 2, Source.TRANSCRIPT, withdrawn=True)
    assert await post.state(57) is MessageState.SUBMITTED


# ------------------------------------------------------------------------------------------------- acknowledged


async def test_the_end_of_its_turn_acknowledges_a_message(post: Post) -> None:
    await post.heard(await post.sent(57), 1)
    await post.heard(await post.sent(58), 5)
    await post.receipts.turn_ended(ID, post.at(4))
    found = await post.message(57)
    assert (found.state, found.acknowledged_at) == (MessageState.ACKNOWLEDGED, "2026-01-27T15:10:04.000Z")
    assert await post.state(58) is MessageState.SUBMITTED, "it came after that"
    await post.receipts.turn_ended(ID, post.at(6))
    assert await post.state(58) is MessageState.ACKNOWLEDGED


async def test_what_waits_in_the_agents_queue_is_not_of_the_turn_that_ends(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1, Source.TRANSCRIPT, queued=True)
    await post.receipts.turn_ended(ID, post.at(2))
    assert await post.state(57) is MessageState.SUBMITTED
    await post.heard(sent, 3, Source.TRANSCRIPT)
    await post.receipts.turn_ended(ID, post.at(2))
    assert await post.state(57) is MessageState.SUBMITTED
    await post.receipts.turn_ended(ID, post.at(4))
    assert await post.state(57) is MessageState.ACKNOWLEDGED


async def test_turns_end_for_one_session_and_for_what_comes_later_too(post: Post) -> None:
    await post.receipts.turn_ended(ID, post.at(1))
    await post.heard(await post.sent(57), 2)
    await post.heard(await post.sent(58, to=OTHER), 2, to=OTHER)
    await post.receipts.turn_ended(OTHER, post.at(1))
    await post.receipts.turn_ended(ID, post.at(3))
    assert (await post.state(57), await post.state(58)) == (MessageState.ACKNOWLEDGED, MessageState.SUBMITTED)


# --------------------------------------------------------------------------------------------------- put back


async def test_what_stands_in_the_box_again_while_nothing_goes_on_was_not_read(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1)
    assert await post.receipts.returned(ID, sent) == sent
    found = await post.message(57)
    assert (found.state, "put back" in (found.reason or "")) == (MessageState.UNCONFIRMED, True)


async def test_a_copy_of_what_was_dealt_with_says_nothing(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1)
    await post.receipts.turn_ended(ID, post.at(4))
    assert await post.receipts.returned(ID, sent) == sent
    assert await post.state(57) is MessageState.ACKNOWLEDGED


async def test_what_never_arrived_and_what_others_got_is_nothing_that_was_put_back(post: Post) -> None:
    waits, others = await post.sent(57), await post.sent(58, to=OTHER)
    await post.heard(others, 1, to=OTHER)
    for draft in (waits, others, "my draft"):
        assert await post.receipts.returned(ID, draft) is None
    assert await post.state(58) is MessageState.SUBMITTED


async def test_what_the_conversation_goes_on_without_was_not_read(post: Post) -> None:
    first, second = await post.sent(57), await post.sent(58)
    await post.heard(first, 1)
    await post.prompt(first, 1, "a1")
    await post.prompt(second, 3, "a1")
    found = await post.message(57)
    assert (found.state, "goes on without it" in (found.reason or "")) == (MessageState.UNCONFIRMED, True)
    assert await post.state(58) is MessageState.SUBMITTED
    await post.prompt("", 5, "a1")
    assert await post.state(58) is MessageState.UNCONFIRMED, "also when a person goes on"


@pytest.mark.parametrize(
    ("then", "parent"),
    [("again", "a1"), ("beside", "a1"), ("other", "b2")],
    ids=["again", "beside", "behind"],
)
async def test_what_is_in_the_conversation_stays_submitted(post: Post, then: str, parent: str) -> None:
    first = await post.sent(57)
    await post.prompt(first, 1, "a1")
    await post.prompt({"again": first, "beside": f"{first}\nand mine", "other": "mine"}[then], 3, parent)
    assert await post.state(57) is MessageState.SUBMITTED


async def test_what_was_dealt_with_stays_so_when_a_person_goes_back(post: Post) -> None:
    first = await post.sent(57)
    await post.prompt(first, 1, "")
    await post.receipts.turn_ended(ID, post.at(2))
    await post.prompt("mine", 3, "")
    assert await post.state(57) is MessageState.ACKNOWLEDGED


async def test_what_was_put_back_is_not_submitted_again_by_older_news(post: Post) -> None:
    first = await post.sent(57)
    await post.heard(first, 1)
    await post.prompt("", 2, "a1")
    post.clock[0] = 5
    assert await post.receipts.returned(ID, first) == first
    await post.prompt(first, 1, "a1")
    assert await post.state(57) is MessageState.UNCONFIRMED
    await post.prompt(first, 9, "a1")
    assert await post.state(57) is MessageState.SUBMITTED, "somebody has sent it after all"


async def test_the_end_of_the_turn_that_goes_on_without_it_acknowledged_nothing(post: Post) -> None:
    first = await post.sent(57)
    await post.prompt(first, 1, "a1")
    await post.receipts.turn_ended(ID, post.at(5))
    assert await post.state(57) is MessageState.ACKNOWLEDGED
    await post.prompt("mine", 3, "a1")
    found = await post.message(57)
    assert (found.state, found.acknowledged_at) == (MessageState.UNCONFIRMED, None)


# ---------------------------------------------------------------------------- refused by a hook of its user's

REFUSED = 'a hook of its user refused it: "no secrets here"'


async def refuse(post: Post, text: str, second: int = 2, **how: Any) -> None:
    await post.heard(text, second, Source.TRANSCRIPT, **{"refused": "no secrets\nhere"} | how)


@pytest.mark.parametrize("heard_first", [True, False])
async def test_what_a_hook_of_its_user_refused_has_failed(post: Post, heard_first: bool) -> None:
    sent = await post.sent(57)
    if heard_first:
        await post.heard(sent, 1)
    await refuse(post, sent)
    await post.heard(sent, 3)
    found = await post.message(57)
    assert (found.state, found.reason) == (MessageState.FAILED, REFUSED), "the hook of sm runs beside it"
    assert post.undelivered() == ["message:57"], "its sender is told"


async def test_what_was_refused_at_the_end_of_the_queue_has_failed(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1, Source.TRANSCRIPT, queued=True)
    await refuse(post, sent)
    assert await post.state(57) is MessageState.FAILED


async def test_the_end_of_the_next_turn_acknowledges_nothing_that_was_refused(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1)
    await post.receipts.turn_ended(ID, post.at(5))
    assert await post.state(57) is MessageState.ACKNOWLEDGED
    await refuse(post, sent, 2)
    found = await post.message(57)
    assert (found.state, found.acknowledged_at, found.reason) == (MessageState.FAILED, None, REFUSED)


async def test_what_was_read_before_is_not_refused(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1)
    await post.receipts.turn_ended(ID, post.at(2))
    await refuse(post, sent, 4)
    assert await post.state(57) is MessageState.ACKNOWLEDGED, "somebody has sent it a second time"


async def test_a_hook_refuses_what_is_of_this_session_and_nothing_that_is_quoted(post: Post) -> None:
    other, quoted = await post.sent(57, to=OTHER), await post.sent(58)
    await post.heard(other, 1, to=OTHER)
    await post.heard(quoted, 1)
    await refuse(post, other)
    await refuse(post, f"look at this:\n\n{quoted}\nwhich I got")
    assert {await post.state(57), await post.state(58)} == {MessageState.SUBMITTED}


async def test_what_was_refused_together_with_other_text_has_failed(post: Post) -> None:
    mixed = f"a draft {await post.sent(57)}"
    await post.heard(mixed, 1)
    assert await post.state(57) is MessageState.UNCONFIRMED
    await refuse(post, mixed)
    assert await post.state(57) is MessageState.FAILED


async def test_what_a_hook_of_its_user_stops_stands_in_the_conversation(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1)
    await post.prompt(sent, 1, "a1")
    await refuse(post, "", 2, kept=True)
    found = await post.message(57)
    assert (found.state, found.reason) == (
        MessageState.UNCONFIRMED,
        'a hook of its user stopped what it began: "no secrets here"; it is read with the next prompt',
    )
    assert post.undelivered() == ["message:57"]
    await post.prompt(sent, 1, "a1")
    assert await post.state(57) is MessageState.UNCONFIRMED


@pytest.mark.parametrize("heard_first", [True, False])
async def test_what_was_refused_unnamed_is_what_the_hook_told_of_last(post: Post, heard_first: bool) -> None:
    before, sent = await post.sent(57), await post.sent(58)
    await post.heard(before, 1)
    await post.prompt(before, 1, "a1")
    if heard_first:
        await post.heard(sent, 3)
    await refuse(post, "", 3)
    if not heard_first:
        await post.heard(sent, 3)
    found = await post.message(58)
    assert (found.state, found.reason) == (MessageState.UNCONFIRMED, REFUSED)
    assert await post.state(57) is MessageState.SUBMITTED
    await post.heard(sent, 5)
    await post.prompt(sent, 5, "b2")
    assert await post.state(58) is MessageState.SUBMITTED, "it was let through at last"


async def test_what_was_refused_unnamed_may_be_a_persons(post: Post) -> None:
    sent = await post.sent(57)
    await post.heard(sent, 1)
    await post.heard("mine", 3)
    await refuse(post, "", 3)
    assert await post.state(57) is MessageState.SUBMITTED
    await refuse(post, "", 5)
    await post.heard("mine", 5)
    await post.heard(await post.sent(58), 5)
    await refuse(post, "", 7)
    await refuse(post, "", 8)
    await post.heard(await post.sent(59), 9)
    assert (await post.state(58), await post.state(59)) == (MessageState.UNCONFIRMED, MessageState.SUBMITTED)


async def test_a_stop_of_what_a_person_has_typed_concerns_no_message(post: Post) -> None:
    sent = await post.sent(57)
    await post.prompt(sent, 1, "a1")
    await post.prompt("", 2, "b2")
    await refuse(post, "", 3, kept=True)
    assert await post.state(57) is MessageState.SUBMITTED


@pytest.mark.parametrize("kept", [False, True])
async def test_a_notice_that_is_refused_is_for_who_stands_above(post: Post, kept: bool) -> None:
    text = "child claude-5e6f7a8b has ended"
    async with post.store.transaction() as tx:
        sm = Message(
            57, ID, SM_ITSELF, MessageMode.AUTO, MessageState.QUEUED, samples.AT, samples.AT, via=TERMINAL
        )
        notice = Notice(3, OTHER, ID, NoticeKind.ENDING, "ending:1", text, samples.AT)
        await tx.mail.add_notice(notice)
        tx.mail.add_message(sm, text)
        tx.mail.finish_notices([notice], "sent", 57)
    sent = letter("sm", 57, text)
    await post.prompt(sent, 1, "a1")
    await refuse(post, "" if kept else sent, kept=kept)
    assert await post.state(57) is MessageState.FAILED
    assert [n.recipient for n in post.store.mail.open.notices.values()] == [None]
