"""Facts that a delivery reads from the database."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sm.core.messages import QUEUED_BY_AGENT, TERMINAL, Message
from sm.core.models import Exit
from sm.core.states import MessageMode, MessageState
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.messaging.delivery_record import DeliveryRecord, StoredDelivery
from sm.messaging.receipts import DeliveryReceipts
from sm.providers.claude.box_reader import ClaudeBoxReader
from sm.store import Store
from tests import samples
from tests.state_parts import StateParts, open_parts

ID = "1a2b3c4d"


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Store, StateParts]]:
    async with open_parts(tmp_path, lambda: iso(time.time())) as (store, parts):
        yield store, parts


@pytest.mark.parametrize(
    ("changes", "evidence", "idle_s", "expected"),
    [
        ({}, QUEUED_BY_AGENT, 1, True),
        ({"status": Status.RUNNING}, QUEUED_BY_AGENT, 1, False),
        ({}, "its UserPromptSubmit hook", 1, False),
        ({}, QUEUED_BY_AGENT, 60, False),
    ],
    ids=["idle", "running", "already read", "idle for long"],
)
async def test_delivery_is_behind_the_agents_queue_only_just_after_a_turn(
    opened: tuple[Store, StateParts], changes: dict[str, Any], evidence: str, idle_s: float, expected: bool
) -> None:
    store, parts = opened
    status_at = iso(time.time() - idle_s)
    session = replace(samples.session(ID, status=Status.IDLE), provider="claude", status_at=status_at)
    queued = Message(
        57, ID, "operator", MessageMode.AUTO, MessageState.SUBMITTED, samples.AT, samples.AT, via=TERMINAL
    )
    waiting = replace(queued, id=58, state=MessageState.QUEUED, via=None)
    async with store.transaction() as tx:
        await tx.insert(replace(session, **changes), samples.LAUNCH, None)
        tx.mail.add_message(replace(queued, evidence=evidence), "first")
        tx.mail.add_message(waiting, "second")
    delivery = StoredDelivery(
        store, DeliveryRecord(store, parts.notices),
        DeliveryReceipts(store, parts.notices, parts.providers), waiting, ID, "t",
        cast(Any, ClaudeBoxReader()), "second", None,
    )  # fmt: skip
    assert await delivery.is_behind_queue() is expected


@pytest.mark.parametrize(
    ("status", "status_s", "expected"),
    [(Status.RUNNING, -5, True), (Status.IDLE, 1, False), (Status.RUNNING, 1, False)],
    ids=["the turn goes on", "the turn has ended", "the turn that reads the queue has begun"],
)
async def test_message_is_in_the_agents_queue_until_the_turn_ends_in_which_it_was_entered(
    opened: tuple[Store, StateParts], status: Status, status_s: float, expected: bool
) -> None:
    """An Escape after that turn would interrupt the turn that reads the message."""
    store, parts = opened
    entered_s = time.time() - 10
    session = replace(samples.session(ID, status=status), status_at=iso(entered_s + status_s))
    queued = Message(
        57, ID, "operator", MessageMode.URGENT, MessageState.SUBMITTED, samples.AT, iso(entered_s), via=TERMINAL,
        evidence=QUEUED_BY_AGENT, submitted_at=iso(entered_s),
    )  # fmt: skip
    async with store.transaction() as tx:
        await tx.insert(session, samples.LAUNCH, None)
        tx.mail.add_message(queued, "now")
    delivery = StoredDelivery(
        store, DeliveryRecord(store, parts.notices),
        DeliveryReceipts(store, parts.notices, parts.providers), queued, ID, "t",
        cast(Any, ClaudeBoxReader()), "now", "Escape",
    )  # fmt: skip
    assert await delivery.is_in_queue() is expected


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (MessageState.FAILED, MessageState.FAILED),
        (MessageState.QUEUED, MessageState.FAILED),
        (MessageState.UNCONFIRMED, MessageState.UNCONFIRMED),
    ],
)
async def test_message_that_was_provably_not_typed_has_failed_although_its_session_ended_first(
    opened: tuple[Store, StateParts], outcome: MessageState, expected: MessageState
) -> None:
    """The end of the agent is recorded while tmux still answers the paste."""
    store, parts = opened
    record = DeliveryRecord(store, parts.notices)
    queued = Message(57, ID, "operator", MessageMode.AUTO, MessageState.QUEUED, samples.AT, samples.AT)
    async with store.transaction() as tx:
        await tx.insert(samples.session(ID, status=Status.IDLE), samples.LAUNCH, None)
        tx.mail.add_message(queued, "run the tests")
    assert await record.take(queued) is not None
    await parts.ends.process_ended(ID, None, Exit(None, 9))
    assert (await store.mail.message(57)).state is MessageState.UNCONFIRMED
    await record.finish(queued, outcome, "the process in terminal t has ended")
    found = await store.mail.message(57)
    assert found.state is expected
    (notice,) = [n for n in store.mail.open.notices.values() if n.occasion == "message:57"]
    proven = "failed: the process in terminal t has ended" in notice.text
    assert proven is (expected is MessageState.FAILED)
