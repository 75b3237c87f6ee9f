"""Many messages at once, and the daemon killed over them: each arrives once, or is known not to be certain."""

import json
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.instance import Instance, until

SENDERS = 10
EACH = 100
KILLS = 10
REPOSITORY = Path(__file__).parents[2]
MORE = f"""
  Inbox: {{command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}}
  Tty: {{command: [sh, -c, "while read -r x; do echo \\"$x\\" >> read-$SM_SESSION_ID; done"], prompt: file, input: tty}}
  Sender:
    command: [{sys.executable}, -m, tests.integration.mail_sender]
    prompt: file
    env: {{PYTHONPATH: "{REPOSITORY}/src:{REPOSITORY}"}}
child_agents: {{allow_args: true}}
"""


def storm(instance: Instance, kind: str) -> list[str]:
    """Ten sessions that read, ten that send them a hundred messages each, a daemon that dies ten times meanwhile."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    moment = random.Random(seed)
    readers = [instance.spawn(kind, "--name", f"r{n}")["session_id"] for n in range(SENDERS)]
    senders = []
    for n in range(SENDERS):
        turned = readers[n:] + readers[:n]  # so that all are busy with all at any time
        words = f"s{n} {EACH} {' '.join(turned)}"
        senders.append(instance.spawn("Sender", "--args", words)["session_id"])
    over = Event()

    def kill() -> None:
        for _ in range(KILLS):
            if over.wait(moment.uniform(0.05, 0.8)):
                return
            instance.kill_daemon()
            instance.sm("status")  # or a sender is earlier: the first command starts the next daemon

    killer = Thread(target=kill)
    killer.start()
    for sender in senders:
        instance.sm("wait", sender, "--timeout", "100")
    killer.join()
    for sender in senders:
        assert instance.session(sender)["status"] == "completed", instance.sm("output", sender)
    return readers


def settled(instance: Instance) -> list[dict[str, object]]:
    """All messages of the senders, once none of them is on its way."""

    def look() -> list[dict[str, object]] | None:
        found = instance.json("log", "--limit", "10000")
        open = [m for m in found if m["session_id"] and m["status"] in ("queued", "delivering")]
        return (
            None if open else [m for m in found if ":" in m["text"] and m["from"] not in ("operator", "sm")]
        )

    return until(look, "every message is final", 60)


def in_order(texts: list[str]) -> bool:
    """Whether the messages of each sender stand in the order in which it sent them."""
    last: dict[str, int] = defaultdict(lambda: -1)
    for text in texts:
        sender, _, number = text.partition(":")
        if int(number) <= last[sender]:
            return False
        last[sender] = int(number)
    return True


@pytest.mark.timeout(300)
def test_a_thousand_messages_to_inboxes_arrive_once_each_and_in_order_over_ten_crashes() -> None:
    with Instance(MORE) as instance:
        readers = storm(instance, "Inbox")
        messages = settled(instance)
        read = {r: _taken(instance.work / f"read-{r}") for r in readers}
        arrived = Counter(text for texts in read.values() for text in texts)
        states = Counter(str(m["status"]) for m in messages)
        print(dict(states))  # noqa: T201
        sent = [f"s{n}:{i}" for n in range(SENDERS) for i in range(EACH)]
        assert sorted(str(m["text"]) for m in messages) == sorted(sent)
        assert set(states) <= {"submitted", "unconfirmed"}
        for message in messages:
            times = arrived[str(message["text"])]
            assert times == 1 if message["status"] == "submitted" else times <= 1, message
        assert all(in_order(texts) for texts in read.values())
        assert states["submitted"] > 900


@pytest.mark.timeout(300)
def test_a_thousand_typed_messages_are_never_typed_twice_over_ten_crashes() -> None:
    with Instance(MORE) as instance:
        readers = storm(instance, "Tty")
        messages = settled(instance)
        assert {m["status"] for m in messages} == {"unconfirmed"}
        assert len(messages) == SENDERS * EACH

        # A line that was typed is not read at once: the last one that we type ourselves comes after all others.
        for reader in readers:
            instance.tmux("send-keys", "-t", f"=command-{reader}:", "-l", "end of it")
            instance.tmux("send-keys", "-t", f"=command-{reader}:", "Enter")
        read = {}
        for reader in readers:
            path = instance.work / f"read-{reader}"
            until(lambda p=path: p.read_text().endswith("end of it\n"), "it has read everything")  # type: ignore[misc]  # a default binds the loop's value
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
        arrived = Counter(text for each in texts.values() for text in each)
        print(sum(arrived.values()))  # noqa: T201
        assert max(arrived.values()) == 1
        assert sum(arrived.values()) >= SENDERS * EACH - KILLS * SENDERS
        assert all(in_order(each) for each in texts.values())


def _taken(path: Path) -> list[str]:
    """The texts of all that a reader has written down; it may have died over its last line."""
    texts = []
    for line in path.read_text().splitlines() if path.exists() else []:
        texts += [message["text"] for message in json.loads(line)]
    return texts
