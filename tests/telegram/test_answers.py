"""Answers of a Bot API server that the library cannot decode: of an older version, or with fields of another type."""

from typing import Any

import pytest

from sm.core.telegram_model import BotMethod, Outgoing
from sm.services import TelegramLink
from sm.telegram.answers import Chat, Made, Member, Unreadable, User, read, read_updates
from sm.telegram.client import BotClient
from sm.telegram.outcome import CallFailed, Done
from sm.telegram.updates import UpdateKind
from tests.telegram_api import Person, TelegramApi

NEWER = frozenset(
    "can_manage_video_chats can_post_stories can_edit_stories can_delete_stories accent_color_id max_reaction_count "
    "accepted_gift_types has_main_web_app can_connect_to_business".split()
)
"""Fields that an older self-hosted server does not send."""
ANN = {"id": 1001, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
PRIVATE = {"id": 1001, "type": "private", "first_name": "Ann"}


def message(**more: Any) -> dict[str, Any]:
    return {"message_id": 7, "date": 1_700_000_000, "chat": PRIVATE, "from": ANN, "text": "hello"} | more


def test_rights_of_an_administrator_are_read_without_the_newer_fields() -> None:
    member = read(Member, {"status": "administrator", "can_manage_topics": True, "user": ANN})
    assert (member.manages_topics, member.is_administrator, member.is_there) == (True, True, True)
    assert not read(Member, {"status": "kicked", "user": ANN}).is_there


@pytest.mark.parametrize(
    ("model", "result", "problem"),
    [
        (User, {"first_name": "Ann"}, "id: Field required"),
        (Chat, {"id": "1", "type": "private"}, "id: Input should be a valid integer"),
        (Member, True, "Input should be a valid dictionary or instance of Member"),
        (Made, {"message_id": 1.5}, "message_id: Input should be a valid integer"),
    ],
)
def test_result_without_a_needed_field_is_unreadable(model: type[User], result: object, problem: str) -> None:
    with pytest.raises(Unreadable, match=f"^{problem}$"):
        read(model, result)


def test_unreadable_update_is_confirmed_and_the_others_are_read() -> None:
    good = [{"update_id": 1, "message": message()}, {"update_id": 4, "message": message(text="\ud83d half")}]
    bad = [{"update_id": 2, "message": {"date": 1}}, {"update_id": 3, "my_chat_member": 5}, {"x": 1}, None]
    updates, problems = read_updates([good[0], *bad, good[1]])
    assert [(u.update_id, u.kind, u.text) for u in updates] == [
        (1, UpdateKind.MESSAGE, "hello"),
        (2, UpdateKind.OTHER, None),
        (3, UpdateKind.OTHER, None),
        (4, UpdateKind.MESSAGE, "? half"),
    ]
    assert len(problems) == 4
    assert problems[0].startswith("message.message_id: Field required")
    assert updates[0].user_name == "Ann Lee"
    with pytest.raises(Unreadable):
        read_updates({"not": "a list"})


@pytest.mark.parametrize(
    ("more", "is_forwarded"), [({}, False), ({"forward_origin": {}}, True), ({"forward_date": 1}, True)]
)
def test_forwarded_message_is_known_by_the_field_of_each_version(
    more: dict[str, Any], is_forwarded: bool
) -> None:
    ((update,), _) = read_updates([{"update_id": 1, "message": message(**more)}])
    assert update.is_forwarded is is_forwarded


async def test_older_server_costs_nothing_that_the_bot_needs(
    client: BotClient, api: TelegramApi, ann: Person
) -> None:
    forum = api.group(-1_001_000_000_001, "Fleet", is_forum=True, is_admin=True)
    api.world.omitted = NEWER
    rights = await client.group_rights(forum.id)
    assert (rights.problem, rights.title, rights.is_forum, rights.manages_topics) == (
        None,
        "Fleet",
        True,
        True,
    )
    assert (await client.forum(forum.id, [1001])).can_manage
    ann.adds_bot(forum)
    ann.says("hello")
    updates = await client.updates(None, 0)
    assert [update.kind for update in updates] == [UpdateKind.MY_CHAT_MEMBER, UpdateKind.MESSAGE]


async def test_unreadable_answer_costs_its_call_and_is_told(api: TelegramApi, ann: Person) -> None:
    link = TelegramLink(lambda: 1000.0)
    async with BotClient(api.token, api.url, tell=link.tell_unreadable) as client:
        api.world.omitted = frozenset(["id"])
        with pytest.raises(CallFailed):
            await client.user_name()
        assert link.trouble() == "cannot read the bot's own account of telegram: id: Field required"
        rights = await client.group_rights(1001)
        assert rights.problem == link.unreadable
        ann.says("hello")
        (update,) = await client.updates(None, 0)
        assert (update.kind, link.trouble()) == (
            UpdateKind.OTHER,
            "cannot read an update of telegram: message.chat.id: Field required",
        )
        call = Outgoing(1, 1001, BotMethod.SEND_MESSAGE.value, {"text": "hi"}, 1, "2026-01-01T00:00:00Z")
        assert isinstance(await client.make(call), Done)


async def test_poll_fails_when_none_of_its_updates_can_be_confirmed(api: TelegramApi, ann: Person) -> None:
    link = TelegramLink(lambda: 1000.0)
    async with BotClient(api.token, api.url, tell=link.tell_unreadable) as client:
        api.world.omitted = frozenset(["update_id"])
        ann.says("hello")
        with pytest.raises(CallFailed):
            await client.updates(None, 0)
        assert link.trouble() == "cannot read an update of telegram: update_id: Field required"


def test_unreadable_answer_is_trouble_for_a_day() -> None:
    now = 1000.0
    link = TelegramLink(lambda: now)
    link.answered()
    link.tell_unreadable("cannot read an update of telegram: x")
    assert link.trouble() == "cannot read an update of telegram: x"
    now += 24 * 3600
    link.answered()
    assert link.trouble() is None
