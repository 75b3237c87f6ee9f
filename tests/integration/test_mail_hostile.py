"""What could keep a message or a notice from arriving: a silent tmux, a reader that dies, callers in the way."""

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
    made = Instance(MORE)
    (made.work / "take.py").write_text(TAKE)
    yield made
    made.end()


def read_by(home: Instance, session_id: str) -> str:
    path = home.work / f"read-{session_id}"
    return path.read_text() if path.exists() else ""


def test_a_message_waits_for_a_tmux_that_does_not_answer_and_is_typed_then(home: Instance) -> None:
    tty = home.spawn("Tty")["session_id"]
    home.sm("send", tty, "before")
    server = int(home.tmux("display-message", "-p", "#{pid}"))
    os.kill(server, signal.SIGSTOP)
    try:
        home.sm("send", tty, "while it is silent", "--no-wait")

        client = Client(str(home.socket))

        def held() -> bool:
            # Between two tries, which is the shorter part of the time: a command would take too long to see it.
            message = client.get("/v1/messages", {"session": tty})[-1]
            return message["status"] == "queued" and "does not answer" in (message["reason"] or "")

        until(held, "it is held and not given up", 60)
    finally:
        os.kill(server, signal.SIGCONT)
    until(lambda: "while it is silent" in read_by(home, tty), "it is typed", 40)
    assert read_by(home, tty).count("while it is silent") == 1
    until(lambda: home.json("log", tty)[-1]["status"] == "unconfirmed", "its end is known")


def test_an_ending_that_a_parent_took_and_died_over_is_told_to_the_next_above(home: Instance) -> None:
    grandparent = home.spawn("Inbox")["session_id"]
    parent = home.spawn("Careless", "--parent", grandparent)["session_id"]
    child = home.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    home.ended(parent)
    assert any(child in line for line in json.loads(json.dumps(home.json("output", parent)["lines"])))
    until(lambda: child in read_by(home, grandparent), "the grandparent hears of the child")


def test_an_ending_that_a_reader_took_and_never_confirmed_is_told_again(home: Instance) -> None:
    parent = home.spawn("Sh", f"{sys.executable} take.py > taken; exec sleep 1000")
    # Without its PYTHONPATH the installed package is found all the same.
    child = home.spawn("Sh", "exit 3", "--parent", parent["session_id"])["session_id"]
    until(
        lambda: (home.work / "taken").exists() and child in (home.work / "taken").read_text(), "it was taken"
    )

    def told_again() -> bool:
        messages = [m for m in home.json("log", parent["session_id"]) if child in m["text"]]
        return [m["status"] for m in messages] == ["unconfirmed", "queued"]

    until(told_again, "it is told again", 60)


def test_nobody_keeps_an_ending_from_its_parent_by_waiting_for_it(home: Instance) -> None:
    parent = home.spawn("Inbox")["session_id"]
    child = home.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    with subprocess.Popen(
        ["sh", "-c", f"while :; do {SM} wait {child} > wait.txt; done"], env=home.env, cwd=home.work
    ) as waiting:
        try:
            until(lambda: child in read_by(home, parent), "the parent is told all the same")
        finally:
            waiting.kill()


def test_what_an_ended_agent_left_behind_can_ask_nothing(home: Instance) -> None:
    left = "while kill -0 $1 2> /dev/null; do sleep 0.05; done; sm ask late? 2> asked; echo $? >> asked"
    session = home.spawn("Sh", f"setsid sh -c '{left}' sh $$ > left 2>&1 & sleep 0.2; exit 0")["session_id"]
    path = home.work / "asked"
    until(lambda: path.exists() and path.read_text().endswith("\n4\n"), "it has tried")
    assert f"session {session} has ended" in path.read_text()
    assert home.json("requests", "--all") == []


def test_a_permission_is_granted_or_denied_and_never_answered_by_text(home: Instance) -> None:
    session = home.spawn("Sh", "exec sleep 1000")["session_id"]
    home.kill_daemon()
    at = "2026-01-01T00:00:00.000Z"
    with closing(sqlite3.connect(home.state / "sm.db")) as db, db:  # as an agent's hooks will ask
        for number in (1, 2):
            db.execute(
                "INSERT INTO requests (id, session_id, kind, state, created_at, state_at, tool, arguments, questions)"
                " VALUES (?, ?, 'permission', 'open', ?, ?, 'Bash', '{\"command\": \"rm -rf build\"}', '[]')",
                (number, session, at, at),
            )
    assert [(r["tool"], r["arguments"]) for r in home.json("requests")] == [
        ("Bash", {"command": "rm -rf build"})
    ] * 2
    assert "is no question" in home.refused("answer", "r1", "yes", exit_code=2)
    sent = home.sm("send", session, "yes", "--no-wait")
    assert "queued" in sent, "text answers questions only"
    assert home.sm("approve", "r1") == f"Approved r1 of session {session}\n"
    assert home.sm("deny", session, "not that") == f"Denied r2 of session {session}\n"
    assert "was answered by operator" in home.refused("deny", "r1", exit_code=4)
    granted, denied = home.json("requests", "--all")
    assert granted["answer"] == {"approved": True, "answers": [], "message": None}
    assert denied["answer"] == {"approved": False, "answers": [], "message": "not that"}


def test_a_long_list_in_one_request_is_refused(home: Instance) -> None:
    home.sm("status")
    client = Client(str(home.socket))
    for path, body in (
        ("/v1/inbox/confirm", {"message_ids": list(range(1000))}),
        ("/v1/wait", {"sessions": [f"{n:08x}" for n in range(1000)]}),
    ):
        with pytest.raises(Exception, match="at most"):
            client.post(path, body)
