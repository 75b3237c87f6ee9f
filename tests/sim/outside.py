"""Programs that the daemon runs without a terminal, such as `notify.command`: `run_program` with played processes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from unittest import mock

from sm.core.models import Exit
from sm.linux.programs import ProgramResult
from tests.sim.processes import PlayedKernel, PlayedProcess


@dataclass(frozen=True, slots=True)
class Outside:
    """A program that runs, with its stdin."""

    process: PlayedProcess
    text: bytes


OutsideProgram = Callable[[Outside], Awaitable[int]]
"""The code of a program: returns its exit code."""


@contextmanager
def played_programs(kernel: PlayedKernel, installed: Mapping[str, OutsideProgram]) -> Iterator[None]:
    """Let the notifier run these programs, by their names, while the context is open."""

    async def run_program(
        argv: Sequence[str], text: bytes, within_s: float, *, directory: str = "/", **_: object
    ) -> ProgramResult:
        process = kernel.start(argv, {}, directory)
        # Without the life of the daemon, as the program outlives it.
        running = asyncio.get_running_loop().create_task(
            _run(kernel, installed[argv[0]], Outside(process, text)), context=Context()
        )

        def stop() -> None:
            running.cancel()

        process.on_end.append(stop)
        try:
            async with asyncio.timeout(within_s):
                return ProgramResult(await asyncio.shield(running), b"", b"")
        finally:
            kernel.end(process, Exit(signal=9))
            kernel.reap(process)

    with mock.patch("sm.notifiers.command.run_program", run_program):
        yield


async def _run(kernel: PlayedKernel, program: OutsideProgram, outside: Outside) -> int:
    code = await program(outside)
    outside.process.on_end.clear()
    kernel.end(outside.process, Exit(code))
    return code
