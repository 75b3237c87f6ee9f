"""Two agents that only answer each other, through the real command: warned, slowed, held, and let go by a person."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.sim.stage import Instance, until

LIMIT = 3


@pytest.fixture
def talking() -> Iterator[tuple[Instance, str, str, str]]:
    """An instance with a lead and its two children."""
    with Instance(
        f"warnings: {{ping_pong: {{limit: {LIMIT}}}}}\nlimits: {{spawn_interval_s: 0}}"
    ) as instance:
        lead = instance.spawn("Sleeper", "x", "--name", "lead")["session_id"]
        one, two = (
            instance.spawn("Sleeper", "x", "--name", name, "--parent", lead)["session_id"]
            for name in ("a", "b")
        )
        yield instance, lead, one, two


def send(instance: Instance, sender: str, to: str) -> str:
    return instance.sm("send", to, "again", "--no-wait", env=instance.as_session(sender))


def inbox(instance: Instance, session: str) -> list[int]:
    """The messages that a session may take now."""
    listed = json.loads(instance.sm("inbox", "--json", env=instance.as_session(session)))
    return [message["message_id"] for message in listed if message["from"] != "sm"]


def test_two_agents_that_only_answer_each_other_are_slowed_held_and_let_go(
    talking: tuple[Instance, str, str, str],
) -> None:
    instance, lead, one, two = talking
    said = [send(instance, *((one, two), (two, one))[n % 2]) for n in range(2 * LIMIT)]
    assert all("without other work" not in text for text in said[:LIMIT])
    assert "waits 10s: 4 messages between the two without other work" in said[LIMIT]
    assert "waits 30s: 5 messages" in said[LIMIT + 1]
    assert "held: 6 messages between the two without other work; waits for r1" in said[-1]
    assert (len(inbox(instance, one)), len(inbox(instance, two))) == (1, 2)

    instance.kill_daemon()
    instance.sm("all")  # starts the next daemon
    assert len(inbox(instance, one)) <= 2  # the wait of the fourth message may be over
    shown = instance.sm("requests", "r1")
    assert re.search(r"sleeper-a and sleeper-b sent each other 6 messages without other work", shown), shown
    # Neither of the two decides; their parent does.
    instance.refused("approve", "r1", exit_code=3, env=instance.as_session(two))
    instance.sm("approve", "r1", env=instance.as_session(lead))
    until(lambda: (len(inbox(instance, one)), len(inbox(instance, two))) == (3, 3), "all messages are free")
    assert "without other work" not in send(instance, one, two)


def test_denied_exchange_fails_its_messages_and_refuses_more(
    talking: tuple[Instance, str, str, str],
) -> None:
    instance, _, one, two = talking
    for n in range(2 * LIMIT):
        send(instance, *((one, two), (two, one))[n % 2])
    instance.sm("deny", "r1")
    refused = instance.refused("send", two, "more", exit_code=4, env=instance.as_session(one))
    assert "were denied (r1) until one of them has worked" in refused
    failed = [m for m in json.loads(instance.sm("log", one, "--json")) if m.get("status") == "failed"]
    assert len(failed) == LIMIT, "the messages after the warning"


def chat(instance: Instance, one: str, two: str, number: int) -> None:
    for n in range(number):
        send(instance, *((one, two), (two, one))[n % 2])


def test_wait_for_a_held_message_says_at_once_why(talking: tuple[Instance, str, str, str]) -> None:
    instance, _, one, two = talking
    chat(instance, one, two, 2 * LIMIT)
    env = instance.as_session(one)
    # The whole time would be longer than the time limit of a command of the tests.
    said = instance.refused("send", two, "more", "--wait", "1000", exit_code=10, env=env)
    held = "held: 7 messages between the two without other work; waits for r1"
    assert f"is still queued ({held}); it was not cancelled" in said
    assert held in instance.refused("send", two, "now", "--urgent", "--wait", "1000", exit_code=10, env=env)
    assert f'"more" ({held})' in instance.sm("log", two)
    assert instance.json("log", two)[-1]["held_until"] == ""


def test_held_message_expires_and_its_sender_is_told(talking: tuple[Instance, str, str, str]) -> None:
    instance, _, one, two = talking
    chat(instance, one, two, 2 * LIMIT)
    instance.sm("send", two, "late", "--ttl", "1", "--no-wait", env=instance.as_session(one))

    def told() -> bool:
        letters = json.loads(instance.sm("inbox", "--json", env=instance.as_session(one)))
        return any("expired" in m["text"] and "held: 7 messages" in m["text"] for m in letters)

    until(told, "the sender is told why its message expired")


def test_removal_of_one_of_two_lets_the_messages_of_the_other_go(
    talking: tuple[Instance, str, str, str],
) -> None:
    instance, _, one, two = talking
    chat(instance, one, two, 2 * LIMIT)
    assert len(inbox(instance, one)) == 1
    instance.sm("kill", two, "--force")
    instance.sm("rm", two, "--yes")
    assert [r for r in instance.json("requests") if r["state"] == "open"] == []
    assert instance.session(one)["warnings"] == []
    assert len(inbox(instance, one)) == LIMIT, "what the removed session has sent"
