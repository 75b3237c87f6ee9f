"""Cgroups of sessions: real ones, in both versions."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sm.linux.processes import is_alive
from sm.linux.session_cgroups import (
    Freeze,
    SessionCgroups,
    find_bases,
    highest_writable,
    probe,
    session_in,
    session_of,
)
from tests.linux.child_process import IDLE, Start, python
from tests.linux.session_cgroups import cgroups
from tests.waits import until

__all__ = ["cgroups"]

SESSION, OTHER = "1a2b3c4d", "5e6f7a8b"
LEAVES_THE_TREE = python(
    "import os, time\n"
    "if not os.fork():\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    print('ready', os.getpid())\n"
    "    time.sleep(1e6)\n"
    "time.sleep(1e6)\n"
)
"""Waits for a line, then starts a process that leaves its tree and its kernel session."""
WAITS = python("print('ready'); input()\n" + LEAVES_THE_TREE[-1])
FORKS = python("import os\nprint('ready'); input()\nwhile True:\n    if os.fork(): os._exit(0)\n")
"""Changes its pid for ever: each process forks and ends."""


@pytest.mark.processes
def test_cgroup_of_a_session_has_what_left_the_process_tree(start: Start, cgroups: SessionCgroups) -> None:
    cgroup = cgroups.create(SESSION)
    child = start(*WAITS)
    cgroup.enter(child.pid)
    assert child.popen.stdin is not None and child.popen.stdout is not None
    child.popen.stdin.write(b"\n")
    child.popen.stdin.flush()
    left = int(child.popen.stdout.readline().split()[1])
    until(lambda: {p.pid for p in cgroup.processes()} == {child.pid, left}, "both members")
    assert session_of(left, os.path.basename(cgroups.base).removeprefix("sm-")) == SESSION
    assert cgroup.has(left)
    assert cgroups.of(SESSION) == cgroup
    assert cgroups.all() == {SESSION: cgroup}
    assert not cgroup.remove()
    os.kill(left, signal.SIGKILL)


@pytest.mark.processes
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_script_enters_by_itself_before_its_program_starts(
    start: Start, cgroups: SessionCgroups, shell: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    sh = ["busybox", "sh"] if shell == "busybox" else [shell]
    cgroup = cgroups.create(SESSION)
    child = start(*sh, "-c", f"{cgroup.entry()}\n(setsid env -i sleep 1000000 & echo ready $!)\nread -r line")
    until(lambda: cgroup.has(child.pid) and cgroup.has(int(child.printed[1])), "both members")


@pytest.mark.processes
def test_script_goes_on_in_silence_when_it_cannot_enter(cgroups: SessionCgroups) -> None:
    line = cgroups.of(SESSION).entry()
    done = subprocess.run(["sh", "-c", f"{line}\necho goes on"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("goes on\n", "")


@pytest.mark.processes
async def test_kill_ends_frozen_processes(start: Start, cgroups: SessionCgroups) -> None:
    cgroup, child = cgroups.create(SESSION), start(*IDLE)
    cgroup.enter(child.pid)
    assert cgroup.state() is Freeze.THAWED
    cgroup.freeze()
    until(lambda: cgroup.state() is Freeze.FROZEN, "frozen")
    assert await cgroup.kill() == []
    assert not is_alive(child.process)
    child.popen.wait()
    assert cgroup.remove() and not cgroup.exists()
    assert cgroup.state() is None
    assert cgroup.members() == []
    assert cgroup.remove()


@pytest.mark.processes
async def test_thaw_lets_the_processes_go_on(start: Start, cgroups: SessionCgroups) -> None:
    cgroup, child = cgroups.create(SESSION), start(*python("print('ready')\nwhile True: print(input())"))
    cgroup.enter(child.pid)
    cgroup.freeze()
    until(lambda: cgroup.state() is Freeze.FROZEN, "frozen")
    assert child.popen.stdin is not None and child.popen.stdout is not None
    child.popen.stdin.write(b"hello\n")
    child.popen.stdin.flush()
    cgroup.thaw()
    assert child.popen.stdout.readline() == b"hello\n"
    assert cgroup.state() is Freeze.THAWED
    await cgroup.kill()


@pytest.mark.processes
async def test_kill_ends_processes_that_fork_for_ever(start: Start, cgroups: SessionCgroups) -> None:
    cgroup, child = cgroups.create(SESSION), start(*FORKS)
    cgroup.enter(child.pid)
    assert child.popen.stdin is not None
    child.popen.stdin.write(b"\n")
    child.popen.stdin.flush()
    child.popen.wait()
    assert await cgroup.kill() == []
    assert cgroup.processes() == []


@pytest.mark.processes
async def test_kill_spares_processes_and_other_sessions(start: Start, cgroups: SessionCgroups) -> None:
    cgroup, other = cgroups.create(SESSION), cgroups.create(OTHER)
    victim, spared, neighbour = start(*IDLE), start(*IDLE), start(*IDLE)
    cgroup.enter(victim.pid)
    cgroup.enter(spared.pid)
    other.enter(neighbour.pid)
    assert await cgroup.kill(lambda: {spared.pid}) == []
    assert not is_alive(victim.process)
    assert is_alive(spared.process)
    assert is_alive(neighbour.process)
    assert cgroup.processes() == [spared.process]
    await cgroup.kill()
    await other.kill()
    for child in (victim, spared, neighbour):
        child.popen.wait()


@pytest.mark.processes
def test_cgroups_of_an_earlier_daemon_are_found_by_name(cgroups: SessionCgroups) -> None:
    cgroup = cgroups.create(SESSION)
    moved = SessionCgroups(cgroups.base + "/elsewhere", cgroups.version, ((cgroups.base, cgroups.version),))
    assert moved.of(SESSION) == cgroup
    assert moved.all() == {SESSION: cgroup}
    assert moved.of(OTHER).path == f"{cgroups.base}/elsewhere/{OTHER}"


def test_cgroups_refuse_a_name_that_is_no_id() -> None:
    with pytest.raises(ValueError, match="not the id of a session"):
        SessionCgroups("/nowhere", 2).of("../../1a2b")


def test_no_process_is_in_a_cgroup_that_does_not_exist() -> None:
    nowhere = SessionCgroups("/nowhere", 2)
    assert nowhere.all() == {}
    assert nowhere.of(SESSION).state() is None
    assert not nowhere.of(SESSION).has(os.getpid())


@pytest.mark.parametrize(
    ("text", "session_id"),
    [
        ("0::/sm-01234567/1a2b3c4d\n", SESSION),
        ("0::/user.slice/user-1000.slice/user@1000.service/sm-01234567/1a2b3c4d/below\n", SESSION),
        ("0::/../../sm-01234567/1a2b3c4d\n", SESSION),
        ("7:pids:/x\n6:freezer:/sm-01234567/1a2b3c4d\n0::/\n", SESSION),
        ("6:freezer:/\n0::/sm-01234567/1a2b3c4d\n", SESSION),
        ("0::/sm-01234567\n", None),
        ("0::/sm-01234567/daemon\n", None),
        ("0::/sm-01234567/1a2b3c4d5\n", None),
        ("0::/sm-76543210/1a2b3c4d\n", None),
        ("0::/xsm-01234567/1a2b3c4d\n", None),
        ("7:pids:/sm-01234567/1a2b3c4d\n0::/\n", None),
        ("", None),
    ],
)
def test_name_of_a_cgroup_names_its_session(text: str, session_id: str | None) -> None:
    assert session_in(text, "01234567-89ab") == session_id


def test_warm_up_changes_no_cgroup(cgroups: SessionCgroups) -> None:
    before = Path("/proc/self/cgroup").read_text()
    cgroups.warm_up()
    assert Path("/proc/self/cgroup").read_text() == before


def test_probe_says_where_the_cgroups_are_or_why_there_are_none() -> None:
    found = probe("fedcba98-7654")
    if found.cgroups is not None:
        assert found.cgroups.base.endswith("/sm-fedcba98")
        os.rmdir(found.cgroups.base)
    assert found.reason


def test_highest_writable_stops_at_the_first_directory_of_somebody_else(tmp_path: Path) -> None:
    own = tmp_path / "a/b/c"
    own.mkdir(parents=True)
    assert highest_writable(str(own), str(tmp_path)) is None
    for folder in (own, own.parent):
        (folder / "cgroup.procs").touch()
    assert highest_writable(str(own), str(tmp_path)) == str(own.parent)
    (own.parent.parent / "cgroup.procs").touch()
    (tmp_path / "cgroup.procs").touch()
    assert highest_writable(str(own), str(own.parent)) == str(own.parent)
    assert highest_writable(str(own), str(tmp_path)) == str(tmp_path)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("own", "place"),
    [
        ("user@65534.service/app.slice/terminal.scope", "user@65534.service"),
        ("user@65534.service/app.slice/sm.service", "user@65534.service"),
        ("session-3.scope", None),
    ],
)
def test_user_of_systemd_finds_the_cgroup_of_the_own_manager_but_none_after_a_login_by_ssh(
    own: str, place: str | None
) -> None:
    """The directories have the owners that systemd gives them (systemd.resource-control(5), Delegate=)."""
    if os.getuid():
        pytest.skip("only root can make directories of another user")
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o711)
        slice_of_user = Path(top, "user.slice/user-65534.slice")
        manager = slice_of_user / "user@65534.service"
        for folder in (manager / "app.slice/terminal.scope", manager / "app.slice/sm.service"):
            folder.mkdir(parents=True)
        (slice_of_user / "session-3.scope").mkdir()
        for path in (Path(top), *Path(top).rglob("*")):
            (path / "cgroup.procs").touch(0o644)
        for path in (manager, *manager.rglob("*")):
            os.chown(path, 65534, 65534)
        code = (
            "import os, sys; sys.path[:] = sys.argv[4:]; from sm.linux.session_cgroups import highest_writable;"
            "os.setgid(65534); os.setuid(65534); print(highest_writable(sys.argv[1], sys.argv[2]))"
        )
        argv = (sys.executable, "-c", code, str(slice_of_user / own), top, "", *sys.path)
        found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
        assert found == str(None if place is None else slice_of_user / place)


def test_find_bases_finds_every_directory_with_the_name(tmp_path: Path) -> None:
    for folder in ("v2/a/sm-1", "v2/b/c/sm-1/sm-1", "v2/sm-2", "v1/sm-1"):
        (tmp_path / folder).mkdir(parents=True)
    mounts = {"": (f"{tmp_path}/v2", "/"), "freezer": (f"{tmp_path}/v1", "/")}
    found = {(path.removeprefix(str(tmp_path)), version) for path, version in find_bases("sm-1", mounts)}
    assert found == {("/v2/a/sm-1", 2), ("/v2/b/c/sm-1", 2), ("/v1/sm-1", 1)}
