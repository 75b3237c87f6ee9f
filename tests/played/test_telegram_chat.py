"""People in chats with a real daemon: pairing, commands, buttons, reports and cards, also over crashes."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Fault, Person, SentMessage, TelegramApi
from tests.telegram_fixtures import bot_api, connected_instance, person
from tests.telegram_instance import rows

MORE = """
  Asker: {command: [sh, -c, "sm ask 'Which colour?' --option red --option blue --wait 600; sleep 1000"], prompt: file}
  Loud: {command: [sh, -c, "printf '<b>&_*[\\\\033]x'; exec sleep 1000"], prompt: file}
  Echo: {command: [sh, -c, "sm inbox --take --wait > got; exec sleep 1000"], prompt: file}
  Late: {command: [sh, -c, "until [ -e go ]; do sleep 0.05; done; sm inbox --take --wait; sleep 1000"], prompt: file}
limits: {spawn_interval_s: 0}
"""


GROUP = -1_001_000_000_001
CARDS = "SELECT 1 FROM telegram_messages WHERE about = 'request r1'"


api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
eve = person(6, "Eve")
home = connected_instance(MORE, ", groups: [-1001000000001]")


def reply_to(api: TelegramApi, person: Person, text: str) -> SentMessage:
    """Write a text, and wait for the bot's next message."""
    before = len(api.messages(person.id))
    person.says(text)
    return next_message(api, person, before)


def next_message(api: TelegramApi, person: Person, before: int) -> SentMessage:
    def found() -> SentMessage | None:
        messages = api.messages(person.id)
        return messages[before] if len(messages) > before else None

    return api.wait_for(found, "the next message of the bot")


def waiting(home: Instance, method: str) -> list[tuple[object, ...]]:
    """The calls of a method that wait."""
    return rows(home, f"SELECT 1 FROM outbox WHERE kind = 'telegram' AND payload ->> '$.method' = '{method}'")  # noqa: S608 - constant names


def audit(instance: Instance) -> list[tuple[str, str, str, str]]:
    lines = (instance.state / "log" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [(line["who"], line["what"], line["decision"], line["reason"]) for line in found]


# Pairing


def test_stranger_asks_and_is_paired_by_the_operator(home: Instance, api: TelegramApi, eve: Person) -> None:
    eve.says("/list")
    eve.says("hello")
    asked = reply_to(api, eve, "/start")
    assert asked.text == (
        "You are not paired with this sm. Ask its owner to approve request p1: sm pair approve p1"
    )
    told = api.wait_for_message(1001, "asks for access")
    assert told.text.startswith("Eve (telegram:6) asks for access, request p1.")
    home.sm("pair", "approve", "p1", "--trust", "direct")
    assert "none" in reply_to(api, eve, "/list").text
    assert len(api.messages(6)) == 2
    assert ("telegram:6", "call", "refused", "not paired") in audit(home)
    updates = rows(home, "SELECT 1 FROM telegram_updates")
    assert len(updates) == 3, "of the stranger's updates only the answered one has a row"


def test_owner_pairs_with_a_button_that_works_once(
    home: Instance, api: TelegramApi, ann: Person, eve: Person
) -> None:
    eve.says("/start")
    told = api.wait_for_message(1001, "asks for access")
    button = told.button("Approve")
    eve.presses(button)  # forged: no chat shows it to Eve
    ann.presses(button)
    api.wait_for(lambda: "Paired telegram:6 (Eve) as sandboxed" in told.text, "the outcome")
    assert told.keyboard is None
    callback = ann.presses(button)
    api.wait_for(lambda: api.world.answers.get(callback), "the answer to the second press")
    assert api.world.answers[callback] == "This button is no longer valid."
    assert [user["user"] for user in home.json("pair", "list")["users"]] == ["telegram:6"]
    assert ("telegram:1001", "press", "refused", "an unknown, expired or used button") in audit(home)


def test_revoked_user_is_a_stranger_again(home: Instance, api: TelegramApi, eve: Person) -> None:
    eve.says("/start")
    api.wait_for_message(6, "p1")
    home.sm("pair", "approve", "p1")
    reply_to(api, eve, "/list")
    home.sm("pair", "revoke", "6")
    eve.says("/list")
    until(lambda: ("telegram:6", "call", "refused", "not paired") in audit(home), "the refusal")
    assert len(api.messages(6)) == 2


def test_sandboxed_user_without_an_engine_gets_an_error_and_no_process(
    home: Instance, api: TelegramApi, eve: Person
) -> None:
    operators = home.spawn("Sleeper")["session_id"]
    eve.says("/start")
    api.wait_for_message(6, "p1")
    home.sm("pair", "approve", "p1")
    refused = reply_to(api, eve, "/new Sleeper work").text
    assert "Started" not in refused
    assert len(home.json("all")) == 1
    hidden = reply_to(api, eve, f"/status {operators}").text
    missing = reply_to(api, eve, "/status 0f0f0f0f").text
    assert hidden.replace(operators, "ID") == missing.replace("0f0f0f0f", "ID")
    refused = reply_to(api, eve, f"/kill {operators}").text
    assert refused.startswith("no such session")


@pytest.mark.parametrize("point", ["Pairings.ask after 1", "TelegramWrites.record_update before 1"])
def test_request_for_pairing_is_answered_once_when_the_daemon_is_killed_on_its_way(
    home: Instance, api: TelegramApi, eve: Person, point: str
) -> None:
    home.kill_daemon()
    eve.says("/start")
    home.start_crashing_daemon(point).wait()
    home.start_daemon()
    api.wait_for_message(6, "request p1")
    api.wait_for_message(1001, "asks for access, request p1")
    until(lambda: not rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    assert len(api.messages(6)) == 1
    assert len(api.messages(1001, "asks for access")) == 1


def test_stranger_who_floods_leaves_no_rows_and_few_lines(
    home: Instance, api: TelegramApi, ann: Person, eve: Person
) -> None:
    before = len(rows(home, "SELECT 1 FROM telegram_updates"))
    for number in range(200):
        eve.says(f"message {number}")
        eve.says("/start")
    ann.says("/list")
    api.wait_for_message(1001, "Active Sessions")
    assert len(rows(home, "SELECT 1 FROM telegram_updates")) == before + 2
    assert len(api.messages(6)) == 1
    assert sum(line[0] == "telegram:6" for line in audit(home)) <= 3


# Commands


def test_owner_starts_lists_and_kills_an_agent(home: Instance, api: TelegramApi, ann: Person) -> None:
    started = reply_to(api, ann, "/new Sleeper fix the login").text
    (session,) = home.json("all")
    assert started == f"Started sleeper-{session['session_id']} ({session['session_id']}): running"
    assert session["created_by"] == "telegram:1001"
    child = home.spawn("Sleeper", "--parent", session["session_id"], "--name", "deep")["session_id"]
    home.sm("note", "Working on epic", env=home.as_session(session["session_id"]))
    id = session["session_id"]
    lines = reply_to(api, ann, "/list").text.split("\n")
    assert lines[:2] == ["Active Sessions:", f"- sleeper-{id} ({id}) - Working on epic"]
    assert lines[2].startswith(f"- └─ sleeper-deep ({child}) - ")

    card = reply_to(api, ann, f"/kill {child}")
    assert [s["status"] for s in home.json("all")] == ["running", "running"]
    ann.presses(card.button("Kill sleeper-deep"))
    api.wait_for(lambda: "sleeper-deep was killed" in card.text, "the outcome")
    api.wait_for_message(1001, "sleeper-deep was killed (")
    assert home.json("status", child)["status"] == "killed"
    assert reply_to(api, ann, f"/archive {child}").text == "Archived sleeper-deep"
    assert reply_to(api, ann, f"/unarchive {child}").text == "Unarchived sleeper-deep"


@pytest.mark.parametrize("has_ended_long_ago", [False, True])
def test_new_agent_gets_the_variables_that_stand_only_in_the_shell_of_the_operator(
    home: Instance,
    api: TelegramApi,
    ann: Person,
    monkeypatch: pytest.MonkeyPatch,
    has_ended_long_ago: bool,
) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    reply_to(api, ann, "/start")
    older = home.spawn("Sleeper", "x", env={"CLAUDE_CONFIG_DIR": "/srv/old"})["session_id"]
    home.wait(2)
    environment = {"CLAUDE_CONFIG_DIR": "/srv/claude", "SECRET": "not in the list"}
    newest = home.spawn("Sleeper", "x", env=environment)["session_id"]
    if has_ended_long_ago:
        home.sm("kill", "--force", newest)
        home.wait(2)  # until its archive is written
        home.age(older, newest)
    before = set(home.world.programs.running)
    ann.says("/new Sleeper fix the login")
    api.wait_for(lambda: api.messages(ann.id, "Started "), "the agent has started")
    (id,) = set(home.world.programs.running) - before
    environ = home.world.programs.running[id].environ
    assert environ["CLAUDE_CONFIG_DIR"] == "/srv/claude"
    assert "SECRET" not in environ


def test_list_counts_each_old_session_that_was_lost_once(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    lost = home.spawn("Sh", "exit 0")["session_id"]
    home.ended(lost)
    home.wait(2)  # until its archive is written
    home.age(lost)
    home.kill_daemon()
    with closing(sqlite3.connect(home.world.paths.database)) as db:
        db.execute("UPDATE sessions SET status = 'error', status_source = 'tmux server', seen_at = NULL")
        db.commit()
    home.start_daemon()
    for command in ("/list", "/list all"):
        assert "restarts 1 session " in reply_to(api, ann, command).text


def test_list_of_many_sessions_has_pages(home: Instance, api: TelegramApi, ann: Person) -> None:
    ids = [home.spawn("Sleeper")["session_id"] for _ in range(21)]
    first = reply_to(api, ann, "/list")
    lines = first.text.split("\n")
    assert (lines[0], len(lines)) == ("Active Sessions (page 1 of 2):", 21)
    assert [row[0]["text"] for row in (first.keyboard or {})["inline_keyboard"]] == ["Next"]
    button = first.button("Next")
    ann.presses(button)
    api.wait_for(lambda: "(page 2 of 2)" in first.text, "the second page")
    assert first.text.split("\n")[1].startswith(f"- sleeper-{ids[20]} ({ids[20]}) - ")
    home.sm("kill", ids[20])
    ann.presses(button)  # used: the newer buttons of the message stay
    ann.presses(first.button("Previous"))
    api.wait_for(lambda: first.text.startswith("Active Sessions:"), "the page in its current state")
    assert len(first.text.split("\n")) == 22
    assert first.text.endswith("\n1 more: 1 killed (/list all)")
    assert first.keyboard is None


def test_list_shows_unseen_failures_first_until_the_owner_has_read_one(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    failed, working = (
        home.spawn("Sh", "echo KeyError; exit 3")["session_id"],
        home.spawn("Sleeper")["session_id"],
    )
    until(lambda: [s for s in home.json("all") if s["exit_code"] == 3], "the agent has crashed")
    assert reply_to(api, ann, "/list").text.split("\n") == [
        "Active Sessions:",
        "Needs you:",
        f'- sh-{failed} ({failed}) - exit code 3: "KeyError"',
        "Working:",
        f"- sleeper-{working} ({working}) - the process started",
    ]
    reply_to(api, ann, f"/status {failed}")
    assert reply_to(api, ann, "/list").text.split("\n")[1:] == [
        f"- sleeper-{working} ({working}) - the process started",
        "1 more: 1 failed (/list all)",
    ]


def test_update_with_a_spawn_starts_one_agent_when_the_daemon_is_killed_after_it(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    home.kill_daemon()
    ann.says("/new Sleeper work")
    home.start_crashing_daemon("TelegramWrites.record_update before 1").wait()
    assert len(rows(home, "SELECT 1 FROM sessions")) == 1
    home.start_daemon()
    api.wait_for_message(1001, "Started sleeper-")
    assert len(home.json("all")) == 1


def test_reply_to_a_message_about_a_session_is_a_message_to_it(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    id = home.spawn("Echo")["session_id"]
    shown = reply_to(api, ann, f"/status {id}")
    assert shown.text.startswith(f"echo-{id} ({id}): ")
    until(lambda: rows(home, "SELECT 1 FROM telegram_messages"), "the id of the message")
    said = ann.says("run the tests\nall of them", reply_to=shown)
    api.wait_for(lambda: said.reaction == "👍", "the outcome")
    until(lambda: "all of them" in (home.work / "got").read_text(), "the message")
    assert "[sm] from telegram:1001, message 1" in (home.work / "got").read_text()


def test_text_that_waits_is_told_so_and_then_its_outcome(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    id = home.spawn("Late")["session_id"]
    before = len(api.messages(1001))
    said = ann.says(f"/send {id} go on")
    api.wait_for(lambda: said.reaction == "👀", "the message waits")
    (home.work / "go").touch()
    api.wait_for(lambda: said.reaction == "👍", "the outcome")
    assert len(api.messages(1001)) == before
    assert not rows(home, "SELECT 1 FROM telegram_texts")


def test_text_that_fails_is_told_with_the_reason(home: Instance, api: TelegramApi, ann: Person) -> None:
    id = home.spawn("Sleeper")["session_id"]
    said = ann.says(f"/send {id} go on")
    api.wait_for(lambda: said.reaction == "👀", "the message waits")
    home.sm("kill", id)
    told = api.wait_for_message(1001, f"message 1 to session sleeper-{id} is failed: ")
    assert told.reply_to == said.message_id
    api.wait_for(lambda: said.reaction == "👎", "the outcome")


def test_chat_without_reactions_gets_a_reply_that_is_updated_once(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    api.world.chats[1001].allows_reactions = False
    id = home.spawn("Late")["session_id"]
    said = ann.says(f"/send {id} go on")
    told = api.wait_for_message(1001, "queued (not taken from the inbox yet), message 1")
    assert told.reply_to == said.message_id
    until(lambda: ("message 1",) in rows(home, "SELECT about FROM telegram_messages"), "the id of the reply")
    (home.work / "go").touch()
    api.wait_for(lambda: told.text == f"Input sent to session late-{id}", "the outcome")
    ann.says("and on", reply_to=told)
    api.wait_for_message(1001, "queued (not taken from the inbox yet), message 2")
    assert home.json("telegram", "status")["dropped"] == 0


@pytest.mark.parametrize(
    "point", ["Telegram.tell before 1", "Telegram.tell after 1", "BotClient.make before 1"]
)
def test_outcome_of_a_text_is_told_once_when_the_daemon_is_killed_on_its_way(
    home: Instance, api: TelegramApi, ann: Person, point: str
) -> None:
    id = home.spawn("Sleeper")["session_id"]
    home.kill_daemon()
    ann.says(f"/send {id} go on")
    home.start_crashing_daemon(point).wait()
    home.start_daemon()
    home.sm("kill", id)
    api.wait_for_message(1001, "message 1 to session")
    until(lambda: not rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    assert len(api.messages(1001, "message 1 to session")) == 1
    assert not rows(home, "SELECT 1 FROM telegram_texts")


def test_output_of_an_agent_cannot_forge_markup_and_long_output_is_a_file(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    id = home.spawn("Loud")["session_id"]
    until(lambda: "<b>" in home.sm("output", id), "the output")
    shown = reply_to(api, ann, f"/output {id}")
    assert shown.text.startswith("<b>&_*[")
    (home.work / "lines").write_text("".join(f"line-{number}-xxxxxxxxxxxx\n" for number in range(900)))
    long = home.spawn("Sh", "cat lines; sleep 1000")
    until(lambda: "line-899" in home.sm("output", long["session_id"]), "the output")
    file = reply_to(api, ann, f"/output {long['session_id']} 1000")
    assert file.document is not None
    assert b"line-899" in file.document[1]
    assert "line-899" in file.text


def test_mistakes_are_answered_in_the_words_of_sm(home: Instance, api: TelegramApi, ann: Person) -> None:
    for text, expected in (
        ("/lisst", "unknown command: /lisst\nhint: /list"),
        ("/kill", "usage: /kill ID"),
        ("/send abc", "usage: /send ID TEXT"),
        (
            "/approve r999999999999999999999",
            "no such session: r999999999999999999999\nhint: list sessions: /list all",
        ),
        ("/approve r7", "no such request: r7\nhint: list requests: /requests"),
        ("/new Nobody work", None),
        ("hello", "Reply to a message about a session, or: /help"),
        ("/list@another_bot", None),
    ):
        if text == "/list@another_bot":
            ann.says(text)
            continue
        said = reply_to(api, ann, text).text
        assert expected is None or said == expected
    assert reply_to(api, ann, "/list@sm_test_bot").text == "Active Sessions:\nnone"


def test_half_of_a_surrogate_pair_stops_no_later_update(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    half = "\ud83d"
    api.group(-1_001_000_000_001, f"Fleet {half}")
    id = home.spawn("Echo")["session_id"]
    home.sm("kill", id)
    api.wait_for_message(1001, "was killed")
    ann.says("/list", api.world.chats[-1_001_000_000_001])
    api.wait_for_message(-1_001_000_000_001, "Active Sessions")
    offered = reply_to(api, ann, f"/send {id} rise {half}")
    ann.presses(offered.button("Restore and send"))
    until(lambda: "rise ?" in (home.work / "got").read_text(), "the message")
    assert reply_to(api, ann, f"hello {half}").text.startswith("Reply to a message about a session")


def test_group_of_the_configuration_is_answered_and_another_one_is_left(
    home: Instance, api: TelegramApi, ann: Person, eve: Person
) -> None:
    home.sm("daemon", "stop")
    (home.state / "stopped").unlink()
    ours = api.group(-1_001_000_000_001, "Fleet")
    home.start_daemon()
    menus = api.wait_for(lambda: len(api.world.commands) == 2 and api.world.commands, "the menus of commands")
    for scope in ('{"type": "all_private_chats"}', f'{{"chat_id": {ours.id}, "type": "chat"}}'):
        names = [command["command"] for command in menus[scope]]
        assert names[0] == "list"
        assert {"what", "follow", "mute", "help"} <= set(names)
    other = api.group(-1_001_000_000_002, "Other")
    ann.says("/list", other)
    eve.says("/start", ours)
    ann.says("/list", ours)
    api.wait_for_message(ours.id, "Active Sessions")
    eve.adds_bot(other)
    api.wait_for(lambda: other.bot_was_kicked or api.sent("leaveChat"), "the bot leaves")
    assert api.messages(other.id) == []
    assert len(api.messages(ours.id)) == 1


# Sessions that have ended


def test_new_with_the_name_of_an_ended_session_restores_it_instead_of_a_second_one(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    id = home.spawn("Sleeper", "--name", "login")["session_id"]
    said = reply_to(api, ann, "/new sleeper-login go on").text
    assert said == "sleeper-login is a session, which is running\nhint: /send sleeper-login TEXT"
    home.sm("kill", id)
    home.sm("archive", id)
    api.wait_for_message(1001, "was killed")
    offered = reply_to(api, ann, "/new sleeper-login go on")
    assert offered.text.startswith("sleeper-login has ended (killed) and is archived.")
    ann.presses(offered.button("Restore and send"))
    api.wait_for(lambda: offered.text.startswith("Restored sleeper-login. queued"), "the outcome")
    (session,) = home.json("all")
    assert (session["session_id"], session["status"], session["archived"]) == (id, "running", False)
    (message,) = home.json("log", id)
    assert (message["text"], message["from"]) == ("go on", "telegram:1001")
    home.sm("kill", id)
    home.sm("archive", id)
    api.wait_for(lambda: len(api.messages(1001, "was killed")) == 2, "the second ending")
    offered = reply_to(api, ann, f"/new {id} go on")
    ann.presses(offered.button("Unarchive only"))
    api.wait_for(lambda: offered.text == "Unarchived sleeper-login", "the outcome")
    assert [s["archived"] for s in home.json("all")] == [False]


def test_text_to_an_archived_session_unarchives_it_and_arrives(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    command = "sleep 1; sm complete done; sm inbox --take --wait > got; exec sleep 1000"
    id = home.spawn("Sh", command)["session_id"]
    api.wait_for_message(1001, "completed")
    home.sm("archive", id)
    said = ann.says(f"/send {id} one more thing")
    api.wait_for(lambda: said.reaction == "👍", "the outcome")
    assert api.messages(1001)[-1].text == f"Unarchived sh-{id}"
    assert [s["archived"] for s in home.json("all")] == [False]
    assert "one more thing" in (home.work / "got").read_text()


def test_text_to_a_session_whose_process_is_gone_offers_to_restore_it(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    id = home.spawn("Echo")["session_id"]
    home.sm("kill", id)
    api.wait_for_message(1001, "was killed")
    offered = reply_to(api, ann, f"/send {id} rise")
    assert offered.text == f"session {id} has ended (killed): it cannot receive messages"
    ann.presses(offered.button("Restore and send"))
    api.wait_for(lambda: offered.reaction == "👍", "the outcome")
    until(lambda: "rise" in (home.work / "got").read_text(), "the message")
    assert len(home.json("all")) == 1


@pytest.mark.parametrize("point", ["Messages.send before 1", "TelegramWrites.record_update before 1"])
def test_session_is_restored_and_gets_its_text_once_when_the_daemon_is_killed_on_the_way(
    home: Instance, api: TelegramApi, ann: Person, point: str
) -> None:
    id = home.spawn("Sleeper")["session_id"]
    home.sm("kill", id)
    api.wait_for_message(1001, "was killed")
    offered = reply_to(api, ann, f"/send {id} rise")
    until(lambda: not rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    home.kill_daemon()
    ann.presses(offered.button("Restore and send"))
    home.start_crashing_daemon(point).wait()
    home.start_daemon()
    api.wait_for(lambda: offered.text.startswith(f"Restored sleeper-{id}"), "the outcome")
    assert len(rows(home, "SELECT 1 FROM messages WHERE sender = 'telegram:1001'")) == 1
    assert len(rows(home, "SELECT 1 FROM events WHERE type = 'reopened'")) <= 1
    assert home.json("status", id)["status"] == "running"


# Reports and cards


def test_question_is_a_card_and_a_press_answers_it(home: Instance, api: TelegramApi, ann: Person) -> None:
    id = home.spawn("Asker")["session_id"]
    card = api.wait_for_message(1001, "Which colour?")
    assert card.text.startswith(f"r1: asker-{id} ({id}) asks")
    ann.presses(card.button("2: blue"))
    api.wait_for(lambda: "blue by telegram:1001" in card.text, "the outcome")
    assert card.keyboard is None
    (answered,) = home.json("requests", "--all")
    assert (answered["state"], answered["answered_by"]) == ("answered", "telegram:1001")
    assert len(api.messages(1001, "Which colour?")) == 1


def test_card_shows_an_answer_that_was_given_elsewhere(home: Instance, api: TelegramApi, ann: Person) -> None:
    home.spawn("Asker")
    card = api.wait_for_message(1001, "Which colour?")
    button = card.button("2: blue")
    home.sm("answer", "r1", "red")
    api.wait_for(lambda: "red by operator" in card.text, "the outcome")
    callback = ann.presses(button)
    api.wait_for(lambda: api.world.answers.get(callback), "the answer to the press")
    assert home.json("requests", "--all")[0]["answer"]["answers"] == ["red"]


@pytest.mark.parametrize(("command", "outcome"), [("answer r1 red", "red by operator"), ("kill", "r1: ")])
def test_outcome_from_elsewhere_reaches_every_card_before_reports_that_wait(
    home: Instance, api: TelegramApi, ann: Person, command: str, outcome: str
) -> None:
    ours = api.group(GROUP, "Fleet", is_forum=True, is_admin=True)
    home.restart_daemon()
    # Until Telegram has answered, a start uses the last answer: no forum.
    until(lambda: rows(home, "SELECT 1 FROM telegram_forums WHERE is_forum"), "the daemon knows the forum")
    asker = home.spawn("Asker")["session_id"]
    cards = [api.wait_for_message(chat, "Which colour?") for chat in (1001, ours.id)]
    until(lambda: len(rows(home, CARDS)) == 2, "the ids of the cards")
    sleepers = [home.spawn("Sleeper")["session_id"] for _ in range(3)]
    api.fault("*", Fault.BAD_GATEWAY, times=1_000_000)
    home.sm("kill", *sleepers)
    until(lambda: len(waiting(home, "send_message")) == 6, "the reports wait")
    home.sm(*command.split(), *([asker] if command == "kill" else []))
    until(lambda: len(waiting(home, "edit_message_text")) == 2, "the edits of the cards wait")
    api.wait_for(lambda: api.sent("editMessageText"), "no report is on its way")
    begun = len(api.calls)
    api.heal()
    for card in cards:
        api.wait_for(lambda: outcome in card.text and card.keyboard is None, "the outcome")  # noqa: B023
    until(lambda: not rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    made = [call.method for call in api.calls[begun:] if call.status == 200]
    assert made[:2] == ["editMessageText"] * 2
    assert "sendMessage" in made[2:]


def test_reply_to_the_card_of_a_question_answers_it(home: Instance, api: TelegramApi, ann: Person) -> None:
    home.spawn("Asker")
    card = api.wait_for_message(1001, "Which colour?")
    until(lambda: rows(home, "SELECT 1 FROM telegram_messages WHERE about = 'request r1'"), "its id")
    ann.says("green, please", reply_to=card)
    api.wait_for(lambda: "green, please by telegram:1001" in card.text, "the outcome")


def test_endings_are_reported_once_each_to_those_who_may_see_them(
    home: Instance, api: TelegramApi, eve: Person
) -> None:
    eve.says("/start")
    api.wait_for_message(6, "p1")
    home.sm("pair", "approve", "p1", "--trust", "direct")
    reply_to(api, eve, "/list")
    done = home.spawn("Sh", "sm complete 'well done <b>'; exec sleep 1000")["session_id"]
    crashed = home.spawn("Sh", "exit 3")["session_id"]
    api.wait_for_message(1001, f'Session {done} completed - "well done <b>"')
    api.wait_for_message(1001, f"Session {crashed} crashed (exit code 3)")
    home.sm("kill", done)
    home.kill_daemon()
    home.start_daemon()
    reply_to(api, eve, "/list")
    assert len(api.messages(1001, done)) == 1
    assert len(api.messages(1001, crashed)) == 1
    assert len(api.messages(6)) == 3


def test_message_to_the_operator_is_reported_and_one_to_a_session_is_not(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    reply_to(api, ann, "/list")
    id = home.spawn("Echo")["session_id"]
    home.sm("send", id, "take this")
    until(lambda: "take this" in (home.work / "got").read_text(), "the message")
    home.sm("send", "operator", "done <b> so far", env=home.as_session(id))
    said = api.wait_for_message(1001, "sent the operator message")
    assert said.text.endswith(': "done <b> so far"')
    assert len(api.messages(1001, id)) == 1


def test_followed_session_reports_more_and_a_muted_one_makes_no_sound(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    id = home.spawn("Sleeper")["session_id"]
    other = home.spawn("Sleeper")["session_id"]
    for session in (id, other):
        home.sm("checkpoint", "before", env=home.as_session(session))
    shown = reply_to(api, ann, f"/follow {id}")
    assert (
        shown.text
        == f"This chat follows sleeper-{id}: its checkpoints, notes and idle times are reported too"
    )
    assert reply_to(api, ann, "/mute 2d").text.startswith(
        "Reports about all sessions arrive without a sound for 2d."
    )
    for session in (other, id):
        home.sm("checkpoint", "half done", env=home.as_session(session))
    report = api.wait_for_message(1001, "half done")
    assert id in report.text
    assert report.silent
    assert reply_to(api, ann, "/mute off").text == "Reports about all sessions ring again"
    until(lambda: ("session " + id,) in rows(home, "SELECT about FROM telegram_messages"), "the message's id")
    ann.says("/mute", reply_to=shown)
    api.wait_for_message(1001, f"Reports about sleeper-{id} arrive without a sound for 1h")
    home.sm("note", "at it", env=home.as_session(id))
    assert api.wait_for_message(1001, "at it").silent
    assert reply_to(api, ann, f"/follow {id} off").text == f"This chat no longer follows sleeper-{id}"
    home.sm("checkpoint", "unseen", env=home.as_session(id))
    home.sm("complete", "well done", env=home.as_session(other))
    assert not api.wait_for_message(1001, "well done").silent
    assert not api.messages(1001, "unseen")
    assert not api.messages(1001, "before")
    for text in ("/follow", "/mute a b", "/mute 1h 2h"):
        assert reply_to(api, ann, text).text.startswith("usage: /")


def test_only_an_owner_mutes_a_whole_group_and_a_paired_user_the_sessions_they_see(
    home: Instance, api: TelegramApi, ann: Person, eve: Person
) -> None:
    fleet = api.group(GROUP, "Fleet")
    shop = home.home / "shop"
    shop.mkdir()
    home.sm("workspace", "create", "shop", "--working-dir", str(shop))
    eve.says("/start")
    api.wait_for_message(6, "p1")
    home.sm("pair", "approve", "p1", "--trust", "direct", "--workspace", "shop")
    hers = home.spawn("Sleeper", "--workspace", "shop")["session_id"]
    other = home.spawn("Sleeper")["session_id"]
    muted = "SELECT chat_id, session_id FROM telegram_mutes"

    eve.says("/mute", fleet)
    api.wait_for_message(GROUP, "only the operator may mute all reports in a group")
    eve.says(f"/mute {other}", fleet)
    api.wait_for_message(GROUP, f"no such session: {other}")
    assert ("telegram:6", "mute_group", "refused", "") in [(*line[:3], line[3] or "") for line in audit(home)]
    eve.says(f"/mute {hers}", fleet)
    api.wait_for_message(GROUP, f"Reports about sleeper-{hers} arrive without a sound")
    assert rows(home, muted) == [(GROUP, hers)]
    assert reply_to(api, eve, "/mute").text.startswith("Reports about all sessions arrive without a sound")

    ann.says("/mute", fleet)
    api.wait_for_message(GROUP, "Reports about all sessions arrive without a sound")
    eve.says("/mute off", fleet)
    until(lambda: len(api.messages(GROUP, "only the operator may mute")) == 2, "the refusal")
    assert sorted(rows(home, muted)) == [(GROUP, ""), (GROUP, hers), (6, "")]


def test_what_summarizes_a_session(home: Instance, api: TelegramApi, ann: Person) -> None:
    id = home.spawn("Sleeper")["session_id"]
    home.sm("note", "reading <b>", env=home.as_session(id))
    said = reply_to(api, ann, f"/what {id}").text
    assert "Note: reading <b>" in said
    assert "(by extract" in said


@pytest.mark.parametrize(
    "point",
    ["Telegram.record_report before 1", "Telegram.record_report after 1", "BotClient.make before 1"],
)
def test_ending_is_reported_once_when_the_daemon_is_killed_on_its_way(
    home: Instance, api: TelegramApi, point: str
) -> None:
    id = home.spawn("Sleeper")["session_id"]
    home.kill_daemon()
    home.world.server.close(f"command-{id}")
    home.start_crashing_daemon(point).wait()
    home.start_daemon()
    api.wait_for_message(1001, f"Session {id} ended with an error")
    until(lambda: not rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    assert len(api.messages(1001, id)) == 1


# sm telegram


def test_operator_tests_the_bot_and_sees_why_a_message_did_not_arrive(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    assert home.sm("telegram", "test") == "Sending a test message to telegram:1001\n"
    api.wait_for_message(1001, "This is a test of sm.")
    ann.blocks()
    home.sm("telegram", "test", "--to", "1001")
    until(lambda: home.json("telegram", "status")["dropped"] == 1, "the refusal of Telegram")
    status = home.json("telegram", "status")
    assert (status["bot"], status["trouble"], status["owners"]) == ("sm_test_bot", None, ["telegram:1001"])
    assert status["last_dropped"][0]["reason"] == "Forbidden: bot was blocked by the user"
    assert [chat["chat_id"] for chat in status["chats"]] == [1001]
    said = home.refused("telegram", "test", "--to", "6", exit_code=2)
    assert "telegram:6 is neither an owner nor a paired user" in said
    session = home.spawn("Sleeper")["session_id"]
    said = home.refused("telegram", "status", env=home.as_session(session), exit_code=5)
    assert "only the operator may see or test the bot" in said
