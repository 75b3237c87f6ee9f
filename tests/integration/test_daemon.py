"""The daemon process: start, stop, restart, its files and log, refused starts, full disks and malformed requests."""

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.instance import SM, Instance, until
from tests.load import scaled
from tests.raw_http import exchange, parse_error, request

DAEMON = [sys.executable, "-m", "sm.daemon"]
AS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def shared() -> Iterator[Instance]:
    """Shared by tests that leave the daemon running."""
    instance = Instance(forked=False)
    instance.sm("status")
    yield instance
    instance.end()


instance = context_fixture("function", Instance, forked=False)
"""An instance whose daemon is started by the first command."""


def daemons(instance: Instance) -> list[int]:
    """The pids of all daemons of this instance."""
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


# Start and stop


def test_second_daemon_is_refused_and_the_first_keeps_running(shared: Instance) -> None:
    pid, inode = shared.daemon_pid, shared.socket.stat().st_ino
    ended = subprocess.run(
        DAEMON, env=shared.env, capture_output=True, text=True, timeout=scaled(20), check=False
    )
    assert ended.returncode == 7
    assert f"the daemon is already running (pid {pid})" in shared.refused("daemon", "run", exit_code=7)
    assert f"already running, pid {pid}" in shared.sm("daemon", "start")
    assert (shared.daemon_pid, shared.socket.stat().st_ino) == (pid, inode)


def test_daemon_ends_when_its_lock_file_is_removed_and_leaves_all_to_the_next_one(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    first = instance.daemon_pid
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
    assert end["message"] == f"pid {first} ends: {instance.state}/sm.lock was removed or replaced"


def test_second_daemon_is_refused_when_only_the_lock_file_was_removed(instance: Instance) -> None:
    instance.sm("all")
    pid = instance.daemon_pid
    until(lambda: (instance.state / "sm.lock").exists(), "the lock file exists")
    process = os.pidfd_open(pid)
    signal.pidfd_send_signal(process, signal.SIGSTOP)  # so that it cannot notice before the second one starts
    try:
        (instance.state / "sm.lock").unlink()
        ended = subprocess.run(
            DAEMON, env=instance.env, capture_output=True, text=True, timeout=scaled(20), check=False
        )
    finally:
        signal.pidfd_send_signal(process, signal.SIGCONT)
        os.close(process)
    assert ended.returncode == 7
    until(lambda: not daemons(instance), "the daemon without its lock file has ended")
    instance.sm("all")


def test_simultaneous_clients_start_only_one_daemon(instance: Instance) -> None:
    clients = [
        subprocess.Popen(
            [SM, "daemon", "start"] if n % 2 else [SM, "status"], env=instance.env, stdout=subprocess.DEVNULL
        )
        for n in range(6)
    ]
    assert [client.wait(scaled(60)) for client in clients] == [0] * 6
    pid = instance.daemon_pid
    until(lambda: daemons(instance) == [pid], "the other daemons have given up")
    assert instance.daemon_pid == pid


def test_stop_keeps_agents_running_and_lasts_until_daemon_start(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    assert "1 agent keeps running" in instance.sm("daemon", "stop")
    assert daemons(instance) == []
    assert not instance.socket.exists()
    for arguments in (["all"], ["status"], ["spawn", "Sleeper"], ["daemon", "status"], ["events"]):
        assert "the daemon is stopped" in instance.refused(*arguments, exit_code=7)
    assert "the daemon is not running" in instance.sm("daemon", "stop")
    assert daemons(instance) == []
    instance.sm("daemon", "start")
    found = instance.session(session["session_id"])
    assert (found["status"], found["pid"]) == ("running", session["pid"])


def test_restart_keeps_agents_and_events(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    before, pid = instance.events(), instance.daemon_pid
    instance.sm("daemon", "restart")
    assert instance.daemon_pid != pid
    assert instance.events() == before
    assert instance.session(session["session_id"])["pid"] == session["pid"]
    instance.sm("daemon", "stop")
    instance.sm("daemon", "restart")  # starts a daemon and removes the mark of `stop`
    assert instance.session(session["session_id"])["status"] == "running"


def test_stop_all_ends_every_agent(instance: Instance) -> None:
    live = [instance.spawn("Sleeper") for _ in range(3)]
    done = instance.spawn("Sh", "sm complete done > out; exec sleep 1000")
    instance.in_status(done["session_id"], "completed")
    assert "4 agents ended" in instance.sm("daemon", "stop", "--all")
    assert not [s for s in (*live, done) if Path(f"/proc/{s['pid']}").exists()]
    instance.sm("daemon", "start")
    assert [s["status"] for s in instance.json("all")] == ["killed"] * 3 + ["completed"]


def test_stop_all_ends_every_agent_when_the_daemon_was_killed(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    instance.sm("daemon", "stop", "--all")
    assert not Path(f"/proc/{session['pid']}").exists()
    instance.sm("daemon", "start")
    assert instance.session(session["session_id"])["status"] == "killed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_daemon_cleanly_until_the_next_command(instance: Instance, number: int) -> None:
    daemon = instance.run_daemon()
    session = instance.spawn("Sleeper")
    daemon.send_signal(number)
    assert daemon.wait(scaled(20)) == 0
    assert not instance.socket.exists()
    assert instance.session(session["session_id"])["pid"] == session["pid"]


def test_foreground_daemon_logs_to_the_terminal(instance: Instance) -> None:
    daemon = subprocess.Popen([SM, "daemon", "run"], env=instance.env, stderr=subprocess.PIPE, text=True)
    assert daemon.stderr is not None
    assert any("INFO started" in line for line in iter(daemon.stderr.readline, ""))
    assert instance.daemon_pid == daemon.pid
    instance.sm("daemon", "stop")
    assert daemon.wait(scaled(20)) == 0
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


def test_log_is_json_with_status_changes_and_is_rotated(instance: Instance) -> None:
    (instance.state / "log").mkdir(parents=True, mode=0o700)
    old = instance.state / "log" / "daemon.log"
    old.write_text("an old line\n" * 500_000)
    session_id = instance.spawn("Sh", "exit 3")["session_id"]
    instance.ended(session_id)
    lines = [json.loads(line) for line in old.read_text().splitlines()]
    assert (instance.state / "log" / "daemon.log.1").stat().st_size >= 5_000_000
    for line in lines:
        assert {"time", "level", "logger", "message"} <= line.keys()
        extra = line.keys() - {"time", "level", "logger", "message", "traceback"}
        assert extra <= {"sm_session", "sm_caller", "sm_signal", "sm_from", "sm_to", "sm_bug"}
    moves = [(m["sm_from"], m["sm_to"]) for m in lines if m.get("sm_session") == session_id and "sm_to" in m]
    assert moves[-2:] == [("starting", "running"), ("running", "error")]


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
    ended = subprocess.run(
        DAEMON, env=instance.env, capture_output=True, text=True, timeout=scaled(20), check=False
    )
    assert ended.returncode == 7
    assert list(instance.state.iterdir()) == []
    os.chown(instance.state, 0, 0)
    instance.sm("status")


def test_configuration_errors_are_all_reported_with_line_and_column(instance: Instance) -> None:
    instance.config.write_text(
        "default_trust: maybe\n"
        "tmux: {socket_name: test, histroy_limit: 5, width: wide}\n"
        "commands:\n"
        "  Sh: {command: sh}\n"
    )
    for arguments in (["status"], ["daemon", "start"]):
        error = instance.refused(*arguments, exit_code=2)
        for place in (":1:16:", ":2:27:", ":2:52:", ":4:17:"):
            assert f"{instance.config}{place}" in error, error
        assert "history_limit" in error
    until(lambda: not daemons(instance), "the daemon is not running")
    assert not (instance.state / "sm.db").exists()


def test_restart_keeps_the_running_daemon_when_the_configuration_is_invalid(instance: Instance) -> None:
    instance.sm("status")
    pid = instance.daemon_pid
    instance.config.write_text("default_trust: maybe\n")
    assert ":1:16:" in instance.refused("daemon", "restart", exit_code=2)
    assert instance.daemon_pid == pid


def spoil(database: Path) -> str:
    with database.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xa5" * 20_000)
    return "is damaged"


def make_newer(database: Path) -> str:
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA user_version = 99")
    return "has version 99"


def backup_with_sessions(instance: Instance, count: int) -> Path | None:
    for backup in instance.state.glob("sm.db.*.backup"):
        with closing(sqlite3.connect(f"file:{backup}?mode=ro", uri=True)) as db:
            if db.execute("SELECT count(*) FROM sessions").fetchone() == (count,):
                return backup
    return None


@pytest.mark.parametrize("lose", [lambda path: os.truncate(path, 0), os.unlink], ids=["empty", "missing"])
def test_empty_or_missing_database_is_refused_until_a_backup_is_restored(
    instance: Instance, lose: Callable[[Path], None]
) -> None:
    session = instance.spawn("Sleeper")
    instance.sm("daemon", "restart")  # each daemon makes a backup after its start
    backup = until(lambda: backup_with_sessions(instance, 1), "a backup has the session")
    saved = backup.read_bytes()
    late = instance.spawn("Sleeper")
    instance.kill_daemon()
    lose(instance.state / "sm.db")
    for command in (["daemon", "start"], ["all"]):
        error = instance.refused(*command, exit_code=7)
        assert f"the newest backup is {backup}" in error
        assert "sm daemon restore-backup" in error
        assert "sm daemon start --new" in error
    assert backup.read_bytes() == saved
    assert f"restored {backup} (1 session)" in instance.sm("daemon", "restore-backup")
    assert [s["session_id"] for s in instance.json("all")] == [session["session_id"]]
    assert instance.session(session["session_id"])["pid"] == session["pid"]
    os.kill(late["pid"], signal.SIGKILL)  # the restored database does not know this agent


def test_missing_database_is_refused_while_an_agent_runs_until_start_new(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    shutil.rmtree(instance.state)
    error = instance.refused("all", exit_code=7)
    assert f"but an agent of it still runs (pid {session['pid']})" in error
    assert "no backup exists" in error
    assert "daemon started" in instance.sm("daemon", "start", "--new")
    assert instance.json("all") == []
    error = instance.refused("daemon", "start", "--new", exit_code=4)
    assert "the daemon is already running" in error
    instance.sm("daemon", "stop")
    error = instance.refused("daemon", "start", "--new", exit_code=4)
    assert "is intact" in error
    instance.sm("daemon", "start")
    os.kill(session["pid"], signal.SIGKILL)


@pytest.mark.parametrize("defect", [spoil, make_newer])
def test_damaged_or_newer_database_is_refused_and_not_changed(instance: Instance, defect: Any) -> None:
    for _ in range(3):
        instance.spawn("Sleeper", "x" * 5000)
    instance.sm("daemon", "stop")
    database = instance.state / "sm.db"
    whole = database.read_bytes()
    problem = defect(database)
    before = database.read_bytes()
    for _ in range(2):
        error = instance.refused("daemon", "start", exit_code=7)
        assert problem in error
        assert str(database) in error
        assert "hint: " in error or '"hint":"' in error
    assert database.read_bytes() == before
    until(lambda: not daemons(instance), "the daemon is not running")
    database.write_bytes(whole)
    instance.sm("daemon", "start")
    assert [s["status"] for s in instance.json("all")] == ["running"] * 3


@contextmanager
def path_without_tmux(instance: Instance, fake: str | None) -> Iterator[dict[str, str]]:
    """A PATH whose only tmux is the shell script `fake` (None: no tmux)."""
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
    instance: Instance, fake: str | None, problem: str
) -> None:
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
    instance.sm("daemon", "restart")
    assert instance.spawn("Sleeper")["status"] == "running"


# A full disk


@pytest.fixture
def small_disk() -> Iterator[Instance]:
    """An instance whose state directory is on a file system of 3 MiB."""
    instance = Instance(forked=False)
    instance.state.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(instance.state)]
    mounted = subprocess.run(mount, capture_output=True, text=True, timeout=scaled(20), check=False)
    if mounted.returncode != 0:
        instance.end()
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield instance
        instance.sm("daemon", "stop", "--all")
    finally:
        subprocess.run(["umount", "-l", str(instance.state)], check=False, timeout=scaled(20))
        instance.end()


@pytest.fixture
def read_transaction(small_disk: Instance) -> Iterator[None]:
    """An open read transaction, which keeps the daemon from reusing the space of its write-ahead log."""
    small_disk.sm("all")
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
    session = instance.spawn("Sh", "read -r line; echo last words")["session_id"]
    filler = fill(instance)
    (trouble,) = instance.json("status")["trouble"]
    assert trouble.startswith(f"the disk is full: {instance.state}/sm.db cannot grow")
    instance.tmux("send-keys", "-t", f"=command-{session}:", "Enter")
    log = instance.state / "log" / "daemon.log"
    archive = instance.state / "archives" / session / "terminal.txt"
    until(lambda: instance.tmux("list-panes", "-a", "-f", "#{pane_dead}").strip(), "the agent has ended")
    filler.unlink()
    until(archive.exists, f"the output is archived; the log: {log}")
    assert "last words" in archive.read_text()
    assert instance.json("status")["trouble"] == []
    assert instance.json("status")["dead_letters"] == 0


def test_doctor_reports_a_read_only_state_directory(small_disk: Instance) -> None:
    instance = small_disk
    remount = ["mount", "-o", "remount,ro", str(instance.state)]
    subprocess.run(remount, check=True, timeout=scaled(20))
    try:
        doctor = instance.run("doctor")
    finally:
        subprocess.run([*remount[:2], "remount,rw", remount[3]], check=True, timeout=scaled(20))
    assert doctor.returncode == 9
    assert (
        f"state directory {instance.state}: {instance.state} is read-only  -> mount its file" in doctor.stdout
    )
    assert "is read-only" not in instance.run("doctor").stdout


def test_daemon_starts_or_reports_a_full_disk(small_disk: Instance) -> None:
    instance = small_disk
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    filler = fill(instance)
    ended = instance.run("all", "--json")
    if ended.returncode:
        assert ended.returncode in (6, 7), ended
        assert re.search("full|[Nn]o space", ended.stderr), ended
    filler.unlink()
    assert instance.session(session["session_id"])["pid"] == session["pid"]


# Malformed requests


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (request("GET /v1/nothing HTTP/1.1"), 404, "protocol"),
        (request("DELETE /v1/sessions HTTP/1.1"), 405, "protocol"),
        (request("GET /v1/health HTTP/1.1", "SM-Protocol: 2"), 426, "protocol"),
        (request("GET /v1/health HTTP/1.1", "SM-Protocol: two"), 426, "protocol"),
        (request("POST /v1/sessions HTTP/1.1", body=b"{"), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b"[]"), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": 5}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "\\ud800"}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "Sh", "args": [5]}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "Sh", "wait_s": -1}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "Sh", "wait_s": 1e400}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", "Idempotency-Key: " + "k" * 129, body=b"{}"), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"a":' * 100_000), 400, "usage"),
        (request("GET /v1/events?since=-1 HTTP/1.1"), 400, "usage"),
        (request("GET /v1/events?since=" + "9" * 30 + " HTTP/1.1"), 400, "usage"),
        (request("GET /v1/events?type=nothing HTTP/1.1"), 400, "usage"),
        (request("GET /v1/sessions?status=nothing HTTP/1.1"), 400, "usage"),
        (request("GET /v1/sessions/ffffffff HTTP/1.1"), 404, "not_found"),
    ],
    ids=range(18),
)
def test_malformed_request_gets_a_documented_error(
    shared: Instance, sent: bytes, status: int, code: str
) -> None:
    assert parse_error(exchange(str(shared.socket), sent)) == (status, code)
