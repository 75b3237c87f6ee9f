"""Delivery of messages and notices when tmux hangs, a reader dies or other callers interfere."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sm.client.http import Client
from tests.instance import SM, Instance, until
from tests.integration.ended_agents import wait_line

REPOSITORY = Path(__file__).parents[2]
TAKE = """
import os, sys
from sm.client.http import Client
taken = Client(os.environ["SM_SOCKET"]).post("/v1/inbox/take", {"wait_s": 20})
print([message["text"] for message in taken], flush=True)
"""
MORE = f"""
  Tty: {{command: [sh, -c, "while read -r x; do echo \\"$x\\" >> read-$SM_SESSION_ID; done"], prompt: file, input: tty}}
  Inbox: {{command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}}
  Careless:
    command: [{sys.executable}, take.py]
    prompt: file
    env: {{PYTHONPATH: "{REPOSITORY}/src"}}
"""


@pytest.fixture
def home() -> Iterator[Instance]:
    instance = Instance(MORE)
    (instance.work / "take.py").write_text(TAKE)
    yield instance
    instance.end()


def read_by(home: Instance, session_id: str) -> str:
    path = home.work / f"read-{session_id}"
    return path.read_text() if path.exists() else ""


def test_message_is_held_while_tmux_does_not_answer_and_typed_later(home: Instance) -> None:
    tty = home.spawn("Tty")["session_id"]
    home.sm("send", tty, "before")
    server = int(home.tmux("display-message", "-p", "#{pid}"))
    os.kill(server, signal.SIGSTOP)
    try:
        home.sm("send", tty, "while it is silent", "--no-wait")

        client = Client(str(home.socket))

        def held() -> bool:
            # This state is short, between two attempts: a command would be too slow to see it.
            message = client.get("/v1/messages", {"session": tty})[-1]
            return message["status"] == "queued" and "does not respond" in (message["reason"] or "")

        until(held, "the message is held", 60)
    finally:
        os.kill(server, signal.SIGCONT)
    until(lambda: "while it is silent" in read_by(home, tty), "the message is typed", 40)
    assert read_by(home, tty).count("while it is silent") == 1
    until(lambda: home.json("log", tty)[-1]["status"] == "unconfirmed", "its final status")


def test_notice_goes_to_the_grandparent_when_the_parent_took_it_and_died(home: Instance) -> None:
    grandparent = home.spawn("Inbox")["session_id"]
    parent = home.spawn("Careless", "--parent", grandparent)["session_id"]
    child = home.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    home.ended(parent)
    assert any(child in line for line in json.loads(json.dumps(home.json("output", parent)["lines"])))
    until(lambda: child in read_by(home, grandparent), "the grandparent's notice")


def test_notice_is_sent_again_when_the_reader_never_confirmed_it(home: Instance) -> None:
    parent = home.spawn("Sh", f"{sys.executable} take.py > taken; exec sleep 1000")
    # Without PYTHONPATH the script imports the installed package.
    child = home.spawn("Sh", "exit 3", "--parent", parent["session_id"])["session_id"]
    until(
        lambda: (home.work / "taken").exists() and child in (home.work / "taken").read_text(), "it is taken"
    )

    def is_sent_again() -> bool:
        messages = [m for m in home.json("log", parent["session_id"]) if child in m["text"]]
        if [m["status"] for m in messages] != ["unconfirmed", "queued"]:
            return False
        first, second = (m["text"] for m in messages)
        assert second == f"(told again) {first}"
        return True

    until(is_sent_again, "the notice is sent again", 60)


def test_notice_is_told_once_when_the_daemon_dies_before_its_confirmation(home: Instance) -> None:
    # The messages are longer than the buffer of the pipe: the reader confirms only when the test has read them.
    script = "mkfifo out; until [ -e go ]; do sleep 0.05; done; sm inbox --take > out; echo $? > done; exec sleep 1000"
    parent = home.spawn("Sh", script)["session_id"]
    child = home.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    until(lambda: any(child in m["text"] for m in home.json("log", parent)), "the notice")
    for _ in range(2):
        home.sm("send", parent, "x" * 40_000, "--no-wait")
    (home.work / "go").touch()
    with open(home.work / "out", encoding="utf-8") as output:
        until(
            lambda: {m["status"] for m in home.json("log", parent)} == {"delivering"},
            "the messages are taken",
        )
        home.kill_daemon()
        assert child in output.read()
    assert wait_line(home.work / "done") == "0\n", "the exit code of the reader"
    messages = home.json("log", parent)  # starts the daemon
    assert [m["status"] for m in messages] == ["submitted"] * 3
    assert [child in m["text"] for m in messages] == [True, False, False]


def test_parent_gets_the_notice_while_another_caller_waits_for_the_child(home: Instance) -> None:
    parent = home.spawn("Inbox")["session_id"]
    child = home.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    with subprocess.Popen(
        ["sh", "-c", f"while :; do {SM} wait {child} > wait.txt; done"], env=home.env, cwd=home.work
    ) as waiting:
        try:
            until(lambda: child in read_by(home, parent), "the parent's notice")
        finally:
            waiting.kill()


def test_orphan_process_of_an_ended_agent_cannot_ask_questions(home: Instance) -> None:
    left = "while kill -0 $1 2> /dev/null; do sleep 0.05; done; sm ask late? 2> asked; echo $? >> asked"
    session = home.spawn("Sh", f"setsid sh -c '{left}' sh $$ > left 2>&1 & sleep 0.2; exit 0")["session_id"]
    path = home.work / "asked"
    until(lambda: path.exists() and path.read_text().endswith("\n5\n"), "the refusal")
    assert f"process of session {session} has ended" in path.read_text()
    assert home.json("requests", "--all") == []


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
