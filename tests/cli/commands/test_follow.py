"""`sm events --follow`: over breaks and restarts of the daemon, without losing or repeating an event."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import HANG_UP, Asked, Open, Peer, answer, chunked, error
from tests.cli.samples import event, session
from tests.load import scaled

HEAD = b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 1000000\r\n\r\n"
SILENT = Open(HEAD)
"""A stream on which nothing comes."""


def sse(*seqs: int) -> bytes:
    return b"".join(b"id: %d\ndata: %b\n\n" % (n, json.dumps(event(n)).encode()) for n in seqs)


@contextmanager
def following(run: Sm, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A follower, which is ended by Ctrl-C and must not complain about it."""
    with run.start("events", "--follow", *words) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


def shown(*seqs: int) -> list[str]:
    return [f"[15:10] spawned: event {seq}" for seq in seqs]


def since(asked: Asked) -> str:
    return asked.query.rpartition("since=")[2]


def test_a_follower_shows_the_last_ten_and_goes_on_after_them(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/events", answer({"events": [event(4), event(5)], "last_seq": 7}))
    peer.script("GET /v1/events/stream", chunked(sse(8, 9)), SILENT)
    with following(run) as process:
        assert lines(process, 4) == shown(4, 5, 8, 9)
        peer.wait_asked(3)
    assert [asked.query for asked in peer.asked] == ["limit=10", "since=7", "since=9"]
    assert process.returncode == 130


def test_a_follower_from_a_seq_reads_nothing_but_the_stream(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", chunked(sse(1, 2), end=False), SILENT)
    with following(run, "--since", "0", "--json", "--type", "spawned") as process:
        assert [json.loads(line)["seq"] for line in lines(process, 2)] == [1, 2]
        peer.wait_asked(3)
    assert [asked.query for asked in peer.asked[1:]] == ["type=spawned&since=0", "type=spawned&since=2"]


def test_events_sent_twice_are_shown_once_and_half_sent_ones_again(run: Sm, peer: Peer) -> None:
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
        peer.wait_asked(6)
        assert [since(asked) for asked in peer.asked[1:6]] == ["0", "2", "2", "3", "5"]


def test_a_follower_says_once_that_the_daemon_is_away_and_once_that_it_is_back(run: Sm, state: Path) -> None:
    path = str(state / "run" / "sm.sock")
    with Peer(path) as first:
        first.script("GET /v1/health", answer({}))
        first.script("GET /v1/events/stream", chunked(sse(1), end=False), HANG_UP)
        process = run.start("events", "--follow", "--since", "0")
        first.wait_asked(4)
    with Peer(path) as second:
        second.script("GET /v1/events/stream", chunked(sse(2), end=False), Open(HEAD + sse(3)))
        assert lines(process, 3) == shown(1, 2, 3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=scaled(30))
    said = err.splitlines()
    # Both breaks are told, each once, however often the daemon was asked meanwhile.
    assert said == ["the daemon is away; waiting for it", "the daemon is back"] * 2
    assert not (state / "log").exists(), "a follower never starts the daemon"


def test_a_follower_of_a_name_follows_its_id(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions/engineer-login", answer(session()))
    peer.script("GET /v1/events", answer({"events": [], "last_seq": 3}))
    peer.script("GET /v1/events/stream", SILENT)
    with following(run, "engineer-login", "--recursive"):
        peer.wait_asked(3)
    assert peer.asked[2].query == "session=1a2b3c4d&recursive=1&since=3"


def test_a_follower_ends_with_the_daemons_refusal(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", error("not_permitted", "no", 403))
    assert run("events", "--follow", "--since", "0", code=5).err == "sm: no\n"


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_follower_ends_quietly_when_its_reader_goes(run: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", Open(HEAD + sse(1) + b": heartbeat\n\n"))
    # It ends without another event to write.
    run.unread("events", "--follow", "--since", "0", *words, after_a_line=True)
