"""The lives of the played daemon, as the commands see them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.stage import Instance


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance() as instance:
        yield instance


def test_each_life_of_the_daemon_has_a_pid_until_its_end(instance: Instance) -> None:
    instance.sm("status")
    first = instance.daemon_pid
    assert instance.lives(first)
    instance.kill_daemon()
    assert not instance.lives(first)
    instance.sm("status")
    second = instance.daemon_pid
    said = instance.sm("daemon", "restart")
    third = instance.daemon_pid
    assert said == f"daemon restarted, pid {third}\n"
    assert len({first, second, third}) == 3
    assert [instance.lives(pid) for pid in (first, second, third)] == [False, False, True]


def test_log_has_the_lines_of_every_life(instance: Instance) -> None:
    session = instance.spawn("Sleeper", "x")["session_id"]
    instance.sm("daemon", "restart")
    instance.kill_daemon()
    instance.sm("kill", session)
    log = [json.loads(line) for line in Path(instance.state, "log", "daemon.log").read_text().splitlines()]
    moves = [line["sm_to"] for line in log if line.get("sm_session") == session and "sm_to" in line]
    assert moves[-1] == "killed"
    assert "running" in moves
