"""Many simultaneous messages while the daemon is killed: each arrives once or is reported as unconfirmed."""

import json
import os
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.instance import Instance, until
from tests.waits import PATIENT

LONG = os.environ.get("SM_LONG") == "1"
SENDERS, EACH, KILLS = (10, 100, 10) if LONG else (4, 30, 4)
REPOSITORY = Path(__file__).parents[2]
MORE = f"""
  Inbox: {{command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}}
  Tty: {{command: [sh, -c, "while read -r x; do echo \\"$x\\" >> read-$SM_SESSION_ID; done"], prompt: file, input: tty}}
  Sender:
    command: [{sys.executable}, -m, tests.integration.message_sender]
    prompt: file
    env: {{PYTHONPATH: "{REPOSITORY}/src:{REPOSITORY}"}}
child_agents: {{allow_args: true}}
"""


def storm(instance: Instance, kind: str) -> list[str]:
    """As many sessions send messages to as many readers while the daemon is killed; return the readers."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    rng = random.Random(seed)
    readers = [instance.spawn(kind, "--name", f"r{n}")["session_id"] for n in range(SENDERS)]
    senders = []
    for n in range(SENDERS):
        rotated = readers[n:] + readers[:n]  # each sender starts with another reader
        arguments = f"s{n} {EACH} {' '.join(rotated)}"
        senders.append(instance.spawn("Sender", "--args", arguments)["session_id"])
    over = Event()

    def kill() -> None:
        for _ in range(KILLS):
            if over.wait(rng.uniform(0.05, 0.8)):
                return
            instance.kill_daemon()
            instance.sm("status")  # starts the next daemon, unless a sender did

    killer = Thread(target=kill)
    killer.start()
    for sender in senders:
        instance.sm("wait", sender, "--timeout", PATIENT)
    killer.join()
    for sender in senders:
        assert instance.session(sender)["status"] == "completed", instance.sm("output", sender)
    return readers


def final_messages(instance: Instance) -> list[dict[str, Any]]:
    """Wait until all messages are final; return those of the senders."""

    def look() -> list[dict[str, Any]] | None:
        messages = instance.get("/v1/messages", limit=10000)
        pending = [m for m in messages if m["session_id"] and m["status"] in ("queued", "delivering")]
        return (
            None
            if pending
            else [m for m in messages if ":" in m["text"] and m["from"] not in ("operator", "sm")]
        )

    return until(look, "every message is final")


def in_order(texts: list[str]) -> bool:
    """True if the messages of each sender are in the order in which it sent them."""
    last: dict[str, int] = defaultdict(lambda: -1)
    for text in texts:
        sender, _, number = text.partition(":")
        if int(number) <= last[sender]:
            return False
        last[sender] = int(number)
    return True


@pytest.mark.timeout(1200 if LONG else 120)
def test_inbox_messages_arrive_once_and_in_order_while_the_daemon_is_killed() -> None:
    """1,000 messages and ten kills with SM_LONG=1."""
    with Instance(MORE) as instance:
        readers = storm(instance, "Inbox")
        messages = final_messages(instance)
        read = {r: taken_texts(instance.work / f"read-{r}") for r in readers}
        arrived = Counter(text for texts in read.values() for text in texts)
        states = Counter(str(m["status"]) for m in messages)
        print(dict(states))  # noqa: T201
        sent = [f"s{n}:{i}" for n in range(SENDERS) for i in range(EACH)]
        assert sorted(str(m["text"]) for m in messages) == sorted(sent)
        assert set(states) <= {"submitted", "unconfirmed"}
        for message in messages:
            count = arrived[str(message["text"])]
            assert count == 1 if message["status"] == "submitted" else count <= 1, message
        assert all(in_order(texts) for texts in read.values())
        assert states["submitted"] >= SENDERS * EACH - KILLS * SENDERS


@pytest.mark.timeout(1200 if LONG else 120)
def test_typed_messages_are_typed_at_most_once_while_the_daemon_is_killed() -> None:
    """1,000 messages and ten kills with SM_LONG=1."""
    with Instance(MORE) as instance:
        readers = storm(instance, "Tty")
        messages = final_messages(instance)
        assert {m["status"] for m in messages} == {"unconfirmed"}
        assert len(messages) == SENDERS * EACH

        # Typed lines are read later: the last line of the test comes after all messages.
        for reader in readers:
            instance.tmux("send-keys", "-t", f"=command-{reader}:", "-l", "end of it")
            instance.tmux("send-keys", "-t", f"=command-{reader}:", "Enter")
        read = {}
        for reader in readers:
            path = instance.work / f"read-{reader}"
            until(lambda p=path: p.read_text().endswith("end of it\n"), "all lines are read")  # type: ignore[misc]  # a default binds the loop's value
            read[reader] = path.read_text().splitlines()
        heads = {str(m["message_id"]): str(m["text"]) for m in messages}
        texts: dict[str, list[str]] = {}
        for reader, lines in read.items():
            assert lines[-1].endswith("end of it")
            whole = [line for line in lines if line.startswith("[sm] from sender-")]
            texts[reader] = [line.rpartition(": ")[2] for line in whole]
            for line in whole:
                number = line.partition(", message ")[2].partition(":")[0]
                assert line.endswith(f": {heads[number]}"), line
        arrived = Counter(text for lines in texts.values() for text in lines)
        print(sum(arrived.values()))  # noqa: T201
        assert max(arrived.values()) == 1
        assert sum(arrived.values()) >= SENDERS * EACH - KILLS * SENDERS
        assert all(in_order(lines) for lines in texts.values())


def taken_texts(path: Path) -> list[str]:
    """The texts that a reader has recorded."""
    texts = []
    for line in path.read_text().splitlines() if path.exists() else []:
        texts += [message["text"] for message in json.loads(line)]
    return texts
