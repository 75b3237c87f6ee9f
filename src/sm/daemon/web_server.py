"""Keeps `sm web` running while the daemon runs, for `web.start_with_daemon`. No failure of it ends the daemon.

The server is a process of its own. After a SIGKILL of the daemon it runs on, and the next daemon takes it over. The
daemon does not end a server that a person has started.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import suppress

from sm.core.backoff import Backoff
from sm.core.models import Process
from sm.linux.process_endings import ProcessWatch
from sm.linux.processes import environ_value, identify, signal_process
from sm.linux.programs import wait_or_kill
from sm.paths import InstancePaths
from sm.web.address import running_server

log = logging.getLogger(__name__)

_STARTED_BY = "SM_WEB_STARTED_BY"
"""The variable that marks a server as one of the daemon."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_ENDS_WITHIN_S = 5.0
_LOG_MAX_BYTES = 1 << 20
_REASON_MAX_BYTES = 4096


class WebServer:
    def __init__(self, paths: InstancePaths, *, is_wanted: bool) -> None:
        self._paths = paths
        self._is_wanted = is_wanted
        self._reason: str | None = None

    def trouble(self) -> str | None:
        """The reason why the server does not run, or None if it does or is not wanted."""
        return self._reason and f"sm web does not run: {self._reason}"

    async def run(self) -> None:
        """Run until cancelled. The server of the daemon then ends too."""
        if not self._is_wanted:
            await asyncio.get_running_loop().create_future()
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            began_s = time.monotonic()
            try:
                await self._serve()
            except Exception as error:
                log.exception("failed to run sm web")
                self._reason = str(error)
            if time.monotonic() - began_s > _LONGEST_PAUSE_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _serve(self) -> None:
        """Wait for the end of the server that runs, or of a new one."""
        address = running_server(self._paths.web)
        process = None if address is None else identify(address.pid)
        if process is None:
            await self._start()
        else:
            self._reason = None
            await self._follow(process)

    async def _follow(self, process: Process) -> None:
        ended, watch = asyncio.Event(), ProcessWatch()
        is_own = environ_value(process.pid, _STARTED_BY) is not None
        log.info("found sm web, pid %d", process.pid)
        try:
            watch.watch(process, ended.set)
            await ended.wait()
        except asyncio.CancelledError:
            if is_own:
                signal_process(process, signal.SIGTERM)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ENDS_WITHIN_S):
                        await ended.wait()
                signal_process(process, signal.SIGKILL)
            raise
        finally:
            watch.close()

    async def _start(self) -> None:
        errors, begin = self._open_log()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sm.cli", "web", "--service"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env={**os.environ, _STARTED_BY: "daemon"},
                start_new_session=True,
            )
        finally:
            os.close(errors)
        try:
            assert process.stdout is not None
            if await process.stdout.readline():
                self._reason = None
                log.info("started sm web, pid %d", process.pid)
            code = await process.wait()
        finally:
            await _end(process)
        self._reason = self._last_words(begin) or f"it ended with exit code {code}"
        log.warning("sm web has ended: %s", self._reason)

    def _open_log(self) -> tuple[int, int]:
        """Open the log of the server, and return its descriptor and size."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        size = os.fstat(descriptor).st_size
        if size > _LOG_MAX_BYTES:
            os.ftruncate(descriptor, 0)
            size = 0
        return descriptor, size

    def _last_words(self, begin: int) -> str:
        """The first line of the error that the server wrote after `begin`; empty if there is none."""
        with open(self._path, "rb") as file:
            file.seek(begin)
            lines = file.read(_REASON_MAX_BYTES).decode("utf-8", "replace").splitlines()
        return next((line.removeprefix("sm: ") for line in lines if line.startswith("sm: ")), "")

    @property
    def _path(self) -> str:
        return f"{self._paths.log}/web.log"


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        await wait_or_kill(process, _ENDS_WITHIN_S)
