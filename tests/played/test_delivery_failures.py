"""Delivery of messages and notices when a reader dies or other callers interfere."""

import sqlite3
from contextlib import closing

import pytest

from sm.client.http import Client
from tests.fixtures import context_fixture
from tests.sim.programs import Running
from tests.sim.stage import Instance, stand_in, until

MORE = """
  Inbox: {command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}
  Careless: {command: [take], prompt: file}
  Silent: {command: [take, stay], prompt: file}
"""


async def take(program: Running) -> None:
    """Take messages, show them, and confirm none."""
    taken = await program.sm.post("/v1/inbox/take", {"wait_s": 20})
    program.print(str([message["text"] for message in taken]))
    if "stay" in program.argv:
        await stand_in(program)


class Home(Instance):
    def __init__(self) -> None:
        super().__init__(MORE)
        self.world.programs.installed["take"] = take


home = context_fixture("function", Home)


def read_by(home: Instance, session_id: str) -> str:
    path = home.work / f"read-{session_id}"
    return path.read_text() if path.exists() else ""


def test_notice_goes_to_the_grandparent_when_the_parent_took_it_and_died(home: Instance) -> None:
    grandparent = home.spawn("Inbox")["session_id"]
    parent = home.spawn("Careless", "--parent", grandparent)["session_id"]
    child = home.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    home.ended(parent)
    assert any(child in line for line in home.json("output", parent)["lines"])
    until(lambda: child in read_by(home, grandparent), "the grandparent's notice")


def test_notice_is_sent_again_when_the_reader_never_confirmed_it(home: Instance) -> None:
    parent = home.spawn("Silent")
    child = home.spawn("Sh", "exit 3", "--parent", parent["session_id"])["session_id"]
    until(lambda: child in home.sm("output", parent["session_id"]), "it is taken")

    def is_sent_again() -> bool:
        messages = [m for m in home.json("log", parent["session_id"]) if child in m["text"]]
        if [m["status"] for m in messages] != ["unconfirmed", "queued"]:
            return False
        first, second = (m["text"] for m in messages)
        assert second == f"(told again) {first}"
        return True

    until(is_sent_again, "the notice is sent again", 120)


def test_parent_gets_the_notice_while_another_caller_waits_for_the_child(home: Instance) -> None:
    parent = home.spawn("Inbox")["session_id"]
    child = home.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    waiting = home.start_command("wait", child)
    until(lambda: child in read_by(home, parent), "the parent's notice")
    waiting.wait()


def test_permission_can_be_approved_or_denied_but_not_answered_with_text(home: Instance) -> None:
    session = home.spawn("Sh", "exec sleep 1000")["session_id"]
    home.kill_daemon()
    at = "2026-01-01T00:00:00.000Z"
    with closing(sqlite3.connect(home.state / "sm.db")) as db, db:  # as an agent's hooks would ask
        for number in (1, 2):
            db.execute(
                "INSERT INTO requests (id, session_id, kind, state, created_at, state_at, tool, arguments, questions)"
                " VALUES (?, ?, 'permission', 'open', ?, ?, 'Bash', '{\"command\": \"rm -rf build\"}', '[]')",
                (number, session, at, at),
            )
    assert [(r["tool"], r["arguments"]) for r in home.json("requests")] == [
        ("Bash", {"command": "rm -rf build"})
    ] * 2
    assert "is not a question" in home.refused("answer", "r1", "yes", exit_code=2)
    sent = home.sm("send", session, "yes", "--no-wait")
    assert "queued" in sent, "text answers questions only"
    assert home.sm("approve", "r1") == f"Approved r1 of sh-{session}\n"
    assert home.sm("deny", session, "not that") == f"Denied r2 of sh-{session}\n"
    assert "was answered by operator" in home.refused("deny", "r1", exit_code=4)
    granted, denied = home.json("requests", "--all")
    assert granted["answer"] == {"approved": True, "answers": [], "message": None}
    assert denied["answer"] == {"approved": False, "answers": [], "message": "not that"}


def test_request_is_refused_when_its_list_is_too_long(home: Instance) -> None:
    home.sm("status")
    client = Client(str(home.socket))
    for path, body in (
        ("/v1/inbox/confirm", {"message_ids": list(range(1000))}),
        ("/v1/wait", {"sessions": [f"{n:08x}" for n in range(1000)]}),
    ):
        with pytest.raises(Exception, match="at most"):
            client.post(path, body)
