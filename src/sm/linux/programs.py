"""Runs a program once, with bounded output and time, and leaves no process behind. Ends child processes."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sm.core.dataclass import dataclass

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
    grace_s: float = 0.0,
) -> ProgramResult:
    """Run a program with `text` on its stdin, in a separate kernel session.

    Returns the first `output_max_bytes` of stdout and of stderr; with 0 both go to /dev/null. Raises TimeoutError
    after `within_s`; OSError, or ValueError for a NUL, when the program cannot be run. When an exception is raised,
    the program and its process group have been killed; with `grace_s` they got SIGTERM before.
    """
    kept = asyncio.subprocess.PIPE if output_max_bytes else asyncio.subprocess.DEVNULL
    # A separate task: a cancelled caller must still end a program that already runs.
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
            await _end(await starting, grace_s)
        raise
    finished = False
    try:
        async with asyncio.timeout(within_s):
            # All three in parallel: else both sides can block on a full pipe.
            async with asyncio.TaskGroup() as tasks:
                output = tasks.create_task(_read(process.stdout, output_max_bytes))
                errors = tasks.create_task(_read(process.stderr, output_max_bytes))
                tasks.create_task(_write(process.stdin, text))
            code = await _wait(process)
        finished = True
    finally:
        if not finished:
            await _end(process, grace_s)
    return ProgramResult(code, output.result(), errors.result())


async def _write(stream: asyncio.StreamWriter | None, text: bytes) -> None:
    assert stream is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # the program may ignore its input
        stream.write(text)
        await stream.drain()
    stream.close()


async def _read(stream: asyncio.StreamReader | None, max_bytes: int) -> bytes:
    """Return the beginning of a stream, and read the rest so that the writer does not block."""
    kept = bytearray()
    while stream is not None and (piece := await stream.read(65536)):
        kept += piece[: max_bytes - len(kept)]
    return bytes(kept)


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    if grace_s:
        with suppress(ProcessLookupError, TimeoutError):
            os.killpg(process.pid, signal.SIGTERM)
            async with asyncio.timeout(grace_s):
                await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):  # a child that left the group may hold the pipes, which wait() waits for
        async with asyncio.timeout(_KEEPS_PARTS_S):
            await _wait(process)


async def _wait(process: asyncio.subprocess.Process) -> int:
    """Wait for the end of a program. Python 3.11 logs an error of its input that nobody has asked for."""
    code = await process.wait()
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        await asyncio.shield(process.stdin.wait_closed())  # to cancel it would break the transport
    return code


async def wait_or_kill(process: asyncio.subprocess.Process, within_s: float) -> None:
    """Wait for the end of a child process, and kill it if it has not ended after `within_s`."""
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
