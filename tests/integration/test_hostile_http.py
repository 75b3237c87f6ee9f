"""Hostile HTTP clients on both sockets: malformed, oversized and slow requests do not block other callers."""

import json
import os
import random
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.instance import Instance, until
from tests.load import Limit, scaled
from tests.raw_http import connected, exchange, parse_error, parse_response, read_to_end, request
from tests.team import Team

MIB = 1024 * 1024
SHORT_TIMEOUT_DAEMON = str(Path(__file__).with_name("short_timeout_daemon.py"))
SOCKETS = ("sm.sock", "agent")


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    team = Team()
    yield team
    check_log(team)
    team.end()


@pytest.fixture(scope="module")
def short_timeout() -> Iterator[Team]:
    """A team whose daemon closes slow connections after one second."""

    def start(instance: Instance) -> None:
        path = os.pathsep.join([str(Path(SHORT_TIMEOUT_DAEMON).parents[2]), *sys.path])
        instance.run_daemon(sys.executable, SHORT_TIMEOUT_DAEMON, env={"PYTHONPATH": path})

    team = Team(start)
    yield team
    check_log(team)
    team.end()


def check_log(team: Team) -> None:
    log = team.log()
    assert "raceback" not in log, log[-5000:]
    assert "sm_bug" not in log


def path_of(team: Team, where: str) -> str:
    return str(team.instance.socket) if where == "sm.sock" else team.socket("shop")


def credentials(team: Team, where: str, name: str = "parent") -> list[str]:
    return [] if where == "sm.sock" else [f"Authorization: Bearer {team.token(name)}"]


def check_other_callers(team: Team) -> None:
    """Check that other callers get answers on each socket."""
    for path, headers in (
        (str(team.instance.socket), []),
        (team.socket("shop"), credentials(team, "agent", "sibling")),
        (team.socket("bank"), credentials(team, "agent", "banker")),
    ):
        status, _ = parse_response(exchange(path, request("GET /v1/health HTTP/1.1", *headers)))
        assert status == 200, path


# No HTTP

HEAD = b"GET /v1/health HTTP/1.1\r\nHost: sm\r\n"
POST = b"POST /v1/messages HTTP/1.1\r\nHost: sm\r\n"
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "empty lines": b"\r\n\r\n\r\n",
    "NUL": b"\0" * 1000,
    "random": random.Random(1).randbytes(10_000),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 500,
    "HTTP/0.9": b"GET /v1/health\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": b"GET /v1/health HTTP/9.9\r\n\r\n",
    "no host": b"GET /v1/health HTTP/1.1\r\n\r\n",
    "no path": b"GET  HTTP/1.1\r\n\r\n",
    "no method": b" /v1/health HTTP/1.1\r\n\r\n",
    "strange method": b"B\xc3\xb6se /v1/health HTTP/1.1\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n\r\n",
    "connect": b"CONNECT sm:80 HTTP/1.1\r\nHost: sm\r\n\r\n" + b"\0" * 100_000,
    "upgrade": HEAD + b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n" + b"\x81\x05hello" * 1000,
    "absolute": b"GET http://[::/v1/health HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n\r\n",
    "port": b"GET http://sm:99999999/ HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n\r\n",
    "path in latin-1": b"GET /v1/sessions/\xff\xfe\xfd HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n\r\n",
    "percent": b"GET /v1/sessions/%00%ff%zz/..%2f..%2fetc HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n\r\n",
    "query in latin-1": b"GET /v1/sessions?status=\xff&search=%ff%00 HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n\r\n",
    "huge number in the query": b"GET /v1/events?since="
    + b"9" * 7000
    + b" HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n\r\n",
    "huge path": b"GET /" + b"x" * MIB + b" HTTP/1.1\r\n\r\n",
    "header bomb": HEAD + b"X: y\r\n" * 100_000,
    "huge header": HEAD + b"X: " + b"y" * MIB + b"\r\n\r\n",
    "endless header": HEAD + b"X: " + b"y" * 100_000,
    "header with NUL": HEAD + b"X: a\0b\r\nConnection: close\r\n\r\n",
    "header without colon": HEAD + b"nonsense\r\nConnection: close\r\n\r\n",
    "folded header": HEAD + b"X: a\r\n b\r\nConnection: close\r\n\r\n",
    "bare LF": b"GET /v1/health HTTP/1.1\nHost: sm\nConnection: close\n\n",
    "protocol in latin-1": HEAD + b"SM-Protocol: \xff\r\nConnection: close\r\n\r\n",
    "huge protocol number": HEAD + b"SM-Protocol: " + b"9" * 5000 + b"\r\nConnection: close\r\n\r\n",
    "superscript protocol number": HEAD + "SM-Protocol: ²\r\nConnection: close\r\n\r\n".encode(),
    "key in latin-1": POST + b"Idempotency-Key: \xff\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "expectation": POST + b"Expect: wonders\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "negative length": POST + b"Content-Length: -5\r\n\r\n",
    "length in words": POST + b"Content-Length: five\r\n\r\n",
    "huge length": POST + b"Content-Length: " + b"9" * 1000 + b"\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "length above the body size": POST + b"Content-Length: 1000\r\n\r\n{",
    "length below the body size": POST + b"Content-Length: 1\r\n\r\n{}garbage\r\n\r\n",
    "invalid chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "negative chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n",
    "huge chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 1000 + b"\r\n{}\r\n",
    "chunk longer than its size": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}{}{}\r\n0\r\n\r\n",
    "half a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "strange encoding": POST + b"Transfer-Encoding: gzip\r\nConnection: close\r\n\r\n{}",
    "compressed": POST
    + b"Content-Encoding: gzip\r\nContent-Length: 4\r\nConnection: close\r\n\r\n\x1f\x8b\x08\x00",
    "unknown compression": POST + b"Content-Encoding: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "pipelined garbage": HEAD + b"\r\n" + b"\0\1\2\3" * 100,
    "1000 pipelined requests": (HEAD + b"\r\n") * 1000 + b"nonsense\r\n\r\n",
}


UNFINISHED = {"empty", "empty lines", "length above the body size", "half a chunk"}
"""Requests that may still continue, so that the daemon waits for the rest."""


@pytest.mark.parametrize("where", SOCKETS)
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_http_is_refused_and_other_callers_get_answers(team: Team, name: str, where: str) -> None:
    sent = MALFORMED[name]
    if where == "agent":  # with a valid token, so that the request is parsed further
        sent = sent.replace(
            b"\r\nHost: sm\r\n", f"\r\nHost: sm\r\n{credentials(team, where)[0]}\r\n".encode()
        )
    answer = exchange(path_of(team, where), sent, silence_s=0.5)
    statuses = {int(status) for status in re.findall(rb"HTTP/1\.1 (\d\d\d) ", answer)}
    assert all(status < 500 for status in statuses), answer[:500]
    assert answer or name in UNFINISHED
    assert statuses <= {100, 200, 400, 401, 404, 405, 413, 417, 426, 431}, answer[:500]
    check_other_callers(team)


BODIES: dict[str, bytes] = {
    "empty": b"",
    "truncated": b'{"to": ',
    "a list": b"[]",
    "a number": b"1e999",
    "not UTF-8": b"\xff\xfe\x00",
    "UTF-16": '{"to": "x"}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "NUL": b"\0" * 100,
    "lone surrogate": b'{"to": "\\ud800", "text": "x"}',
    "deep": b'{"to":' * 100_000,
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "NaN": b'{"to": NaN}',
    "long number": b'{"ttl_s": ' + b"9" * 100_000 + b"}",
    "many keys": b"{" + b",".join(b'"%d": 1' % n for n in range(100_000)) + b"}",
    "duplicate key": b'{"to": "x", "to": 5, "text": "x"}',
    "controls": b'{"to": "\\u0000\\u001b[31m\\u202e", "text": "\\u0000"}',
}


@pytest.mark.parametrize("where", SOCKETS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_malformed_body_is_refused_with_an_error(team: Team, body: bytes, where: str) -> None:
    for path in ("/v1/messages", "/v1/sessions", "/v1/hooks", "/v1/wait", "/v1/requests"):
        sent = request(f"POST {path} HTTP/1.1", *credentials(team, where), body=body)
        status, code = parse_error(exchange(path_of(team, where), sent))
        assert status in (400, 403, 404), code


# Too much


def peak_kib(team: Team) -> int:
    status = Path(f"/proc/{team.instance.daemon_pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


@pytest.mark.parametrize("how", ["announced", "in chunks"])
@pytest.mark.parametrize("where", SOCKETS)
def test_body_of_100_mb_is_refused_and_not_kept_in_memory(team: Team, where: str, how: str) -> None:
    before = peak_kib(team)
    if how == "announced":
        sent = request(
            "POST /v1/sessions HTTP/1.1", *credentials(team, where), f"Content-Length: {100 * MIB}"
        )
        sent += b"x" * (100 * MIB)
    else:
        sent = request("POST /v1/sessions HTTP/1.1", *credentials(team, where), "Transfer-Encoding: chunked")
        sent += b"100000\r\n%b\r\n" % (b"x" * MIB) * 100
    status, code = parse_error(exchange(path_of(team, where), sent))
    assert (status in (413, 429), code) == (True, "limit_reached")
    assert peak_kib(team) - before < 30 * 1024
    check_other_callers(team)


def test_bodies_in_transfer_on_an_agent_socket_have_a_common_limit(team: Team) -> None:
    path, half = team.socket("shop"), b"x" * (MIB + MIB // 2)
    with ExitStack() as stack:
        for name in ("parent", "child"):
            head = request(
                "POST /v1/messages HTTP/1.1", *credentials(team, "agent", name), f"Content-Length: {2 * MIB}"
            )
            connection = stack.enter_context(connected(path))
            connection.sendall(head + half)
        third = request("POST /v1/messages HTTP/1.1", *credentials(team, "agent", "sibling"), body=half)

        def refused() -> bool:  # as soon as the daemon has read the other bodies
            status, code = parse_error(exchange(path, third))
            return (status, code) == (429, "limit_reached")

        until(refused, "the third body is refused")
        check_other_callers(team)
        elsewhere = request("POST /v1/messages HTTP/1.1", *credentials(team, "agent", "banker"), body=half)
        assert parse_error(exchange(team.socket("bank"), elsewhere)) == (400, "usage")
        assert (
            parse_error(exchange(str(team.instance.socket), request("POST /v1/x HTTP/1.1", body=half)))[0]
            == 404
        )
    until(lambda: parse_error(exchange(path, third)) == (400, "usage"), "closed connections are not counted")


def test_body_of_a_waiting_request_does_not_count_against_the_limit(team: Team) -> None:
    path = team.socket("shop")
    padded = json.dumps({"wait_s": 20, "x": "x" * (3 * MIB)}).encode()
    two = b"x" * (2 * MIB)
    with ExitStack() as stack:
        for name in ("parent", "child"):
            taking = request("POST /v1/inbox/take HTTP/1.1", *credentials(team, "agent", name), body=padded)
            stack.enter_context(connected(path)).sendall(taking)
        third = request("POST /v1/messages HTTP/1.1", *credentials(team, "agent", "sibling"), body=two)
        until(lambda: parse_error(exchange(path, third)) == (400, "usage"), "a third body is accepted")
        check_other_callers(team)


def test_daemon_socket_answers_while_1000_connections_are_open(team: Team) -> None:
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connected(str(team.instance.socket)))
        check_other_callers(team)
    check_other_callers(team)


def test_agent_socket_accepts_64_connections_and_refuses_the_next(team: Team) -> None:
    path = team.socket("shop")
    with ExitStack() as stack:
        first = [stack.enter_context(connected(path)) for _ in range(64)]
        for number in range(936):
            answer = exchange(path, b"") if number % 100 == 0 else b""
            if answer:
                status, code = parse_error(answer)
                assert (status, code) == (503, "limit_reached")
            else:
                stack.enter_context(connected(path))
        error = team.instance.refused("me", exit_code=6, env=team.environment("parent"))
        assert "64 connections" in error
        first[0].sendall(request("GET /v1/me HTTP/1.1", *credentials(team, "agent"), close=False))
        assert team.ids["parent"] in first[0].recv(65536).decode()
        assert team.instance.session(team.ids["parent"])["session_id"] == team.ids["parent"]
        banker = request("GET /v1/me HTTP/1.1", *credentials(team, "agent", "banker"))
        assert parse_response(exchange(team.socket("bank"), banker))[0] == 200
    until(
        lambda: parse_error(exchange(path, request("GET /v1/me HTTP/1.1"))) == (401, "unauthenticated"),
        "there is room again",
    )


def test_agent_socket_accepts_32_followers_and_still_answers_other_requests(team: Team) -> None:
    path = team.socket("shop")
    stream = request("GET /v1/events/stream HTTP/1.1", *credentials(team, "agent"))
    wait = json.dumps({"sessions": [team.ids["child"]], "wait_s": 25}).encode()
    held = request("POST /v1/wait HTTP/1.1", *credentials(team, "agent"), body=wait)

    def refused(connection: socket.socket, sent: bytes) -> bytes | None:
        connection.settimeout(scaled(0.2))
        connection.sendall(sent)
        try:
            answer = connection.recv(65536)
        except TimeoutError:
            return None
        return answer if b" 429 " in answer.partition(b"\r\n")[0] else None

    with ExitStack() as stack:
        for number in range(32):
            follower = stack.enter_context(connected(path))
            follower.sendall(held if number % 2 else stream)

        # Followers of an earlier test may still be closing. A connection that is not refused replaces one of them.
        for sent in (stream, held):
            answer = until(lambda s=sent: refused(stack.enter_context(connected(path)), s), "one is too many")  # type: ignore[misc]  # a default binds the loop's value
            assert parse_error(answer) == (429, "limit_reached")
            assert b"32 clients already follow events or wait" in answer
        check_other_callers(team)
        at_once = json.dumps({"sessions": [team.ids["child"]]}).encode()  # does not wait
        sent = request("POST /v1/wait HTTP/1.1", *credentials(team, "agent"), body=at_once)
        assert parse_response(exchange(path, sent))[0] == 200
    with ExitStack() as stack:
        until(
            lambda: refused(stack.enter_context(connected(path)), stream) is None,
            "closed followers are not counted",
        )


# Too slowly


@pytest.mark.parametrize("where", SOCKETS)
def test_connection_is_closed_with_408_when_the_body_does_not_arrive(short_timeout: Team, where: str) -> None:
    head = request(
        "POST /v1/messages HTTP/1.1", *credentials(short_timeout, where), "Content-Length: 10000", close=False
    )
    with connected(path_of(short_timeout, where)) as dribbling:
        dribbling.sendall(head)
        dribbling.settimeout(0.1)
        answer, limit = b"", Limit()
        while not answer and not limit.is_over:
            dribbling.sendall(b" ")
            try:
                answer = dribbling.recv(65536)
            except TimeoutError:
                continue
        dribbling.settimeout(scaled())
        status, code = parse_error(answer)
        assert (status, code) == (408, "not_in_time")
        assert read_to_end(dribbling) == b""
    check_other_callers(short_timeout)


@pytest.mark.parametrize("where", SOCKETS)
@pytest.mark.parametrize("sent", [b"", b"GET /v1/hea", HEAD, POST + b"Content-Le"], ids=range(4))
def test_connection_is_closed_when_the_request_head_is_incomplete(
    short_timeout: Team, where: str, sent: bytes
) -> None:
    with connected(path_of(short_timeout, where)) as slow:
        slow.sendall(sent)
        assert read_to_end(slow) == b""


@pytest.mark.parametrize("where", SOCKETS)
def test_connection_is_closed_when_its_second_request_head_arrives_too_slowly(
    short_timeout: Team, where: str
) -> None:
    with connected(path_of(short_timeout, where)) as slow:
        slow.sendall(request("GET /v1/health HTTP/1.1", *credentials(short_timeout, where), close=False))
        assert b" 200 " in slow.recv(65536)
        limit = Limit()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012 - the loop ends with the exception
            while not limit.is_over:
                slow.sendall(b"X")
                time.sleep(0.05)  # the slow rate is the case under test


@pytest.mark.parametrize("where", SOCKETS)
def test_connection_is_closed_when_the_client_does_not_read_the_answers(
    short_timeout: Team, where: str
) -> None:
    events = request("GET /v1/events?limit=10000 HTTP/1.1", *credentials(short_timeout, where), close=False)
    with connected(path_of(short_timeout, where)) as deaf:
        deaf.settimeout(0.5)
        limit = Limit()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012 - the loop ends with the exception
            while not limit.is_over:
                try:
                    deaf.sendall(events * 100)
                except TimeoutError:  # the buffer is full until the answers are read
                    continue
    check_other_callers(short_timeout)
