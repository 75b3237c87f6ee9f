"""The contract of the played `sm` and `sm hook`: each test runs with the process and with the played one.

The subjects are those of a process: exit codes, streams, pipes, a full disk, Ctrl-C.
"""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, Sm
from tests.cli.hook.dialogs import DECIDED, DIALOG, OUTPUT, RAW, TAKEN
from tests.cli.hook.events import EVENT, HOOKS
from tests.cli.hook.test_emit import Hook
from tests.cli.hook.test_permission import output
from tests.cli.peer import HANG_UP, SILENCE, Open, Peer, answer, chunked
from tests.played.cli.command import Sm as PlayedSm
from tests.played.cli.command import empty_home
from tests.played.cli.hook.command import Hook as PlayedHook
from tests.played.cli.peer import Peer as PlayedPeer
from tests.played.cli.test_follow import HEAD, SILENT, sse
from tests.played.cli.test_messages import letter, stored


@dataclass(frozen=True)
class Real:
    """Commands as processes."""

    run: Sm
    peer: Peer
    state: Path

    def interrupted(self, *words: str, after: int) -> Done:
        """Run a command, and press Ctrl-C when the daemon has this many requests."""
        with self.run.start(*words) as process:
            self.peer.wait_received(after)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
        return Done(process.returncode, out, err)

    def unread_after_a_line(self, *words: str) -> None:
        self.run.unread(*words, after_a_line=True)

    def hook(self) -> Hook:
        hook = Hook(self.run, self.state)
        hook.lengthen_limits()
        return hook

    def decision(self) -> str:
        """Run the hook of a dialog, and return its output."""
        return output(self.hook(), RAW)


@dataclass(frozen=True)
class Played:
    """Commands in the process of the test."""

    run: PlayedSm
    peer: PlayedPeer
    state: Path

    def interrupted(self, *words: str, after: int) -> Done:
        process = self.run.start(*words)
        self.peer.wait_received(after)
        process.interrupt()
        out, err = process.communicate(timeout=30)
        return Done(process.wait(), out, err)

    def unread_after_a_line(self, *words: str) -> None:
        self.run.unread_after_a_line(*words)

    def hook(self) -> PlayedHook:
        return PlayedHook(self.run, self.state)

    def decision(self) -> str:
        return self.hook().begin(RAW).printed()


Side = Real | Played


@contextmanager
def played() -> Iterator[Played]:
    with empty_home() as instance:
        state = instance.home / "state"
        state.mkdir(0o700)
        with PlayedPeer(instance, str(state / "run" / "sm.sock")) as peer:
            yield Played(PlayedSm(instance), peer, state)


@pytest.fixture(params=["process", "played"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    if request.param == "process":
        yield Real(*(request.getfixturevalue(name) for name in ("run", "peer", "state")))
    else:
        with played() as found:
            yield found


def test_send_posts_the_text_of_stdin_and_prints_the_outcome(side: Side) -> None:
    side.peer.script("POST /v1/messages", stored(status="submitted"))
    done = side.run("send", "a", "-", "--no-wait", stdin="fünf\n".encode())
    assert done == Done(0, "Input sent to session a\n", "")
    (received,) = side.peer.received
    assert received.json == {"to": "a", "text": "fünf", "mode": "auto", "ttl_s": None}
    assert sorted(received.headers) == [
        *("connection", "content-length", "content-type", "host", "idempotency-key", "sm-protocol"),
    ]


def test_error_of_the_daemon_ends_the_command_with_its_code(side: Side) -> None:
    assert side.run("status", "x", code=3).err == "sm: nothing is scripted for this request\n"


@pytest.mark.parametrize("language", ["C.UTF-8", "POSIX"])
def test_send_refuses_stdin_that_is_not_utf8(side: Side, language: str) -> None:
    done = side.run("send", "x", "-", stdin=b"ab\xff", code=2, environ={"LC_ALL": language})
    assert done.err == "sm: the message is not UTF-8: invalid byte at position 3\n"
    assert side.peer.received == []


def test_send_reports_queued_messages_when_interrupted_by_ctrl_c(side: Side) -> None:
    side.peer.script("POST /v1/messages", stored())
    side.peer.script("GET /v1/messages/57", SILENCE)
    done = side.interrupted("send", "a", "hello", "--wait", "60", after=2)
    pending = "is still queued (not taken from the inbox yet); it was not cancelled"
    assert done == Done(130, "", f"sm: message 57 {pending}\nhint: sm log a\n")


def test_follow_ends_with_130_on_ctrl_c(side: Side) -> None:
    side.peer.script("GET /v1/health", answer({}))
    side.peer.script("GET /v1/events/stream", chunked(sse(1), end=False), SILENT)
    done = side.interrupted("events", "--follow", "--since", "0", after=3)
    assert (done.code, done.out) == (130, "[2026-01-27 15:10] spawned: event 1\n")


def test_inbox_take_does_not_confirm_when_output_pipe_is_closed(side: Side) -> None:
    side.peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    side.run.unread("inbox", "--take")
    assert len(side.peer.received) == 1


def test_follow_ends_silently_when_output_pipe_closes(side: Side) -> None:
    side.peer.script("GET /v1/health", answer({}))
    side.peer.script("GET /v1/events/stream", Open(HEAD + sse(1) + b": heartbeat\n\n"))
    # The command must end without another event to write.
    side.unread_after_a_line("events", "--follow", "--since", "0")


def test_hook_posts_its_event(side: Side) -> None:
    side.peer.script(HOOKS, answer({}))
    side.hook()(EVENT)
    (received,) = side.peer.received
    assert received.json["payload"] == EVENT
    assert received.headers["authorization"] == "Bearer s3cret"


def test_hook_spools_its_event_when_daemon_fails(side: Side) -> None:
    side.peer.script(HOOKS, HANG_UP)
    hook = side.hook()
    hook(EVENT)
    (kept,) = hook.spooled()
    assert kept["body"] == side.peer.received[0].json


def test_hook_prints_the_answer_to_a_dialog(side: Side) -> None:
    side.peer.script(TAKEN, answer({}))
    side.peer.script(DIALOG, HANG_UP, DECIDED)
    assert side.decision() == OUTPUT
    tries: list[dict[str, Any]] = [json.loads(r.body) for r in side.peer.requests_to("/v1/hooks/dialog")]
    assert len(tries) == 2
    assert tries[0] == tries[1]
    (report,) = side.state.glob("spool/*/*.json")
    assert json.loads(report.read_text())["body"]["payload"] == tries[0]["payload"]
