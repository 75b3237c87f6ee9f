"""The rows of a session in its archive."""

import pytest

from sm.core.messages import Message
from sm.core.models import Checkpoint
from sm.core.states import MessageMode, MessageState
from sm.store import Store, records
from tests.samples import AT, LAUNCH, commit, session

PARENT, CHILD = session("aaaa1111"), session("aaaa2222", parent="aaaa1111")


@pytest.fixture
async def store(store: Store) -> Store:
    for made in (PARENT, CHILD):
        await commit(store, lambda tx, made=made: tx.insert(made, LAUNCH, None))  # type: ignore[misc]
    return store


async def write(store: Store, *texts: str, recipient: str | None = CHILD.id, sender: str = PARENT.id) -> None:
    async with store.transaction() as tx:
        for text in texts:
            number = tx.mail.new_id("messages")
            sent = Message(number, recipient, sender, MessageMode.AUTO, MessageState.SUBMITTED, AT, AT)
            tx.mail.add_message(sent, text)


async def texts_of(store: Store) -> list[str]:
    return [row["text"] for row in (await store.records.rows_of(CHILD.id))["messages.jsonl"]]


@pytest.mark.parametrize("rows", [1, 2, 100])
async def test_records_of_a_session_have_each_row_once_in_order(
    store: Store, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(records, "_PAGE_ROWS", rows)
    for number in (1, 2, 3):
        at = Checkpoint(AT, f"checkpoint {number}", {})
        await commit(store, lambda tx, at=at: tx.checkpoint(CHILD, at, at.message))  # type: ignore[misc]
    await write(store, "one")
    await write(store, "two", recipient=PARENT.id, sender=CHILD.id)
    await write(store, "three", recipient=CHILD.id, sender=CHILD.id)
    await write(store, "not mine", recipient=PARENT.id, sender="operator")
    found = await store.records.rows_of(CHILD.id)
    assert [row["message"] for row in found["events.jsonl"]] == [
        "checkpoint 1",
        "checkpoint 2",
        "checkpoint 3",
    ]
    assert [row["message"] for row in found["checkpoints.jsonl"]] == [
        "checkpoint 1",
        "checkpoint 2",
        "checkpoint 3",
    ]
    assert [row["text"] for row in found["messages.jsonl"]] == ["one", "two", "three"]
    assert found["requests.jsonl"] == []


async def test_oldest_records_are_left_out_above_a_size(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_CHARACTERS_MAX", 5_000)
    monkeypatch.setattr(records, "_PAGE_ROWS", 2)
    await write(store, *(letter * 1_500 for letter in "abcdef"))
    assert [text[0] for text in await texts_of(store)] == ["d", "e", "f"]
