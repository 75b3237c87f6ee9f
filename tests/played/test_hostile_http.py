"""Hostile HTTP clients on both sockets: malformed, oversized and slow requests do not block other callers."""

import functools
import json
import random
import re
from contextlib import ExitStack, suppress

import pytest

from tests.fixtures import context_fixture
from tests.raw_http import Connection, parse_error, parse_response, read_to_end, request
from tests.sim.stage import until
from tests.sim.team import PlayedTeam

MIB = 1024 * 1024
SOCKETS = ("sm.sock", "agent")


team = context_fixture("module", PlayedTeam)


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
def test_malformed_http_is_refused_and_other_callers_get_answers(
    team: PlayedTeam, name: str, where: str
) -> None:
    sent = MALFORMED[name]
    if where == "agent":  # with a valid token, so that the request is parsed further
        sent = sent.replace(b"\r\nHost: sm\r\n", f"\r\nHost: sm\r\n{team.credentials(where)[0]}\r\n".encode())
    answer = team.exchange(team.path_of(where), sent, silence_s=0.5)
    statuses = {int(status) for status in re.findall(rb"HTTP/1\.1 (\d\d\d) ", answer)}
    assert all(status < 500 for status in statuses), answer[:500]
    assert answer or name in UNFINISHED
    assert statuses <= {100, 200, 400, 401, 404, 405, 413, 417, 426, 431}, answer[:500]
    team.check_other_callers()


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
def test_malformed_body_is_refused_with_an_error(team: PlayedTeam, body: bytes, where: str) -> None:
    for path in ("/v1/messages", "/v1/sessions", "/v1/hooks", "/v1/wait", "/v1/requests"):
        sent = request(f"POST {path} HTTP/1.1", *team.credentials(where), body=body)
        status, code = parse_error(team.exchange(team.path_of(where), sent))
        assert status in (400, 403, 404), code


# Too much


def test_bodies_in_transfer_on_an_agent_socket_have_a_common_limit(team: PlayedTeam) -> None:
    path, half = team.socket("shop"), b"x" * (MIB + MIB // 2)
    with ExitStack() as stack:
        for name in ("parent", "child"):
            head = request(
                "POST /v1/messages HTTP/1.1", *team.credentials("agent", name), f"Content-Length: {2 * MIB}"
            )
            connection = stack.enter_context(team.connect(path))
            connection.sendall(head + half)
        third = request("POST /v1/messages HTTP/1.1", *team.credentials("agent", "sibling"), body=half)

        def refused() -> bool:  # as soon as the daemon has read the other bodies
            status, code = parse_error(team.exchange(path, third))
            return (status, code) == (429, "limit_reached")

        until(refused, "the third body is refused")
        team.check_other_callers()
        elsewhere = request("POST /v1/messages HTTP/1.1", *team.credentials("agent", "banker"), body=half)
        assert parse_error(team.exchange(team.socket("bank"), elsewhere)) == (400, "usage")
        assert (
            parse_error(team.exchange(str(team.instance.socket), request("POST /v1/x HTTP/1.1", body=half)))[
                0
            ]
            == 404
        )
    until(
        lambda: parse_error(team.exchange(path, third)) == (400, "usage"),
        "closed connections are not counted",
    )


def test_body_of_a_waiting_request_does_not_count_against_the_limit(team: PlayedTeam) -> None:
    path = team.socket("shop")
    padded = json.dumps({"wait_s": 20, "x": "x" * (3 * MIB)}).encode()
    two = b"x" * (2 * MIB)
    with ExitStack() as stack:
        for name in ("parent", "child"):
            taking = request("POST /v1/inbox/take HTTP/1.1", *team.credentials("agent", name), body=padded)
            stack.enter_context(team.connect(path)).sendall(taking)
        third = request("POST /v1/messages HTTP/1.1", *team.credentials("agent", "sibling"), body=two)
        until(lambda: parse_error(team.exchange(path, third)) == (400, "usage"), "a third body is accepted")
        team.check_other_callers()


def test_agent_socket_accepts_64_connections_and_refuses_the_next(team: PlayedTeam) -> None:
    path = team.socket("shop")
    with ExitStack() as stack:
        first = [stack.enter_context(team.connect(path)) for _ in range(64)]
        for number in range(936):
            answer = team.exchange(path, b"") if number % 100 == 0 else b""
            if answer:
                status, code = parse_error(answer)
                assert (status, code) == (503, "limit_reached")
            else:
                stack.enter_context(team.connect(path))
        error = team.instance.refused("me", exit_code=6, env=team.environment("parent"))
        assert "64 connections" in error
        first[0].sendall(request("GET /v1/me HTTP/1.1", *team.credentials("agent"), close=False))
        assert team.ids["parent"] in first[0].recv(65536).decode()
        assert team.instance.session(team.ids["parent"])["session_id"] == team.ids["parent"]
        banker = request("GET /v1/me HTTP/1.1", *team.credentials("agent", "banker"))
        assert parse_response(team.exchange(team.socket("bank"), banker))[0] == 200
    until(
        lambda: parse_error(team.exchange(path, request("GET /v1/me HTTP/1.1"))) == (401, "unauthenticated"),
        "there is room again",
    )


def test_agent_socket_accepts_32_followers_and_still_answers_other_requests(team: PlayedTeam) -> None:
    path = team.socket("shop")
    stream = request("GET /v1/events/stream HTTP/1.1", *team.credentials("agent"))
    wait = json.dumps({"sessions": [team.ids["child"]], "wait_s": 25}).encode()
    held = request("POST /v1/wait HTTP/1.1", *team.credentials("agent"), body=wait)

    def refused(connection: Connection, sent: bytes) -> bytes | None:
        connection.settimeout(0.2)
        connection.sendall(sent)
        try:
            answer = connection.recv(65536)
        except TimeoutError:
            return None
        return answer if b" 429 " in answer.partition(b"\r\n")[0] else None

    def refused_anew(sent: bytes) -> bytes | None:
        return refused(stack.enter_context(team.connect(path)), sent)

    with ExitStack() as stack:
        for number in range(32):
            follower = stack.enter_context(team.connect(path))
            follower.sendall(held if number % 2 else stream)

        # Followers of an earlier test may still be closing. A connection that is not refused replaces one of them.
        for sent in (stream, held):
            answer = until(functools.partial(refused_anew, sent), "one is too many")
            assert parse_error(answer) == (429, "limit_reached")
            assert b"32 clients already follow events or wait" in answer
        team.check_other_callers()
        at_once = json.dumps({"sessions": [team.ids["child"]]}).encode()  # does not wait
        sent = request("POST /v1/wait HTTP/1.1", *team.credentials("agent"), body=at_once)
        assert parse_response(team.exchange(path, sent))[0] == 200
    with ExitStack() as stack:
        until(
            lambda: refused(stack.enter_context(team.connect(path)), stream) is None,
            "closed followers are not counted",
        )


# Too slowly


@pytest.mark.parametrize("where", SOCKETS)
def test_connection_is_closed_with_408_when_the_body_does_not_arrive(team: PlayedTeam, where: str) -> None:
    head = request(
        "POST /v1/messages HTTP/1.1", *team.credentials(where), "Content-Length: 10000", close=False
    )
    with team.connect(team.path_of(where)) as dribbling:
        dribbling.sendall(head)
        dribbling.settimeout(0.1)
        answer = b""
        for _ in range(1000):
            dribbling.sendall(b" ")
            with suppress(TimeoutError):
                answer = dribbling.recv(65536)
                break
        dribbling.settimeout(60)
        status, code = parse_error(answer)
        assert (status, code) == (408, "not_in_time")
        assert read_to_end(dribbling) == b""
    team.check_other_callers()


@pytest.mark.parametrize("where", SOCKETS)
@pytest.mark.parametrize("sent", [b"", b"GET /v1/hea", HEAD, POST + b"Content-Le"], ids=range(4))
def test_connection_is_closed_when_the_request_head_is_incomplete(
    team: PlayedTeam, where: str, sent: bytes
) -> None:
    with team.connect(team.path_of(where)) as slow:
        slow.sendall(sent)
        assert read_to_end(slow) == b""


@pytest.mark.parametrize("where", SOCKETS)
def test_connection_is_closed_when_its_second_request_head_arrives_too_slowly(
    team: PlayedTeam, where: str
) -> None:
    with team.connect(team.path_of(where)) as slow:
        slow.sendall(request("GET /v1/health HTTP/1.1", *team.credentials(where), close=False))
        assert b" 200 " in slow.recv(65536)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012 - the loop ends with the exception
            for _ in range(1000):
                slow.sendall(b"X")
                team.instance.wait(0.05)  # the slow rate is the case under test


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (request("GET /v1/nothing HTTP/1.1"), 404, "protocol"),
        (request("DELETE /v1/sessions HTTP/1.1"), 405, "protocol"),
        (request("GET /v1/health HTTP/1.1", "SM-Protocol: 2"), 426, "protocol"),
        (request("GET /v1/health HTTP/1.1", "SM-Protocol: two"), 426, "protocol"),
        (request("POST /v1/sessions HTTP/1.1", body=b"{"), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b"[]"), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": 5}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "\\ud800"}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "Sh", "args": [5]}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "Sh", "wait_s": -1}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"agent_type": "Sh", "wait_s": 1e400}'), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", "Idempotency-Key: " + "k" * 129, body=b"{}"), 400, "usage"),
        (request("POST /v1/sessions HTTP/1.1", body=b'{"a":' * 100_000), 400, "usage"),
        (request("GET /v1/events?since=-1 HTTP/1.1"), 400, "usage"),
        (request("GET /v1/events?since=" + "9" * 30 + " HTTP/1.1"), 400, "usage"),
        (request("GET /v1/events?type=nothing HTTP/1.1"), 400, "usage"),
        (request("GET /v1/sessions?status=nothing HTTP/1.1"), 400, "usage"),
        (request("GET /v1/sessions/ffffffff HTTP/1.1"), 404, "not_found"),
    ],
    ids=range(18),
)
def test_malformed_request_gets_a_documented_error(
    team: PlayedTeam, sent: bytes, status: int, code: str
) -> None:
    assert parse_error(team.exchange(str(team.instance.socket), sent)) == (status, code)
