"""`sm hook claude`: an event reaches the daemon or the spool without any output or delay for the agent."""

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sm.cli.hook.spool import HOOKS_MAX_BYTES
from tests.cli.conftest import SESSION
from tests.cli.hook.events import EVENT, HOOKS, STAMP, STOP
from tests.cli.peer import HANG_UP, SILENCE, Answer, answer, error
from tests.played.cli.command import Sm
from tests.played.cli.hook.command import Hook
from tests.played.cli.peer import Peer


@pytest.fixture
def accepting(peer: Peer) -> Peer:
    """A daemon that accepts events."""
    peer.script(HOOKS, answer({}))
    return peer


def test_hook_posts_the_event_unchanged(hook: Hook, accepting: Peer) -> None:
    hook(EVENT)
    (received,) = accepting.received
    assert received.headers["sm-protocol"] == "1"
    assert received.headers["content-type"] == "application/json"
    assert re.fullmatch("[0-9a-f]{32}", received.key)
    body = received.json
    assert STAMP.fullmatch(body.pop("emitted_at"))
    assert body == {"provider": "claude", "payload": EVENT}
    assert hook.spooled() == []


def test_hook_posts_each_event_with_its_own_key_and_a_later_time(hook: Hook, accepting: Peer) -> None:
    hook(EVENT)
    hook(EVENT)
    first, second = accepting.received
    assert first.key != second.key
    assert first.json["emitted_at"] < second.json["emitted_at"]


@pytest.mark.parametrize(
    "response",
    [
        answer({}, 201),
        b"HTTP/1.1 204 No Content\r\nSM-Protocol: 1\r\n\r\n",
        error("usage", "no such event", 400),
        error("not_permitted", "no", 403),
        error("not_found", "no such route", 404),
        error("illegal_state", "it has ended", 409),
        error("protocol", "too new", 426),
        answer({"decision": "later"}),
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_hook_does_not_spool_when_daemon_responds(hook: Hook, peer: Peer, response: bytes) -> None:
    peer.script(HOOKS, response)
    hook(EVENT)
    assert len(peer.received) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "response",
    [
        HANG_UP,
        SILENCE,
        b"HTTP/1.1 2",
        b"no HTTP at all\r\n",
        error("bug", "a defect", 500),
        error("storage_full", "the disk is full", 507),
        error("daemon_unavailable", "it is just stopping", 503),
    ],
)
def test_hook_spools_event_under_the_same_key_when_daemon_fails(
    hook: Hook, peer: Peer, response: Answer
) -> None:
    peer.script(HOOKS, response)
    hook(EVENT)
    (received,) = peer.received
    (kept,) = hook.spooled()
    assert kept["key"] == received.key
    assert kept["body"] == received.json


def no_socket(path: Path) -> None:
    pass


def no_listener(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


@pytest.mark.parametrize("before", [no_socket, no_listener])
def test_hook_spools_event_when_daemon_is_away(
    hook: Hook, state: Path, before: Callable[[Path], None]
) -> None:
    before(state / "run" / "sm.sock")
    hook(EVENT)
    (kept,) = hook.spooled()
    assert re.fullmatch("[0-9a-f]{32}", kept.pop("key"))
    at = kept.pop("emitted_at")
    assert STAMP.fullmatch(at)
    body = {"provider": "claude", "emitted_at": at, "payload": EVENT}
    assert kept == {"token": "s3cret", "action": "hook", "body": body}
    (file,) = (state / "spool" / SESSION).iterdir()
    assert re.fullmatch(r"\d{1,20}-[0-9a-f]{1,32}\.json", file.name)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_hook_writes_nothing_when_the_socket_is_of_another_instance(hook: Hook, home: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "elsewhere/socket")
    before = sorted(home.rglob("*"))
    hook(EVENT)
    assert sorted(home.rglob("*")) == before


def test_hook_spools_event_in_the_home_directory_of_a_container_when_daemon_is_away(
    hook: Hook, home: Path
) -> None:
    hook.environ |= {"SM_SOCKET": str(home / "run/s"), "XDG_STATE_HOME": str(home / "elsewhere")}
    hook(EVENT)
    (report,) = (home / ".local/state/sm/spool" / SESSION).iterdir()
    assert json.loads(report.read_bytes())["body"]["payload"] == EVENT


def test_hook_sends_the_token_to_an_agent_socket(hook: Hook, home: Path, state: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    with Peer(hook.instance, hook.environ["SM_SOCKET"]) as peer:
        peer.script(HOOKS, answer({}))
        hook(EVENT)
        (state / "token").unlink()
        hook(EVENT)
    first, second = peer.received
    assert first.headers["authorization"] == "Bearer s3cret"
    assert first.json["payload"] == EVENT
    assert "authorization" not in second.headers


@pytest.mark.parametrize("status", [408, 429, 503])
def test_hook_spools_event_when_daemon_is_overloaded(hook: Hook, peer: Peer, status: int) -> None:
    peer.script(HOOKS, error("limit_reached", "too much", status))
    hook(EVENT)
    assert peer.received[0].headers["authorization"] == "Bearer s3cret"
    assert len(hook.spooled()) == 1


def test_hook_leaves_space_in_the_spool_for_reports(hook: Hook, run: Sm, state: Path) -> None:
    directory = state / "spool" / SESSION
    directory.mkdir(parents=True)
    (directory / "1-aa.json").write_bytes(b"x" * (HOOKS_MAX_BYTES - 100))
    hook(EVENT)
    assert [file.name for file in directory.iterdir()] == ["1-aa.json"]
    (state / "stopped").touch()
    run("complete", "Done")
    assert len(list(directory.iterdir())) == 2


def no_token(hook: Hook, state: Path) -> None:
    (state / "token").unlink()


def token_is_a_pipe(hook: Hook, state: Path) -> None:
    no_token(hook, state)
    os.mkfifo(state / "token")


def spool_is_a_file(hook: Hook, state: Path) -> None:
    (state / "spool").touch()


def identity_is_a_path(hook: Hook, state: Path) -> None:
    hook.environ["SM_SESSION_ID"] = "../etc"


def socket_is_a_file(hook: Hook, state: Path) -> None:
    (state / "run").mkdir()
    (state / "run" / "sm.sock").touch()
    no_token(hook, state)


def socket_is_too_long(hook: Hook, state: Path) -> None:
    hook.environ["SM_SOCKET"] = "/" + "x" * 200


@pytest.mark.parametrize(
    "wrong",
    [no_token, token_is_a_pipe, spool_is_a_file, identity_is_a_path, socket_is_a_file, socket_is_too_long],
)
def test_hook_drops_event_silently_when_spooling_is_impossible(
    hook: Hook, state: Path, wrong: Callable[[Hook, Path], None]
) -> None:
    wrong(hook, state)
    hook(EVENT)
    assert list(state.parent.rglob("*.json")) == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no JSON",
        b'{"hook_event_name": "Stop"',
        b'{"a": 1} {"b": 2}',
        b'["Stop"]',
        b"null",
        b"{}",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"x" * (2 << 20),
    ],
    ids=lambda raw: raw[:20].decode("latin-1"),
)
def test_hook_ignores_stdin_that_is_not_an_event(hook: Hook, accepting: Peer, raw: bytes) -> None:
    hook(raw)
    assert accepting.received == []
    assert hook.spooled() == []


@pytest.mark.parametrize("name", ["SM_SESSION_ID", "SM_SOCKET", "SM_TOKEN_FILE"])
@pytest.mark.parametrize("empty", [False, True])
def test_hook_does_nothing_outside_a_session(hook: Hook, accepting: Peer, name: str, empty: bool) -> None:
    del hook.environ[name]
    if empty:
        hook.environ[name] = ""
    assert hook.start(STOP).ended() == STOP, "stdin must not be read"
    assert accepting.received == []
    assert hook.spooled() == []


def test_hook_ignores_unknown_provider(hook: Hook, accepting: Peer) -> None:
    hook.provider = "nobody"
    assert hook.begin(b"{}").ended() == b"{}", "stdin must not be read"
    assert accepting.received == []


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_hook_reads_complete_event_when_stdin_stays_open(hook: Hook, accepting: Peer, end: bytes) -> None:
    hook.start(json.dumps(EVENT).encode() + end).ended()
    assert accepting.received[0].json["payload"] == EVENT
    assert "cut" not in accepting.received[0].json


def test_hook_times_out_when_stdin_is_silent(hook: Hook, accepting: Peer) -> None:
    hook.start(b"").ended()
    assert accepting.received == []


def test_hook_drops_incomplete_event_when_stdin_stays_open(hook: Hook, accepting: Peer) -> None:
    hook.start(b'{"session_id": "0b6f", "hook_event_name":"Stop","prompt": "All \\"do').ended()
    assert accepting.received == []
    assert hook.spooled() == []


def test_hook_keeps_known_fields_of_a_large_event(hook: Hook, accepting: Peer) -> None:
    long = "x" * 100_000
    large = EVENT | {
        "last_assistant_message": long,
        "prompt": long,
        "error": long,
        "tool_input": {"file_path": "/a", "content": long, "edits": [{"old": long, "n": 1}]},
        "tool_response": {"stdout": long},
        "stop_hook_active": False,
        "background_tasks": [{"id": "b1", "status": "running"}],
        "not_known": 1,
    }
    hook(large)
    body = accepting.received[0].json
    assert body["cut"] is True
    common = ("session_id", "transcript_path", "cwd", "hook_event_name", "permission_mode", "tool_name")
    assert body["payload"] == {name: EVENT[name] for name in common} | {
        "last_assistant_message": long[:4000],
        "prompt": long[:60_000],
        "error": long[:4096],
        "tool_input": {"file_path": "/a", "content": long[:2000], "edits": [{"old": long[:2000], "n": 1}]},
        "stop_hook_active": False,
        "background_tasks": [{"id": "b1", "status": "running"}],
    }


def test_hook_drops_a_field_with_too_many_parts(hook: Hook, accepting: Peer) -> None:
    hook(EVENT | {"tool_input": {"edits": ["line"] * 20_000}})
    payload = accepting.received[0].json["payload"]
    assert "tool_input" not in payload
    assert payload["tool_name"] == "Bash"


@pytest.mark.parametrize("depth", [98, 600, 5_000])
@pytest.mark.parametrize("text", [b"1", b'"\\u001b"', b'"' + 70_000 * b"x" + b'"'])
def test_hook_drops_fields_that_are_nested_too_deep(
    hook: Hook, accepting: Peer, depth: int, text: bytes
) -> None:
    deep = depth * b"[" + text + depth * b"]"
    hook(b'{"hook_event_name": "PreToolUse", "tool_name": "mcp__a__b", "tool_input": {"n": ' + deep + b"}}")
    (sent,) = accepting.received
    assert sent.json["payload"] == {"hook_event_name": "PreToolUse", "tool_name": "mcp__a__b"}
    assert sent.json["cut"] is True


@pytest.mark.parametrize(("text", "cut"), [(b"\\ud83d", True), (b"\\ud83d\\ude80", None), (b"\\u001b", None)])
def test_hook_marks_event_as_cut_when_a_lone_surrogate_is_replaced(
    hook: Hook, accepting: Peer, text: bytes, cut: bool | None
) -> None:
    hook(b'{"tool_input": {"command": "rm ' + text + b'"}}')
    (sent,) = accepting.received
    assert sent.json.get("cut") is cut


def test_hook_replaces_lone_surrogates(hook: Hook, accepting: Peer) -> None:
    hook(b'{"prompt": "cut \\ud83d", "tool_input": {"\\udc00": ["\\ud83d\\ude80", 1, null]}}')
    payload = {"prompt": "cut ?", "tool_input": {"?": ["\N{ROCKET}", 1, None]}}
    assert accepting.received[0].json["payload"] == payload


def test_hook_prints_help_and_refuses_missing_argument(run: Sm) -> None:
    assert "Usage: sm hook" in run("hook", "--help").out
    assert run("hook", "claude", "--help").out == run("hook", "--help").out
    assert "missing argument" in run("hook", code=2).err


@pytest.mark.parametrize(
    ("last", "value", "kept"),
    [
        ("tool_response", {"stdout": "x" * 5_000_000}, None),
        ("tool_input", {"content": "x" * 5_000_000}, {"content": "x" * 2000}),
        ("prompt", "a\n\N{ROCKET}" * 1_000_000, "a\n\N{ROCKET}" * 20_000),
        ("prompt", "\x01" * 1_000_000, "\x01" * 60_000),
        ("not_known", "x" * 5_000_000, None),
    ],
)
def test_hook_keeps_what_is_known_of_an_event_of_megabytes(
    hook: Hook, accepting: Peer, last: str, value: object, kept: object
) -> None:
    common = {"hook_event_name": "X", "cwd": "/work"}
    hook(json.dumps(common | {last: value}, ensure_ascii=False).encode())
    (received,) = accepting.received
    assert received.json["payload"] == common | ({last: kept} if kept else {})
    assert received.json["cut"] is True
    assert len(received.body) < 1 << 20
