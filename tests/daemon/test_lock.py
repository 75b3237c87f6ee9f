"""The lock of an instance, when its file is removed or replaced."""

import errno
import fcntl
import os
import shutil
import socket
from pathlib import Path
from unittest.mock import Mock

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
def test_file_that_is_removed_or_replaced_is_locked_again(paths: InstancePaths, replaced: bool) -> None:
    with instance_lock(paths) as lock:
        for _ in range(2):
            os.unlink(paths.lock)
            if replaced:
                Path(paths.lock).touch()
            assert not lock.is_held()
            assert lock.keep()
            assert lock.is_held()
        assert Path(paths.lock).read_text() == f"{os.getpid()}\n"
        with pytest.raises(AlreadyRunning, match=rf"\(pid {os.getpid()}\)"), instance_lock(paths):
            pass


def test_lock_is_lost_when_another_daemon_holds_the_new_file(paths: InstancePaths) -> None:
    with instance_lock(paths) as lock:
        os.unlink(paths.lock)
        with instance_lock(paths):
            Path(paths.lock).write_text("1\n")
            assert not lock.keep()


def test_lock_is_taken_again_after_a_daemon_that_refused_to_start(paths: InstancePaths) -> None:
    with instance_lock(paths) as lock:
        os.unlink(paths.lock)
        with open(paths.lock, "w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            assert lock.keep()
            assert not lock.is_held()
        assert lock.keep()
        assert lock.is_held()


def test_lock_is_lost_when_the_holder_of_the_new_file_stays_without_a_name(paths: InstancePaths) -> None:
    with instance_lock(paths) as lock, open(f"{paths.lock}.new", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        os.rename(other.name, paths.lock)
        assert [lock.keep() for _ in range(5)] == [True, True, True, True, False]


def test_lock_is_lost_when_its_directory_is_gone(paths: InstancePaths) -> None:
    with instance_lock(paths) as lock:
        shutil.rmtree(os.path.dirname(paths.lock))
        assert not lock.keep()


def test_lock_is_taken_again_when_the_disk_is_no_longer_full(
    paths: InstancePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance_lock(paths) as lock:
        os.unlink(paths.lock)
        with monkeypatch.context() as full:
            full.setattr("sm.daemon.lock._lock", Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
            assert lock.keep()
        assert not lock.is_held()
        assert lock.keep()
        assert lock.is_held()
