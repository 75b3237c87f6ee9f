"""The news of a process that a session has no more change nothing: real processes, a real database, a real tmux."""

import asyncio
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
from sm.monitor.processes import Watcher
from sm.monitor.usage import UsageMeter
from sm.sessions.manager import Manager
from sm.state.sessions import move
from sm.store import Store
from sm.terminals.base import Pane
from sm.terminals.tmux.terminals import Tmux
from tests import samples
from tests.load import scaled
from tests.managed import managed
from tests.terminals.world import World

ID = "1a2b3c4d"
LAUNCH = Launch(argv=("sleep", "1000"), working_dir="/", environment={}, inherited={})


@dataclass
class Parts:
    store: Store
    manager: Manager
    tmux: Tmux
    watcher: Watcher

    @property
    def session(self) -> Session:
        return self.store.sessions[ID]


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    def now() -> str:
        return samples.AT

    world = World()
    async with managed(tmp_path, now) as (store, manager), world.terminals() as tmux:
        usage = UsageMeter(store, Config(), now)
        observer = Observer(store, manager, tmux, usage, transcripts_every_s=60.0)
        yield Parts(store, manager, tmux, Watcher(store, manager, tmux, observer))
        observer.close()
    await world.end()


@pytest.fixture
def ended() -> Process:
    """A process that is gone."""
    child = subprocess.Popen(["sleep", "1000"])
    process = processes.identify(child.pid)
    child.kill()
    child.wait()
    assert process is not None
    return process


async def restored(parts: Parts, old: Process) -> tuple[Session, Pane]:
    """A session whose first process was `old`, in its second one; as it was in the first, and the new pane."""
    pane = await parts.tmux.open(ID, f"command-{ID}", "/", ("sleep", "1000"))
    new = processes.identify(pane.pid)
    first = replace(
        samples.session(ID), provider="command", status=Status.RUNNING, process=old, terminal=f"command-{ID}"
    )
    async with parts.store.transaction() as tx:
        await tx.insert(first, LAUNCH, None)
        await move(
            tx, parts.manager.notices, ID, Signal(SignalKind.KILLED, EffectKind.KILL, "killed", samples.AT)
        )
        signal = Signal(SignalKind.RESTARTED, "restore", "restored", samples.AT)
        await move(tx, parts.manager.notices, ID, signal, process=new)
        await move(
            tx, parts.manager.notices, ID, Signal(SignalKind.STARTED, "process", "it runs", samples.AT)
        )
    return first, pane


@pytest.fixture
def running(parts: Parts) -> Iterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.ensure_future(parts.watcher.run())]
    yield tasks
    for task in tasks:
        task.cancel()


async def test_the_late_end_of_an_old_process_does_not_end_the_new_one(
    parts: Parts, ended: Process, running: list[asyncio.Task[None]]
) -> None:
    _, pane = await restored(parts, ended)
    assert parts.session.process is not None
    parts.watcher.watch(ID, ended, pane)
    parts.watcher.watch(ID, parts.session.process, pane)
    with pytest.raises(TimeoutError):  # longer than tmux is given to say how a process has ended
        async with asyncio.timeout(3):
            await parts.store.changed(lambda: parts.session.status is not Status.RUNNING)
    assert parts.session.exit is None
    await parts.tmux.close(f"command-{ID}")
    async with asyncio.timeout(scaled()):
        await parts.store.changed(lambda: parts.session.exit is not None)
    assert parts.session.status is Status.ERROR


async def test_a_recovery_that_was_put_off_leaves_alone_what_was_restored_meanwhile(
    parts: Parts, ended: Process
) -> None:
    before, _ = await restored(parts, ended)
    assert await recover([before], parts.manager, parts.tmux, parts.watcher)
    assert (parts.session.status, parts.session.exit) == (Status.RUNNING, None)


async def test_a_recovery_does_not_take_a_lost_terminal_for_that_of_a_session_restored_meanwhile(
    parts: Parts, ended: Process
) -> None:
    before, pane = await restored(parts, ended)
    await parts.tmux.close(pane.name)
    assert await recover([before], parts.manager, parts.tmux, parts.watcher)
    assert (parts.session.status, parts.session.exit) == (Status.RUNNING, None)
