"""The lock of an instance, when its file is removed or replaced."""

import fcntl
import os
import socket
from pathlib import Path

import pytest

from sm.daemon.lock import instance_lock
from sm.errors import AlreadyRunning
from sm.paths import InstancePaths


@pytest.fixture
def paths(tmp_path: Path) -> InstancePaths:
    (tmp_path / "state" / "run").mkdir(parents=True)
    return InstancePaths(f"{tmp_path}/config.yaml", f"{tmp_path}/state")


def test_lock_is_held_on_the_file_at_its_path_when_the_file_is_replaced_before_the_flock(
    paths: InstancePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    replaced: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        if not replaced:
            replaced.append(descriptor)
            os.unlink(paths.lock)
            Path(paths.lock).touch()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with instance_lock(paths) as lock:
        assert lock.is_held()
        assert Path(paths.lock).read_text() == f"{os.getpid()}\n"
        with pytest.raises(AlreadyRunning, match=rf"\(pid {os.getpid()}\)"), instance_lock(paths):
            pass


def test_lock_is_refused_while_a_daemon_without_its_lock_file_still_listens(paths: InstancePaths) -> None:
    with instance_lock(paths), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(paths.socket)
        listener.listen()
        os.unlink(paths.lock)
        with pytest.raises(AlreadyRunning, match=rf"\(pid {os.getpid()}\)"), instance_lock(paths):
            pass
    with instance_lock(paths) as lock:  # the socket file is left, as after a kill
        assert lock.is_held()


@pytest.mark.parametrize("replaced", [False, True])
async def test_wait_lost_returns_when_the_file_is_removed_or_replaced(
    paths: InstancePaths, replaced: bool
) -> None:
    with instance_lock(paths) as lock:
        assert lock.is_held()
        os.unlink(paths.lock)
        if replaced:
            Path(paths.lock).touch()
        await lock.wait_lost()
        assert not lock.is_held()
