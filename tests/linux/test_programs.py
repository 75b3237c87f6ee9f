"""Tests of programs that run once, with real processes."""

import asyncio
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sm.linux.programs import run_program

pytestmark = pytest.mark.processes
LONG = b"x" * 1_000_000
"""A text that fills a pipe, so that its writer waits."""


@contextmanager
def reports_of_the_loop() -> Iterator[list[object]]:
    """Collect what the running loop reports, also about the futures that nobody asks for their exception."""
    reports: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    try:
        yield reports
        gc.collect()
    finally:
        loop.set_exception_handler(None)


@pytest.mark.parametrize("text", [b"", b"short", LONG], ids=["nothing", "a short text", "a long text"])
@pytest.mark.parametrize("program", ["exec <&-; echo done", "echo done", "cat >/dev/null; echo done"])
async def test_program_that_closes_its_input_early_leaves_no_error_behind(program: str, text: bytes) -> None:
    with reports_of_the_loop() as reports:
        result = await run_program(["sh", "-c", program], text, 30, output_max_bytes=100)
    assert (result.code, result.output) == (0, b"done\n")
    assert reports == []


async def test_program_with_a_grace_time_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    script = f"trap 'echo ended >{tmp_path}/said; exit' TERM; echo >{tmp_path}/ready; sleep 1000 & wait"
    running = asyncio.create_task(run_program(["sh", "-c", script], b"", 1000, grace_s=1000))
    await asyncio.to_thread((tmp_path / "ready").read_text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (tmp_path / "said").read_text() == "ended\n"


async def test_program_that_runs_out_of_time_leaves_no_error_behind() -> None:
    with reports_of_the_loop() as reports, pytest.raises(TimeoutError):
        await run_program(["sh", "-c", "exec sleep 1000"], LONG, 0.1)
    assert reports == []
