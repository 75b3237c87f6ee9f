"""A message and the death of its agent at the same moment: the tmux server lives on, with all other agents.

`SM_LONG=1` runs 500 races next to 20 bystanders in place of 4 and 3.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from subprocess import DEVNULL, Popen

import pytest

from sm.client.http import Client
from tests.instance import SM, Instance
from tests.waits import until

RACES, BYSTANDERS = (500, 20) if os.environ.get("SM_LONG") == "1" else (4, 3)
AGENTS = """
  Tty: {command: [sh, -c, "while read -r x; do :; done"], prompt: file, input: tty}
limits: {max_children: 1000, spawn_interval_s: 0, max_per_workspace: 1000}
"""
FINAL = {"failed", "unconfirmed"}


@pytest.fixture
def home() -> Iterator[Instance]:
    with Instance(AGENTS) as instance:
        yield instance


def test_tmux_server_lives_when_agents_die_while_a_message_is_typed(home: Instance) -> None:
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    bystanders = {home.spawn("Sleeper")["session_id"] for _ in range(BYSTANDERS)}
    server = home.tmux("display-message", "-p", "#{pid}")
    client = Client(str(home.socket))
    ends = Counter[str]()
    for race in range(RACES):
        agent = home.spawn("Tty")
        session_id = agent["session_id"]
        if race % 2:
            sender = Popen(
                [SM, "send", session_id, f"race {race}", "--no-wait"], env=home.env, stdout=DEVNULL
            )
            time.sleep(chance.uniform(0.03, 0.09))  # the moment of the death is what the race is about
        else:  # without the start of a command, which takes long on a busy machine
            sender = None
            client.post("/v1/messages", {"to": session_id, "text": f"race {race}"})
            time.sleep(chance.uniform(0.0, 0.02))
        os.kill(agent["pid"], signal.SIGKILL)
        if sender is not None:
            sender.wait()
        home.ended(session_id)
        assert home.tmux("display-message", "-p", "#{pid}") == server, f"seed {seed}, race {race}"
        ends[final_state(client, session_id)] += 1
    print(f"{RACES} races, seed {seed}, {BYSTANDERS} bystanders, messages: {dict(ends)}, servers lost: 0")  # noqa: T201  # the figure of a long run
    alive = {session["session_id"] for session in home.json("all", "--status", "running")}
    assert bystanders <= alive


def final_state(client: Client, session_id: str) -> str:
    """The final state of the session's only message; `refused` if it was sent after the end."""

    def look() -> str | None:
        messages = client.get("/v1/messages", {"session": session_id})
        if not messages:
            return "refused"
        return str(messages[-1]["status"]) if messages[-1]["status"] in FINAL else None

    return until(look, "the final state of the message")
