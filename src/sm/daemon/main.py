"""The daemon: `python -m sm.daemon`. Lock, log, configuration, database, socket, recovery; then it serves.

Nothing outside the state directory is touched before the lock is held.
"""

import argparse
import asyncio
import fcntl
import json
import logging
import logging.handlers
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec

from aiohttp import web

from sm import __version__
from sm.api.agent_sockets import AgentSockets
from sm.api.auth import Identity, anywhere
from sm.api.context import Daemon
from sm.api.middleware import ByKernel
from sm.api.sockets import AGENT_BOUNDS, BOUNDS, Bounds, Door, Site, listen
from sm.config import Loaded, load
from sm.core.timestamps import iso
from sm.daemon.outbox import Outbox
from sm.daemon.recovery import recover, recover_later, remove_strays, unsettled
from sm.daemon.spool import replay
from sm.daemon.telling import Telling
from sm.errors import AlreadyRunning, DaemonUnavailable, InvalidPath, SmError, StorageFull, TerminalError
from sm.linux.processes import check_platform, death_with_parent, raise_fd_limit
from sm.messaging.composer import Composing
from sm.messaging.delivery import Typist
from sm.messaging.messages import Messages
from sm.messaging.receipts import Receipts
from sm.messaging.timers import Mailroom
from sm.monitor.observer import Observer
from sm.monitor.processes import Watcher
from sm.monitor.summary import Summary
from sm.monitor.usage import Measuring
from sm.notifiers import NOTIFIERS
from sm.paths import Places, places
from sm.providers import PROVIDERS
from sm.requests.answers import Requests
from sm.requests.dialogs import Dialogs
from sm.sandboxes.host import HostSandbox
from sm.server import Server
from sm.sessions.adopt import Adoptions
from sm.sessions.archive import Records
from sm.sessions.interrupt import Interrupts
from sm.sessions.kill import Kills
from sm.sessions.manager import Manager
from sm.sessions.plan import Spawning
from sm.sessions.reports import Reports
from sm.sessions.restore import Revival
from sm.sessions.spawn import Starts
from sm.sessions.waits import Waiting
from sm.sessions.workspaces import Workspaces
from sm.state.endings import Endings
from sm.state.notices import Notices
from sm.state.quota import Counting
from sm.store import Store
from sm.store.audit import Audit
from sm.terminals.archives import Archives
from sm.terminals.tmux.terminals import Tmux

log = logging.getLogger("sm.daemon")

_LOG_BYTES = 5 * 1024 * 1024
_LOG_FILES = 3
_UPKEEP_EVERY_S = 30.0
_BACKUP_EVERY_S = 24 * 3600.0
_BACKUPS_KEPT = 3
_KEYS_KEPT = timedelta(days=7)
_REPLAY_EVERY_S = 5.0
_RETIRE_WITHIN_S = 2.0


def now() -> str:
    return iso(time.time())


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the `sm_` fields given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name.startswith("sm_")}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


@contextmanager
def locked(place: Places) -> Iterator[None]:
    """Hold the instance's lock; the file names the daemon that has it. Raises AlreadyRunning."""
    descriptor = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            raise AlreadyRunning(
                f"a daemon runs already (pid {holder or 'unknown'})", "sm daemon status"
            ) from None
        with suppress(OSError):  # on a full disk the pid is missing, the lock holds all the same
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def make_directories(place: Places) -> None:
    """The state directory, ours alone (0700). Raises InvalidPath for one that belongs to somebody else."""
    for path in (place.state, place.run, place.bin, place.log, place.launch, place.spool):
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            found = os.stat(path)
        except OSError as error:
            raise InvalidPath(f"{path} cannot be used: {error.strerror}") from None
        if found.st_uid != os.geteuid():
            raise InvalidPath(
                f"{path} belongs to user id {found.st_uid}", "run sm as its owner, or set SM_HOME"
            )
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.chmod(path, 0o700)


def write_command(place: Places) -> None:
    """`state/bin/sm`: the command that agents find first on their PATH.

    Right at every start, so that an upgrade or a moved installation does not break live agents. It names
    this interpreter and where its modules lie, and skips the site module: that saves a third of the start.
    """
    # Looked up and not imported: click would cost 6 ms of each start, and memory for ever.
    homes = dict.fromkeys(os.path.dirname(_directory_of(package)) for package in ("sm", "click"))
    code = f"import sys\nsys.path += {list(homes)!r}\nfrom sm.cli import main\nmain()\n"
    interpreter = sys.executable
    if len(interpreter) < 100 and not any(c.isspace() for c in interpreter):
        script = f"#!{interpreter} -IS\n{code}"
    else:  # the kernel would cut or split the line (execve(2)): let sh find the interpreter, and Python skip this
        quoted = interpreter.replace("'", "'\\''")
        script = f"#!/bin/sh\n'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''\n{code}"
    target = f"{place.bin}/sm"
    with suppress(OSError), open(target, encoding="utf-8", errors="replace") as file:
        if file.read(len(script) + 1) == script and os.access(target, os.X_OK):
            return  # on a full disk this lets a daemon start
    with open(target + ".new", "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(target + ".new", 0o700)
    os.rename(target + ".new", target)


def _directory_of(package: str) -> str:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return os.path.dirname(os.path.abspath(spec.origin))


def start_logging(place: Places, level: str, *, to_terminal: bool) -> None:
    handler = logging.handlers.RotatingFileHandler(
        f"{place.log}/daemon.log", maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8"
    )
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    if to_terminal:
        shown = logging.StreamHandler()
        shown.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        root.handlers.append(shown)
    root.setLevel(level.upper())
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)
    logging.raiseExceptions = False  # a full disk must not fill stderr


async def run(
    place: Places,
    loaded: Loaded,
    ready: "Ready",
    stopping: asyncio.Event,
    *,
    umask: int,
    bounds: Bounds,
    agent_bounds: Bounds,
) -> None:
    """Serve until `stopping`; the lock is held. Agents go on living.

    `umask` is that of a tmux server that has to be started, and so of its agents. `bounds`: what the callers of
    `sm.sock` may take; `agent_bounds`: those of each agent socket.
    """
    config = loaded.config
    started_s = time.monotonic()
    write_command(place)
    audit = Audit(place.audit, now)
    async with await Store.open(place.database) as store:
        providers = {name: make(config) for name, make in PROVIDERS.items()}
        sandbox = HostSandbox(place)
        tmux = Tmux(
            instance=store.instance,
            socket_name=config.tmux.socket_name,
            width=config.tmux.width,
            height=config.tmux.height,
            history_limit=config.tmux.history_limit,
            environment=dict(os.environ),
            umask=umask,
            before_exec=death_with_parent(),
            scratch=place.run,
        )
        async with tmux as terminals:
            notices = Notices(config, now)
            endings = Endings(config, notices, now)
            spawning = Spawning(config, place, providers, lambda: store.workspaces, now)
            manager = Manager(
                store=store,
                providers=providers,
                notices=notices,
                endings=endings,
                counting=Counting(config.limits),
                audit=audit.record,
                now=now,
            )
            starts = Starts(store, manager, spawning, sandbox, endings)
            kills = Kills(store, manager)
            reports = Reports(store, manager, endings)
            watcher = Watcher(store, manager, terminals)
            archives = Archives(config.child_agents.cleanup.archive_path or place.archives, terminals)
            notifiers = {kind: make(config) for kind, make in NOTIFIERS.items()}
            revival = Revival(store, manager, starts, spawning, sandbox, terminals)
            agent_sockets = AgentSockets(place, store, agent_bounds, anywhere)
            identity = Identity(store.sessions, terminals, watcher.tty_owner)
            composing = Composing(terminals, lambda session_id: observer.blocked(session_id))
            outbox = Outbox(
                store,
                manager,
                starts,
                terminals,
                sandbox,
                watcher.watch,
                notifiers,
                archives,
                revival.launch_again,
                agent_sockets.ready_for,
                composing.interrupting,
            )
            dialogs = Dialogs(store, manager, terminals, config)
            messages, waiting = Messages(store, manager, dialogs), Waiting(store, manager)
            mailroom = Mailroom(store, manager, kills, messages, waiting, time.time)
            receipts = Receipts(store, manager, messages)
            typist = Typist(store, manager, messages, terminals, composing, receipts)
            measuring = Measuring(store, config, now)
            observer = Observer(
                store,
                manager,
                terminals,
                measuring,
                Telling(receipts, composing, dialogs),
                transcripts_every_s=config.child_agents.progress.snapshot_interval,
                off=config.daemon.ignore_evidence,
            )
            watcher.observed_by(observer)
            what = config.claude
            summary = Summary(what.what, what.default_command, f"{place.state}/what")
            with listen(place.socket) as sock:
                await remove_strays(place, store, sandbox)
                # Reports first: what a session said came before its process was found gone.
                await replay(place.spool, store.sessions, reports, observer)
                left = unsettled(store)
                settled = await recover(left, manager, terminals, watcher)
                server = Server(
                    Daemon(
                        config=config,
                        store=store,
                        manager=manager,
                        starts=starts,
                        kills=kills,
                        reports=reports,
                        messages=messages,
                        requests=Requests(store, manager, reports, dialogs),
                        dialogs=dialogs,
                        records=Records(store, manager),
                        revival=revival,
                        adoptions=Adoptions(store, manager, starts, spawning, terminals, providers),
                        interrupts=Interrupts(store, manager),
                        waiting=waiting,
                        workspaces=Workspaces(store, manager, starts),
                        mailroom=mailroom,
                        observer=observer,
                        measuring=measuring,
                        summary=summary,
                        terminals=terminals,
                        watcher=watcher,
                        audit=audit,
                        socket=place.socket,
                        started_s=started_s,
                        trouble=list(loaded.warnings),
                        stop=stopping.set,
                    )
                )
                runner = web.AppRunner(server.app(), shutdown_timeout=2.0)
                await runner.setup()
                await Site(runner, Door("sm.sock", bounds, ByKernel(identity).visit), sock).start()
                await agent_sockets.serve(server.agent_app)
                log.info("started %s, pid %d", __version__, os.getpid())
                ready.tell({"ready": True})
                tasks = [
                    asyncio.create_task(part, name=name)
                    for name, part in (
                        ("outbox", outbox.run()),
                        (
                            "watcher",
                            watcher.run(
                                None if settled else recover_later(left, manager, terminals, watcher)
                            ),
                        ),
                        ("store", store.ended()),
                        ("typist", typist.run()),
                        ("mailroom", mailroom.run()),
                        ("waiting", waiting.run()),
                        ("dialogs", dialogs.run()),
                        ("upkeep", _upkeep(place, store, reports, observer)),
                        ("stop", stopping.wait()),
                    )
                ]
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in tasks:  # the stop has come, or a part has failed: then all of it must end
                        if task.done():
                            task.result()
                finally:
                    await asyncio.gather(agent_sockets.close(), runner.cleanup())
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                    observer.close()
                    with suppress(FileNotFoundError):
                        os.unlink(place.socket)
                    with suppress(TerminalError, TimeoutError):  # a stopped tmux must not keep us
                        async with asyncio.timeout(_RETIRE_WITHIN_S):
                            await terminals.retire()
                    sandbox.close()
                    audit.close()
    log.info("stopped")


async def _upkeep(place: Places, store: Store, reports: Reports, observer: Observer) -> None:
    """Timers: late reports, the write-ahead log, old keys, a backup a day."""
    last_backup_s = time.time() - _BACKUP_EVERY_S
    next_log_s = time.monotonic()
    while True:
        await asyncio.sleep(_REPLAY_EVERY_S)
        try:
            await replay(place.spool, store.sessions, reports, observer)
            if time.monotonic() < next_log_s:
                continue
            next_log_s = time.monotonic() + _UPKEEP_EVERY_S
            await store.checkpoint_log()
            await store.forget_keys(iso((datetime.now(UTC) - _KEYS_KEPT).timestamp()))
            if time.time() - last_backup_s >= _BACKUP_EVERY_S:
                await store.backup(f"{datetime.now(UTC):%Y-%m-%d}", _BACKUPS_KEPT)
                last_backup_s = time.time()
        except (StorageFull, OSError) as error:
            log.warning("put off the upkeep: %s", error)
        except Exception:
            log.exception("failed the upkeep")


class Ready:
    """Tells whoever started the daemon, once, in one line of JSON, that it serves or why it cannot."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def tell(self, what: dict[str, object]) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.write(self._descriptor, json.dumps(what).encode() + b"\n")
            os.close(self._descriptor)
            self._descriptor = None


async def _serve(
    place: Places, loaded: Loaded, ready: Ready, umask: int, bounds: Bounds, agent_bounds: Bounds
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await run(place, loaded, ready, stopping, umask=umask, bounds=bounds, agent_bounds=agent_bounds)


def main(
    arguments: Sequence[str] | None = None, *, bounds: Bounds = BOUNDS, agent_bounds: Bounds = AGENT_BOUNDS
) -> int:
    """Run the daemon of this environment's instance in this process; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sm.daemon", description="The sm daemon; see sm daemon --help."
    )
    parser.add_argument("--ready-fd", type=int, help="where to write that it serves, or why it cannot")
    parser.add_argument("--foreground", action="store_true", help="log to the terminal too")
    options = parser.parse_args(arguments)
    ready = Ready(options.ready_fd)
    umask = os.umask(0o077)  # ours; what agents write in their projects is not for us to hide
    try:
        check_platform()
        place = places(os.environ)
        make_directories(place)
        with locked(place):
            loaded = load(place.config)
            start_logging(place, loaded.config.daemon.log_level, to_terminal=options.foreground)
            raise_fd_limit()
            asyncio.run(_serve(place, loaded, ready, umask, bounds, agent_bounds))
    except (SmError, OSError) as failure:
        error = failure if isinstance(failure, SmError) else _unable(failure)
        log.error("could not run: %s", error.message)
        ready.tell({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
        if options.foreground:
            hint = f"\nhint: {error.hint}" if error.hint else ""
            sys.stderr.write(f"error: {error.message}{hint}\n")
        return DaemonUnavailable.exit_code
    return 0


def _unable(error: OSError) -> SmError:
    """What the system refused, in words: nobody shall have to read a traceback because the disk is full."""
    where = f"{error.filename}: " if error.filename else ""
    return DaemonUnavailable(f"the daemon cannot run: {where}{error.strerror or error}", "sm daemon logs")
