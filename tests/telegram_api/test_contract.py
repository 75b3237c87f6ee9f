"""The contract of the Bot API, held by the test server, with the client that the product uses."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from telegram import Bot, BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TimedOut,
)
from telegram.request import HTTPXRequest

from tests.telegram_api import Chat, Fault, Person, TelegramApi
from tests.telegram_api.entities import InvalidEntities, parse_html
from tests.telegram_fixtures import bot_api, certificates, person

FORUM = -1_001_000_000_001


api = bot_api()
ann = person(1001, "Ann", has_started=True)


@pytest.fixture
def forum(api: TelegramApi) -> Chat:
    return api.group(FORUM, "Fleet", is_forum=True, is_admin=True)


@asynccontextmanager
async def client(api: TelegramApi, token: str | None = None, read_timeout: float = 30) -> AsyncIterator[Bot]:
    tls = {"verify": certificates()}
    requests = HTTPXRequest(read_timeout=read_timeout, httpx_kwargs=tls), HTTPXRequest(httpx_kwargs=tls)
    bot = Bot(token or api.token, f"{api.url}/bot", request=requests[0], get_updates_request=requests[1])
    for request in requests:
        await request.initialize()
    try:
        yield bot
    finally:
        for request in requests:
            await request.shutdown()


@pytest.fixture
async def bot(api: TelegramApi) -> AsyncIterator[Bot]:
    async with client(api) as bot:
        yield bot


async def test_get_me_names_the_bot(bot: Bot) -> None:
    me = await bot.get_me()
    assert (me.id, me.is_bot, me.username) == (4242, True, "sm_test_bot")


async def test_update_is_repeated_until_a_higher_offset_confirms_it(bot: Bot, ann: Person) -> None:
    ann.says("/start")
    ann.says("hello")
    first = await bot.get_updates()
    assert [update.message.text for update in first if update.message] == ["/start", "hello"]
    assert [update.update_id for update in await bot.get_updates()] == [update.update_id for update in first]
    rest = await bot.get_updates(offset=first[0].update_id + 1)
    assert [update.message.text for update in rest if update.message] == ["hello"]
    assert await bot.get_updates(offset=first[1].update_id + 1) == ()


async def test_negative_offset_keeps_only_the_newest_updates(bot: Bot, ann: Person) -> None:
    for number in range(5):
        ann.says(f"{number}")
    newest = await bot.get_updates(offset=-1)
    assert [update.message.text for update in newest if update.message] == ["4"]
    assert len(await bot.get_updates()) == 1


async def test_long_poll_returns_when_an_update_arrives(bot: Bot, ann: Person, api: TelegramApi) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=50))
    await asyncio.to_thread(api.wait_for, lambda: api._poll, "a poll")
    ann.says("now")
    assert [update.message.text for update in await poll if update.message] == ["now"]


async def test_second_poller_ends_the_first_with_a_conflict(bot: Bot, api: TelegramApi, ann: Person) -> None:
    first = asyncio.create_task(bot.get_updates(timeout=50))
    await asyncio.to_thread(api.wait_for, lambda: api._poll, "a poll")
    second = asyncio.create_task(bot.get_updates(timeout=50))
    with pytest.raises(Conflict, match="terminated by other getUpdates request"):
        await first
    ann.says("for the second")
    assert len(await second) == 1


async def test_updates_come_again_and_out_of_order_when_the_test_says_so(
    bot: Bot, api: TelegramApi, ann: Person
) -> None:
    ann.says("a")
    ann.says("b")
    ids = [update.update_id for update in await bot.get_updates()]
    await bot.get_updates(offset=ids[-1] + 1)
    api.repeat_updates()
    api.world.reversed_order = True
    assert [update.update_id for update in await bot.get_updates()] == ids[::-1]


async def test_wrong_token_is_unauthorized(api: TelegramApi) -> None:
    async with client(api, "1:wrong") as bot:
        with pytest.raises(InvalidToken):
            await bot.get_me()
    async with client(api, "nonsense") as bot:
        with pytest.raises(InvalidToken, match="Not Found"):
            await bot.get_me()


async def test_message_of_4096_units_is_sent_and_of_4097_is_refused(bot: Bot, ann: Person) -> None:
    assert (await bot.send_message(ann.id, "x" * 4096)).message_id
    with pytest.raises(BadRequest, match="Message is too long"):
        await bot.send_message(ann.id, "x" * 4097)
    with pytest.raises(BadRequest, match="Message is too long"):
        await bot.send_message(ann.id, "😀" * 2049)
    assert (await bot.send_message(ann.id, f"<b>{'&lt;' * 4096}</b>", parse_mode="HTML")).text == "<" * 4096


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        ("a <i>b", 'Can\'t find end tag corresponding to start tag "i"'),
        ("a</i>", "Unexpected end tag at byte offset 1"),
        ("ä<b>x</i>", 'Unmatched end tag at byte offset 6, expected "</b>", found "</i>"'),
        ("<script>", 'Unsupported start tag "script" at byte offset 0'),
        ("x < y", "Unclosed start tag at byte offset 2"),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
    ],
)
async def test_html_with_a_mistake_is_refused_in_the_words_of_telegram(
    bot: Bot, ann: Person, markup: str, words: str
) -> None:
    with pytest.raises(InvalidEntities):
        parse_html(markup)
    with pytest.raises(BadRequest) as caught:
        await bot.send_message(ann.id, markup, parse_mode="HTML")
    assert caught.value.message == f"Can't parse entities: {words[0].lower()}{words[1:]}" or (
        caught.value.message == f"Can't parse entities: {words}"
    )


@pytest.mark.parametrize("text", ["", "  \n ", "<b></b>"])
async def test_empty_text_is_refused(bot: Bot, ann: Person, text: str) -> None:
    with pytest.raises(BadRequest, match="Message text is empty"):
        await bot.send_message(ann.id, text, parse_mode="HTML")


async def test_markup_is_removed_and_entities_become_characters(
    bot: Bot, ann: Person, api: TelegramApi
) -> None:
    await bot.send_message(ann.id, "<pre>a &amp; b &#x1F600; &copy;</pre>", parse_mode="HTML")
    assert api.messages(ann.id)[0].text == "a & b 😀 &copy;"


async def test_button_data_is_at_most_64_bytes(bot: Bot, ann: Person, api: TelegramApi) -> None:
    def keyboard(data: str) -> InlineKeyboardMarkup:
        return InlineKeyboardMarkup([[InlineKeyboardButton("Go", callback_data=data)]])

    await bot.send_message(ann.id, "64", reply_markup=keyboard("x" * 64))
    with pytest.raises(BadRequest, match="Button_data_invalid"):
        await bot.send_message(ann.id, "65", reply_markup=keyboard("x" * 65))
    ann.presses(api.messages(ann.id)[0].button("Go"))
    (update,) = await bot.get_updates()
    assert update.callback_query is not None
    assert (update.callback_query.data, update.callback_query.from_user.id) == ("x" * 64, ann.id)
    assert await bot.answer_callback_query(update.callback_query.id, "done")
    with pytest.raises(BadRequest, match="Query is too old"):
        await bot.answer_callback_query(update.callback_query.id)


async def test_callback_query_expires() -> None:
    now = 1_000_000.0
    with TelegramApi(now=lambda: now) as api:
        ann = api.person(1001, "Ann", has_started=True)
        async with client(api) as bot:
            keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Go", callback_data="x")]])
            await bot.send_message(ann.id, "card", reply_markup=keyboard)
            callback = ann.presses(api.messages(ann.id)[0].button("Go"))
            now += 16
            with pytest.raises(BadRequest, match="Query is too old"):
                await bot.answer_callback_query(callback)


async def test_edit_that_changes_nothing_is_refused(bot: Bot, ann: Person) -> None:
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Go", callback_data="x")]])
    message = await bot.send_message(ann.id, "one", reply_markup=keyboard)
    await bot.edit_message_text("two", ann.id, message.message_id, reply_markup=keyboard)
    with pytest.raises(BadRequest, match="Message is not modified"):
        await bot.edit_message_text("two", ann.id, message.message_id, reply_markup=keyboard)
    await bot.edit_message_reply_markup(ann.id, message.message_id)
    with pytest.raises(BadRequest, match="Message is not modified"):
        await bot.edit_message_reply_markup(ann.id, message.message_id)
    with pytest.raises(BadRequest, match="Message to edit not found"):
        await bot.edit_message_text("two", ann.id, 9)


async def test_user_must_write_first_and_may_block_the_bot(bot: Bot, api: TelegramApi) -> None:
    bob = api.person(1002, "Bob")
    with pytest.raises(Forbidden, match="bot can't initiate conversation with a user"):
        await bot.send_message(bob.id, "hello")
    bob.says("/start")
    await bot.send_message(bob.id, "hello")
    bob.blocks()
    with pytest.raises(Forbidden, match="bot was blocked by the user"):
        await bot.send_message(bob.id, "hello")
    with pytest.raises(BadRequest, match="Chat not found"):
        await bot.send_message(7, "hello")


async def test_topics_need_a_forum_and_rights_and_may_vanish(bot: Bot, api: TelegramApi, forum: Chat) -> None:
    plain = api.group(-1_001_000_000_002, "Plain", is_admin=True)
    with pytest.raises(BadRequest, match="The chat is not a forum"):
        await bot.create_forum_topic(plain.id, "x")
    forum.can_manage_topics = False
    with pytest.raises(BadRequest, match="Not enough rights to create a topic"):
        await bot.create_forum_topic(forum.id, "x")
    forum.can_manage_topics = True
    topic = await bot.create_forum_topic(forum.id, "engineer-login")
    thread = topic.message_thread_id
    sent = await bot.send_message(forum.id, "hello", message_thread_id=thread)
    assert sent.message_thread_id == thread
    await bot.edit_forum_topic(forum.id, thread, name="engineer-login: done")
    await bot.close_forum_topic(forum.id, thread)
    with pytest.raises(BadRequest, match="Topic_not_modified"):
        await bot.close_forum_topic(forum.id, thread)
    await bot.reopen_forum_topic(forum.id, thread)
    api.delete_topic(forum, thread)
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(forum.id, "hello", message_thread_id=thread)


async def test_message_in_a_topic_replies_to_the_service_message_that_begins_it(
    bot: Bot, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    thread = (await bot.create_forum_topic(forum.id, "engineer-login")).message_thread_id
    sent = await bot.send_message(forum.id, "a report", message_thread_id=thread)
    ann.says("go on", forum, thread=thread)
    ann.says("no", forum, thread=thread, reply_to=api.world.messages[forum.id, sent.message_id])
    ann.says("in General", forum)
    typed, replied, general = [update.message for update in await bot.get_updates() if update.message]
    assert (typed.message_thread_id, typed.is_topic_message) == (thread, True)
    assert typed.reply_to_message is not None and typed.reply_to_message.forum_topic_created is not None
    assert (typed.reply_to_message.message_id, typed.reply_to_message.forum_topic_created.name) == (
        thread,
        "engineer-login",
    )
    assert replied.reply_to_message is not None and replied.reply_to_message.message_id == sent.message_id
    assert (general.message_thread_id, general.is_topic_message, general.reply_to_message) == (
        None,
        None,
        None,
    )


async def test_deleted_topic_takes_its_messages_with_it(bot: Bot, api: TelegramApi, forum: Chat) -> None:
    thread = (await bot.create_forum_topic(forum.id, "engineer-login")).message_thread_id
    sent = await bot.send_message(forum.id, "a report", message_thread_id=thread)
    api.delete_topic(forum, thread)
    with pytest.raises(BadRequest, match="Message to edit not found"):
        await bot.edit_message_text("changed", forum.id, sent.message_id)
    for change in (bot.close_forum_topic, bot.reopen_forum_topic):
        with pytest.raises(BadRequest, match="Topic_id_invalid"):
            await change(forum.id, thread)
    with pytest.raises(BadRequest, match="Topic_id_invalid"):
        await bot.edit_forum_topic(forum.id, thread, name="x")
    assert api.messages(forum.id) == []


async def test_topic_title_has_at_most_128_characters(bot: Bot, forum: Chat) -> None:
    await bot.create_forum_topic(forum.id, "x" * 128)
    for name in ("x" * 129, " "):
        with pytest.raises(BadRequest, match="Topic_title_invalid"):
            await bot.create_forum_topic(forum.id, name)


async def test_bot_hears_that_its_rights_changed(
    bot: Bot, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    api.allow_topics(forum, False)
    (update,) = await bot.get_updates()
    assert update.my_chat_member is not None
    assert update.my_chat_member.old_chat_member.status == "administrator"
    assert update.my_chat_member.new_chat_member.status == "member"
    ann.joins(forum)
    assert (await bot.get_chat_member(forum.id, ann.id)).status == "member"


async def test_group_in_privacy_mode_shows_the_bot_commands_and_replies_only(
    bot: Bot, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    forum.bot_is_admin = False
    sent = await bot.send_message(forum.id, "question")
    ann.says("chatter", forum)
    ann.says("/list", forum)
    ann.says("an answer", forum, reply_to=api.world.messages[forum.id, sent.message_id])
    texts = [update.message.text for update in await bot.get_updates() if update.message]
    assert texts == ["/list", "an answer"]


async def test_group_that_became_a_supergroup_says_its_new_id(bot: Bot, api: TelegramApi) -> None:
    group = api.group(-500, "Old")
    new = api.migrate(group, -1_001_000_000_500)
    with pytest.raises(ChatMigrated) as caught:
        await bot.send_message(group.id, "hello")
    assert caught.value.new_chat_id == new.id


async def test_flood_is_refused_and_a_caller_who_does_not_wait_is_noted(
    bot: Bot, api: TelegramApi, ann: Person
) -> None:
    api.fault("sendMessage", Fault.FLOOD)
    with pytest.raises(RetryAfter) as caught:
        await bot.send_message(ann.id, "one")
    assert caught.value._retry_after == datetime.timedelta(seconds=5)
    assert api.world.ignored_waits == []
    with pytest.raises(RetryAfter) as again:
        await bot.send_message(ann.id, "one")
    assert again.value._retry_after == datetime.timedelta(seconds=10)
    assert api.world.ignored_waits == [("sendMessage", ann.id)]


async def test_more_than_20_messages_a_minute_to_a_group_are_refused() -> None:
    with TelegramApi(now=lambda: 1_000_000.0) as api:
        api.world.enforces_limits = True
        forum = api.group(FORUM, "Fleet", is_forum=True, is_admin=True)
        async with client(api) as bot:
            for number in range(20):
                await bot.send_message(forum.id, f"{number}")
            with pytest.raises(RetryAfter):
                await bot.send_message(forum.id, "one more")


async def test_connection_cut_before_and_after_differs_in_what_was_done(
    bot: Bot, api: TelegramApi, ann: Person
) -> None:
    api.fault("sendMessage", Fault.CUT_BEFORE)
    with pytest.raises(NetworkError):
        await bot.send_message(ann.id, "before")
    api.fault("sendMessage", Fault.CUT_AFTER)
    with pytest.raises(NetworkError):
        await bot.send_message(ann.id, "after")
    assert [message.text for message in api.messages(ann.id)] == ["after"]


async def test_bad_gateway_and_silence_are_network_errors(api: TelegramApi, ann: Person) -> None:
    async with client(api, read_timeout=0.2) as bot:
        api.fault("*", Fault.BAD_GATEWAY)
        with pytest.raises(NetworkError):
            await bot.send_message(ann.id, "x")
        api.fault("*", Fault.SILENCE)
        with pytest.raises(TimedOut):
            await bot.send_message(ann.id, "x")
    assert api.messages(ann.id) == []


async def test_document_reaction_reply_and_deletion(bot: Bot, api: TelegramApi, ann: Person) -> None:
    said = ann.says("hello")
    sent = await bot.send_document(ann.id, b"all of it", caption="the end", filename="x-output.txt")
    assert api.messages(ann.id)[0].document == ("x-output.txt", b"all of it")
    await bot.set_message_reaction(ann.id, said.message_id, "👍")
    assert said.reaction == "👍"
    api.world.chats[ann.id].allows_reactions = False
    with pytest.raises(BadRequest, match="Reaction_invalid"):
        await bot.set_message_reaction(ann.id, said.message_id, "👀")
    api.world.chats[ann.id].allows_reactions = True
    with pytest.raises(BadRequest, match="Reaction_invalid"):
        await bot.set_message_reaction(ann.id, said.message_id, "x")
    await bot.send_message(ann.id, "reply", reply_parameters=ReplyParameters(said.message_id))
    with pytest.raises(BadRequest, match="Message to be replied not found"):
        await bot.send_message(ann.id, "reply", reply_parameters=ReplyParameters(1))
    await bot.delete_message(ann.id, sent.message_id)
    with pytest.raises(BadRequest, match="Message to delete not found"):
        await bot.delete_message(ann.id, sent.message_id)


async def test_commands_chats_members_and_webhook(
    bot: Bot, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    await bot.set_my_commands([BotCommand("list", "Show the sessions")])
    with pytest.raises(BadRequest, match="Bot_command_invalid"):
        await bot.set_my_commands([BotCommand("List", "Show the sessions")])
    assert (await bot.get_chat(forum.id)).is_forum
    member = await bot.get_chat_member(forum.id, 4242)
    assert member.status == "administrator" and member.to_dict()["can_manage_topics"]
    with pytest.raises(BadRequest, match="Member not found"):
        await bot.get_chat_member(forum.id, ann.id)
    ann.says("old")
    await bot.delete_webhook(drop_pending_updates=True)
    assert await bot.get_updates() == ()
    ann.adds_bot(forum)
    (update,) = await bot.get_updates()
    assert update.my_chat_member is not None and update.my_chat_member.new_chat_member.status == "member"
    await bot.leave_chat(forum.id)
    with pytest.raises(Forbidden, match="bot was kicked from the supergroup chat"):
        await bot.send_message(forum.id, "x")
