"""Compacting the conversation of a session whose context is full, on a real SQLite file."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.config import Config
from sm.config.model import RetrySettings
from sm.core.faults import Fault, FaultKind
from sm.core.messages import Message
from sm.core.observation import Source
from sm.core.states import MessageMode, MessageState, NoticeKind
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s
from sm.providers import make_providers
from sm.state.compactions import GO_ON
from sm.state.faults import Faults
from sm.state.message_steps import arrive, finish
from sm.state.notices import Notices
from sm.store import Store
from tests.samples import LAUNCH, commit, session

AT = "2026-11-25T10:00:00.000Z"
SESSION = replace(session("aaaa1111", status=Status.IDLE), provider="claude")
CONFIG = Config(retry=RetrySettings(max=0), on_context_full="compact")
NOTICES = Notices(CONFIG)
FAULTS = Faults(CONFIG, NOTICES, make_providers(CONFIG))
FULL = Fault(FaultKind.CONTEXT_FULL, "Prompt is too long", "the context is full")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db"), lambda: AT) as opened:
        async with opened.transaction() as tx:
            await tx.insert(SESSION, LAUNCH, None)
            await FAULTS.record(tx, SESSION.id, FULL, epoch_s(AT), "t1", Source.HOOK)
        yield opened


async def texts(store: Store) -> list[str]:
    return list((await store.mail.texts(list(store.mail.open.messages))).values())


def command(store: Store) -> Message:
    (found,) = [m for m in store.mail.open.messages.values() if m.mode is MessageMode.COMMAND]
    return found


def told(store: Store) -> list[str]:
    return [n.text for n in store.mail.open.notices.values() if n.kind is NoticeKind.FAULT]


async def test_full_context_sends_the_command_and_the_message_to_go_on(store: Store) -> None:
    assert (await texts(store), told(store)) == (["/compact", GO_ON], [])


async def test_message_to_go_on_stays_when_the_command_arrives(store: Store) -> None:
    await commit(store, lambda tx: arrive(tx, command(store), AT, "hook"))
    assert await texts(store) == [GO_ON]


async def test_message_to_go_on_is_withdrawn_when_the_command_is_unconfirmed(store: Store) -> None:
    await commit(
        store, lambda tx: finish(tx, NOTICES, command(store), MessageState.UNCONFIRMED, "not confirmed")
    )
    assert await texts(store) == []
    (text,) = told(store)
    assert "does not go on: its compaction by sm is unconfirmed (not confirmed)" in text
