"""File events that are lost, late or too many: the daemon learns of every change all the same."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.played_agent import Agent
from tests.sim.file_events import PlayedNotices
from tests.sim.stage import Stage, until


def lose(notices: PlayedNotices) -> None:
    notices.are_lost = True


def delay(notices: PlayedNotices) -> None:
    notices.delay_s = 7


def overflow(notices: PlayedNotices) -> None:
    notices.overflows = True


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


Fault = Callable[[PlayedNotices], None]


@pytest.mark.parametrize("fault", [lose, delay, overflow])
def test_agent_starts_whose_launch_script_is_closed_without_an_event(stage: Stage, fault: Fault) -> None:
    fault(stage.world.file_events)
    session = stage.spawn("Inbox", "x")
    assert stage.in_status(session["session_id"], "running")["pid"] == session["pid"]


@pytest.mark.parametrize("fault", [lose, delay, overflow])
def test_failure_in_a_transcript_is_known_when_its_event_does_not_come(stage: Stage, fault: Fault) -> None:
    agent: Agent = stage.agent()
    agent.send_event("UserPromptSubmit", prompt="work")
    agent.write_prompt("work")
    stage.settle()
    fault(stage.world.file_events)
    agent.write_failure("rate_limit", "API Error: rate limit")

    def failed() -> dict[str, Any] | None:
        found = stage.session(agent.id)
        return found if found["status"] != "running" else None

    until(failed, "the daemon has read the end of the turn")
