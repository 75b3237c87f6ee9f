"""Each session gets one topic of the forum, whatever Telegram, the connection and people do."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from sm.config import TelegramSection
from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.telegram_model import BotMethod, Need, NewCall, TelegramCounts, session_object
from sm.core.telegram_threads import TOPIC, Topic, TopicState
from sm.services import Reads, TelegramLink
from sm.store import Store
from sm.telegram.client import BotClient
from sm.telegram.forum import NO_RIGHT, Forum
from sm.telegram.sender import Sender
from sm.telegram.topics import Topics, topic_changes, topic_title
from tests.samples import LAUNCH, session
from tests.telegram.conftest import records
from tests.telegram_api import Chat, Fault, Person, TelegramApi
from tests.waits import until

FORUM = -1_001_000_000_001
ROOT = "aaaa1111"


@pytest.fixture
def forum(api: TelegramApi) -> Chat:
    return api.group(FORUM, "Fleet", is_forum=True, is_admin=True)


@pytest.fixture
async def root(store: Store) -> Session:
    made = session(ROOT, status=Status.RUNNING)
    async with store.transaction() as tx:
        await tx.insert(made, LAUNCH, None)
    return made


@asynccontextmanager
async def sending(store: Store, client: BotClient) -> AsyncIterator[Forum]:
    """The sender and the facts about the forum, as the bot runs them."""
    link = TelegramLink(time.monotonic)
    telegram = records(store, link)
    known = Forum(telegram, client, link, TelegramSection(groups=(FORUM,), owner_ids=(1001,)))
    sender = Sender(telegram, client, link, Topics(telegram, Reads(store), known))
    tasks = [asyncio.create_task(known.run())]
    await known.known()
    tasks.append(asyncio.create_task(sender.run()))
    try:
        yield known
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def say(store: Store, *texts: str, need: Need = Need.ENDING) -> None:
    """Queue messages for the topic of the session."""
    async with store.transaction() as tx:
        for text in texts:
            parameters = {"text": text, TOPIC: ROOT}
            await tx.telegram.queue(
                NewCall(FORUM, BotMethod.SEND_MESSAGE, parameters, need, about=session_object(ROOT))
            )


async def until_empty(store: Store) -> None:
    assert await store.wait_until(lambda: not store.mail.open.outgoing, 60)


async def topic_of(store: Store) -> Topic:
    topic = await store.telegram.threads.topic(ROOT, FORUM)
    assert topic is not None
    return topic


def placed(api: TelegramApi) -> list[tuple[str, int | None]]:
    return [(message.text, message.thread_id) for message in api.messages(FORUM)]


async def test_first_message_makes_the_topic_and_the_next_ones_are_in_it(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    async with sending(store, client):
        assert api.topics(forum) == []
        await say(store, "one", "two")
        await until_empty(store)
    (topic,) = api.topics(forum)
    assert topic.name == f"engineer-{ROOT}"
    assert placed(api) == [("one", topic.id), ("two", topic.id)]
    made = await topic_of(store)
    assert (made.state, made.calls, made.thread_id) == (TopicState.MADE, 1, topic.id)
    assert await store.telegram.threads.session_of_thread(FORUM, topic.id) == ROOT


async def test_row_says_making_before_the_call(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    api.fault("createForumTopic", Fault.SILENCE)
    async with sending(store, client):
        await say(store, "one")
        await asyncio.to_thread(api.wait_for, lambda: api.sent("createForumTopic"), "the call")
        assert (await topic_of(store)).state is TopicState.MAKING
        assert [call.state for call in store.mail.open.outgoing.values()] == ["pending"]


async def test_topic_whose_answer_was_lost_is_made_once_more(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    api.fault("createForumTopic", Fault.CUT_AFTER)
    async with sending(store, client):
        await say(store, "one")
        await until_empty(store)
    assert len(api.topics(forum)) == 2
    assert placed(api) == [("one", api.topics(forum)[1].id)]


async def test_no_third_topic_is_made_and_messages_reply_to_the_first_one(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    api.fault("createForumTopic", Fault.CUT_AFTER, times=5)
    async with sending(store, client):
        await say(store, "one", "two")
        await until_empty(store)
    assert len(api.topics(forum)) == 2
    first, second = api.messages(FORUM)
    assert (first.thread_id, second.thread_id, second.reply_to) == (None, None, first.message_id)
    assert (await topic_of(store)).state is TopicState.LOST


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.BAD_GATEWAY, Fault.FLOOD])
async def test_fault_leaves_at_most_one_topic_with_messages(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session, fault: Fault
) -> None:
    api.retry_after_s = 1
    api.fault("createForumTopic", fault)
    async with sending(store, client):
        await say(store, "one")
        await until_empty(store)
    (topic,) = api.topics(forum)
    assert placed(api) == [("one", topic.id)]
    assert api.world.ignored_waits == []


async def test_no_topic_is_made_in_place_of_one_that_a_crash_interrupted(
    path: str, client: BotClient, api: TelegramApi, forum: Chat
) -> None:
    async with await Store.open(path) as store:
        async with store.transaction() as tx:
            await tx.insert(session(ROOT, status=Status.RUNNING), LAUNCH, None)
            tx.telegram.threads.put_topic(Topic(ROOT, FORUM, TopicState.MAKING, calls=1))
        await say(store, "one", "two")
    async with await Store.open(path) as store, sending(store, client):
        await until_empty(store)
    assert api.topics(forum) == []
    first, second = api.messages(FORUM)
    assert (first.text, second.text, second.reply_to) == ("one", "two", first.message_id)


async def test_deleted_topic_is_made_anew_once_at_the_next_message(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    async with sending(store, client):
        await say(store, "one")
        await until_empty(store)
        api.delete_topic(forum, api.topics(forum)[0].id)
        assert len(api.topics(forum)) == 1
        await say(store, "two")
        await until_empty(store)
        again = api.topics(forum)[1]
        assert placed(api) == [("two", again.id)]
        api.delete_topic(forum, again.id)
        await say(store, "three")
        await until_empty(store)
    assert len(api.topics(forum)) == 2
    assert placed(api) == [("three", None)]
    assert await store.telegram.counts() == TelegramCounts()


async def test_bot_without_the_right_uses_replies_and_says_so_once(
    path: str, client: BotClient, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    forum.can_manage_topics = False
    for text in ("one", "two"):
        if text == "two":
            ann.joins(forum)  # other facts about the group
        async with await Store.open(path) as store, sending(store, client):
            if text == "one":
                async with store.transaction() as tx:
                    await tx.insert(session(ROOT, status=Status.RUNNING), LAUNCH, None)
            await say(store, text)
            await until_empty(store)
    assert api.topics(forum) == []
    told, first, second = api.messages(FORUM)
    assert told.text == NO_RIGHT
    assert (first.text, second.text, second.reply_to) == ("one", "two", first.message_id)
    assert api.sent("createForumTopic") == []


async def test_right_that_was_taken_away_is_noticed_at_the_call_and_used_again_when_it_is_back(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    async with sending(store, client) as known:
        forum.can_manage_topics = False
        await say(store, "one")
        await until_empty(store)
        assert [text for text, _ in placed(api)] in (["one", NO_RIGHT], [NO_RIGHT, "one"])
        forum.can_manage_topics = True
        known.check_again()
        await asyncio.to_thread(until, lambda: known.can_manage, "the right is known")
        await say(store, "two")
        await until_empty(store)
    (topic,) = api.topics(forum)
    assert placed(api)[-1] == ("two", topic.id)


async def test_topic_is_closed_with_the_outcome_in_its_title_and_reopened(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    async def follow(now: Session) -> None:
        calls, after = topic_changes(await topic_of(store), now)
        async with store.transaction() as tx:
            tx.telegram.threads.queued_topic(after)
            for call in calls:
                await tx.telegram.queue(call)
        await until_empty(store)

    async with sending(store, client):
        await say(store, "one")
        await until_empty(store)
        (topic,) = api.topics(forum)
        api.fault("closeForumTopic", Fault.CUT_AFTER)
        await follow(replace(root, status=Status.COMPLETED))
        assert (topic.name, topic.closed) == (f"engineer-{ROOT}: completed", True)
        calls = len(api.sent("editForumTopic"))
        await follow(replace(root, status=Status.COMPLETED))
        assert len(api.sent("editForumTopic")) == calls
        await follow(root)
        assert (topic.name, topic.closed) == (f"engineer-{ROOT}", False)
        api.delete_topic(forum, topic.id)
        await follow(replace(root, status=Status.KILLED))
    assert len(api.topics(forum)) == 1
    assert await store.telegram.counts() == TelegramCounts()


async def test_topic_of_a_session_that_ended_meanwhile_is_closed(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat
) -> None:
    async with store.transaction() as tx:
        await tx.insert(session(ROOT, status=Status.KILLED), LAUNCH, None)
    async with sending(store, client):
        await say(store, "it was killed")
        await until_empty(store)
    (topic,) = api.topics(forum)
    assert (topic.name, topic.closed) == (f"engineer-{ROOT}: killed", True)
    assert placed(api) == [("it was killed", topic.id)]


async def test_waiting_message_keeps_its_thread_when_its_text_changes(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, root: Session
) -> None:
    async with store.transaction() as tx:
        for text, replaces in (("old", False), ("new", True)):
            parameters = {"text": text} if replaces else {"text": text, TOPIC: ROOT}
            await tx.telegram.queue(
                NewCall(FORUM, BotMethod.SEND_MESSAGE, parameters, subject="card r1", replaces=replaces)
            )
    async with sending(store, client):
        await until_empty(store)
    assert placed(api) == [("new", api.topics(forum)[0].id)]


@pytest.mark.parametrize("name", ["x" * 200, "😀" * 100, "a\u202eb"])
async def test_every_name_makes_a_title(
    store: Store, client: BotClient, api: TelegramApi, forum: Chat, name: str
) -> None:
    named = replace(session(ROOT, status=Status.ABANDONED), friendly_name=name)
    async with store.transaction() as tx:
        await tx.insert(named, LAUNCH, None)
    async with sending(store, client):
        await say(store, "one")
        await until_empty(store)
    assert api.topics(forum)[0].name == topic_title(named)


async def test_owners_in_the_group_and_its_facts_are_known_after_a_start_without_telegram(
    path: str, client: BotClient, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    ann.joins(forum)
    async with await Store.open(path) as store, sending(store, client) as known:
        assert (known.chat_id, known.can_manage, tuple(known.owners)) == (FORUM, True, (1001,))
    async with (
        BotClient(api.token, "http://127.0.0.1:1") as nobody,
        await Store.open(path) as store,
        sending(store, nobody) as known,
    ):
        assert (known.chat_id, known.can_manage, tuple(known.owners)) == (FORUM, True, (1001,))


async def test_group_without_topics_or_without_the_bot_shows_no_sessions(
    store: Store, client: BotClient, api: TelegramApi
) -> None:
    async with sending(store, client) as known:
        assert (known.chat_id, known.can_manage) == (None, False)
    api.group(FORUM, "Plain", is_admin=True)
    async with sending(store, client) as known:
        known.check_again()
        assert (known.chat_id, known.can_manage) == (None, False)
    assert api.messages(FORUM) == []
