"""Messages, waits and requests through the real command: refusals, delivery, expiry and answers."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.api_client import ApiClient
from tests.fixtures import context_fixture
from tests.instance import SM, Instance, until
from tests.load import option, scaled

MORE = """
  Inbox: {command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}
  Deaf: {command: [sleep, "1000"], prompt: file}
  Tty: {command: [sh, -c, "while read -r x; do echo \\"$x\\" >> read-$SM_SESSION_ID; done"], prompt: file, input: tty}
  Counter:
    command: [bash, -c, "trap 'echo interrupted >> heard' INT; while :; do read -r x && echo \\"$x\\" >> heard; done"]
    prompt: file
    input: tty
"""


home = context_fixture("module", Instance, MORE)


def texts(path: Path) -> list[str]:
    """The texts that an Inbox agent has taken."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [message["text"] for line in lines for message in json.loads(line)]


def log_of(home: Instance, session_id: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = home.json("log", session_id)
    return messages


# Refused


def test_send_is_refused_to_unknown_archived_and_own_sessions(home: Instance) -> None:
    assert "no such session" in home.refused("send", "nobody-there", "hello", exit_code=3)
    gone = home.spawn("Sh", "exit 0")["session_id"]
    home.ended(gone)
    home.sm("archive", gone)
    assert f"hint: sm unarchive {gone}" in home.refused("send", gone, "hello", exit_code=4)
    own = home.spawn("Sh", 'sm send "$SM_SESSION_ID" hello 2> own; echo $? >> own; exec sleep 1000')[
        "session_id"
    ]
    path = home.work / "own"
    until(lambda: path.exists() and path.read_text().endswith("\n5\n"), "the refusal")
    assert f"session {own} may not send messages to session {own}" in path.read_text()


# Delivered


def test_inbox_gives_urgent_messages_first_and_idle_messages_to_a_waiting_agent(home: Instance) -> None:
    first, second = "sm inbox --take --json > first", "sm inbox --take --wait --json > second"
    script = f"while [ ! -e may-read ]; do sleep 0.05; done; {first}; {second}; exec sleep 1000"
    busy = home.spawn("Sh", script)["session_id"]
    output = home.sm("send", busy, "when idle", "--mode", "idle", "--no-wait")
    assert output.startswith("queued (held until the session is idle: it is running), message ")
    home.sm("send", busy, "one", "--no-wait")
    home.sm("send", busy, "now", "--urgent", "--no-wait")
    (home.work / "may-read").touch()
    until(lambda: len(texts(home.work / "second")) == 1, "the second read")
    assert texts(home.work / "first") == ["now", "one"]
    assert texts(home.work / "second") == ["when idle"]


def test_urgent_message_interrupts_the_program_before_it_is_typed(home: Instance) -> None:
    counter = home.spawn("Counter")["session_id"]
    log = home.work / "heard"
    home.sm("send", counter, "ready?")
    until(lambda: log.exists() and "ready?" in log.read_text(), "the agent reads")
    home.sm("send", counter, "stop that", "--urgent")
    until(lambda: log.read_text().rstrip().endswith("stop that"), "both messages")
    assert "interrupted" in log.read_text()
    assert home.session(counter)["status"] == "running"


def test_urgent_message_to_a_terminal_needs_permission_to_interrupt(home: Instance) -> None:
    counter = home.spawn("Counter")["session_id"]
    peer = {"SM_SESSION_ID": home.spawn("Inbox")["session_id"]}
    error = home.refused("send", counter, "drop that", "--urgent", exit_code=5, env=peer)
    assert f"may not interrupt session {counter}" in error
    home.sm("send", counter, "when you can", env=peer)
    reader = home.spawn("Inbox")["session_id"]
    assert (
        home.sm("send", reader, "first of all", "--urgent", env=peer) == f"Input sent to session {reader}\n"
    )


def test_message_is_typed_when_the_terminal_is_in_copy_mode(home: Instance) -> None:
    tty = home.spawn("Tty")["session_id"]
    home.tmux("copy-mode", "-t", f"=command-{tty}:")
    assert home.sm("send", tty, "look here").startswith("typed, not confirmed, message ")
    path = home.work / f"read-{tty}"
    until(lambda: path.exists() and path.read_text().endswith(": look here\n"), "the message is read")


def test_message_reopens_a_completed_session_whose_process_runs(home: Instance) -> None:
    script = "sm complete first; sm inbox --take --wait > /dev/null; sm complete second; exec sleep 1000"
    again = home.spawn("Sh", script)["session_id"]
    home.sm("wait", again, *option("--timeout"))
    assert home.sm("send", again, "more work") == f"Input sent to session {again}\n"
    until(lambda: home.session(again)["completion_message"] == "second", "the second completion")
    types = [e["type"] for e in home.events(again)]
    assert types.count("completed") == 2
    assert types.index("reopened") < types.index("message")


# Not delivered


def test_message_is_unconfirmed_when_the_reader_dies_after_taking_it(home: Instance) -> None:
    deaf = home.spawn(
        "Sh", "while [ ! -e read-it ]; do sleep 0.05; done; sm inbox --take | head -c 0; exec sleep 1000"
    )
    # The reader takes the message but cannot confirm it: its output pipe is closed.
    home.sm("send", deaf["session_id"], "x" * 40_000, "--no-wait")
    (home.work / "read-it").touch()
    until(lambda: log_of(home, deaf["session_id"])[0]["status"] == "unconfirmed", "its final status", 40)
    (message,) = log_of(home, deaf["session_id"])
    assert message["reason"] == "the recipient took it from the inbox but did not confirm it"


# Waiting


def test_wait_continues_when_the_daemon_restarts(home: Instance) -> None:
    slow = home.spawn("Sh", "while [ ! -e end-now ]; do sleep 0.05; done")["session_id"]
    waiting = subprocess.Popen([SM, "wait", slow, "--json"], env=home.env, stdout=subprocess.PIPE, text=True)
    home.kill_daemon()
    home.sm("status")
    (home.work / "end-now").touch()
    out, _ = waiting.communicate(timeout=scaled(30))
    assert waiting.returncode == 0
    assert [s["status"] for s in json.loads(out)] == ["completed"]


def test_status_is_idle_while_an_inbox_wait_runs_even_after_a_restart(home: Instance) -> None:
    script = "sm inbox --take --wait > /dev/null & echo $! > waiter; wait; exec sleep 1000"
    idle = home.spawn("Sh", script)["session_id"]
    home.in_status(idle, "idle")
    waiter = int((home.work / "waiter").read_text())
    os.kill(waiter, signal.SIGSTOP)  # a start may take longer than the waiting command's patience
    home.kill_daemon()
    home.start_daemon()
    os.kill(waiter, signal.SIGCONT)
    before = home.events(idle, "--type", "running")
    home.sm("send", idle, "--no-wait", "--mode", "idle", "over the restart")
    until(lambda: log_of(home, idle)[0]["status"] == "submitted", "the agent still waits")
    home.in_status(idle, "running")
    assert len(home.events(idle, "--type", "running")) == len(before) + 1
    second = home.spawn("Sh", script.replace("waiter", "waiter-2"))["session_id"]
    home.in_status(second, "idle")
    os.kill(int((home.work / "waiter-2").read_text()), signal.SIGKILL)
    home.in_status(second, "running")


# Requests


def test_answer_is_no_message_when_the_waiting_command_confirms_it_late(home: Instance) -> None:
    proxy = str(Path(__file__).with_name("session_proxy.py"))
    asker_id = home.spawn("Sh", f"exec {sys.executable} {proxy}")["session_id"]
    until((home.work / "proxy").exists, "the proxy listens")
    asker, operator = ApiClient(home.work / "proxy"), ApiClient(home.socket)
    name = asker.post("/v1/requests", question="Now?", options=[])["request_id"]
    with ThreadPoolExecutor() as pool:
        wait = pool.submit(asker.get, "/v1/requests/{ref}", name, wait_s=60)
        home.in_status(asker_id, "waiting_input")
        operator.post("/v1/requests/{ref}/answer", name, approved=True, answers=["yes"])
        assert wait.result()["state"] == "answered"
    # The status shows that the daemon has handled the end of the wait.
    until(lambda: operator.get("/v1/sessions/{ref}", asker_id)["status"] == "running", "the asker goes on")
    for question in ("A?", "B?"):  # each change of the mail runs the timers
        asker.post("/v1/requests", question=question, options=[])
    asker.post("/v1/requests/{ref}/taken", name)
    assert log_of(home, asker_id) == []


def test_answer_survives_when_the_daemon_and_the_waiting_command_are_killed(home: Instance) -> None:
    ask = "sm ask 'And now?' --wait 60 > and-now & echo $! > asking; wait"
    script = f"{ask}; sm inbox --take --wait --json > later; exec sleep 1000"
    asker = home.spawn("Sh", script)["session_id"]
    home.in_status(asker, "waiting_input")
    (request,) = home.json("requests", asker)
    os.kill(int((home.work / "asking").read_text()), signal.SIGKILL)
    home.sm("answer", request["request_id"], "go on")
    home.kill_daemon()
    home.sm("status")
    until(lambda: texts(home.work / "later"), "the answer as a message")
    assert texts(home.work / "later") == [f"answer to {request['request_id']}: go on"]


def test_question_can_expire_be_cancelled_and_be_denied(home: Instance) -> None:
    expired = home.spawn(
        "Sh", "sm ask 'Soon?' --expires 1 --wait 60 2> soon; echo $? >> soon; exec sleep 1000"
    )
    until(lambda: "\n4\n" in (home.work / "soon").read_text(), "the expiry")
    assert "is expired: nobody answered in time" in (home.work / "soon").read_text()
    (request,) = home.json("requests", expired["session_id"], "--all")
    assert "expired at" in home.refused("answer", request["request_id"], "now", exit_code=4)
    ended = home.spawn("Sh", "sm ask 'Me?'; exit 0")["session_id"]
    home.ended(ended)
    (request,) = home.json("requests", ended, "--all")
    assert (request["state"], request["reason"]) == ("cancelled", f"session {ended} has ended")
    home.refused("answer", request["request_id"], "you", exit_code=4)
    denied = home.spawn("Sh", "sm ask 'Please?' --wait 60 2> please; echo $? >> please; exec sleep 1000")[
        "session_id"
    ]
    home.in_status(denied, "waiting_input")
    assert home.sm("deny", denied, "not today").startswith("Denied r")
    until(lambda: (home.work / "please").read_text().endswith("\n4\n"), "the refusal")
    assert "was denied: not today" in (home.work / "please").read_text()


def test_broadcast_of_a_session_reaches_only_its_children(home: Instance) -> None:
    parent = home.spawn(
        "Sh", "while [ ! -e tell ]; do sleep 0.05; done; sm broadcast 'to mine' > said; exec sleep 1000"
    )
    child = home.spawn("Inbox", "--parent", parent["session_id"])["session_id"]
    stranger = home.spawn("Inbox")["session_id"]
    (home.work / "tell").touch()
    until(lambda: texts(home.work / f"read-{child}") == ["to mine"], "the child's message")
    assert log_of(home, stranger) == []
    path = home.work / "said"
    until(lambda: path.read_text() == f"Input sent to session {child}\n", "the parent's output")
