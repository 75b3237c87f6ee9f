"""Agents whose program ends before it has started."""

import asyncio

import pytest

from tests.sim.programs import Program, Running
from tests.sim.stage import Stage


async def nothing(program: Running) -> int:
    return 0


async def words(program: Running) -> int:
    program.print("/usr/bin/env: 'node': No such file or directory")
    return 127


async def slow_nothing(program: Running) -> int:
    await asyncio.sleep(0.5)
    return 1


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (nothing, "claude did not start: it ended with exit code 0"),
        (slow_nothing, "claude did not start: it ended with exit code 1"),
        (words, "its last line of output: /usr/bin/env: 'node': No such file or directory"),
    ],
)
def test_spawn_fails_with_the_words_of_a_program_that_does_not_start(program: Program, reason: str) -> None:
    with Stage(draws=program) as stage:
        error = stage.refused("spawn", "Plain", "x", "--name", "one", "--wait", "20", exit_code=9)
        assert reason in error
        moves = [event["type"] for event in stage.json("events", "plain-one")]
        assert moves == ["spawned", "error"]
