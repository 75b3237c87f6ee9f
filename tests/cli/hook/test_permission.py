"""`sm hook claude` beside an open dialog: it waits for the answer, hands it over, and is gone when nobody wants it."""

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
WaitingSessions = subprocess.Popen[bytes]


@pytest.fixture
def dialogs(peer: Peer) -> Peer:
    """A daemon that opens requests, and says nothing more."""
    peer.script(TAKEN, answer({}))
    return peer


@contextmanager
def waiting(
    hook: Hook, raw: bytes = RAW, stdout: int = subprocess.PIPE, **more: Any
) -> Iterator[WaitingSessions]:
    """The hook as claude runs it, ended with the test."""
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


def printed(process: WaitingSessions) -> str:
    """All that it says until it has ended with 0."""
    said, _ = process.communicate(timeout=scaled(30))
    assert process.returncode == 0
    return said.decode()


def output(hook: Hook, raw: bytes = RAW) -> str:
    with waiting(hook, raw) as process:
        return printed(process)


def asked(peer: Peer, what: str) -> list[Any]:
    return [one for one in peer.asked if f"{one.method} {one.path}" == what]


def test_answer_is_printed_and_then_said_to_be_taken(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, DECIDED)
    assert output(hook) == OUTPUT
    first, second = dialogs.asked
    assert (first.path, second.path) == ("/v1/hooks/dialog", "/v1/hooks/dialog/taken")
    assert re.fullmatch("[0-9a-f]{32}", first.headers["idempotency-key"])
    assert second.headers["idempotency-key"] == first.headers["idempotency-key"]
    assert second.json == {}
    body = first.json
    assert body.pop("emitted_at")
    assert body == {"provider": "claude", "payload": EVENT, "wait_s": 20}
    assert hook.spooled() == []


def test_while_it_is_open_the_daemon_is_asked_again_under_the_same_key(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, OPENED, OPENED, DECIDED)
    assert output(hook) == OUTPUT
    tries = asked(dialogs, DIALOG)
    assert len(tries) == 3
    assert len({one.headers["idempotency-key"] for one in tries}) == 1
    assert len({one.body for one in tries}) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "said",
    [
        OVER,
        error("usage", "no", 400),
        error("not_permitted", "no", 403),
        error("not_found", "no such route", 404),
        error("illegal_state", "it has ended", 409),
        b"HTTP/1.1 404 Not Found\r\n\r\nno JSON",
    ],
)
def test_where_nothing_is_to_be_answered_it_ends_without_a_word(
    hook: Hook, dialogs: Peer, said: bytes
) -> None:
    dialogs.script(DIALOG, said)
    assert output(hook) == ""
    assert len(dialogs.asked) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "said",
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
def test_daemon_that_gives_no_answer_is_asked_again_and_left_the_event_once(
    hook: Hook, dialogs: Peer, said: Answer
) -> None:
    dialogs.script(DIALOG, said, DECIDED)
    assert output(hook) == OUTPUT
    tries = asked(dialogs, DIALOG)
    assert len(tries) == 2
    (kept,) = hook.spooled()
    assert kept["key"] == tries[0].headers["idempotency-key"]
    assert kept["body"]["payload"] == EVENT
    assert "wait_s" not in kept["body"]


def test_event_is_left_for_the_daemon_once(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, HANG_UP, error("bug", "a defect", 500), DECIDED)
    assert output(hook) == OUTPUT
    assert len(hook.spooled()) == 1


def test_daemon_that_is_away_is_told_when_it_comes(hook: Hook, state: Path) -> None:
    with waiting(hook) as process:
        until(hook.spooled, "the event is spooled")
        with Peer(str(state / "run" / "sm.sock")) as peer:
            peer.script(TAKEN, answer({}))
            peer.script(DIALOG, DECIDED)
            assert printed(process) == OUTPUT
    (kept,) = hook.spooled()
    assert kept["key"] == peer.asked[0].headers["idempotency-key"]


def test_daemon_that_ends_in_the_middle_is_asked_again(hook: Hook, state: Path) -> None:
    path = str(state / "run" / "sm.sock")
    with Peer(path) as first:
        first.script(DIALOG, OPENED, SILENCE)
        run = waiting(hook)
        process = run.__enter__()
        first.wait_asked(2)
    with Peer(path) as second:
        second.script(TAKEN, answer({}))
        second.script(DIALOG, DECIDED)
        assert printed(process) == OUTPUT
    run.__exit__(None, None, None)
    assert second.asked[0].headers["idempotency-key"] == first.asked[0].headers["idempotency-key"]
    assert hook.spooled() == [], "it has known of the event"


def test_answer_is_whole_when_it_has_its_length(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, Open(OPENED), Open(DECIDED))
    assert output(hook) == OUTPUT
    # A hook that had waited for the end of either answer would have asked again.
    assert [one.path for one in dialogs.asked] == [
        "/v1/hooks/dialog",
        "/v1/hooks/dialog",
        "/v1/hooks/dialog/taken",
    ]


def test_token_that_is_a_pipe_is_none(hook: Hook, home: Path, state: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    (state / "token").unlink()
    os.mkfifo(state / "token")
    with Peer(hook.environ["SM_SOCKET"]) as peer:
        peer.script(DIALOG, error("unauthenticated", "who are you?", 401))
        assert output(hook) == ""
    assert "authorization" not in peer.asked[0].headers


def test_answer_larger_than_a_pipe_is_printed_whole(hook: Hook, dialogs: Peer) -> None:
    large = "x" * 1_000_000
    dialogs.script(DIALOG, answer({"state": "decided", "output": large}))
    assert output(hook) == large


@pytest.mark.parametrize("said", [SILENCE, HANG_UP, error("bug", "a defect", 500)])
def test_daemon_that_does_not_hear_that_it_was_taken_is_not_waited_for(
    hook: Hook, peer: Peer, said: Answer
) -> None:
    peer.script(DIALOG, DECIDED)
    peer.script(TAKEN, said)
    assert output(hook) == OUTPUT  # the hook ends while the daemon is still silent


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_it_ends_when_its_agent_says_so(hook: Hook, dialogs: Peer, number: signal.Signals) -> None:
    dialogs.script(DIALOG, OPENED, SILENCE)
    with waiting(hook) as process:
        dialogs.wait_asked(2)
        process.send_signal(number)
        assert process.wait(10) == -number


def _blocks(pid: int, number: signal.Signals) -> bool:
    found = re.search(r"^SigBlk:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) & 1 << number - 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_before_the_daemon_knows_does_not_lose_the_event(hook: Hook, number: signal.Signals) -> None:
    process = subprocess.Popen(
        hook.argv, env=hook.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    with process:
        assert process.stdin is not None
        until(lambda: _blocks(process.pid, number), "it has begun")
        process.send_signal(number)
        process.stdin.write(RAW)
        process.stdin.close()
        assert process.wait(10) == -number
    assert len(hook.spooled()) == 1


def pipe() -> tuple[int, int]:
    return os.pipe()


def pair() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


@pytest.mark.parametrize("ends", [pipe, pair])
@pytest.mark.parametrize("away", [False, True])
def test_it_ends_when_its_agent_is_gone(
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
                until(hook.spooled, "it waits for the daemon")
            else:
                peer.wait_asked(1)
            assert process.poll() is None
            os.close(read)
            assert process.wait(5) == 0


def test_without_a_reader_the_event_is_told_as_any_other(hook: Hook, peer: Peer) -> None:
    peer.script(HOOKS, answer({}))
    hook.argv = ["sh", "-c", 'exec "$@" >&-', "sh", *hook.argv]
    with waiting(hook, stdout=subprocess.DEVNULL) as process:
        assert process.wait(10) == 0
    read, write = os.pipe()
    os.close(read)
    with waiting(hook, stdout=write) as process:
        os.close(write)
        assert process.wait(10) == 0
    assert [one.path for one in peer.asked] == ["/v1/hooks"] * 2


def test_large_event_is_cut_and_asked_about(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, DECIDED)
    large = EVENT | {"tool_name": "Write", "tool_input": {"file_path": "/a", "content": "x" * 3_000_000}}
    assert output(hook, json.dumps(large).encode()) == OUTPUT
    body = dialogs.asked[0].json
    assert body["cut"] is True
    assert body["payload"]["hook_event_name"] == "PermissionRequest"


def test_agent_socket_is_shown_the_token_each_time(hook: Hook, home: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    with Peer(hook.environ["SM_SOCKET"]) as peer:
        peer.script(DIALOG, OPENED, DECIDED)
        peer.script(TAKEN, answer({}))
        assert output(hook) == OUTPUT
    assert [one.headers["authorization"] for one in peer.asked] == ["Bearer s3cret"] * 3


def test_while_it_waits_it_holds_little(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, OPENED, SILENCE)
    with waiting(hook) as process:
        dialogs.wait_asked(2)
        status = Path(f"/proc/{process.pid}/status").read_text()
    own = re.search(r"^RssAnon:\s*(\d+) kB$", status, re.MULTILINE)
    assert own is not None
    assert int(own[1]) < 8_000


def test_it_loads_c_modules_only(hook: Hook, dialogs: Peer) -> None:
    dialogs.script(DIALOG, OPENED, DECIDED)
    done = subprocess.run(
        [sys.executable, "-ISX", "importtime", "-c", "import sys; sys.path.append(sys.argv.pop(1)); "
         "from sm.cli import main; main()", hook.environ["PYTHONPATH"], "hook", "claude"],
        input=RAW, capture_output=True, env=hook.environ, check=True,
    )  # fmt: skip
    assert done.stdout.decode() == OUTPUT
    check_modules(done.stderr, "sm.cli.hook.permission")
