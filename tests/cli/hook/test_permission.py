"""`sm hook claude` for a permission dialog: the hook waits for the answer, prints the answer and ends."""

import json
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

from tests.cli.hook.test_emit import Hook, check_modules
from tests.cli.peer import HANG_UP, SILENCE, Answer, Open, Peer, answer, chunked, error
from tests.instance import until
from tests.load import scaled

HOOKS = "POST /v1/hooks"
DIALOG = "POST /v1/hooks/dialog"
TAKEN = "POST /v1/hooks/dialog/taken"
EVENT: dict[str, Any] = {
    "session_id": "0b6f-uuid",
    "cwd": "/work",
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "printf 'h\N{LATIN SMALL LETTER E WITH ACUTE}llo' \N{ROCKET}"},
}
RAW = json.dumps(EVENT).encode()
OUTPUT = '{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "n\xf6 \N{ROCKET}"}}}'
OPENED = answer({"request": "r57", "state": "open", "output": None})
DECIDED = answer({"request": "r57", "state": "decided", "output": OUTPUT})
OVER = answer({"request": "r57", "state": "over", "output": None})
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
    output, _ = process.communicate(timeout=scaled(30))
    assert process.returncode == 0
    return output.decode()


def output(hook: Hook, raw: bytes = RAW) -> str:
    with waiting(hook, raw) as process:
        return printed(process)


def test_hook_prints_the_answer_and_then_marks_the_answer_as_taken(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, DECIDED)
    assert output(hook) == OUTPUT
    first, second = dialogs.received
    assert (first.path, second.path) == ("/v1/hooks/dialog", "/v1/hooks/dialog/taken")
    assert re.fullmatch("[0-9a-f]{32}", first.key)
    assert second.key == first.key
    assert second.json == {}
    body = first.json
    assert body.pop("emitted_at")
    assert body == {"provider": "claude", "payload": EVENT, "wait_s": 20}
    assert hook.spooled() == []


def test_hook_polls_with_the_same_key_while_request_is_open(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, OPENED, OPENED, DECIDED)
    assert output(hook) == OUTPUT
    tries = dialogs.requests_to("/v1/hooks/dialog")
    assert len(tries) == 3
    assert len({received.key for received in tries}) == 1
    assert len({received.body for received in tries}) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "response",
    [
        OVER,
        error("usage", "no", 400),
        error("not_permitted", "no", 403),
        error("not_found", "no such route", 404),
        error("illegal_state", "it has ended", 409),
        b"HTTP/1.1 404 Not Found\r\n\r\nno JSON",
    ],
)
def test_hook_ends_silently_when_there_is_nothing_to_answer(
    hook: Hook, dialogs: Peer, response: bytes
) -> None:
    dialogs.script(DIALOG, response)
    assert output(hook) == ""
    assert len(dialogs.received) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "response",
    [
        HANG_UP,
        b"HTTP/1.1 2",
        b"no HTTP at all\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: none\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n\xff",
        chunked(b"{}"),
        answer(None),
        answer({}),
        answer({"state": ["open"]}),
        answer({"state": "decided", "output": 1}),
        error("timeout", "late", 408),
        error("limit_reached", "too much", 429),
        error("bug", "a defect", 500),
        error("daemon_unavailable", "it is just stopping", 503),
    ],
)
def test_hook_retries_and_spools_event_once_when_daemon_fails(
    hook: Hook, dialogs: Peer, response: Answer
) -> None:
    dialogs.script(DIALOG, response, DECIDED)
    assert output(hook) == OUTPUT
    tries = dialogs.requests_to("/v1/hooks/dialog")
    assert len(tries) == 2
    (kept,) = hook.spooled()
    assert kept["key"] == tries[0].key
    assert kept["body"]["payload"] == EVENT
    assert "wait_s" not in kept["body"]


def test_hook_spools_event_once_when_daemon_fails_twice(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, HANG_UP, error("bug", "a defect", 500), DECIDED)
    assert output(hook) == OUTPUT
    assert len(hook.spooled()) == 1


def test_hook_asks_the_daemon_when_the_daemon_starts_later(hook: Hook, state: Path) -> None:
    with waiting(hook) as process:
        until(hook.spooled, "the event is spooled")
        with Peer(str(state / "run" / "sm.sock")) as peer:
            peer.script(TAKEN, answer({}))
            peer.script(DIALOG, DECIDED)
            assert printed(process) == OUTPUT
    (kept,) = hook.spooled()
    assert kept["key"] == peer.received[0].key


def test_hook_asks_again_with_the_same_key_when_daemon_restarts(hook: Hook, state: Path) -> None:
    path = str(state / "run" / "sm.sock")
    with Peer(path) as first:
        first.script(DIALOG, OPENED, SILENCE)
        run = waiting(hook)
        process = run.__enter__()
        first.wait_received(2)
    with Peer(path) as second:
        second.script(TAKEN, answer({}))
        second.script(DIALOG, DECIDED)
        assert printed(process) == OUTPUT
    run.__exit__(None, None, None)
    assert second.received[0].key == first.received[0].key
    assert hook.spooled() == [], "the first daemon received the event"


def test_hook_reads_response_by_its_length_when_connection_stays_open(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, Open(OPENED), Open(DECIDED))
    assert output(hook) == OUTPUT
    # A hook that waits for the end of the connection would time out and ask again.
    assert [received.path for received in dialogs.received] == [
        "/v1/hooks/dialog",
        "/v1/hooks/dialog",
        "/v1/hooks/dialog/taken",
    ]


def test_hook_sends_no_token_when_token_file_is_a_pipe(hook: Hook, home: Path, state: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    (state / "token").unlink()
    os.mkfifo(state / "token")
    with Peer(hook.environ["SM_SOCKET"]) as peer:
        peer.script(DIALOG, error("unauthenticated", "who are you?", 401))
        assert output(hook) == ""
    assert "authorization" not in peer.received[0].headers


def test_hook_prints_an_answer_larger_than_the_pipe_buffer(hook: Hook, dialogs: Peer) -> None:
    large = "x" * 1_000_000
    dialogs.script(DIALOG, answer({"state": "decided", "output": large}))
    assert output(hook) == large


@pytest.mark.parametrize("response", [SILENCE, HANG_UP, error("bug", "a defect", 500)])
def test_hook_ends_without_waiting_when_taken_is_not_acknowledged(
    hook: Hook, peer: Peer, response: Answer
) -> None:
    peer.script(DIALOG, DECIDED)
    peer.script(TAKEN, response)
    assert output(hook) == OUTPUT  # the hook ends without the answer of the daemon


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_hook_ends_when_agent_sends_a_signal(hook: Hook, dialogs: Peer, number: signal.Signals) -> None:
    dialogs.script(DIALOG, OPENED, SILENCE)
    with waiting(hook) as process:
        dialogs.wait_received(2)
        process.send_signal(number)
        assert process.wait(scaled(10)) == -number


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
        assert process.wait(scaled(10)) == -number
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
            assert process.wait(scaled(5)) == 0


def test_hook_posts_a_plain_event_when_output_has_no_reader(hook: Hook, peer: Peer) -> None:
    peer.script(HOOKS, answer({}))
    hook.argv = ["sh", "-c", 'exec "$@" >&-', "sh", *hook.argv]
    with waiting(hook, stdout=subprocess.DEVNULL) as process:
        assert process.wait(scaled(10)) == 0
    read, write = os.pipe()
    os.close(read)
    with waiting(hook, stdout=write) as process:
        os.close(write)
        assert process.wait(scaled(10)) == 0
    assert [received.path for received in peer.received] == ["/v1/hooks"] * 2


def test_hook_cuts_large_event_and_asks(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, DECIDED)
    large = EVENT | {"tool_name": "Write", "tool_input": {"file_path": "/a", "content": "x" * 3_000_000}}
    assert output(hook, json.dumps(large).encode()) == OUTPUT
    body = dialogs.received[0].json
    assert body["cut"] is True
    assert body["payload"]["hook_event_name"] == "PermissionRequest"


def test_hook_sends_the_token_with_each_request_to_an_agent_socket(hook: Hook, home: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    with Peer(hook.environ["SM_SOCKET"]) as peer:
        peer.script(DIALOG, OPENED, DECIDED)
        peer.script(TAKEN, answer({}))
        assert output(hook) == OUTPUT
    assert [received.headers["authorization"] for received in peer.received] == ["Bearer s3cret"] * 3


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
