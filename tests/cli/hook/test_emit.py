"""`sm hook claude`: an event reaches the daemon or the spool without any output or delay for the agent."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sm.daemon.main import write_command
from sm.paths import InstancePaths
from tests.cli.conftest import Sm
from tests.cli.hook.events import EVENT, HOOKS, STOP
from tests.cli.peer import SILENCE, Peer, ReceivedRequest, answer
from tests.cli.test_startup import HEAVY

PATIENT_HOOK = """
from sm.cli import main
from sm.cli.hook import emit

for name in ("_STDIN_S", "_LARGE_STDIN_S", "_ANSWER_S", "_ANSWER_MIN_S", "_ALL_S"):
    setattr(emit, name, 20 * getattr(emit, name))
main()
"""
"""The command with longer timeouts in its hook."""


class Hook:
    """`sm hook claude` in the environment of a session."""

    starts_processes = True

    def __init__(self, run: Sm, state: Path) -> None:
        token = state / "token"
        token.write_text("s3cret\n")
        run.environ |= run.as_session(state) | {"SM_TOKEN_FILE": str(token)}
        del run.environ["SM_HOME"]
        self.environ = run.environ
        self.argv = run.argv("hook", "claude")
        self._spool = state / "spool"

    def lengthen_limits(self) -> None:
        """Let the hook wait as long as a busy machine needs."""
        self.argv = [sys.executable, "-c", PATIENT_HOOK, "hook", "claude"]

    def __call__(self, event: object) -> None:
        """Run the hook to its end: exit code 0 and no output."""
        raw = event if isinstance(event, bytes) else json.dumps(event, ensure_ascii=False).encode()
        self.ends_quietly(input=raw)

    def ends_quietly(self, argv: Sequence[str] = (), **options: Any) -> None:
        done = subprocess.run(
            argv or self.argv,
            capture_output=True,
            env=self.environ,
            check=True,
            **options,
        )
        assert done.stdout == done.stderr == b""

    def start(self, raw: bytes, *, end: bool = True, **more: Any) -> "Running":
        """Start the hook with at most 64 KiB on stdin, which stays open when `end` is false."""
        read, write = os.pipe()
        os.write(write, raw)
        if end:
            os.close(write)
        out = subprocess.PIPE
        process = subprocess.Popen(
            self.argv, env=self.environ, stdin=read, stdout=out, stderr=subprocess.STDOUT, **more
        )
        return Running(process, read, None if end else write)

    def spooled(self) -> list[Any]:
        """Return the files in the spool, sorted by name."""
        return [json.loads(file.read_bytes()) for file in sorted(self._spool.glob("*/[!.]*"))]


@dataclass(frozen=True)
class Running:
    """A started hook with the two ends of its stdin."""

    process: "subprocess.Popen[bytes]"
    read: int
    write: int | None

    def ended(self) -> bytes:
        """Wait for exit code 0 without output, and return the unread part of stdin."""
        out, _ = self.process.communicate()
        assert (self.process.returncode, out) == (0, b"")
        os.set_blocking(self.read, False)
        try:
            left = os.read(self.read, 65536)
        except BlockingIOError:
            left = b""
        os.close(self.read)
        if self.write is not None:
            os.close(self.write)
        return left


@pytest.fixture
def accepting(peer: Peer, hook: Hook) -> Peer:
    """A daemon that accepts events, and a hook with longer timeouts."""
    hook.lengthen_limits()
    peer.script(HOOKS, answer({}))
    return peer


def test_hook_spools_event_when_listen_backlog_is_full(hook: Hook, state: Path) -> None:
    path = str(state / "run" / "sm.sock")
    os.mkdir(state / "run")
    with socket.socket(socket.AF_UNIX) as busy, contextlib.ExitStack() as waiting:
        busy.bind(path)
        busy.listen(0)
        with contextlib.suppress(BlockingIOError):  # until the backlog is full
            while True:
                client = waiting.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(path)
        hook(EVENT)
    assert len(hook.spooled()) == 1


def test_concurrent_hooks_all_spool_their_events(hook: Hook) -> None:
    hook.lengthen_limits()
    events = [json.dumps({"hook_event_name": "Stop", "cwd": str(number)}).encode() for number in range(8)]
    for running in [hook.start(event) for event in events]:
        running.ended()
    assert {kept["body"]["payload"]["cwd"] for kept in hook.spooled()} == set("01234567")


def test_hook_leaves_no_partial_file_when_disk_is_full(hook: Hook, state: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    hook.start(STOP, preexec_fn=full).ended()
    assert list(state.glob("spool/*/*")) == []


@pytest.mark.parametrize("closed", ["<&-", ">&- 2>&-", "<&- >&- 2>&-", "</dev/null >/dev/full 2>&1"])
def test_hook_tolerates_closed_descriptors(hook: Hook, accepting: Peer, closed: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *hook.argv]
    hook.ends_quietly(shell, input=STOP)
    assert len(accepting.received) == (0 if "<" in closed else 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_hook_spools_event_when_a_signal_arrives(hook: Hook, peer: Peer, number: signal.Signals) -> None:
    peer.script(HOOKS, SILENCE)
    running = hook.start(STOP)
    peer.wait_received(1)
    running.process.send_signal(number)
    running.ended()
    assert len(hook.spooled()) == 1


def test_hook_stops_reading_when_stdin_is_endless(hook: Hook, peer: Peer) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as yes:
        hook.ends_quietly(stdin=yes.stdout)
        yes.kill()
    assert peer.received == []


def test_hook_reads_an_event_of_megabytes_to_the_end(hook: Hook, accepting: Peer, tmp_path: Path) -> None:
    common = {"hook_event_name": "X", "cwd": "/work"}
    event = tmp_path / "event"
    event.write_bytes(json.dumps(common | {"tool_response": {"stdout": "x" * 5_000_000}}).encode())
    with subprocess.Popen(["cat", event], stdout=subprocess.PIPE) as agent:
        hook.ends_quietly(stdin=agent.stdout)
        assert agent.stdout is not None
        agent.stdout.close()
        assert agent.wait() == 0, "the writer gets SIGPIPE when the hook does not read everything"
    (received,) = accepting.received
    assert received.json["payload"] == common
    assert received.json["cut"] is True
    assert len(received.body) < 1 << 20


def test_hook_closes_inherited_pipes_before_waiting(hook: Hook, peer: Peer) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    seen: list[bytes] = []

    def check_pipe(_: ReceivedRequest) -> bytes:
        seen.append(os.read(read, 1))  # raises BlockingIOError while the other end is open
        return answer({})

    peer.script(HOOKS, check_pipe)
    running = hook.start(STOP, pass_fds=[write])
    os.close(write)
    running.ended()
    os.close(read)
    assert seen == [b""]


@pytest.fixture
def own_command(state: Path) -> str:
    """`state/bin/sm`, the command on the PATH of agents."""
    place = InstancePaths(str(state / "config.yaml"), str(state))
    os.mkdir(place.bin)
    write_command(place)
    return f"{place.bin}/sm"


def check_modules(import_times: bytes, *more: str) -> None:
    """Check that only C modules and the named modules of sm were loaded."""
    names = {line.rpartition("|")[2].strip() for line in import_times.decode().splitlines()}
    assert {name for name in names if name.partition(".")[0] == "sm"} == {
        *("sm", "sm.cli", "sm.cli.hook", "sm.cli.hook.emit", "sm.cli.hook.transport", "sm.client"),
        *("sm.client.connection", "sm.providers", "sm.providers.claude", "sm.providers.claude.wire_format"),
        *("sm.registry", "sm.wire", *more),
    }
    assert not names & (
        HEAVY | {"click", "typing", "re", "enum", "os", "collections", "contextlib", "datetime"}
    )


def test_hook_loads_only_c_modules_and_its_own(hook: Hook, accepting: Peer, own_command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-IS", "-X", "importtime", own_command, "hook", "claude"],
        input=json.dumps(EVENT).encode(),
        capture_output=True,
        env=hook.environ,
        check=True,
    )
    assert len(accepting.received) == 1
    check_modules(done.stderr)


def test_command_in_state_bin_posts_events(hook: Hook, accepting: Peer, own_command: str) -> None:
    hook.argv = [own_command, "hook", "claude"]
    hook.start(json.dumps(EVENT).encode()).ended()
    assert accepting.received[0].json["payload"] == EVENT
