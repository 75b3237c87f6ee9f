"""Late events of a former process do not change its session: real processes, a real database, a real tmux."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.models import Launch, Process, Session, Signal
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.daemon.recovery import recover
from sm.linux import processes
from sm.monitor.observer import Observer
from sm.monitor.processes import WatchedPanes, Watcher
from sm.monitor.recorder import Recorder
from sm.monitor.usage import UsageMeter
from sm.paths import InstancePaths
from sm.sandboxes.host import HostSandbox
from sm.state.session_steps import move
from sm.store import Store
from sm.terminals.base import Pane
from sm.terminals.tmux.terminals import Tmux
from tests import samples
from tests.sandboxes.terminal import without_cgroups
from tests.state_parts import StateParts, open_parts, with_completion
from tests.terminals.world import World
from tests.waits import until_async

ID = "1a2b3c4d"
LAUNCH = Launch(argv=("sleep", "1000"), working_dir="/", environment={}, inherited={})


class NotingSandbox(HostSandbox):
    """Notes the status of each session whose end it is told."""

    def __init__(self, paths: InstancePaths) -> None:
        super().__init__(paths, without_cgroups())
        self.ends: list[Status] = []

    def ended(self, session: Session) -> None:
        self.ends.append(session.status)


@dataclass
class Services:
    store: Store
    parts: StateParts
    tmux: Tmux
    watcher: Watcher
    sandbox: "NotingSandbox"

    @property
    def session(self) -> Session:
        return self.store.sessions[ID]


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    def now() -> str:
        return samples.AT

    world = World()
    async with open_parts(tmp_path, now) as (store, parts), world.terminals() as tmux:
        usage = UsageMeter(store, Config(), now)
        rules = [with_completion(store, parts)]
        recorder = Recorder(store, parts.notices, parts.faults, parts.providers, usage, rules)
        observer = Observer(store, recorder, parts.providers, tmux, usage, transcripts_every_s=lambda: 60.0)
        sandbox = NotingSandbox(InstancePaths(f"{tmp_path}/config.yaml", str(tmp_path)))
        watcher = Watcher(store, parts.providers, parts.ends, tmux, observer, sandbox, WatchedPanes(store))
        yield Services(store, parts, tmux, watcher, sandbox)
        sandbox.close()
        observer.close()
    await world.end()


@pytest.fixture
def ended() -> Process:
    """A process that has ended."""
    child = subprocess.Popen(["sleep", "1000"])
    process = processes.identify(child.pid)
    child.kill()
    child.wait()
    assert process is not None
    return process


async def restore(services: Services, old: Process) -> tuple[Session, Pane]:
    """Insert a session, end its process `old` and restore it; return the session before that and the new pane."""
    pane = await services.tmux.open(ID, f"command-{ID}", "/", ("sleep", "1000"))
    process = processes.identify(pane.pid)
    first = replace(
        samples.session(ID), provider="command", status=Status.RUNNING, process=old, terminal=f"command-{ID}"
    )
    async with services.store.transaction() as tx:
        await tx.insert(first, LAUNCH, None)
        await move(
            tx, services.parts.notices, ID, Signal(SignalKind.KILLED, EffectKind.KILL, "killed", samples.AT)
        )
        signal = Signal(SignalKind.RESTARTED, "restore", "restored", samples.AT)
        await move(tx, services.parts.notices, ID, signal, process=process)
        await move(
            tx, services.parts.notices, ID, Signal(SignalKind.STARTED, "process", "it runs", samples.AT)
        )
    return first, pane


@pytest.fixture
def running(services: Services) -> Iterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.ensure_future(services.watcher.run())]
    yield tasks
    for task in tasks:
        task.cancel()


async def test_sandbox_is_told_once_of_a_recorded_end(
    services: Services, ended: Process, running: list[asyncio.Task[None]]
) -> None:
    _, pane = await restore(services, ended)
    process = services.session.process
    assert process is not None
    services.watcher.watch(ID, ended, pane)  # of a process before: no end of the session
    services.watcher.watch(ID, process, pane)
    os.kill(process.pid, signal.SIGKILL)

    async def told() -> bool:
        return bool(services.sandbox.ends)

    await until_async(told, "the sandbox is told of the end")
    assert services.sandbox.ends == [Status.ERROR]


async def test_late_end_of_the_old_process_does_not_end_a_restored_session(
    services: Services, ended: Process, running: list[asyncio.Task[None]]
) -> None:
    _, pane = await restore(services, ended)
    assert services.session.process is not None
    services.watcher.watch(ID, ended, pane)
    services.watcher.watch(ID, services.session.process, pane)
    with pytest.raises(TimeoutError):  # longer than the time limit for tmux to report an exit code
        async with asyncio.timeout(3):
            await services.store.wait_until(lambda: services.session.status is not Status.RUNNING)
    assert services.session.exit is None
    await services.tmux.close(f"command-{ID}")
    await services.store.wait_until(lambda: services.session.exit is not None)
    assert services.session.status is Status.ERROR


@pytest.mark.parametrize("is_terminal_lost", [False, True])
async def test_late_recovery_keeps_a_session_that_was_restored_meanwhile(
    services: Services, ended: Process, is_terminal_lost: bool
) -> None:
    before, pane = await restore(services, ended)
    if is_terminal_lost:
        await services.tmux.close(pane.name)
    assert await recover([before], services.parts.ends, services.tmux, services.watcher)
    assert (services.session.status, services.session.exit) == (Status.RUNNING, None)
