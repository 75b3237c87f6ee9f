"""The process `sm mcp` against a scripted daemon: its streams, memory, connections and signals."""

import json
import os
import select
import signal
import socket
import subprocess
from pathlib import Path

from tests.cli.conftest import SESSION, Sm
from tests.cli.mcp.client import (
    ROUTE,
    PumpClient,
    by_method,
    echo,
    notification,
    request,
    response,
)
from tests.cli.peer import SILENCE, Peer, answer
from tests.cli.test_startup import FOREIGN, HEAVY, loaded
from tests.waits import until

PING = request("ping", 7)


def test_request_is_posted_as_it_is_and_its_answer_printed(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, echo)
    pump.write(b'  {"id":"\xc3\xa4", "jsonrpc": "2.0","method":"x/y","params":{"a":"\xf0\x9f\x9a\x80"}}\r\n')
    assert pump.read() == {"jsonrpc": "2.0", "id": "ä", "result": {"a": "🚀"}}
    (received,) = peer.received
    assert (
        received.body
        == b'{"id":"\xc3\xa4", "jsonrpc": "2.0","method":"x/y","params":{"a":"\xf0\x9f\x9a\x80"}}'
    )
    assert received.headers["authorization"] == "Bearer " + "0" * 64
    assert len(received.headers["mcp-client"]) >= 16
    assert "idempotency-key" not in received.headers
    assert pump.end() == (0, "")


def test_cancelled_call_is_cancelled_at_the_daemon_and_prints_nothing(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, by_method({"tools/call": SILENCE}))
    for number in (1, "1", 2):
        pump.call("wait_for_sessions", number)
    peer.wait_received(3)
    cancelled = notification("notifications/cancelled", requestId="1", reason="escape")
    pump.send(cancelled)
    pump.send(notification("notifications/cancelled", requestId=99))
    pump.send(notification("notifications/cancelled", requestId=[1]))
    pump.send(notification("notifications/cancelled"))
    peer.wait_received(7)
    assert sum(received.json == cancelled for received in peer.received) == 1
    until(lambda: _connections(pump) == 2, "the connection of the cancelled call to close")


def _connections(pump: PumpClient) -> int:
    folder = f"/proc/{pump.process.pid}/fd"
    return sum(os.readlink(f"{folder}/{name}").startswith("socket:") for name in os.listdir(folder))


def test_messages_before_the_end_of_stdin_are_answered(run: Sm, peer: Peer, state: Path) -> None:
    peer.script(ROUTE, echo)
    lines = b"".join(json.dumps(request("ping", number)).encode() + b"\n" for number in range(30))
    done = run("mcp", stdin=lines + b'{"jsonrpc": "2.0", "id": 99, "me', environ=run.as_session(state))
    assert {json.loads(line)["id"] for line in done.out.splitlines()} == set(range(30))


def test_pump_ends_when_nobody_can_read_its_answers(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, echo)
    assert pump.process.stdout is not None
    pump.process.stdout.close()
    pump.send(PING)
    assert pump.process.wait() == 0


def test_line_without_an_end_is_not_kept(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, echo)
    pump.send(PING)
    pump.read()
    before = _memory(pump)
    for _ in range(40):
        pump.write(b"x" * 1_000_000)
    assert _memory(pump) - before < 20_000_000
    pump.write(b"\n")
    assert pump.read()["error"]["code"] == -32600


def _memory(pump: PumpClient) -> int:
    with open(f"/proc/{pump.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_pump_reads_no_further_while_nobody_reads_stdout(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, lambda received: answer(response(received.json, "x" * 100_000)))
    assert pump.process.stdin is not None
    os.set_blocking(pump.process.stdin.fileno(), False)
    line, sent = json.dumps(PING).encode() + b"\n", 0
    poll = select.poll()
    poll.register(pump.process.stdin.fileno(), select.POLLOUT)
    while poll.poll(3000):  # until the pump has taken nothing for a while
        sent += os.write(pump.process.stdin.fileno(), line * 60)
    assert len(peer.received) <= 64
    assert _memory(pump) < 60_000_000
    os.set_blocking(pump.process.stdin.fileno(), True)
    pump.close_stdin()
    assert pump.process.wait() == 0


def test_stdin_and_stdout_may_be_one_non_blocking_socket(peer: Peer, run: Sm, state: Path) -> None:
    peer.script(ROUTE, lambda received: answer(response(received.json, "x" * 3_000_000)))
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with (
        ours,
        subprocess.Popen(
            run.argv("mcp"),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            env=run.environ | run.as_session(state),
        ) as process,
    ):
        theirs.close()
        ours.settimeout(None)
        ours.sendall(json.dumps(PING).encode() + b"\n")
        with ours.makefile("rb") as answers:
            assert len(json.loads(answers.readline())["result"]) == 3_000_000
        ours.shutdown(socket.SHUT_WR)
        assert process.wait() == 0


def test_signal_ends_the_pump(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, echo)
    pump.send(PING)
    pump.read()
    pump.process.send_signal(signal.SIGTERM)
    assert pump.process.wait() == -signal.SIGTERM


def test_pump_of_a_session_without_its_variables_serves_the_session(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/me", answer({"session_id": SESSION}))
    peer.script(ROUTE, echo)
    done = run("mcp", stdin=json.dumps(PING).encode() + b"\n")
    assert json.loads(done.out)["id"] == 7


def test_operator_option_serves_outside_a_session(run: Sm, peer: Peer) -> None:
    peer.script(ROUTE, echo)
    done = run("mcp", "--operator", stdin=json.dumps(PING).encode() + b"\n")
    assert json.loads(done.out)["id"] == 7
    assert "authorization" not in peer.received[0].headers


def test_pump_never_starts_a_daemon(run: Sm, state: Path) -> None:
    done = run("mcp", code=7)
    assert done.out == ""
    assert not (state / "sm.db").exists()


def test_pump_loads_only_c_modules_and_its_own(run: Sm, peer: Peer) -> None:
    modules = loaded("import sm.cli.mcp.pump", run.environ) - loaded("", run.environ)
    assert not modules & (HEAVY | FOREIGN)
    assert {name for name in modules if not name.startswith("sm")} == {"_json", "_socket", "select"}
