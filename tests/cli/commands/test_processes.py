"""Commands whose process is the subject: Ctrl-C, a closed pipe, the encoding of the environment."""

import signal

from tests.cli.conftest import Sm
from tests.cli.peer import SILENCE, Open, Peer, answer, chunked
from tests.load import scaled
from tests.played.cli.test_follow import HEAD, SILENT, sse
from tests.played.cli.test_messages import letter, stored


def test_send_reports_queued_messages_when_interrupted_by_ctrl_c(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", stored())
    peer.script("GET /v1/messages/57", SILENCE)
    with run.start("send", "a", "hello", "--wait", "60") as process:
        peer.wait_received(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=scaled(30))
    assert (process.returncode, out) == (130, "")
    pending = "is still queued (not taken from the inbox yet); it was not cancelled"
    assert err == f"sm: message 57 {pending}\nhint: sm log a\n"


def test_inbox_take_does_not_confirm_when_output_pipe_is_closed(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    run.unread("inbox", "--take")
    assert len(peer.received) == 1


def test_send_refuses_stdin_that_is_not_utf8_when_the_environment_is_not_utf8(run: Sm, peer: Peer) -> None:
    done = run("send", "x", "-", stdin=b"ab\xff", code=2, environ={"LC_ALL": "POSIX"})
    assert done.err == "sm: the message is not UTF-8: invalid byte at position 3\n"
    assert peer.received == []


def test_follow_ends_with_130_on_ctrl_c(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", chunked(sse(1), end=False), SILENT)
    with run.start("events", "--follow", "--since", "0") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[2026-01-27 15:10] spawned: event 1\n"
        peer.wait_received(3)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130


def test_follow_ends_silently_when_output_pipe_closes(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("GET /v1/events/stream", Open(HEAD + sse(1) + b": heartbeat\n\n"))
    # The command must end without another event to write.
    run.unread("events", "--follow", "--since", "0", after_a_line=True)
