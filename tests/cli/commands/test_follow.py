"""`sm events --follow`: no event is lost or repeated when the stream breaks or the daemon restarts."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import HANG_UP, Open, Peer, ReceivedRequest, answer, chunked, error
from tests.cli.samples import event, session
from tests.load import scaled

HEAD = b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 1000000\r\n\r\n"
SILENT = Open(HEAD)
"""A stream without events."""


def sse(*seqs: int) -> bytes:
    return b"".join(b"id: %d\ndata: %b\n\n" % (n, json.dumps(event(n)).encode()) for n in seqs)


@contextmanager
def following(run: Sm, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run `sm events --follow` and end the command with Ctrl-C."""
    with run.start("events", "--follow", *words) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(scaled())


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


def shown(*seqs: int) -> list[str]:
    return [f"[2026-01-27 15:10] spawned: event {seq}" for seq in seqs]


def since(received: ReceivedRequest) -> str:
    return received.query.rpartition("since=")[2]


def test_follow_prints_last_events_and_continues_after_the_last_number(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/events", answer({"events": [event(4), event(5)], "last_seq": 7}))
    peer.script("GET /v1/events/stream", chunked(sse(8, 9)), SILENT)
    with following(run) as process:
        assert lines(process, 4) == shown(4, 5, 8, 9)
        peer.wait_received(3)
    assert [received.query for received in peer.received] == ["limit=10", "since=7", "since=9"]
    assert process.returncode == 130


def test_follow_reads_only_the_stream_when_since_is_given(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", chunked(sse(1, 2), end=False), SILENT)
    with following(run, "--since", "0", "--json", "--type", "spawned") as process:
        assert [json.loads(line)["seq"] for line in lines(process, 2)] == [1, 2]
        peer.wait_received(3)
    assert [received.query for received in peer.received[1:]] == [
        "type=spawned&since=0",
        "type=spawned&since=2",
    ]


def test_follow_prints_each_event_once_when_stream_breaks_and_repeats(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script(
        "GET /v1/events/stream",
        HEAD + sse(1, 2) + b"id: 3\ndata: {",
        HANG_UP,
        chunked(sse(2, 3, 4)[:-1], end=False),
        chunked(sse(4, 5)),
        SILENT,
    )
    with following(run, "--since", "0") as process:
        assert lines(process, 5) == shown(1, 2, 3, 4, 5)
        peer.wait_received(6)
        assert [since(received) for received in peer.received[1:6]] == ["0", "2", "2", "3", "5"]


def test_follow_reports_once_when_daemon_goes_away_and_returns(run: Sm, state: Path) -> None:
    path = str(state / "run" / "sm.sock")
    with Peer(path) as first:
        first.script("GET /v1/health", answer({}))
        first.script("GET /v1/events/stream", chunked(sse(1), end=False), HANG_UP)
        process = run.start("events", "--follow", "--since", "0")
        first.wait_received(4)
    with Peer(path) as second:
        second.script("GET /v1/events/stream", chunked(sse(2), end=False), Open(HEAD + sse(3)))
        assert lines(process, 3) == shown(1, 2, 3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=scaled(30))
    # Each of the two breaks is reported once, whatever the number of retries.
    assert (
        err.splitlines() == ["the daemon is not running; waiting for it", "the daemon is running again"] * 2
    )
    assert not (state / "log").exists(), "the command must not start the daemon"


def test_follow_resolves_a_name_to_the_session_id(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions/engineer-login", answer(session()))
    peer.script("GET /v1/events", answer({"events": [], "last_seq": 3}))
    peer.script("GET /v1/events/stream", SILENT)
    with following(run, "engineer-login", "--recursive"):
        peer.wait_received(3)
    assert peer.received[2].query == "session=1a2b3c4d&recursive=1&since=3"


def test_follow_exits_with_the_error_of_the_daemon(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", error("not_permitted", "no", 403))
    assert run("events", "--follow", "--since", "0", code=5).err == "sm: no\n"


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_follow_ends_silently_when_output_pipe_closes(run: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", Open(HEAD + sse(1) + b": heartbeat\n\n"))
    # The command must end without another event to write.
    run.unread("events", "--follow", "--since", "0", *words, after_a_line=True)
