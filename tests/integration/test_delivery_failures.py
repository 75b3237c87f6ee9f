"""Delivery when tmux hangs or the pipe of a reader is full, and questions of an orphan process."""

import os
import signal

from sm.client.http import Client
from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.ended_agents import wait_line

TTY = """
  Tty: {command: [sh, -c, "while read -r x; do echo \\"$x\\" >> read-$SM_SESSION_ID; done"], prompt: file, input: tty}
"""
home = context_fixture("function", Instance, TTY)


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

        until(held, "the message is held")
    finally:
        os.kill(server, signal.SIGCONT)
    until(lambda: "while it is silent" in read_by(home, tty), "the message is typed")
    assert read_by(home, tty).count("while it is silent") == 1
    until(lambda: home.get("/v1/messages", session=tty)[-1]["status"] == "unconfirmed", "its final status")


def test_notice_is_told_once_when_the_daemon_dies_before_its_confirmation(instance: Instance) -> None:
    # The messages are longer than the buffer of the pipe: the reader confirms only when the test has read them.
    script = "mkfifo out; until [ -e go ]; do sleep 0.05; done; sm inbox --take > out; echo $? > done; exec sleep 1000"
    parent = instance.spawn("Sh", script)["session_id"]
    child = instance.spawn("Sh", "exit 3", "--parent", parent)["session_id"]
    until(lambda: any(child in m["text"] for m in instance.get("/v1/messages", session=parent)), "the notice")
    for _ in range(2):
        instance.sm("send", parent, "x" * 40_000, "--no-wait")
    (instance.work / "go").touch()
    with open(instance.work / "out", encoding="utf-8") as output:
        until(
            lambda: {m["status"] for m in instance.get("/v1/messages", session=parent)} == {"delivering"},
            "the messages are taken",
        )
        instance.kill_daemon()
        assert child in output.read()
    assert wait_line(instance.work / "done") == "0\n", "the exit code of the reader"
    messages = instance.json("log", parent)  # starts the daemon
    assert [m["status"] for m in messages] == ["submitted"] * 3
    assert [child in m["text"] for m in messages] == [True, False, False]


def test_orphan_process_of_an_ended_agent_cannot_ask_questions(instance: Instance) -> None:
    left = "while kill -0 $1 2> /dev/null; do sleep 0.05; done; sm ask late? 2> asked; echo $? >> asked"
    session = instance.spawn("Sh", f"setsid sh -c '{left}' sh $$ > left 2>&1 & sleep 0.2; exit 0")[
        "session_id"
    ]
    path = instance.work / "asked"
    until(lambda: path.exists() and path.read_text().endswith("\n5\n"), "the refusal")
    assert f"process of session {session} has ended" in path.read_text()
    assert instance.json("requests", "--all") == []
