"""Runs the daemon: takes the lock, reads the configuration, opens the database and the socket, recovers and serves.

Before it holds the lock, the daemon touches nothing outside the state directory.
"""

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec

from aiohttp import web

from sm import __version__
from sm.api.auth import Containment
from sm.api.middleware import KernelIdentifier
from sm.api.sockets import AGENT_SOCKET_LIMITS, SOCKET_LIMITS, Listener, Site, SocketLimits, listen
from sm.config import Config, LoadedConfig, load
from sm.daemon.database import open_database
from sm.daemon.foundation import HostParts
from sm.daemon.front_doors import DaemonLife
from sm.daemon.lock import InstanceLock, instance_lock
from sm.daemon.log import start_logging
from sm.daemon.start import catch_up, run_until_one_ends, running_parts
from sm.daemon.wiring import DaemonParts
from sm.errors import DaemonUnavailable, InvalidPath, SmError, TerminalError
from sm.linux.parent_death import die_with_parent
from sm.linux.platform import check_platform, raise_fd_limit
from sm.paths import InstancePaths, instance_paths
from sm.store import Store
from sm.terminals.tmux.terminals import Tmux

log = logging.getLogger("sm.daemon")

_SWITCH_S = 0.0005
"""The longest wait of the event loop for a thread that runs Python code, such as a reader of transcripts."""
_RETIRE_WITHIN_S = 2.0
_KEEP_EVERY_S = 2.0
"""How often the lock file and the socket are looked for."""


def make_directories(paths: InstancePaths) -> None:
    """Make the private directories of the state (0700). Raises InvalidPath for another user's directory."""
    for path in (paths.state, paths.run, paths.bin, paths.log, paths.launch, paths.spool, paths.checks):
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            status = os.stat(path)
        except OSError as error:
            raise InvalidPath(f"cannot use {path}: {error.strerror}") from None
        if status.st_uid != os.geteuid():
            raise InvalidPath(
                f"{path} belongs to user id {status.st_uid}",
                "run sm as the owner of the directory, or set SM_HOME to a directory of your own",
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.chmod(path, 0o700)


def write_command(paths: InstancePaths) -> None:
    """Write `state/bin/sm`, the command that agents find first on their PATH.

    Every start of the daemon updates it, so that an upgrade or a moved installation does not break live agents. The
    script names this interpreter and the directories of its modules. It skips the site module, which saves a third of
    the command's start time.
    """
    # Found without an import: importing click would take 6 ms of each start, and memory.
    homes = dict.fromkeys(os.path.dirname(_directory_of(package)) for package in ("sm", "click"))
    code = f"import sys\nsys.path += {list(homes)!r}\nfrom sm.cli import main\nmain()\n"
    interpreter = sys.executable
    if len(interpreter) < 100 and not any(c.isspace() for c in interpreter):
        script = f"#!{interpreter} -IS\n{code}"
    else:  # the kernel would cut or split the line (execve(2)): sh starts the interpreter, and Python skips this line
        quoted = interpreter.replace("'", "'\\''")
        script = f"#!/bin/sh\n'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''\n{code}"
    target = f"{paths.bin}/sm"
    with suppress(OSError), open(target, encoding="utf-8", errors="replace") as file:
        if file.read(len(script) + 1) == script and os.access(target, os.X_OK):
            return  # so that a daemon can start on a full disk
    with open(target + ".new", "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(target + ".new", 0o700)
    os.rename(target + ".new", target)


def _directory_of(package: str) -> str:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return os.path.dirname(os.path.abspath(spec.origin))


async def run(
    paths: InstancePaths,
    lock: InstanceLock,
    loaded: LoadedConfig,
    ready: "ReadyPipe",
    umask: int,
    bounds: SocketLimits,
    agent_bounds: SocketLimits,
    containment: Containment | None,
    new_database: bool = False,
) -> None:
    """Serve until a request or a signal stops the daemon; the caller holds `lock`. Agents keep running afterwards.

    A tmux server that the daemon starts gets `umask`, and so do its agents. `bounds`: limits for the callers of
    `sm.sock`; `agent_bounds`: limits for the callers of each agent socket, whom `containment` identifies (None for
    the containers of this daemon); `new_database`: begin an empty database in place of a lost one.
    """
    started_s, stopping = time.monotonic(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    write_command(paths)
    async with (
        await open_database(paths, new=new_database, unseen_days=loaded.config.unseen_days) as store,
        _terminals(loaded.config, paths, store, umask) as terminals,
    ):
        parts = DaemonParts(
            paths,
            loaded,
            store,
            terminals,
            DaemonLife(started_s, stopping),
            agent_bounds,
            HostParts(containment),
        )
        with listen(paths.socket) as sock:
            later = await catch_up(paths, loaded, store, parts, terminals)
            runner = web.AppRunner(parts.doors.server.app(), shutdown_timeout=2.0)
            await runner.setup()
            listener = Listener("sm.sock", bounds, KernelIdentifier(parts.watch.identity).identify)

            async def serve(bound: socket.socket) -> None:
                await Site(runner, listener, bound).start()

            await serve(sock)
            await parts.doors.agent_sockets.serve()
            # What is loaded now stays. Without it, a full collection holds the event loop for a third of the time.
            gc.freeze()
            gc.enable()
            log.info("started %s, pid %d", __version__, os.getpid())
            ready.send({"ready": True})
            running = {
                **running_parts(paths, store, parts, later),
                "files": _keep_files(lock, paths, serve),
                "stop": stopping.wait(),
            }
            try:
                await run_until_one_ends(running, parts, runner)
            finally:
                await _close(paths, parts, terminals)
    log.info("stopped")


async def _keep_files(
    lock: InstanceLock, paths: InstancePaths, serve: Callable[[socket.socket], Awaitable[None]]
) -> None:
    """Make the lock file and the socket anew when a cleaner removed them.

    Ends this process at once, as by a kill, when another daemon holds the lock: a clean end would remove the socket,
    the keeper session and other files that may already be of that daemon.
    """
    while lock.keep():  # no event reports this on every file system
        if not os.path.lexists(paths.socket):  # noqa: ASYNC240 - a local file
            try:
                await serve(listen(paths.socket))
                log.warning("%s was removed; it is served again", paths.socket)
            except OSError as error:
                log.warning("cannot serve %s again: %s", paths.socket, error)
        await asyncio.sleep(_KEEP_EVERY_S)
    log.critical("pid %d ends: another daemon holds %s, or its directory is gone", os.getpid(), paths.lock)
    logging.shutdown()
    os._exit(DaemonUnavailable.exit_code)


async def _close(paths: InstancePaths, parts: DaemonParts, terminals: Tmux) -> None:
    parts.watch.observer.close()
    with suppress(FileNotFoundError):
        os.unlink(paths.socket)
    with suppress(TerminalError, TimeoutError):  # a stopped tmux must not block the end of the daemon
        async with asyncio.timeout(_RETIRE_WITHIN_S):
            await terminals.retire()
    await parts.base.sandboxing.close()
    parts.base.audit.close()


def _terminals(config: Config, paths: InstancePaths, store: Store, umask: int) -> Tmux:
    """The tmux server of this instance. A server that the daemon starts passes `umask` on to its agents."""
    return Tmux(
        store.instance,
        config.tmux,
        dict(os.environ),
        umask=umask,
        before_exec=die_with_parent(),
        scratch=paths.run,
    )


class ReadyPipe:
    """Sends the parent process one line of JSON: the daemon serves, or the error that prevents it."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def send(self, report: dict[str, object]) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.write(self._descriptor, json.dumps(report).encode() + b"\n")
            os.close(self._descriptor)
            self._descriptor = None


def main(
    arguments: Sequence[str] | None = None,
    *,
    bounds: SocketLimits = SOCKET_LIMITS,
    agent_bounds: SocketLimits = AGENT_SOCKET_LIMITS,
    containment: Containment | None = None,
) -> int:
    """Run the daemon of this environment's instance in this process; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sm.daemon", description="The sm daemon; see sm daemon --help."
    )
    parser.add_argument("--ready-fd", type=int, help="where to write that it serves, or why it cannot")
    parser.add_argument("--foreground", action="store_true", help="log to the terminal too")
    parser.add_argument("--new", action="store_true", help="begin an empty database in place of a lost one")
    options = parser.parse_args(arguments)
    ready = ReadyPipe(options.ready_fd)
    umask = os.umask(
        0o077
    )  # only for the daemon: agents keep the user's umask for the files of their projects
    try:
        check_platform()
        paths = instance_paths(os.environ)
        make_directories(paths)
        with instance_lock(paths) as lock:
            loaded = load(paths.config)
            start_logging(
                paths,
                loaded.config.daemon.log_level,
                to_terminal=options.foreground,
                secrets=[loaded.telegram_token or ""],
            )
            raise_fd_limit()
            sys.setswitchinterval(_SWITCH_S)
            asyncio.run(
                run(paths, lock, loaded, ready, umask, bounds, agent_bounds, containment, options.new)
            )
    except (SmError, OSError) as failure:
        error = failure if isinstance(failure, SmError) else _system_error(failure)
        log.error("could not run: %s", error.message)
        ready.send({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
        if options.foreground:
            hint = f"\nhint: {error.hint}" if error.hint else ""
            sys.stderr.write(f"error: {error.message}{hint}\n")
        return DaemonUnavailable.exit_code
    return 0


def _system_error(error: OSError) -> SmError:
    """An error of the system, such as a full disk, with a message in place of a traceback."""
    where = f"{error.filename}: " if error.filename else ""
    return DaemonUnavailable(f"the daemon cannot run: {where}{error.strerror or error}", "sm daemon logs")
