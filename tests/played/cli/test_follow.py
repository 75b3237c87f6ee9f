"""`sm events --follow`: no event is lost or repeated when the stream breaks or the daemon restarts."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.peer import HANG_UP, Open, ReceivedRequest, answer, chunked, error
from tests.cli.samples import event, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer
from tests.sim.command import Streams
from tests.sim.stage import until

HEAD = b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 1000000\r\n\r\n"
SILENT = Open(HEAD)
"""A stream without events."""


def sse(*seqs: int) -> bytes:
    return b"".join(b"id: %d\ndata: %b\n\n" % (n, json.dumps(event(n)).encode()) for n in seqs)


class Following:
    """`sm events --follow`, which writes to a file."""

    def __init__(self, run: Sm, words: Sequence[str]) -> None:
        self._path = run.instance.home / "output"
        self._file = self._path.open("w")
        self._streams = Streams(stdout=self._file)
        self.process = run.start("events", "--follow", *words, streams=self._streams)

    def lines(self, count: int) -> list[str]:
        """Wait for this many lines, and return them."""

        def look() -> list[str] | None:
            found = self._path.read_text().splitlines()
            return found if len(found) >= count else None

        return until(look, f"{count} lines")

    @property
    def errors(self) -> str:
        return self._streams.texts[1]

    def end(self) -> None:
        self.process.kill()
        self._file.close()


@contextmanager
def following(run: Sm, *words: str) -> Iterator[Following]:
    started = Following(run, words)
    try:
        yield started
    finally:
        started.end()


def shown(*seqs: int) -> list[str]:
    return [f"[2026-01-27 15:10] spawned: event {seq}" for seq in seqs]


def since(received: ReceivedRequest) -> str:
    return received.query.rpartition("since=")[2]


def test_follow_prints_last_events_and_continues_after_the_last_number(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/events", answer({"events": [event(4), event(5)], "last_seq": 7}))
    peer.script("GET /v1/events/stream", chunked(sse(8, 9)), SILENT)
    with following(run) as process:
        assert process.lines(4) == shown(4, 5, 8, 9)
        peer.wait_received(3)
    assert [received.query for received in peer.received] == ["limit=10", "since=7", "since=9"]


def test_follow_reads_only_the_stream_when_since_is_given(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", chunked(sse(1, 2), end=False), SILENT)
    with following(run, "--since", "0", "--json", "--type", "spawned") as process:
        assert [json.loads(line)["seq"] for line in process.lines(2)] == [1, 2]
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
        assert process.lines(5) == shown(1, 2, 3, 4, 5)
        peer.wait_received(6)
        assert [since(received) for received in peer.received[1:6]] == ["0", "2", "2", "3", "5"]


def test_follow_reports_once_when_daemon_goes_away_and_returns(run: Sm, state: Path) -> None:
    path = str(state / "run" / "sm.sock")
    with Peer(run.instance, path) as first:
        first.script("GET /v1/health", answer({}))
        first.script("GET /v1/events/stream", chunked(sse(1), end=False), HANG_UP)
        process = Following(run, ["--since", "0"])
        first.wait_received(4)
    with Peer(run.instance, path) as second:
        second.script("GET /v1/events/stream", chunked(sse(2), end=False), Open(HEAD + sse(3)))
        assert process.lines(3) == shown(1, 2, 3)
        process.end()
    # Each of the two breaks is reported once, whatever the number of retries.
    assert (
        process.errors.splitlines()
        == ["the daemon is not running; waiting for it", "the daemon is running again"] * 2
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
    run.unread_after_a_line("events", "--follow", "--since", "0", *words)
