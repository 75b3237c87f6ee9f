"""Facts that a delivery reads from the database."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sm.core.messages import QUEUED_BY_AGENT, TERMINAL, Message
from sm.core.states import MessageMode, MessageState
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.messaging.delivery_record import DeliveryRecord, StoredDelivery
from sm.messaging.receipts import DeliveryReceipts
from sm.providers.claude.box_reader import ClaudeBoxReader
from sm.sessions.manager import Manager
from sm.store import Store
from tests import samples
from tests.session_manager import open_manager

ID = "1a2b3c4d"


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Store, Manager]]:
    async with open_manager(tmp_path, lambda: iso(time.time())) as (store, manager):
        yield store, manager


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
    opened: tuple[Store, Manager], changes: dict[str, Any], evidence: str, idle_s: float, expected: bool
) -> None:
    store, manager = opened
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
        store, DeliveryRecord(store, manager), DeliveryReceipts(store, manager), waiting, ID, "t",
        cast(Any, ClaudeBoxReader()), "second", None,
    )  # fmt: skip
    assert await delivery.is_behind_queue() is expected
