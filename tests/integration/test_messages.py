"""Messages, waits and requests through the real command: refusals, delivery, expiry and answers."""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.api_client import ApiClient
from tests.fixtures import context_fixture
from tests.instance import Instance, until

MORE = """
  Inbox: {command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}
  Tty: {command: [sh, -c, "while read -r x; do echo \\"$x\\" >> read-$SM_SESSION_ID; done"], prompt: file, input: tty}
"""


home = context_fixture("module", Instance, MORE)


def texts(path: Path) -> list[str]:
    """The texts that an Inbox agent has taken."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [message["text"] for line in lines for message in json.loads(line)]


def log_of(home: Instance, session_id: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = home.get("/v1/messages", session=session_id)
    return messages


# Delivered


def test_message_is_typed_when_the_terminal_is_in_copy_mode(home: Instance) -> None:
    tty = home.spawn("Tty")["session_id"]
    home.tmux("copy-mode", "-t", f"=command-{tty}:")
    assert home.sm("send", tty, "look here").startswith("typed, not confirmed, message ")
    path = home.work / f"read-{tty}"
    until(lambda: path.exists() and path.read_text().endswith(": look here\n"), "the message is read")


# Waiting


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
