"""Topics of a forum and progress cards with a real daemon and real agents, also over crashes."""

from collections.abc import Iterator

import pytest

from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Chat, Fault, Person, SentMessage, TelegramApi
from tests.telegram_api.server import Call
from tests.telegram_api.world import Topic
from tests.telegram_fixtures import bot_api, person
from tests.telegram_instance import configure, connect, rows, start

FORUM = -1_001_000_000_001
MORE = """
  Asker: {command: [sh, -c, "sm ask 'Which colour?' --option red --option blue --wait 600; sleep 1000"], prompt: file}
  Echo: {command: [sh, -c, "while sm inbox --take --wait >> got; do :; done"], prompt: file}
limits: {spawn_interval_s: 0}
"""


api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann", has_started=True)


@pytest.fixture
def forum(api: TelegramApi, ann: Person) -> Chat:
    """A forum with the owner in it."""
    forum = api.group(FORUM, "Fleet", is_forum=True, is_admin=True)
    ann.joins(forum)
    return forum


def begin(instance: Instance, api: PlayedTelegramApi, ann: Person, section: str) -> None:
    api.serve(instance)
    configure(instance, api, section=section)
    start(instance, api)
    connect(api, ann)


@pytest.fixture
def home(api: PlayedTelegramApi, ann: Person, forum: Chat) -> Iterator[Instance]:
    """An instance whose bot shows sessions in the forum, without progress cards."""
    with Instance(MORE) as instance:
        begin(instance, api, ann, f", groups: [{FORUM}]")
        until(lambda: rows(instance, "SELECT 1 FROM telegram_forums"), "the facts about the forum")
        yield instance


@pytest.fixture
def watched(api: PlayedTelegramApi, ann: Person) -> Iterator[Instance]:
    """An instance whose bot shows progress cards in the private chat."""
    with Instance(MORE) as instance:
        begin(instance, api, ann, ", progress: true")
        yield instance


def the_topic(api: TelegramApi, forum: Chat, name: str) -> Topic:
    return api.wait_for(
        lambda: next((topic for topic in api.topics(forum) if topic.name == name), None),
        f"the topic {name!r}",
    )


def in_topic(api: TelegramApi, topic: Topic, containing: str) -> SentMessage:
    return api.wait_for(
        lambda: next((m for m in api.messages(FORUM, containing) if m.thread_id == topic.id), None),
        f"{containing!r} in the topic {topic.name!r}",
    )


def with_topic(home: Instance, api: TelegramApi, forum: Chat) -> str:
    """Start a session, and let its topic be made. Returns its id."""
    root: str = home.spawn("Sleeper", "--name", "lead")["session_id"]
    child = home.spawn("Sleeper", "--parent", root)["session_id"]
    home.sm("kill", child)
    in_topic(api, the_topic(api, forum, "sleeper-lead"), f"{child} was killed")
    idle(home)
    return root


def done(api: TelegramApi, method: str) -> list[Call]:
    """The calls that Telegram carried out."""
    return [call for call in api.sent(method) if call.status in (0, 200)]


def idle(instance: Instance) -> None:
    until(lambda: not rows(instance, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")


# Topics


def test_root_has_a_topic_with_its_descendants_and_it_is_closed_at_the_end(
    home: Instance, api: TelegramApi, forum: Chat
) -> None:
    root = home.spawn("Sleeper", "--name", "lead")["session_id"]
    home.spawn("Sleeper", "--name", "quiet")
    child = home.spawn("Sleeper", "--parent", root, "--name", "helper")["session_id"]
    assert api.topics(forum) == []
    home.sm("kill", child)
    topic = the_topic(api, forum, "sleeper-lead")
    in_topic(api, topic, "sleeper-helper was killed")
    assert not topic.closed
    home.sm("kill", root)
    in_topic(api, topic, "sleeper-lead was killed")
    api.wait_for(lambda: topic.closed, "the topic is closed")
    assert [topic.name for topic in api.topics(forum)] == ["sleeper-lead: killed"]
    assert api.messages(1001, "killed") == []

    home.sm("restore", root)
    api.wait_for(lambda: not topic.closed, "the topic is open again")
    api.wait_for(lambda: topic.name == "sleeper-lead", "the title without an outcome")
    assert len(api.topics(forum)) == 1


def test_descendant_that_the_group_follows_has_a_topic_of_its_own(
    home: Instance, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    root = home.spawn("Sleeper", "--name", "lead")["session_id"]
    child = home.spawn("Sleeper", "--parent", root, "--name", "helper")["session_id"]
    ann.says(f"/follow {child}", forum)
    api.wait_for_message(FORUM, "This chat follows sleeper-helper")
    home.sm("kill", child)
    in_topic(api, the_topic(api, forum, "sleeper-helper: killed"), "sleeper-helper was killed")
    assert [topic.name for topic in api.topics(forum)] == ["sleeper-helper: killed"]


def test_text_and_commands_in_a_topic_are_for_its_session(
    home: Instance, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    session = home.spawn("Echo", "--name", "lead")
    child = home.spawn("Sleeper", "--parent", session["session_id"])["session_id"]
    home.sm("kill", child)
    topic = the_topic(api, forum, "echo-lead")
    in_topic(api, topic, f"sleeper-{child}: Child {child} was killed")
    said = ann.says("paint it green", forum, thread=topic.id)
    api.wait_for(lambda: said.reaction == "👍", "the outcome")
    got = home.work / "got"
    until(lambda: got.exists() and "paint it green" in got.read_text(), "the message")
    ann.says("/status", forum, thread=topic.id)
    in_topic(api, topic, f"echo-lead ({session['session_id']}): ")
    ann.says("hello", forum)
    ann.says("/list", forum)
    listed = api.wait_for_message(FORUM, "Active Sessions")
    assert listed.thread_id is None
    assert "hello" not in got.read_text()


def test_request_is_a_card_in_the_topic_that_any_owner_may_press_and_nobody_else(
    home: Instance, api: TelegramApi, ann: Person, forum: Chat
) -> None:
    eve = api.person(6, "Eve")
    id = home.spawn("Asker")["session_id"]
    topic = the_topic(api, forum, f"asker-{id}")
    card = in_topic(api, topic, "Which colour?")
    button = card.button("2: blue")
    eve.presses(button)
    ann.presses(button)
    api.wait_for(lambda: "blue by telegram:1001" in card.text, "the outcome")
    assert card.keyboard is None
    assert home.json("requests", "--all")[0]["answered_by"] == "telegram:1001"
    assert api.messages(1001, "Which colour?") == []


def test_owner_outside_the_group_is_told_in_the_private_chat_too(api: PlayedTelegramApi, ann: Person) -> None:
    api.group(FORUM, "Fleet", is_forum=True, is_admin=True)
    with Instance(MORE) as instance:
        begin(instance, api, ann, f", groups: [{FORUM}], topics: all")
        until(lambda: rows(instance, "SELECT 1 FROM telegram_forums"), "the facts about the forum")
        root = instance.spawn("Sleeper")["session_id"]
        child = instance.spawn("Sleeper", "--parent", root)["session_id"]
        instance.sm("kill", child)
        api.wait_for_message(1001, "killed")
        api.wait_for_message(FORUM, "killed")
        until(
            lambda: (
                [topic.name for topic in api.topics(api.world.chats[FORUM])] == [f"sleeper-{child}: killed"]
            ),
            "the topic of the child",
        )


@pytest.mark.parametrize(
    "point",
    [
        "Topics.begin before 1",
        "Topics.begin after 1",
        "BotClient.make before 1",
        "BotClient.make after 1",
        "Topics.record before 1",
        "Topics.record after 1",
        "BotClient.make after 2",
    ],
)
def test_topic_is_made_once_when_the_daemon_is_killed_on_its_way(
    home: Instance, api: TelegramApi, forum: Chat, point: str
) -> None:
    id = home.spawn("Sleeper")["session_id"]
    home.kill_daemon()
    home.world.server.close(f"command-{id}")
    home.start_crashing_daemon(point).wait()
    home.start_daemon()
    api.wait_for_message(FORUM, f"Session {id} ended with an error")
    idle(home)
    assert len(api.topics(forum)) <= 1
    texts = [message.text.removesuffix("\n(again)") for message in api.messages(FORUM)]
    assert len(set(texts)) == 1


@pytest.mark.parametrize(
    "point",
    [
        "Telegram.record_report before 1",
        "Telegram.record_report after 1",
        "BotClient.make before 3",
        "BotClient.make after 3",
    ],
)
def test_topic_is_closed_once_when_the_daemon_is_killed_on_its_way(
    home: Instance, api: TelegramApi, forum: Chat, point: str
) -> None:
    """The calls of an ending are its report, the title with the outcome, and the one that closes the topic."""
    root = with_topic(home, api, forum)
    home.kill_daemon()
    home.world.server.close(f"command-{root}")
    home.start_crashing_daemon(point).wait()
    home.start_daemon()
    topic = the_topic(api, forum, "sleeper-lead: error")
    api.wait_for(lambda: topic.closed, "the topic is closed")
    idle(home)
    assert len(done(api, "closeForumTopic")) == len(done(api, "editForumTopic")) == 1
    assert done(api, "reopenForumTopic") == []
    assert api.topics(forum) == [topic]


@pytest.mark.parametrize(
    "point",
    [
        "Telegram.record_report before 1",
        "Telegram.record_report after 1",
        "BotClient.make before 1",
        "BotClient.make after 1",
    ],
)
def test_topic_is_reopened_once_when_the_daemon_is_killed_on_its_way(
    home: Instance, api: TelegramApi, forum: Chat, point: str
) -> None:
    root = with_topic(home, api, forum)
    home.sm("kill", root)
    topic = the_topic(api, forum, "sleeper-lead: killed")
    api.wait_for(lambda: topic.closed, "the topic is closed")
    idle(home)
    home.kill_daemon()
    daemon = home.start_crashing_daemon(point)
    home.run("restore", root)
    daemon.wait()
    home.sm("all")  # starts a daemon, unless the restore did
    api.wait_for(lambda: not topic.closed and topic.name == "sleeper-lead", "the topic is open again")
    idle(home)
    assert len(done(api, "reopenForumTopic")) == len(done(api, "closeForumTopic")) == 1
    assert api.topics(forum) == [topic]


def test_bot_that_loses_its_right_says_so_and_uses_topics_again_later(
    home: Instance, api: TelegramApi, forum: Chat
) -> None:
    api.allow_topics(forum, False)
    told = api.wait_for_message(FORUM, "sm may not manage topics")
    assert told.thread_id is None, "what belongs to no session is in General"
    id = home.spawn("Sleeper")["session_id"]
    home.sm("kill", id)
    assert api.wait_for_message(FORUM, f"{id} was killed").thread_id is None
    home.restart_daemon()
    api.allow_topics(forum, True)
    until(lambda: rows(home, "SELECT 1 FROM telegram_forums WHERE can_manage"), "the right is known")
    other = home.spawn("Sleeper")["session_id"]
    home.sm("kill", other)
    in_topic(api, the_topic(api, forum, f"sleeper-{other}: killed"), f"{other} was killed")
    assert len(api.messages(FORUM, "sm may not manage topics")) == 1


# Progress cards


def test_card_follows_the_session_and_ends_as_its_summary(watched: Instance, api: TelegramApi) -> None:
    root = watched.spawn("Sleeper", "--name", "lead")["session_id"]
    card = api.wait_for_message(1001, f"sleeper-lead ({root}): running")
    assert card.silent
    watched.sm("note", "Working on <b>epic</b>", env=watched.as_session(root))
    api.wait_for(lambda: "note: Working on <b>epic</b>" in card.text, "the note")
    watched.sm("checkpoint", "tests pass (3/5 tasks)", env=watched.as_session(root))
    watched.spawn("Sleeper", "--parent", root)
    api.wait_for(
        lambda: "checkpoint: tests pass (3/5 tasks)\nchildren: 1 running" in card.text, "the checkpoint"
    )
    watched.sm("complete", "all done", env=watched.as_session(root))
    api.wait_for(
        lambda: f"({root}): completed" in card.text and "result: all done" in card.text, "the summary"
    )
    idle(watched)
    assert len(api.messages(1001, f"sleeper-lead ({root}): ")) == 1


def test_card_is_the_same_message_after_a_crash_and_after_a_restore(
    watched: Instance, api: TelegramApi
) -> None:
    id = watched.spawn("Sleeper")["session_id"]
    card = api.wait_for_message(1001, f"({id}): running")
    until(lambda: rows(watched, "SELECT 1 FROM telegram_progress WHERE message_id IS NOT NULL"), "its id")
    watched.kill_daemon()
    watched.start_daemon()
    watched.sm("note", "still here", env=watched.as_session(id))
    api.wait_for(lambda: "note: still here" in card.text, "the note")
    watched.sm("kill", id)
    api.wait_for(lambda: f"({id}): killed" in card.text, "the summary")
    watched.sm("restore", id)
    api.wait_for(lambda: f"({id}): running" in card.text, "the session goes on")
    assert len(api.messages(1001, f"sleeper-{id} ({id})")) == 1


@pytest.mark.parametrize(
    "point",
    [
        "Telegram.record_report before 1",
        "Telegram.record_report after 1",
        "BotClient.make before 1",
        "BotClient.make after 1",
        "Telegram.apply before 1",
        "Telegram.apply after 1",
    ],
)
def test_session_has_one_card_when_the_daemon_is_killed_on_its_way(
    watched: Instance, api: TelegramApi, point: str
) -> None:
    watched.kill_daemon()
    daemon = watched.start_crashing_daemon(point)
    id = watched.spawn("Sleeper", "--name", "lead")["session_id"]
    watched.run("note", "busy", env=watched.as_session(id))
    daemon.wait()
    watched.sm("all")  # starts a daemon, unless the commands before did
    watched.sm("note", "still busy", env=watched.as_session(id))
    api.wait_for_message(1001, "note: still busy")
    idle(watched)
    shown = [message.text for message in api.messages(1001, f"({id}): running")]
    assert len(shown) <= (2 if point == "BotClient.make after 1" else 1)


def test_deleted_card_is_sent_again_when_the_session_works(watched: Instance, api: TelegramApi) -> None:
    id = watched.spawn("Sleeper")["session_id"]
    card = api.wait_for_message(1001, f"({id}): running")
    api.change(lambda world: setattr(card, "deleted", True))
    watched.sm("note", "one", env=watched.as_session(id))
    until(lambda: not rows(watched, "SELECT 1 FROM telegram_progress"), "the card is forgotten")
    watched.sm("note", "two", env=watched.as_session(id))
    api.wait_for_message(1001, "note: two")
    assert watched.json("telegram", "status")["dropped"] == 0


def test_card_in_a_forum_is_in_the_topic_of_the_root(
    api: PlayedTelegramApi, ann: Person, forum: Chat
) -> None:
    with Instance(MORE) as instance:
        begin(instance, api, ann, f", groups: [{FORUM}], progress: true")
        until(lambda: rows(instance, "SELECT 1 FROM telegram_forums"), "the facts about the forum")
        root = instance.spawn("Sleeper", "--name", "lead")["session_id"]
        topic = the_topic(api, forum, "sleeper-lead")
        card = in_topic(api, topic, f"({root}): running")
        instance.spawn("Sleeper", "--parent", root)
        api.fault("sendMessage", Fault.BAD_GATEWAY)
        instance.sm("kill", root)
        api.wait_for(lambda: f"({root}): killed" in card.text, "the summary")
        api.wait_for(lambda: topic.closed, "the topic is closed")
        assert len(api.messages(FORUM, f"sleeper-lead ({root})")) == 1
        assert api.messages(1001, root) == []
