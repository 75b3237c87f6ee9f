"""Runs `notify.command`, a program of the operator, once for each notice."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from sm.notifiers.base import NotifyFailed

_WITHIN_S = 30.0


class CommandNotifier:
    """Runs the program with the notice on its stdin, in a kernel session of its own. Its output is not kept."""

    once = True

    def __init__(self, command: Sequence[str] | None, within_s: float = _WITHIN_S) -> None:
        self._command = command
        self._within_s = within_s

    async def tell(self, target: str | None, body: Mapping[str, Any]) -> None:
        if self._command is None:
            raise NotifyFailed("notify.command is configured no more", again=False)
        # A task of its own: when we are cancelled over it, the program may run already, and be ended by nobody.
        starting = asyncio.create_task(_start(self._command))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(NotifyFailed):
                await _end(await starting)
            raise
        try:
            async with asyncio.timeout(self._within_s):
                with suppress(BrokenPipeError, ConnectionResetError):  # it need not read
                    await process.communicate(orjson.dumps(body) + b"\n")
        except TimeoutError:
            raise NotifyFailed(
                f"notify.command did not end within {self._within_s:g} s", again=False
            ) from None
        finally:
            if process.returncode is None:  # it takes too long, or we end
                await _end(process)
        if process.returncode != 0:
            raise NotifyFailed(f"notify.command ended with exit code {process.returncode}", again=False)


async def _start(command: Sequence[str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise NotifyFailed(f"notify.command cannot be run: {error.strerror}", again=False) from None


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
