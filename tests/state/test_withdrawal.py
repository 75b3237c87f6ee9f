"""Withdrawal of notices that no longer apply, on a real database."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sm.config import Config
from sm.core.messages import INBOX, SM_ITSELF, Message, Notice
from sm.core.models import Caller, Exit
from sm.core.requests import Answer, Question, Request
from sm.core.states import CallerKind, MessageMode, MessageState, NoticeKind, RequestKind, RequestState
from sm.core.statuses import Status
from sm.messaging.timers import QUIET_S, MailTimers
from sm.sessions.acknowledgements import acknowledge_endings
from sm.sessions.archive import Records
from sm.sessions.keepers import Keepers
from sm.sessions.kill import Kills
from sm.sessions.leftovers import Leftovers
from sm.sessions.waits import AFTER_A_RESTART_S, WaitingSessions
from sm.state.message_steps import finish
from sm.state.request_steps import NewRequest, finish_request, open_request
from sm.store import Store
from tests import samples
from tests.sandboxes.terminal import without_cgroups
from tests.state_parts import StateParts, open_parts
from tests.waits import NEVER_S

PARENT, CHILD, ROOT = "aaaa1111", "bbbb2222", "cccc3333"
OPERATOR = Caller(CallerKind.OPERATOR)


@dataclass
class Mail:
    """A parent with an ended child, an ended session of the operator, and their notices."""

    store: Store
    parts: StateParts

    async def ask(self, session_id: str) -> Request:
        """Open a request, with its notice."""
        asked = NewRequest(RequestKind.QUESTION, (Question("which way?"),))
        async with self.store.transaction() as tx:
            return await open_request(
                tx, self.parts.notices, tx.session(session_id), asked, tx.now, expires_at=None
            )

    async def answer(self, request: Request) -> None:
        answer = Answer(True, ("left",))
        async with self.store.transaction() as tx:
            now = await tx.mail.request(request.id)
            changes = {"state": RequestState.ANSWERED, "answer": answer, "taken_at": tx.now}
            await finish_request(tx, tx.session(now.session_id), now, tx.now, **changes)

    async def add(
        self, session_id: str, recipient: str | None, kind: NoticeKind = NoticeKind.ENDING
    ) -> Notice:
        """Add a notice about the session."""
        async with self.store.transaction() as tx:
            number = tx.mail.new_id("notices")
            text = f"{kind} of {session_id}"
            notice = Notice(number, session_id, recipient, kind, f"{kind}:{number}", text, samples.AT)
            assert await tx.mail.add_notice(notice)
        return notice

    async def send(self, recipient: str | None = None, state: MessageState = MessageState.QUEUED) -> Message:
        """Combine the pending notices for the recipient into a message."""
        async with self.store.transaction() as tx:
            number = tx.mail.new_id("messages")
            at, via = samples.AT, None if state is MessageState.QUEUED else INBOX
            message = Message(number, recipient, SM_ITSELF, MessageMode.AUTO, state, at, at, via=via)
            notices = [n for n in tx.mail.open.notices.values() if n.recipient == recipient]
            tx.mail.add_message(message, "\n".join(n.text for n in notices))
            tx.mail.finish_notices(notices, "sent", number)
        return message

    async def inbox(self, recipient: str | None = None) -> list[str]:
        """The texts of the queued messages."""
        queued = [message.id for message in self.store.mail.queued().get(recipient, ())]
        texts = await self.store.mail.texts(queued)
        return [texts[number] for number in queued]


@pytest.fixture
async def mail(tmp_path: Path) -> AsyncIterator[Mail]:
    async with open_parts(tmp_path, lambda: samples.AT) as (store, parts):
        async with store.transaction() as tx:
            parent = samples.session(PARENT, status=Status.RUNNING)
            child = samples.session(CHILD, parent=PARENT, status=Status.ERROR)
            root = samples.session(ROOT, status=Status.ERROR)
            for session in (parent, replace(child, exit=Exit(1)), replace(root, exit=Exit(1))):
                await tx.insert(session, samples.LAUNCH, None)
        yield Mail(store, parts)


async def test_queued_notice_of_a_request_is_withdrawn_when_the_request_is_closed(mail: Mail) -> None:
    request = await mail.ask(ROOT)
    sent = await mail.send()
    assert len(await mail.inbox()) == 1
    await mail.answer(request)
    assert await mail.inbox() == []
    found = await mail.store.mail.message(sent.id)
    assert (found.state, found.reason) == (MessageState.EXPIRED, "withdrawn: it no longer applies")
    assert await mail.store.mail.lost() == 0, "it is no dead letter"


async def test_other_notices_of_the_message_stay_in_the_inbox_when_one_is_withdrawn(mail: Mail) -> None:
    first, second = await mail.ask(ROOT), await mail.ask(ROOT)
    await mail.add(ROOT, None)
    sent = await mail.send()
    (text,) = await mail.inbox()
    lines = text.split("\n")
    await mail.answer(first)
    assert await mail.inbox() == ["\n".join(lines[1:])]
    await mail.answer(second)
    assert await mail.inbox() == [f"ending of {ROOT}"]
    assert (await mail.store.mail.message(sent.id)).reason == (
        f"withdrawn: message {sent.id + 1} has the notices that still apply"
    )


async def test_taken_notice_is_not_withdrawn(mail: Mail) -> None:
    request = await mail.ask(ROOT)
    sent = await mail.send(state=MessageState.DELIVERING)
    await mail.answer(request)
    assert await mail.store.mail.message(sent.id) == sent


async def test_notice_is_not_sent_again_when_its_request_was_closed_meanwhile(mail: Mail) -> None:
    request = await mail.ask(ROOT)
    sent = await mail.send(state=MessageState.DELIVERING)
    await mail.answer(request)
    ending = await mail.add(CHILD, None)
    async with mail.store.transaction() as tx:
        await finish(tx, mail.parts.notices, sent, MessageState.UNCONFIRMED, "not confirmed")
    waiting = WaitingSessions(mail.store, mail.parts.notices, mail.parts.providers)
    leftovers = Leftovers(mail.store, mail.parts.authorizer, without_cgroups())
    kills = Kills(mail.store, mail.parts.authorizer, lambda: None, leftovers)
    timers = MailTimers(mail.store, mail.parts.notices, kills, waiting)
    running = asyncio.create_task(timers.run())
    try:
        assert await mail.store.wait_until(lambda: not mail.store.mail.open.notices, NEVER_S)
    finally:
        running.cancel()
    assert await mail.inbox() == [ending.text]


async def test_ending_is_held_after_a_restart_until_an_interrupted_wait_may_have_come_back(
    mail: Mail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent that waits with `sm wait` hears of the ending from the answer: the wait is repeated by its command."""
    clock = [1000.0]
    monkeypatch.setattr("sm.messaging.timers.time", Clock(clock))
    waiting = WaitingSessions(mail.store, mail.parts.notices, mail.parts.providers)
    leftovers = Leftovers(mail.store, mail.parts.authorizer, without_cgroups())
    kills = Kills(mail.store, mail.parts.authorizer, lambda: None, leftovers)
    timers = MailTimers(mail.store, mail.parts.notices, kills, waiting)
    timers.begin()
    for kind, recipient in ((NoticeKind.ENDING, PARENT), (NoticeKind.CHECKPOINT, PARENT)):
        await mail.add(CHILD, recipient, kind)
    await mail.add(ROOT, None)

    async def pending() -> list[tuple[str, str | None]]:
        await timers.run_due()
        clock[0] += QUIET_S
        await timers.run_due()
        return [(notice.kind, notice.recipient) for notice in mail.store.mail.open.notices.values()]

    assert await pending() == [(NoticeKind.ENDING, PARENT)], "only an ending that a wait may tell is held"
    clock[0] += AFTER_A_RESTART_S - 3 * QUIET_S
    assert await pending() == [(NoticeKind.ENDING, PARENT)]
    clock[0] += 2 * QUIET_S
    assert await pending() == []


@dataclass
class Clock:
    """Replaces the module `time`."""

    now_s: list[float]

    def monotonic(self) -> float:
        return self.now_s[0]

    def time(self) -> float:
        return self.now_s[0]


def records(mail: Mail) -> Records:
    async def read_to_end(session_id: str) -> None:
        """The sessions have no transcripts."""

    parts, naming = mail.parts, Config().sessions.naming
    return Records(mail.store, parts.authorizer, parts.quota, naming, read_to_end, Keepers())


async def test_notices_of_a_removed_session_leave_the_inbox_of_the_caller_who_removed_it(mail: Mail) -> None:
    await mail.add(ROOT, None)
    await mail.add(ROOT, None, NoticeKind.UNDELIVERED)
    await mail.send()
    await mail.add(CHILD, None)
    await mail.send()
    await records(mail).remove(OPERATOR, ROOT, None)
    assert await mail.inbox() == [f"ending of {CHILD}"]


@pytest.mark.parametrize("sent", [False, True])
async def test_parent_still_gets_the_ending_when_the_operator_removes_the_child(
    mail: Mail, sent: bool
) -> None:
    for kind in (NoticeKind.CHECKPOINT, NoticeKind.ENDING):
        await mail.add(CHILD, PARENT, kind)
    if sent:
        await mail.send(PARENT)
    await records(mail).remove(OPERATOR, CHILD, None)
    if not sent:
        await mail.send(PARENT)
    assert await mail.inbox(PARENT) == [f"ending of {CHILD}"]


async def test_notice_of_a_removed_session_keeps_its_text_when_another_one_is_withdrawn(mail: Mail) -> None:
    await mail.add(CHILD, PARENT)
    await mail.add(ROOT, PARENT)
    await mail.send(PARENT)
    await records(mail).remove(OPERATOR, CHILD, None)
    await acknowledge_endings(mail.store, Caller(CallerKind.SESSION, PARENT), [ROOT])
    assert await mail.inbox(PARENT) == [f"ending of {CHILD}"]


async def test_ending_leaves_only_the_inbox_of_the_caller_who_saw_it(mail: Mail) -> None:
    await mail.add(CHILD, PARENT)
    await mail.send(PARENT)
    await mail.add(CHILD, None)
    await mail.add(ROOT, None)
    await mail.send()
    await acknowledge_endings(mail.store, OPERATOR, [CHILD, "ffffffff"])
    assert (await mail.inbox(), await mail.inbox(PARENT)) == ([f"ending of {ROOT}"], [f"ending of {CHILD}"])
    await acknowledge_endings(mail.store, Caller(CallerKind.SESSION, PARENT), [CHILD])
    assert await mail.inbox(PARENT) == []
