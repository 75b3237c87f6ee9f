"""The daemon process: its start and its end, its files, refused starts and full disks."""

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.instance import SM, Instance, until

DAEMON = [sys.executable, "-m", "sm.daemon"]
AS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def shared() -> Iterator[Instance]:
    """Shared by tests that leave the daemon running."""
    with Instance() as instance:
        instance.start_daemon()
        yield instance


instance = context_fixture("function", Instance, forked=False)
"""An instance whose daemon is started by the first command."""
forked = context_fixture("function", Instance)
"""For the tests in which the start of the first daemon does not matter."""


def daemons(instance: Instance) -> list[int]:
    """The pids of all daemons of this instance but forked ones, which have no command line of their own."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            argv = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"sm.daemon" in argv and f"SM_HOME={instance.home}".encode() in environment:
            found.append(int(name))
    return found


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    process = os.pidfd_open(pid)
    signal.pidfd_send_signal(process, signal.SIGSTOP)
    try:
        yield
    finally:
        signal.pidfd_send_signal(process, signal.SIGCONT)
        os.close(process)


# Start and stop


def test_second_daemon_is_refused_and_the_first_keeps_running(shared: Instance) -> None:
    pid, inode = shared.daemon_pid, shared.socket.stat().st_ino
    ended = subprocess.run(DAEMON, env=shared.env, capture_output=True, text=True, check=False)
    assert ended.returncode == 7
    assert f"the daemon is already running (pid {pid})" in shared.refused("daemon", "run", exit_code=7)
    assert f"already running, pid {pid}" in shared.sm("daemon", "start")
    assert (shared.daemon_pid, shared.socket.stat().st_ino) == (pid, inode)


def test_daemon_ends_when_another_one_holds_its_lock_and_leaves_all_to_it(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    first = instance.daemon_pid
    with stopped(first):  # so that it cannot lock a new file before the second one starts
        (instance.state / "sm.lock").unlink()
        instance.socket.unlink()  # else the next daemon refuses to start while the first one listens
        second = int(instance.sm("daemon", "start").split()[-1])
    assert second != first
    until(lambda: daemons(instance) == [second], "the first daemon has ended")
    assert instance.daemon_pid == second
    assert instance.session(session["session_id"])["pid"] == session["pid"]
    assert instance.spawn("Sleeper")["status"] == "running"
    log = [json.loads(line) for line in (instance.state / "log" / "daemon.log").read_text().splitlines()]
    (end,) = (record for record in log if "lock" in record["message"])
    lock = instance.state / "sm.lock"
    assert end["message"] == f"pid {first} ends: another daemon holds {lock}, or its directory is gone"


def test_second_daemon_is_refused_when_only_the_lock_file_was_removed(forked: Instance) -> None:
    instance, pid = forked, forked.start_daemon().pid
    until(lambda: (instance.state / "sm.lock").exists(), "the lock file exists")
    with stopped(pid):  # so that it cannot notice before the second one starts
        (instance.state / "sm.lock").unlink()
        ended = subprocess.run(DAEMON, env=instance.env, capture_output=True, text=True, check=False)
    assert ended.returncode == 7
    until(
        lambda: (instance.state / "sm.lock").read_text() == f"{pid}\n",
        "the first daemon has locked a new file",
    )
    assert daemons(instance) == []
    instance.sm("all")
    assert instance.daemon_pid == pid


def test_socket_and_lock_that_a_cleaner_removed_are_made_anew(forked: Instance) -> None:
    instance = forked
    session = instance.spawn("Sleeper")
    pid = instance.daemon_pid
    with stopped(pid):
        (instance.state / "sm.lock").unlink()
        instance.socket.unlink()
    until(instance.socket.exists, "the daemon serves a new socket")
    assert instance.socket.stat().st_mode & 0o777 == 0o600
    assert instance.session(session["session_id"])["status"] == "running"
    assert (daemons(instance), instance.daemon_pid) == ([], pid)
    instance.sm("daemon", "stop")
    assert not instance.socket.exists()


def test_simultaneous_clients_start_only_one_daemon(instance: Instance) -> None:
    clients = [
        subprocess.Popen(
            [SM, *arguments],
            env=instance.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for arguments in (["status"], ["daemon", "start"], ["status"], ["daemon", "start"])
    ]
    assert [(client.communicate()[1], client.returncode) for client in clients] == [(b"", 0)] * 4
    pid = instance.daemon_pid
    until(lambda: daemons(instance) == [pid], "the other daemons have given up")
    assert instance.daemon_pid == pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_daemon_cleanly_until_the_next_one(instance: Instance, number: int) -> None:
    daemon = instance.run_daemon()
    session = instance.spawn("Sleeper")
    daemon.send_signal(number)
    assert daemon.wait() == 0
    assert not instance.socket.exists()
    instance.start_daemon()
    assert instance.session(session["session_id"])["pid"] == session["pid"]


def test_foreground_daemon_logs_to_the_terminal(instance: Instance) -> None:
    daemon = subprocess.Popen([SM, "daemon", "run"], env=instance.env, stderr=subprocess.PIPE, text=True)
    assert daemon.stderr is not None
    assert any("INFO started" in line for line in iter(daemon.stderr.readline, ""))
    assert instance.daemon_pid == daemon.pid
    instance.sm("daemon", "stop")
    assert daemon.wait() == 0
    assert "stopped" in daemon.stderr.read()
    daemon.stderr.close()


# Environment, files and log


def test_daemon_inherits_only_allowed_environment_variables(instance: Instance) -> None:
    allowed = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "SM_HOME", "TMUX_TMPDIR"}
    allowed |= {"HTTPS_PROXY", "NO_PROXY", "LC_TIME", "XDG_CACHE_HOME", "DOCKER_HOST"}
    dropped = {
        "SECRET_TOKEN": "x",
        "LD_PRELOAD": "",
        "PYTHONPATH": "/nowhere",
        "TMUX": "/x,1,1",
        "TERM": "dumb",
    }
    instance.sm("status", env={**dict.fromkeys(allowed - instance.env.keys(), "x"), **dropped})
    pid = instance.daemon_pid
    variables = Path(f"/proc/{pid}/environ").read_bytes().removesuffix(b"\0").split(b"\0")
    assert {v.partition(b"=")[0].decode() for v in variables} == allowed
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    assert (fields[1], fields[4]) == ("1", "0")  # child of init, without a terminal
    assert [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1)] == ["/dev/null"] * 2
    assert os.readlink(f"/proc/{pid}/fd/2").endswith("daemon.err")


def test_state_directory_is_private_when_the_umask_is_0(instance: Instance) -> None:
    os.umask(0)
    try:
        session = instance.spawn("Sleeper", "x")
        instance.sm("daemon", "stop")
        env = {
            "SM_SESSION_ID": session["session_id"],
            "SM_SOCKET": str(instance.socket),
            "SM_TOKEN_FILE": str(instance.state / "launch" / f"{session['session_id']}.token"),
        }
        instance.sm("note", "for the spool", env=env)
        spooled = list(instance.state.rglob("*.json"))
        assert len(spooled) == 1
        for path in [instance.state, *instance.state.rglob("*")]:
            mode = stat.S_IMODE(path.lstat().st_mode)
            executable = path.is_dir() or path == instance.state / "bin" / "sm"
            assert mode == (0o700 if executable else 0o600), path
    finally:
        os.umask(0o022)


def test_daemon_makes_an_open_state_directory_private(instance: Instance) -> None:
    instance.state.mkdir(mode=0o755)
    instance.sm("status")
    assert stat.S_IMODE(instance.state.stat().st_mode) == 0o700


# Refused starts


def test_too_long_socket_path_is_refused_with_a_hint_to_set_sm_home(instance: Instance) -> None:
    home = instance.home / ("deep" * 25)
    home.mkdir()
    for arguments in (["status"], ["daemon", "start"], ["spawn", "Sleeper"]):
        error = instance.refused(*arguments, exit_code=2, env={"SM_HOME": str(home)})
        assert "longer than 104 bytes" in error
        assert "SM_HOME" in error
    assert not list(home.glob("state/run/*"))


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a directory to another user")
def test_state_directory_of_another_user_is_refused_and_not_changed(instance: Instance) -> None:
    instance.state.mkdir(mode=0o700)
    os.chown(instance.state, 12345, 12345)
    assert "12345" in instance.refused("status", exit_code=5)
    ended = subprocess.run(DAEMON, env=instance.env, capture_output=True, text=True, check=False)
    assert ended.returncode == 7
    assert list(instance.state.iterdir()) == []
    os.chown(instance.state, 0, 0)
    instance.sm("status")


@contextmanager
def path_without_tmux(instance: Instance, fake: str | None) -> Iterator[dict[str, str]]:
    """A PATH whose only tmux is the shell script `fake` (None for no tmux)."""
    folder = instance.home / "bin"
    folder.mkdir()
    for program in ("sh", "sleep", "env"):
        (folder / program).symlink_to(str(shutil.which(program)))
    if fake is not None:
        (folder / "tmux").write_text(f"#!/bin/sh\n{fake}\n")
        (folder / "tmux").chmod(0o755)
    yield {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("fake", "problem"),
    [(None, "tmux is not installed"), ("echo tmux 2.9", "tmux 2.9 is too old, sm needs tmux 3.2 or newer")],
)
def test_spawn_error_says_how_to_install_tmux_when_it_is_missing_or_too_old(
    forked: Instance, fake: str | None, problem: str
) -> None:
    instance = forked
    with path_without_tmux(instance, fake) as env:
        error = instance.refused("spawn", "Sleeper", exit_code=9, env=env)
        assert problem in error
        assert "install tmux" in error
        (session,) = instance.json("all", env=env)
        assert session["status"] == "error"
        assert problem in session["status_reason"]
        doctor = instance.run("doctor", env=env)
        assert doctor.returncode == 9
        assert problem in doctor.stdout
        assert "install tmux" in doctor.stdout
    instance.restart_daemon()
    assert instance.spawn("Sleeper")["status"] == "running"


# A full disk


@pytest.fixture
def small_disk() -> Iterator[Instance]:
    """An instance whose state directory is on a file system of 3 MiB."""
    instance = Instance()
    instance.state.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(instance.state)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        instance.end()
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield instance
        instance.sm("daemon", "stop", "--all")
    finally:
        subprocess.run(["umount", "-l", str(instance.state)], check=False)
        instance.end()


@pytest.fixture
def read_transaction(small_disk: Instance) -> Iterator[None]:
    """An open read transaction, which keeps the daemon from reusing the space of its write-ahead log."""
    small_disk.start_daemon()
    with closing(sqlite3.connect(small_disk.state / "sm.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchall()
        yield


def fill(instance: Instance) -> Path:
    filler = instance.state / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


def terminals_of(instance: Instance) -> list[str]:
    """The sessions of tmux, without the one that the daemon prepares for the next agent some time after a spawn."""
    names = instance.tmux("list-sessions", "-F", "#{session_name}").split()
    return [name for name in names if not name.startswith("sm-spare-")]


def test_spawn_is_refused_and_leaves_nothing_behind_when_the_disk_is_full(
    small_disk: Instance, read_transaction: None
) -> None:
    instance = small_disk
    kept = instance.spawn("Sh", "read -r line; exit 5")
    before = (
        instance.json("all"),
        instance.events(),
        sorted(p.name for p in (instance.state / "launch").iterdir()),
    )
    terminals = terminals_of(instance)
    # The daemon has moved its write-ahead log into the database once before.
    until(lambda: list(instance.state.glob("sm.db.*.backup")), "the backup of the day exists")
    filler = fill(instance)
    for free in range(5):  # free pages: enough for small files, never for the database
        os.truncate(filler, filler.stat().st_size - (4096 if free else 0))
        error = instance.refused("spawn", "Sleeper", "x", exit_code=6)
        assert "full" in error or "no space" in error
        launch = sorted(p.name for p in (instance.state / "launch").iterdir())
        assert (instance.json("all"), instance.events(), launch) == before
        assert terminals_of(instance) == terminals
    env = {"SM_SESSION_ID": kept["session_id"]}
    fill(instance)
    assert "disk is full" in instance.refused("checkpoint", "x", exit_code=6, env=env)
    # The daemon survives, and records the end of an agent when there is room again.
    instance.tmux("send-keys", "-t", f"={kept['tmux_session']}:", "Enter")
    until(lambda: instance.session(kept["session_id"])["status_stale"], "its status is stale")
    filler.unlink()
    ended = instance.ended(kept["session_id"])
    assert (ended["status"], ended["exit_code"]) == ("error", 5)
    assert instance.spawn("Sleeper")["status"] == "running"
    seqs = [e["seq"] for e in instance.events()]
    assert seqs == list(range(1, len(seqs) + 1))


def test_status_shows_a_full_disk_and_output_is_archived_when_there_is_room(small_disk: Instance) -> None:
    instance = small_disk
    instance.start_daemon()
    session = instance.spawn("Sh", "read -r line; echo last words")["session_id"]
    filler = fill(instance)
    (trouble,) = instance.json("status")["trouble"]
    assert trouble.startswith(f"the disk is full: {instance.state}/sm.db cannot grow")
    instance.tmux("send-keys", "-t", f"=command-{session}:", "Enter")
    log = instance.state / "log" / "daemon.log"
    archive = Archived(instance.state / "archives" / session) / "terminal.txt"
    until(lambda: instance.tmux("list-panes", "-a", "-f", "#{pane_dead}").strip(), "the agent has ended")
    filler.unlink()
    until(archive.exists, f"the output is archived; the log: {log}")
    assert "last words" in archive.read_text()
    assert instance.json("status")["trouble"] == []
    assert instance.json("status")["dead_letters"] == 0


def test_doctor_reports_a_read_only_state_directory(small_disk: Instance) -> None:
    instance = small_disk
    remount = ["mount", "-o", "remount,ro", str(instance.state)]
    subprocess.run(remount, check=True)
    try:
        doctor = instance.run("doctor")
    finally:
        subprocess.run([*remount[:2], "remount,rw", remount[3]], check=True)
    assert doctor.returncode == 9
    assert (
        f"state directory {instance.state}: {instance.state} is read-only  -> mount its file" in doctor.stdout
    )
    assert "is read-only" not in instance.run("doctor").stdout


def test_daemon_starts_or_reports_a_full_disk(small_disk: Instance) -> None:
    instance = small_disk
    instance.start_daemon()
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    filler = fill(instance)
    ended = instance.run("ls", "--json")
    if ended.returncode:
        assert ended.returncode in (6, 7), ended
        assert re.search("full|[Nn]o space", ended.stderr), ended
    filler.unlink()
    assert instance.session(session["session_id"])["pid"] == session["pid"]
