"""The output of a session whose terminal is closed."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.core.models import Exit, Process, Session
from sm.errors import NoTerminal
from sm.monitor import Monitor
from tests import golden

PROCESS = Process(4711, "boot/1")


async def output_of(session: Session, saved: list[str] | None) -> list[str]:
    async def capture(terminal: str, lines: int) -> list[str]:
        raise NoTerminal("there is no terminal")

    async def read(session_id: str, lines: int, since_s: float) -> list[str] | None:
        return saved

    parts = SimpleNamespace(_terminals=SimpleNamespace(capture=capture), _keeper=SimpleNamespace(read=read))
    return list((await Monitor.output(cast(Any, parts), session, 10)).lines)


@pytest.mark.parametrize(
    ("process", "exit"), [(PROCESS, Exit(1, None)), (None, None)], ids=["ended", "between two processes"]
)
async def test_saved_output_is_shown_when_the_terminal_is_closed(
    process: Process | None, exit: Exit | None
) -> None:
    session = replace(golden.RUNNING, process=process, exit=exit)
    assert await output_of(session, ["so far"]) == ["so far"]
    with pytest.raises(NoTerminal):
        await output_of(session, None)


async def test_saved_output_of_an_earlier_process_is_not_that_of_the_present_one() -> None:
    with pytest.raises(NoTerminal):
        await output_of(replace(golden.RUNNING, process=PROCESS, exit=None), ["of the earlier one"])
