"""Commands whose process is the subject: Ctrl-C, a closed pipe, a full disk, the encoding of the environment."""

import signal
import subprocess

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import SILENCE, Peer, answer
from tests.load import scaled
from tests.played.cli.test_messages import letter, stored


@pytest.mark.parametrize("waits", [(), ("--wait", "60")])
def test_send_reports_queued_messages_when_interrupted_by_ctrl_c(
    run: Sm, peer: Peer, waits: tuple[str, ...]
) -> None:
    peer.script("POST /v1/messages", stored(), stored(status="submitted"), stored())
    peer.script("GET /v1/messages/57", SILENCE)
    with run.start("send", "a", "b", "c", "hello", *waits) as process:
        peer.wait_received(4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=scaled(30))
    assert (process.returncode, out) == (130, "Input sent to session b\n")
    pending = "is still queued (not taken from the inbox yet); it was not cancelled"
    assert err == f"sm: message 57 {pending}\nhint: sm log a\nsm: message 59 {pending}\nhint: sm log c\n"


def test_wait_exits_130_silently_when_interrupted_by_ctrl_c(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", SILENCE)
    with run.start("wait", "a") as process:
        peer.wait_received(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=scaled(30))
    assert (process.returncode, out, err) == (130, "", "")


def test_inbox_take_does_not_confirm_when_output_pipe_is_closed(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    run.unread("inbox", "--take")
    assert len(peer.received) == 1


def test_inbox_take_does_not_confirm_when_disk_is_full(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            run.argv("inbox", "--take"), stdout=full, stderr=subprocess.PIPE, env=run.environ, check=False
        )
    assert (done.returncode, done.stderr) == (6, b"sm: the disk is full\n")
    assert len(peer.received) == 1


def test_send_refuses_stdin_that_is_not_utf8_when_the_environment_is_not_utf8(run: Sm, peer: Peer) -> None:
    done = run("send", "x", "-", stdin=b"ab\xff", code=2, environ={"LC_ALL": "POSIX"})
    assert done.err == "sm: the message is not UTF-8: invalid byte at position 3\n"
    assert peer.received == []
