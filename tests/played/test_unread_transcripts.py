"""The last lines of ended agents whose transcript cannot be read: their usage is counted later, and only once."""

import asyncio
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sm.monitor import usage as meter
from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2, remind_after_s: [1]}
  progress: {snapshot_interval: 1}
daemon: {ignore_evidence: [screen, title]}
"""
PAUSE_S = 600
"""Longer than the pause before the next read of a transcript that could not be read for a minute."""
LONGEST_PAUSE_S = 2 * 3600
UNREAD = "the end of its transcript is unread: its last usage is not counted yet"
stage = context_fixture("function", Stage, SETTINGS, BOX)


@pytest.fixture
def agent(stage: Stage) -> Agent:
    """An agent that has a budget, and 100 tokens of output."""
    agent = stage.agent("Limited")
    spend(agent, 1, 100)
    until(lambda: output(agent) == 100, "its first usage is counted")
    return agent


def usage(number: int, output: int) -> dict[str, Any]:
    counts = {"input_tokens": 0, "output_tokens": output}
    return {"id": f"msg_{number}", "model": "claude-opus-4-8", "content": [], "usage": counts}


def spend(agent: Agent, number: int, output: int) -> None:
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"p{number}")
    agent.write_message(usage(number, output))


def output(agent: Agent) -> int:
    return int(agent.stage.json("progress", agent.id)["tokens"]["output"])


def end(stage: Stage, agent: Agent) -> None:
    stage.world.kernel.signal(stage.world.programs.running[agent.id].process, 9)


def has_ended(stage: Stage, agent: Agent) -> bool:
    return bool(stage.get(f"/v1/sessions/{agent.id}")["status"] == "error")


def why(stage: Stage, agent: Agent) -> str:
    return stage.sm("why", agent.id)


@contextmanager
def unreadable() -> Iterator[None]:
    """Let no block of a transcript be read."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meter, "read_block", refuse)
        yield


def assert_counted(stage: Stage, agent: Agent, after_s: float = PAUSE_S) -> None:
    """The usage is counted once, in the sums and in the budget."""
    stage.wait(after_s)
    assert output(agent) == 120
    assert UNREAD not in why(stage, agent)
    assert stage.json("usage")["total"]["tokens"]["output"] == 120
    assert stage.json("budget", agent.id)["budget"]["spent"]["tokens"] == 120


def test_next_daemon_counts_the_last_usage_of_an_agent_whose_transcript_was_unreadable(
    stage: Stage, agent: Agent
) -> None:
    with unreadable():
        spend(agent, 2, 20)
        end(stage, agent)
        until(lambda: has_ended(stage, agent), "its end is recorded")
        assert UNREAD in why(stage, agent)
        stage.kill_daemon()
    stage.start_daemon()
    assert_counted(stage, agent)


def test_last_usage_is_counted_when_the_transcript_can_be_read_again(stage: Stage, agent: Agent) -> None:
    with unreadable():
        spend(agent, 2, 20)
        end(stage, agent)
        until(lambda: has_ended(stage, agent), "its end is recorded")
        stage.wait(1800)
        told = [e["message"] for e in stage.json("events", "--type", "warning")]
        assert [text for text in told if "Input/output error" in text] == [
            f"Session {agent.id} - the end of its transcript cannot be read: Input/output error. "
            "Its last usage is not counted yet; sm tries again"
        ]
    assert_counted(stage, agent, LONGEST_PAUSE_S)


@pytest.mark.parametrize("is_server_gone", [False, True], ids=["process", "server"])
def test_last_usage_is_counted_when_the_agent_ended_while_no_daemon_ran(
    stage: Stage, agent: Agent, *, is_server_gone: bool
) -> None:
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p2")
    stage.kill_daemon()
    agent.append_message(usage(2, 20))
    end(stage, agent)
    if is_server_gone:
        stage.world.server.kill()
    with unreadable():
        stage.start_daemon()
        until(lambda: has_ended(stage, agent), "its end is recorded")
        assert UNREAD in why(stage, agent)
    assert_counted(stage, agent)


class Hanging:
    """Lets each read of a transcript wait until it is told to go on."""

    def __init__(self, stage: Stage, patch: pytest.MonkeyPatch) -> None:
        self._read = meter.UsageMeter.read
        self._answers: asyncio.Future[None] = stage.loop.create_future()
        self.begun = 0
        hang = self._hang
        patch.setattr(meter.UsageMeter, "read", lambda *arguments, **options: hang(*arguments, **options))

    async def _hang(self, *arguments: Any, **options: Any) -> Any:
        self.begun += 1
        await asyncio.shield(self._answers)
        return await self._read(*arguments, **options)

    def end(self) -> None:
        self._answers.set_result(None)


def test_read_that_hangs_keeps_no_end_from_being_recorded(
    stage: Stage, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [stage.agent("Plain") for _ in range(3)]
    hanging = Hanging(stage, monkeypatch)
    agent.append_message(usage(2, 20))
    for ending in (agent, *others):
        end(stage, ending)
    until(lambda: all(has_ended(stage, ending) for ending in (agent, *others)), "the ends are recorded")
    assert not any(stage.get(f"/v1/sessions/{ending.id}")["status_stale"] for ending in (agent, *others))
    begun = hanging.begun
    stage.wait(600)
    assert hanging.begun == begun  # no further read is begun
    hanging.end()
    assert_counted(stage, agent)


def test_usage_is_counted_once_when_the_session_is_restored_while_a_read_hangs(
    stage: Stage, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging(stage, monkeypatch)
    agent.append_message(usage(2, 20))
    end(stage, agent)
    until(lambda: has_ended(stage, agent), "its end is recorded")
    stage.sm("restore", agent.id)
    stage.wait(30)
    hanging.end()
    assert_counted(stage, agent)


def test_restored_session_counts_the_last_usage_of_its_earlier_process(stage: Stage, agent: Agent) -> None:
    with unreadable():
        spend(agent, 2, 20)
        end(stage, agent)
        until(lambda: has_ended(stage, agent), "its end is recorded")
        stage.sm("restore", agent.id)
    assert_counted(stage, agent)


def total(stage: Stage) -> int:
    return int(stage.json("usage")["total"]["tokens"]["output"])


def test_removed_session_leaves_the_usage_that_was_not_read_before(stage: Stage, agent: Agent) -> None:
    with unreadable():
        spend(agent, 2, 20)
        end(stage, agent)
        until(lambda: has_ended(stage, agent), "its end is recorded")
    agent.append_message(usage(3, 3))  # by a process that it left behind
    stage.sm("rm", agent.id)
    assert total(stage) == 123
    stage.wait(PAUSE_S)
    assert total(stage) == 123


def test_removed_session_leaves_its_usage_when_the_daemon_dies_at_any_step(stage: Stage) -> None:
    steps = agents = 0
    dies = True
    while dies:
        agent = stage.agent("Plain")
        spend(agent, 1, 100)
        until(lambda: output(agent) == 100, "its first usage is counted")  # noqa: B023
        end(stage, agent)
        until(lambda: has_ended(stage, agent), "its end is recorded")  # noqa: B023
        agent.append_message(usage(2, 20))
        daemon, agents, steps = stage.world.daemon, agents + 1, steps + 19
        stage.drop_after(steps)
        stage.run("rm", agent.id)  # it starts the next daemon, and repeats its request
        stage.loop.forget_interruptions()
        dies = not daemon.is_running
        assert stage.run("status", agent.id).returncode == 3
        assert total(stage) == agents * 120
    assert agents > 5


def test_session_whose_transcript_cannot_be_read_is_removed_and_its_events_say_so(
    stage: Stage, agent: Agent
) -> None:
    with unreadable():
        spend(agent, 2, 20)
        end(stage, agent)
        until(lambda: has_ended(stage, agent), "its end is recorded")
        stage.sm("rm", agent.id)
    assert total(stage) == 100
    told = [e["message"] for e in stage.json("events", "--type", "warning")]
    assert (
        f"Session {agent.id} - was removed, and the end of its transcript could not be read: Input/output error. The "
        "usage in it is not counted"
    ) in told


@pytest.mark.parametrize("dies", [False, True], ids=["same daemon", "next daemon"])
def test_archive_has_the_usage_that_was_read_after_the_end(stage: Stage, agent: Agent, *, dies: bool) -> None:
    archive = Archived(stage.state / "archives" / agent.id) / "usage.json"

    def archived() -> int:
        return sum(used["output"] for used in json.loads(archive.read_text())["models"])

    with unreadable():
        spend(agent, 2, 20)
        end(stage, agent)
        until(lambda: has_ended(stage, agent), "its end is recorded")
        until(archive.exists, "its archive is written")
        assert archived() == 100
        if dies:
            stage.kill_daemon()
    if dies:
        stage.start_daemon()
    stage.wait(PAUSE_S)
    assert output(agent) == archived() == 120
