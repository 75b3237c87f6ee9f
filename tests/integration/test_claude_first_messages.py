"""Messages sent right after a spawn with a prompt reach the real Claude Code once and in order.

claude submits the prompt that it got as an argument, and then draws its input box anew: an earlier paste is lost.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi

SPAWNS = 200 if os.environ.get("SM_LONG") == "1" else 12
WITHIN_S = 120.0
TURNS = ("[[text:done]]", "[[wait:1.5]][[text:done]]", "[[tool:Bash:sleep 1]][[then]][[text:done]]")

api = scripted_api("module")
claudes = claude_instance("module")


def finished(claudes: ClaudeInstance, session_id: str, numbers: list[int]) -> list[str] | None:
    log = {m["message_id"]: m["status"] for m in claudes.json("log", session_id)}
    statuses = [log[number] for number in numbers]
    return None if {"queued", "delivering"} & set(statuses) else statuses


def assert_messages_arrive_after_a_spawn(
    claudes: ClaudeInstance, api: ScriptedApi, name: str, turn: str
) -> None:
    """Spawn a session with a prompt, send two messages at once, and check the texts of its conversation."""
    session_id = claudes.spawn("Editor", f"{name}-prompt {turn}")["session_id"]
    sent = [claudes.json("send", session_id, f"{name}-{n}", "--no-wait")["message_id"] for n in (1, 2)]
    statuses = until(lambda: finished(claudes, session_id, sent), f"{name}: both are finished", WITHIN_S)
    assert set(statuses) <= {"submitted", "acknowledged"}, claudes.json("log", session_id)
    claudes.idle(session_id)
    claudes.sm("send", session_id, f"{name}-probe", "--wait", "60")
    asked = api.wait_for(lambda: api.turns(f"{name}-probe")[-1:], f"{name}-probe")[0]
    words = [word for text in asked.user_texts for word in text.split() if word.startswith(f"{name}-")]
    expected = [f"{name}-{end}" for end in ("prompt", "1", "2", "probe")]
    assert words == expected, (asked.user_texts, claudes.json("log", session_id))
    claudes.sm("kill", session_id, "--force")


@pytest.mark.parametrize("together", [1, 3, 8])
def test_two_messages_right_after_a_spawn_arrive_once_and_in_order(
    claudes: ClaudeInstance, api: ScriptedApi, together: int
) -> None:
    names = [f"t{together}-{number}-{random.randrange(10**9)}" for number in range(SPAWNS // 3)]
    with ThreadPoolExecutor(together) as pool:
        turns = islice(cycle(TURNS), len(names))
        list(
            pool.map(
                lambda name, turn: assert_messages_arrive_after_a_spawn(claudes, api, name, turn),
                names,
                turns,
            )
        )
