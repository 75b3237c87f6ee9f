"""Runs a program once: its input is given, its output and its time are bounded, and nothing of it is left behind."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

_KEEPS_PARTS_S = 2.0


@dataclass(frozen=True, slots=True)
class ProgramResult:
    code: int
    output: bytes
    errors: bytes


async def run_program(
    argv: Sequence[str],
    text: bytes,
    within_s: float,
    *,
    directory: str = "/",
    environment: Mapping[str, str] | None = None,
    output_max_bytes: int = 0,
) -> ProgramResult:
    """Run a program with `text` on its stdin, in a kernel session of its own.

    The first `output_max_bytes` of its output and of its errors are returned; with 0 both go to /dev/null. Raises
    TimeoutError after `within_s`; OSError, or ValueError for a NUL, when the program cannot be run. Whatever is
    raised, the program has ended, and all that it started.
    """
    kept = asyncio.subprocess.PIPE if output_max_bytes else asyncio.subprocess.DEVNULL
    # A task of its own: when we are cancelled over it, the program may run already, and be ended by nobody.
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=kept,
            stderr=kept,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):
            await _end(await starting)
        raise
    finished = False
    try:
        async with asyncio.timeout(within_s):
            # All three at once, so that neither side waits for the other for ever.
            async with asyncio.TaskGroup() as tasks:
                output = tasks.create_task(_read(process.stdout, output_max_bytes))
                errors = tasks.create_task(_read(process.stderr, output_max_bytes))
                tasks.create_task(_write(process.stdin, text))
            code = await process.wait()
        finished = True
    finally:
        if not finished:  # it takes too long, or we end
            await _end(process)
    return ProgramResult(code, output.result(), errors.result())


async def _write(stream: asyncio.StreamWriter | None, text: bytes) -> None:
    assert stream is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it need not read
        stream.write(text)
        await stream.drain()
    stream.close()


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes:
    """The first part of all that comes; the rest is read too, or its writer would stand still."""
    kept = b""
    while stream is not None and (piece := await stream.read(65536)):
        kept += piece[: most - len(kept)]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):  # what has left its group may hold its pipes, which wait() waits for
        async with asyncio.timeout(_KEEPS_PARTS_S):
            await process.wait()
