"""`sm hook claude`: an event reaches the daemon or the spool, and the agent never notices that it was there."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sm.cli.hook.spool import HOOKS_MAX_BYTES
from sm.daemon.main import write_command
from sm.paths import Places
from tests.cli.conftest import SESSION, Sm
from tests.cli.peer import HANG_UP, SILENCE, Answer, Asked, Peer, answer, error
from tests.cli.test_startup import HEAVY
from tests.load import factor, scaled

HOOKS = "POST /v1/hooks"
EVENT: dict[str, Any] = {
    "session_id": "0b6f-uuid",
    "transcript_path": "/home/u/.claude/projects/x/0b6f.jsonl",
    "cwd": "/work",
    "hook_event_name": "PostToolUse",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_input": {"command": "printf 'h\N{LATIN SMALL LETTER E WITH ACUTE}llo' \N{ROCKET}"},
    "tool_response": {"stdout": "\x1b[31mred", "interrupted": False},
    "duration_ms": 31,
}
STOP = b'{"hook_event_name": "Stop"}'
SCALED = """
import sys
from sm.cli import main
from sm.cli.hook import emit

factor = float(sys.argv.pop(1))
for name in ("_STDIN_S", "_LARGE_STDIN_S", "_ANSWER_S", "_ANSWER_MIN_S", "_ALL_S"):
    setattr(emit, name, factor * getattr(emit, name))
main()
"""
"""The command, whose hook has more time."""
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Hook:
    """`sm hook claude` as an agent runs it, in the environment of a session."""

    starts_processes = True

    def __init__(self, run: Sm, state: Path) -> None:
        token = state / "token"
        token.write_text("s3cret\n")
        run.environ |= run.as_session(state) | {"SM_TOKEN_FILE": str(token)}
        del run.environ["SM_HOME"]
        self.environ = run.environ
        self.argv = run.argv("hook", "claude")
        self._spool = state / "spool"

    def scale_limits(self) -> None:
        """Give it as much more time as this machine is slower than an idle one."""
        self.argv = [sys.executable, "-c", SCALED, str(factor()), "hook", "claude"]

    def __call__(self, event: object) -> None:
        """Run it to its end: code 0 and no word."""
        raw = event if isinstance(event, bytes) else json.dumps(event, ensure_ascii=False).encode()
        self.ends_quietly(input=raw)

    def ends_quietly(self, argv: Sequence[str] = (), **options: Any) -> None:
        done = subprocess.run(
            argv or self.argv,
            capture_output=True,
            env=self.environ,
            check=True,
            timeout=scaled(60),
            **options,
        )
        assert done.stdout == done.stderr == b""

    def start(self, raw: bytes, *, end: bool = True, **more: Any) -> "Running":
        """Start it with `raw`, at most 64 KiB, in the pipe that is its stdin. Without `end` nobody closes that."""
        read, write = os.pipe()
        os.write(write, raw)
        if end:
            os.close(write)
        out = subprocess.PIPE
        process = subprocess.Popen(
            self.argv, env=self.environ, stdin=read, stdout=out, stderr=subprocess.STDOUT, **more
        )
        return Running(process, read, None if end else write)

    def spooled(self) -> list[Any]:
        """What lies in the spool, whole or not, in the order of the names."""
        return [json.loads(file.read_bytes()) for file in sorted(self._spool.glob("*/[!.]*"))]


@dataclass(frozen=True)
class Running:
    """A hook that may not have ended yet, with the two ends of its stdin."""

    process: "subprocess.Popen[bytes]"
    read: int
    write: int | None

    def ended(self) -> bytes:
        """Wait until it has ended with 0 and without a word; what it has not read."""
        out, _ = self.process.communicate(timeout=scaled(30))
        assert (self.process.returncode, out) == (0, b"")
        os.set_blocking(self.read, False)
        try:
            left = os.read(self.read, 65536)
        except BlockingIOError:
            left = b""
        os.close(self.read)
        if self.write is not None:
            os.close(self.write)
        return left


@pytest.fixture
def taken(peer: Peer, hook: Hook) -> Peer:
    """A daemon that takes events, and a hook that has the time to hand them over."""
    hook.scale_limits()
    peer.script(HOOKS, answer({}))
    return peer


def test_an_event_is_posted_as_it_came(hook: Hook, taken: Peer) -> None:
    hook(EVENT)
    (asked,) = taken.asked
    assert asked.headers["sm-protocol"] == "1"
    assert asked.headers["content-type"] == "application/json"
    assert re.fullmatch("[0-9a-f]{32}", asked.headers["idempotency-key"])
    body = asked.json
    assert STAMP.fullmatch(body.pop("emitted_at"))
    assert body == {"provider": "claude", "payload": EVENT}
    assert hook.spooled() == []


def test_two_events_have_two_keys_and_the_order_of_their_times(hook: Hook, taken: Peer) -> None:
    hook(EVENT)
    hook(EVENT)
    first, second = taken.asked
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]
    assert first.json["emitted_at"] < second.json["emitted_at"]


@pytest.mark.parametrize(
    "said",
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
def test_what_the_daemon_has_answered_is_final(hook: Hook, peer: Peer, said: bytes) -> None:
    peer.script(HOOKS, said)
    hook(EVENT)
    assert len(peer.asked) == 1
    assert hook.spooled() == []


@pytest.mark.parametrize(
    "said",
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
def test_an_event_that_the_daemon_did_not_take_is_spooled_under_its_key(
    hook: Hook, peer: Peer, said: Answer
) -> None:
    peer.script(HOOKS, said)
    hook(EVENT)
    (asked,) = peer.asked
    (kept,) = hook.spooled()
    assert kept["key"] == asked.headers["idempotency-key"]
    assert kept["body"] == asked.json


def no_socket(path: Path) -> None:
    pass


def no_listener(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


@pytest.mark.parametrize("before", [no_socket, no_listener])
def test_an_event_is_spooled_while_the_daemon_is_away(
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


def test_a_daemon_that_is_too_busy_to_let_anybody_in_is_not_waited_for_for_ever(
    hook: Hook, state: Path
) -> None:
    path = str(state / "run" / "sm.sock")
    os.mkdir(state / "run")
    with socket.socket(socket.AF_UNIX) as busy, contextlib.ExitStack() as waiting:
        busy.bind(path)
        busy.listen(0)
        with contextlib.suppress(BlockingIOError):  # when no more fit
            while True:
                one = waiting.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(path)
        hook(EVENT)
    assert len(hook.spooled()) == 1


def test_without_the_directory_of_the_state_nothing_is_spooled_elsewhere(hook: Hook, home: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    before = sorted(home.rglob("*"))
    hook(EVENT)
    assert sorted(home.rglob("*")) == before


def test_an_agent_socket_is_shown_the_token(hook: Hook, home: Path, state: Path) -> None:
    hook.environ["SM_SOCKET"] = str(home / "state/run/w/0123/s")
    with Peer(hook.environ["SM_SOCKET"]) as peer:
        peer.script(HOOKS, answer({}))
        hook(EVENT)
        (state / "token").unlink()
        hook(EVENT)
    first, second = peer.asked
    assert first.headers["authorization"] == "Bearer s3cret"
    assert first.json["payload"] == EVENT
    assert "authorization" not in second.headers


@pytest.mark.parametrize("status", [408, 429, 503])
def test_an_event_that_the_daemon_had_no_room_for_is_spooled(hook: Hook, peer: Peer, status: int) -> None:
    peer.script(HOOKS, error("limit_reached", "too much", status))
    hook(EVENT)
    assert "authorization" not in peer.asked[0].headers
    assert len(hook.spooled()) == 1


def test_hooks_leave_room_in_the_spool_for_what_the_session_reports(hook: Hook, run: Sm, state: Path) -> None:
    directory = state / "spool" / SESSION
    directory.mkdir(parents=True)
    (directory / "1-aa.json").write_bytes(b"x" * (HOOKS_MAX_BYTES - 100))
    hook(EVENT)
    assert [file.name for file in directory.iterdir()] == ["1-aa.json"]
    (state / "stopped").touch()
    run("complete", "Done")
    assert len(list(directory.iterdir())) == 2


def test_many_hooks_at_once_all_leave_their_events(hook: Hook) -> None:
    events = [json.dumps({"hook_event_name": "Stop", "cwd": str(number)}).encode() for number in range(8)]
    for running in [hook.start(event) for event in events]:
        running.ended()
    assert {kept["body"]["payload"]["cwd"] for kept in hook.spooled()} == set("01234567")


# What may go wrong


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
def test_an_event_that_cannot_be_kept_is_lost_without_a_word(
    hook: Hook, state: Path, wrong: Callable[[Hook, Path], None]
) -> None:
    wrong(hook, state)
    hook(EVENT)
    assert list(state.parent.rglob("*.json")) == []


def test_on_a_full_disk_nothing_is_left_half(hook: Hook, state: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    hook.start(STOP, preexec_fn=full).ended()
    assert list(state.glob("spool/*/*")) == []


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
def test_what_is_no_event_is_posted_nowhere(hook: Hook, taken: Peer, raw: bytes) -> None:
    hook(raw)
    assert taken.asked == []
    assert hook.spooled() == []


@pytest.mark.parametrize("closed", ["<&-", ">&- 2>&-", "<&- >&- 2>&-", "</dev/null >/dev/full 2>&1"])
def test_closed_descriptors_are_no_error(hook: Hook, taken: Peer, closed: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *hook.argv]
    hook.ends_quietly(shell, input=STOP)
    assert len(taken.asked) == (0 if "<" in closed else 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_a_signal_does_not_lose_the_event(hook: Hook, peer: Peer, number: signal.Signals) -> None:
    peer.script(HOOKS, SILENCE)
    running = hook.start(STOP)
    peer.wait_asked(1)
    running.process.send_signal(number)
    running.ended()
    assert len(hook.spooled()) == 1


@pytest.mark.parametrize("name", ["SM_SESSION_ID", "SM_SOCKET", "SM_TOKEN_FILE"])
@pytest.mark.parametrize("empty", [False, True])
def test_outside_a_session_nothing_is_done_nor_waited_for(
    hook: Hook, taken: Peer, name: str, empty: bool
) -> None:
    del hook.environ[name]
    if empty:
        hook.environ[name] = ""
    assert hook.start(STOP, end=False).ended() == STOP, "not even read"
    assert taken.asked == []
    assert hook.spooled() == []


def test_a_provider_that_nobody_knows_is_silence(hook: Hook, taken: Peer, run: Sm) -> None:
    assert run("hook", "nobody", stdin=b"{}").err == ""
    assert taken.asked == []


# stdin


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_event_is_taken_though_stdin_never_ends(hook: Hook, taken: Peer, end: bytes) -> None:
    hook.start(json.dumps(EVENT).encode() + end, end=False).ended()
    assert taken.asked[0].json["payload"] == EVENT
    assert "cut" not in taken.asked[0].json


def test_a_stdin_that_says_nothing_is_not_waited_for_for_ever(hook: Hook, taken: Peer) -> None:
    hook.start(b"", end=False).ended()
    assert taken.asked == []


def test_incomplete_event_is_dropped_when_stdin_never_ends(hook: Hook, taken: Peer) -> None:
    hook.start(b'{"session_id": "0b6f", "hook_event_name":"Stop","prompt": "All \\"do', end=False).ended()
    assert taken.asked == []
    assert hook.spooled() == []


def test_a_writer_without_end_is_not_read_for_ever(hook: Hook, taken: Peer) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as yes:
        hook.ends_quietly(stdin=yes.stdout)
        yes.kill()
    assert taken.asked == []


# Large events


def test_of_a_large_event_what_means_something_is_kept(hook: Hook, taken: Peer) -> None:
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
    body = taken.asked[0].json
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


def test_what_is_large_in_many_small_parts_is_left_out(hook: Hook, taken: Peer) -> None:
    hook(EVENT | {"tool_input": {"edits": ["line"] * 20_000}})
    payload = taken.asked[0].json["payload"]
    assert "tool_input" not in payload
    assert payload["tool_name"] == "Bash"


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
def test_an_agent_can_write_an_event_of_megabytes_to_its_end(
    hook: Hook, taken: Peer, tmp_path: Path, last: str, value: object, kept: object
) -> None:
    common = {"hook_event_name": "X", "cwd": "/work"}
    event = tmp_path / "event"
    event.write_bytes(json.dumps(common | {last: value}, ensure_ascii=False).encode())
    with subprocess.Popen(["cat", event], stdout=subprocess.PIPE) as agent:
        hook.ends_quietly(stdin=agent.stdout)
        assert agent.stdout is not None
        agent.stdout.close()
        assert agent.wait() == 0, "SIGPIPE ends it when not all is read"
    (asked,) = taken.asked
    assert asked.json["payload"] == common | ({last: kept} if kept else {})
    assert asked.json["cut"] is True
    assert len(asked.body) < 1 << 20


@pytest.mark.parametrize("depth", [98, 600, 5_000])
@pytest.mark.parametrize("text", [b"1", b'"\\u001b"', b'"' + 70_000 * b"x" + b'"'])
def test_of_an_event_that_is_too_deep_for_the_daemon_the_rest_is_told(
    hook: Hook, taken: Peer, depth: int, text: bytes
) -> None:
    deep = depth * b"[" + text + depth * b"]"
    hook(b'{"hook_event_name": "PreToolUse", "tool_name": "mcp__a__b", "tool_input": {"n": ' + deep + b"}}")
    (sent,) = taken.asked
    assert sent.json["payload"] == {"hook_event_name": "PreToolUse", "tool_name": "mcp__a__b"}
    assert sent.json["cut"] is True


@pytest.mark.parametrize(("text", "cut"), [(b"\\ud83d", True), (b"\\ud83d\\ude80", None), (b"\\u001b", None)])
def test_an_event_of_which_half_a_character_was_replaced_is_not_whole(
    hook: Hook, taken: Peer, text: bytes, cut: bool | None
) -> None:
    hook(b'{"tool_input": {"command": "rm ' + text + b'"}}')
    (sent,) = taken.asked
    assert sent.json.get("cut") is cut


def test_half_a_character_is_replaced_for_the_daemon_would_refuse_it(hook: Hook, taken: Peer) -> None:
    hook(b'{"prompt": "cut \\ud83d", "tool_input": {"\\udc00": ["\\ud83d\\ude80", 1, null]}}')
    payload = {"prompt": "cut ?", "tool_input": {"?": ["\N{ROCKET}", 1, None]}}
    assert taken.asked[0].json["payload"] == payload


# What the agent must not notice


def test_inherited_pipes_are_closed_before_anything_is_waited_for(hook: Hook, peer: Peer) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    seen: list[bytes] = []

    def look(_: Asked) -> bytes:
        seen.append(os.read(read, 1))  # raises BlockingIOError while somebody holds the other end
        return answer({})

    peer.script(HOOKS, look)
    running = hook.start(STOP, pass_fds=[write])
    os.close(write)
    running.ended()
    os.close(read)
    assert seen == [b""]


@pytest.fixture
def own_command(state: Path) -> str:
    """`state/bin/sm`, the command that agents have."""
    place = Places(str(state / "config.yaml"), str(state))
    os.mkdir(place.bin)
    write_command(place)
    return f"{place.bin}/sm"


def check_modules(import_times: bytes, *more: str) -> None:
    """A hook loads C modules, and these of sm."""
    names = {line.rpartition("|")[2].strip() for line in import_times.decode().splitlines()}
    assert {name for name in names if name.partition(".")[0] == "sm"} == {
        *("sm", "sm.cli", "sm.cli.hook", "sm.cli.hook.emit", "sm.cli.hook.formats", "sm.cli.hook.transport"),
        *("sm.client", "sm.client.connection", "sm.wire", *more),
    }
    assert not names & (
        HEAVY | {"click", "typing", "re", "enum", "os", "collections", "contextlib", "datetime"}
    )


def test_a_hook_loads_c_modules_only(hook: Hook, taken: Peer, own_command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-IS", "-X", "importtime", own_command, "hook", "claude"],
        input=json.dumps(EVENT).encode(),
        capture_output=True,
        env=hook.environ,
        check=True,
    )
    assert len(taken.asked) == 1
    check_modules(done.stderr)


def test_the_command_that_agents_have_hands_events_over(hook: Hook, taken: Peer, own_command: str) -> None:
    hook.argv = [own_command, "hook", "claude"]
    hook.start(json.dumps(EVENT).encode()).ended()
    assert taken.asked[0].json["payload"] == EVENT


def test_help_is_for_whoever_asks(run: Sm) -> None:
    assert "Usage: sm hook" in run("hook", "--help").out
    assert run("hook", "claude", "--help").out == run("hook", "--help").out
    assert "missing argument" in run("hook", code=2).err
