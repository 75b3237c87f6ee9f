"""Commands without stdout or stderr, and with an answer that is no JSON."""

from pathlib import Path

import pytest

from tests.cli.peer import answer, chunked
from tests.cli.samples import progress, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

LISTS = {
    "all": "sessions",
    "children": "sessions/-/children",
    "who": "who",
    "others": "others",
    "log": "messages",
    "requests": "requests",
    "workspace list": "workspaces",
    "checkpoints x": "sessions/x/checkpoints",
}


@pytest.fixture
def lists(peer: Peer) -> Peer:
    for path in LISTS.values():
        is_sessions = path.startswith("sessions") or path in ("who", "others")
        peer.script(f"GET /v1/{path}", answer([session()] if is_sessions and "x" not in path else []))
    peer.script("GET /v1/sessions/x", answer(session()))
    peer.script("GET /v1/sessions/x/progress", answer(progress(is_complete=True)))
    return peer


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("command", [*LISTS, "progress x", "progress x --watch", "status x"])
def test_command_succeeds_when_its_output_is_closed(
    run: Sm, lists: Peer, state: Path, command: str, closed: str
) -> None:
    done = run.with_closed(closed, *command.split())
    assert (done.code, "internal error" in done.err) == (0, False), done.err
    assert list((state / "log").glob("bug-*")) == []


@pytest.mark.parametrize("command", [*LISTS, "status x", "progress x"])
def test_answer_that_is_no_json_is_an_error_of_the_protocol(run: Sm, peer: Peer, command: str) -> None:
    for path in (*LISTS.values(), "sessions/x", "sessions/x/progress"):
        peer.script(f"GET /v1/{path}", chunked(b"<html>"))
    assert run(*command.split(), code=8).err.startswith("sm: invalid answer from the daemon: not JSON\n")
