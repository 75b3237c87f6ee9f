"""`sm hook claude` for a permission dialog: the hook waits for the answer, prints the answer and ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hook.dialogs import DECIDED, DIALOG, OPENED, OUTPUT, RAW, TAKEN
from tests.cli.hook.events import HOOKS
from tests.cli.hook.test_emit import Hook, check_modules
from tests.cli.peer import SILENCE, Peer, answer
from tests.instance import until

HookProcess = subprocess.Popen[bytes]


@pytest.fixture
def dialogs(peer: Peer) -> Peer:
    """A daemon without scripted answers to a dialog."""
    peer.script(TAKEN, answer({}))
    return peer


@contextmanager
def waiting(
    hook: Hook, raw: bytes = RAW, stdout: int = subprocess.PIPE, **more: Any
) -> Iterator[HookProcess]:
    """Run the hook as claude does, and kill the hook at the end."""
    process = subprocess.Popen(
        hook.argv, env=hook.environ, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.STDOUT, **more
    )
    try:
        assert process.stdin is not None
        process.stdin.write(raw)
        process.stdin.close()
        process.stdin = None  # `communicate` would write to it
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def printed(process: HookProcess) -> str:
    """Wait for exit code 0 and return the output."""
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.decode()


def output(hook: Hook, raw: bytes = RAW) -> str:
    with waiting(hook, raw) as process:
        return printed(process)


def test_hook_asks_the_daemon_when_the_daemon_starts_later(hook: Hook, state: Path) -> None:
    with waiting(hook) as process:
        until(hook.spooled, "the event is spooled")
        with Peer(str(state / "run" / "sm.sock")) as peer:
            peer.script(TAKEN, answer({}))
            peer.script(DIALOG, DECIDED)
            assert printed(process) == OUTPUT
    (kept,) = hook.spooled()
    assert kept["key"] == peer.received[0].key


def test_hook_prints_an_answer_larger_than_the_pipe_buffer(hook: Hook, dialogs: Peer) -> None:
    large = "x" * 1_000_000
    dialogs.script(DIALOG, answer({"state": "decided", "output": large}))
    assert output(hook) == large


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_hook_ends_when_agent_sends_a_signal(hook: Hook, dialogs: Peer, number: signal.Signals) -> None:
    dialogs.script(DIALOG, OPENED, SILENCE)
    with waiting(hook) as process:
        dialogs.wait_received(2)
        process.send_signal(number)
        assert process.wait() == -number


def _blocks(pid: int, number: signal.Signals) -> bool:
    match = re.search(r"^SigBlk:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return match is not None and bool(int(match[1], 16) & 1 << number - 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_hook_spools_event_when_signal_arrives_before_the_daemon_responds(
    hook: Hook, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        hook.argv, env=hook.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    with process:
        assert process.stdin is not None
        until(lambda: _blocks(process.pid, number), "the hook has started")
        process.send_signal(number)
        process.stdin.write(RAW)
        process.stdin.close()
        assert process.wait() == -number
    assert len(hook.spooled()) == 1


def pipe() -> tuple[int, int]:
    return os.pipe()


def pair() -> tuple[int, int]:
    read, write = socket.socketpair()
    return read.detach(), write.detach()


@pytest.mark.parametrize("ends", [pipe, pair])
@pytest.mark.parametrize("away", [False, True])
def test_hook_ends_when_agent_closes_its_end(
    hook: Hook, state: Path, ends: Callable[[], tuple[int, int]], away: bool
) -> None:
    read, write = ends()
    shell = ["sh", "-c", '"$@" 2>/dev/null || :', "sh", *hook.argv]
    hook.argv = shell
    with Peer(str(state / ("other" if away else "run") / "sm.sock")) as peer:
        peer.script(DIALOG, SILENCE)
        with waiting(hook, stdout=write) as process:
            os.close(write)
            if away:
                until(hook.spooled, "the hook waits for the daemon")
            else:
                peer.wait_received(1)
            assert process.poll() is None
            os.close(read)
            assert process.wait() == 0


def test_hook_posts_a_plain_event_when_output_has_no_reader(hook: Hook, peer: Peer) -> None:
    peer.script(HOOKS, answer({}))
    hook.argv = ["sh", "-c", 'exec "$@" >&-', "sh", *hook.argv]
    with waiting(hook, stdout=subprocess.DEVNULL) as process:
        assert process.wait() == 0
    read, write = os.pipe()
    os.close(read)
    with waiting(hook, stdout=write) as process:
        os.close(write)
        assert process.wait() == 0
    assert [received.path for received in peer.received] == ["/v1/hooks"] * 2


def test_hook_uses_little_memory_while_waiting(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, OPENED, SILENCE)
    with waiting(hook) as process:
        dialogs.wait_received(2)
        status = Path(f"/proc/{process.pid}/status").read_text()
    own = re.search(r"^RssAnon:\s*(\d+) kB$", status, re.MULTILINE)
    assert own is not None
    assert int(own[1]) < 8_000


def test_hook_loads_only_c_modules_and_its_own_for_a_dialog(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, OPENED, DECIDED)
    done = subprocess.run(
        [sys.executable, "-ISX", "importtime", "-c", "import sys; sys.path.append(sys.argv.pop(1)); "
         "from sm.cli import main; main()", hook.environ["PYTHONPATH"], "hook", "claude"],
        input=RAW, capture_output=True, env=hook.environ, check=True,
    )  # fmt: skip
    assert done.stdout.decode() == OUTPUT
    check_modules(done.stderr, "sm.cli.hook.permission")
