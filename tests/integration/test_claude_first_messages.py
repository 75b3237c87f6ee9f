"""Messages sent right after a spawn with a prompt reach the real Claude Code once and in order.

claude submits the prompt that it got as an argument, and then draws its input box anew: an earlier paste is lost.
`SM_LONG=1` spawns 200 sessions in place of 12, `SM_SPAWNS` sets another number.
"""

import os
import random
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import cycle, islice

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi
from tests.waits import PATIENT

TOGETHER = {1: 66, 3: 67, 8: 67} if os.environ.get("SM_LONG") == "1" else {1: 4, 3: 4, 8: 4}
"""By the number of spawns at the same time: the number of spawns."""
if "SM_SPAWNS" in os.environ:
    TOGETHER = dict.fromkeys(TOGETHER, int(os.environ["SM_SPAWNS"]) // len(TOGETHER))
WITHIN_S = 120.0
TURNS = ("[[text:done]]", "[[wait:1.5]][[text:done]]", "[[tool:Bash:sleep 1]][[then]][[text:done]]")
ARRIVED = ("submitted", "acknowledged")

api = scripted_api("module")
claudes = claude_instance("module")


@dataclass
class FirstMessages:
    """The result of one spawn with a prompt and two messages."""

    name: str
    statuses: list[str] = field(default_factory=list)
    """The final status of each message."""
    texts: list[str] = field(default_factory=list)
    """The texts of the user in the conversation of the agent."""
    waits_s: list[float] = field(default_factory=list)
    """The time from the request of each message until its confirmation."""
    log: object = None
    error: str = ""

    @property
    def words(self) -> list[str]:
        """The words of this spawn in the conversation."""
        return [word for text in self.texts for word in text.split() if word.startswith(f"{self.name}-")]

    @property
    def messages(self) -> list[str]:
        return [f"{self.name}-{number}" for number in (1, 2)]

    @property
    def delivered(self) -> int:
        return sum(word in self.words for word in self.messages)

    @property
    def doubled(self) -> int:
        return sum(self.words.count(word) > 1 for word in self.messages)

    @property
    def is_in_order(self) -> bool:
        found = [word for word in self.words if word in self.messages]
        return found == sorted(found)

    @property
    def unconfirmed(self) -> int:
        return sum(status not in ARRIVED for status in self.statuses)

    @property
    def is_right(self) -> bool:
        """True if the conversation has the prompt, both messages and the last message, each as a separate text."""
        expected = [f"{self.name}-{end}" for end in ("prompt", "1", "2", "probe")]
        separate = all(sum(word in text.split() for word in expected) <= 1 for text in self.texts)
        return not self.error and self.words == expected and separate and not self.unconfirmed


def send_first_messages(claudes: ClaudeInstance, api: ScriptedApi, first: FirstMessages, turn: str) -> None:
    """Spawn a session with a prompt, send two messages at once, and record what its conversation contains."""
    session_id = claudes.spawn("Editor", f"{first.name}-prompt {turn}")["session_id"]
    sent = [claudes.json("send", session_id, text, "--no-wait")["message_id"] for text in first.messages]

    def finished() -> bool:
        log = {message["message_id"]: message for message in claudes.get("/v1/messages", session=session_id)}
        first.log = log
        first.statuses = [log[number]["status"] for number in sent]
        first.waits_s = [_wait_s(log[number]) for number in sent if log[number]["submitted_at"]]
        return not {"queued", "delivering"} & set(first.statuses)

    until(finished, f"{first.name}: both messages are finished")
    claudes.idle(session_id)
    claudes.sm("send", session_id, f"{first.name}-probe", "--wait", PATIENT)
    asked = api.wait_for(lambda: api.turns(f"{first.name}-probe")[-1:], f"{first.name}-probe")[0]
    first.texts = asked.user_texts
    claudes.sm("kill", session_id, "--force")


def _wait_s(message: dict[str, str]) -> float:
    sent, submitted = (datetime.fromisoformat(message[at]) for at in ("created_at", "submitted_at"))
    return (submitted - sent).total_seconds()


def run_first_messages(
    claudes: ClaudeInstance, api: ScriptedApi, first: FirstMessages, turn: str
) -> FirstMessages:
    """As `send_first_messages`, and record an error, so that one failure does not hide the other results."""
    try:
        send_first_messages(claudes, api, first, turn)
    except Exception:  # noqa: BLE001 - the test reports the error
        first.error = traceback.format_exc()
    return first


def summary(together: int, results: Sequence[FirstMessages]) -> str:
    statuses = Counter(status for first in results for status in first.statuses)
    numbers = {
        "messages": 2 * len(results),
        "delivered": sum(first.delivered for first in results),
        "doubled": sum(first.doubled for first in results),
        "out of order": sum(not first.is_in_order for first in results),
        "unconfirmed": sum(first.unconfirmed for first in results),
    }
    longest_s = max((wait_s for first in results for wait_s in first.waits_s), default=0.0)
    told = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    return (
        f"{len(results)} spawns, {together} at a time: "
        + ", ".join(f"{number} {name}" for name, number in numbers.items())
        + f" ({told}); longest wait {longest_s:.1f} s"
    )


@pytest.mark.timeout(200 + 30 * max(TOGETHER.values()))
@pytest.mark.parametrize("together", TOGETHER)
def test_two_messages_right_after_a_spawn_arrive_once_and_in_order(
    claudes: ClaudeInstance, api: ScriptedApi, capsys: pytest.CaptureFixture[str], together: int
) -> None:
    firsts = [
        FirstMessages(f"t{together}-{number}-{random.randrange(10**9)}")
        for number in range(TOGETHER[together])
    ]
    with ThreadPoolExecutor(together) as pool:
        turns = islice(cycle(TURNS), len(firsts))
        results = list(
            pool.map(lambda first, turn: run_first_messages(claudes, api, first, turn), firsts, turns)
        )
    with capsys.disabled():
        print(f"\n{summary(together, results)}")  # noqa: T201 - shown in the output of the run
    wrong = [first for first in results if not first.is_right]
    assert not wrong, "\n\n".join(map(str, wrong))
