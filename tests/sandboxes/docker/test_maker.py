"""The engine's record of a container that has just ended: the kernel knows of the end before the engine does."""

import os
from dataclasses import replace
from typing import cast

import pytest

from sm.paths import InstancePaths
from sm.sandboxes.containers import ContainerRecord
from sm.sandboxes.docker.engine import Engine
from sm.sandboxes.docker.maker import ContainerMaker

SEEN = ContainerRecord("c1", "sm-1-shop", {}, "running", os.getpid(), "0:0", "i1", 0, ())
GONE = replace(SEEN, pid=2**22 + 1)
"""No process can have this pid (proc_sys_kernel(5), pid_max)."""
EXITED = replace(SEEN, state="exited", pid=0, exit_code=137)


class SlowEngine:
    """Answers each call with the next record, and then with the last one."""

    def __init__(self, *records: ContainerRecord | None) -> None:
        self.records = list(records)
        self.calls = 0

    async def call(self, work: object, timeout_s: float) -> ContainerRecord | None:
        self.calls += 1
        return self.records.pop(0) if len(self.records) > 1 else self.records[0]


async def noticed(engine: SlowEngine, record: ContainerRecord) -> ContainerRecord:
    maker = ContainerMaker(cast(Engine, engine), InstancePaths("/c", "/s"), "i")
    return await maker._noticed(record)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm.sandboxes.docker.maker._NOTICED_PAUSE_S", 0.0)


async def test_record_is_read_again_until_the_engine_has_noticed_the_end() -> None:
    engine = SlowEngine(GONE, GONE, EXITED)
    assert await noticed(engine, GONE) == EXITED
    assert engine.calls == 3


@pytest.mark.parametrize(
    "record", [SEEN, EXITED, replace(GONE, state="paused"), replace(EXITED, state="created")]
)
async def test_record_that_agrees_with_the_kernel_is_taken_at_once(record: ContainerRecord) -> None:
    engine = SlowEngine(EXITED)
    assert await noticed(engine, record) == record
    assert engine.calls == 0


@pytest.mark.parametrize("answer", [GONE, None])
async def test_record_whose_processes_cannot_be_seen_is_given_up(answer: ContainerRecord | None) -> None:
    assert await noticed(SlowEngine(answer), GONE) == GONE
