"""What comes in at both sockets from those who send too much, too slowly, or no HTTP: others are answered meanwhile."""

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
from tests.raw_http import answered, connected, exchange, refusal, request, rest_of
from tests.team import Team

MIB = 1024 * 1024
IMPATIENT = str(Path(__file__).with_name("impatient_daemon.py"))
WHERE = ("sm.sock", "agent")


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    made = Team()
    yield made
    check(made)
    made.end()


@pytest.fixture(scope="module")
def impatient() -> Iterator[Team]:
    """Its daemon cuts off after a second who keeps it waiting."""

    def start(instance: Instance) -> None:
        path = os.pathsep.join([str(Path(IMPATIENT).parents[2]), *sys.path])
        instance.run_daemon(sys.executable, IMPATIENT, env={"PYTHONPATH": path})

    made = Team(start)
    yield made
    check(made)
    made.end()


def check(team: Team) -> None:
    log = team.log()
    assert "raceback" not in log, log[-5000:]
    assert "sm_bug" not in log


def path_of(team: Team, where: str) -> str:
    return str(team.instance.socket) if where == "sm.sock" else team.socket("shop")


def shown(team: Team, where: str, name: str = "parent") -> list[str]:
    return [] if where == "sm.sock" else [f"Authorization: Bearer {team.token(name)}"]


def others_are_answered(team: Team) -> None:
    """On each socket, while what is tried goes on."""
    for path, headers in (
        (str(team.instance.socket), []),
        (team.socket("shop"), shown(team, "agent", "sibling")),
        (team.socket("bank"), shown(team, "agent", "banker")),
    ):
        status, _ = answered(exchange(path, request("GET /v1/health HTTP/1.1", *headers)))
        assert status == 200, path


# No HTTP

HEAD = b"GET /v1/health HTTP/1.1\r\nHost: sm\r\n"
POST = b"POST /v1/messages HTTP/1.1\r\nHost: sm\r\n"
NONSENSE: dict[str, bytes] = {
    "nothing": b"",
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
    "query of digits": b"GET /v1/events?since="
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
    "protocol of digits": HEAD + b"SM-Protocol: " + b"9" * 5000 + b"\r\nConnection: close\r\n\r\n",
    "protocol in other digits": HEAD + "SM-Protocol: ²\r\nConnection: close\r\n\r\n".encode(),
    "key in latin-1": POST + b"Idempotency-Key: \xff\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "expectation": POST + b"Expect: wonders\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "length below nothing": POST + b"Content-Length: -5\r\n\r\n",
    "length of words": POST + b"Content-Length: five\r\n\r\n",
    "length of digits": POST + b"Content-Length: " + b"9" * 1000 + b"\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "too long a length": POST + b"Content-Length: 1000\r\n\r\n{",
    "too short a length": POST + b"Content-Length: 1\r\n\r\n{}garbage\r\n\r\n",
    "no chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk below nothing": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n",
    "chunk of digits": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 1000 + b"\r\n{}\r\n",
    "chunk that lies": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}{}{}\r\n0\r\n\r\n",
    "half a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "strange encoding": POST + b"Transfer-Encoding: gzip\r\nConnection: close\r\n\r\n{}",
    "compressed": POST
    + b"Content-Encoding: gzip\r\nContent-Length: 4\r\nConnection: close\r\n\r\n\x1f\x8b\x08\x00",
    "unknown compression": POST + b"Content-Encoding: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "pipelined nonsense": HEAD + b"\r\n" + b"\0\1\2\3" * 100,
    "a thousand at once": (HEAD + b"\r\n") * 1000 + b"nonsense\r\n\r\n",
}


UNFINISHED = {"nothing", "empty lines", "too long a length", "half a chunk"}
"""Those that might go on, so that the daemon waits for the rest."""


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", NONSENSE)
def test_what_is_no_http_harms_nobody(team: Team, name: str, where: str) -> None:
    sent = NONSENSE[name]
    if where == "agent":  # let in, so that it comes as far as it can
        sent = sent.replace(b"\r\nHost: sm\r\n", f"\r\nHost: sm\r\n{shown(team, where)[0]}\r\n".encode())
    answer = exchange(path_of(team, where), sent, silence_s=0.5)
    statuses = {int(found) for found in re.findall(rb"HTTP/1\.1 (\d\d\d) ", answer)}
    assert all(status < 500 for status in statuses), answer[:500]
    assert answer or name in UNFINISHED
    assert statuses <= {100, 200, 400, 401, 404, 405, 413, 417, 426, 431}, answer[:500]
    others_are_answered(team)


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"to": ',
    "a list": b"[]",
    "a number": b"1e999",
    "no text": b"\xff\xfe\x00",
    "in UTF-16": '{"to": "x"}'.encode("utf-16"),
    "with a mark": b"\xef\xbb\xbf{}",
    "NUL": b"\0" * 100,
    "half a character": b'{"to": "\\ud800", "text": "x"}',
    "deep": b'{"to":' * 100_000,
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "not a number": b'{"to": NaN}',
    "long number": b'{"ttl_s": ' + b"9" * 100_000 + b"}",
    "many keys": b"{" + b",".join(b'"%d": 1' % n for n in range(100_000)) + b"}",
    "one key twice": b'{"to": "x", "to": 5, "text": "x"}',
    "controls": b'{"to": "\\u0000\\u001b[31m\\u202e", "text": "\\u0000"}',
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_makes_no_sense_is_refused_in_words(team: Team, body: bytes, where: str) -> None:
    for path in ("/v1/messages", "/v1/sessions", "/v1/hooks", "/v1/wait", "/v1/requests"):
        sent = request(f"POST {path} HTTP/1.1", *shown(team, where), body=body)
        status, code = refusal(exchange(path_of(team, where), sent))
        assert status in (400, 403, 404), code


# Too much


def peak_kib(team: Team) -> int:
    status = Path(f"/proc/{team.instance.daemon_pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


@pytest.mark.parametrize("how", ["announced", "in chunks"])
@pytest.mark.parametrize("where", WHERE)
def test_a_body_of_100_mb_is_refused_and_never_kept(team: Team, where: str, how: str) -> None:
    before = peak_kib(team)
    if how == "announced":
        sent = request("POST /v1/sessions HTTP/1.1", *shown(team, where), f"Content-Length: {100 * MIB}")
        sent += b"x" * (100 * MIB)
    else:
        sent = request("POST /v1/sessions HTTP/1.1", *shown(team, where), "Transfer-Encoding: chunked")
        sent += b"100000\r\n%b\r\n" % (b"x" * MIB) * 100
    status, code = refusal(exchange(path_of(team, where), sent))
    assert (status in (413, 429), code) == (True, "limit_reached")
    assert peak_kib(team) - before < 30 * 1024
    others_are_answered(team)


def test_bodies_under_way_on_an_agent_socket_are_bounded_together(team: Team) -> None:
    path, half = team.socket("shop"), b"x" * (MIB + MIB // 2)
    with ExitStack() as stack:
        for name in ("parent", "child"):
            head = request(
                "POST /v1/messages HTTP/1.1", *shown(team, "agent", name), f"Content-Length: {2 * MIB}"
            )
            begun = stack.enter_context(connected(path))
            begun.sendall(head + half)
        third = request("POST /v1/messages HTTP/1.1", *shown(team, "agent", "sibling"), body=half)

        def refused() -> bool:  # as soon as the daemon has read what the others sent
            status, code = refusal(exchange(path, third))
            return (status, code) == (429, "limit_reached")

        until(refused, "the third is too much")
        others_are_answered(team)
        elsewhere = request("POST /v1/messages HTTP/1.1", *shown(team, "agent", "banker"), body=half)
        assert refusal(exchange(team.socket("bank"), elsewhere)) == (400, "usage")
        assert (
            refusal(exchange(str(team.instance.socket), request("POST /v1/x HTTP/1.1", body=half)))[0] == 404
        )
    until(lambda: refusal(exchange(path, third)) == (400, "usage"), "what is gone is not counted")


def test_what_a_held_request_has_brought_keeps_nobody_out(team: Team) -> None:
    path = team.socket("shop")
    padded = json.dumps({"wait_s": 20, "x": "x" * (3 * MIB)}).encode()
    two = b"x" * (2 * MIB)
    with ExitStack() as stack:
        for name in ("parent", "child"):
            taking = request("POST /v1/inbox/take HTTP/1.1", *shown(team, "agent", name), body=padded)
            stack.enter_context(connected(path)).sendall(taking)
        third = request("POST /v1/messages HTTP/1.1", *shown(team, "agent", "sibling"), body=two)
        until(lambda: refusal(exchange(path, third)) == (400, "usage"), "a third is let in")
        others_are_answered(team)


def test_a_thousand_connections_keep_nobody_from_the_daemons_own_socket(team: Team) -> None:
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connected(str(team.instance.socket)))
        others_are_answered(team)
    others_are_answered(team)


def test_an_agent_socket_takes_64_connections_and_says_so_to_the_next(team: Team) -> None:
    path = team.socket("shop")
    with ExitStack() as stack:
        first = [stack.enter_context(connected(path)) for _ in range(64)]
        for number in range(936):
            answer = exchange(path, b"") if number % 100 == 0 else b""
            if answer:
                status, code = refusal(answer)
                assert (status, code) == (503, "limit_reached")
            else:
                stack.enter_context(connected(path))
        said = team.instance.refused("me", exit_code=6, env=team.environment("parent"))
        assert "64 connections" in said
        first[0].sendall(request("GET /v1/me HTTP/1.1", *shown(team, "agent"), close=False))
        assert team.ids["parent"] in first[0].recv(65536).decode()
        assert team.instance.session(team.ids["parent"])["session_id"] == team.ids["parent"]
        banker = request("GET /v1/me HTTP/1.1", *shown(team, "agent", "banker"))
        assert answered(exchange(team.socket("bank"), banker))[0] == 200
    until(
        lambda: refusal(exchange(path, request("GET /v1/me HTTP/1.1"))) == (401, "unauthenticated"),
        "there is room again",
    )


def test_an_agent_socket_has_32_followers_and_answers_others(team: Team) -> None:
    path = team.socket("shop")
    stream = request("GET /v1/events/stream HTTP/1.1", *shown(team, "agent"))
    wait = json.dumps({"sessions": [team.ids["child"]], "wait_s": 25}).encode()
    held = request("POST /v1/wait HTTP/1.1", *shown(team, "agent"), body=wait)

    def refused(one: socket.socket, sent: bytes) -> bytes | None:
        one.settimeout(0.2)
        one.sendall(sent)
        try:
            answer = one.recv(65536)
        except TimeoutError:
            return None
        return answer if b" 429 " in answer.partition(b"\r\n")[0] else None

    with ExitStack() as stack:
        for number in range(32):
            follower = stack.enter_context(connected(path))
            follower.sendall(held if number % 2 else stream)

        # Those that a test before this one has left may be let go only now. Who is not refused stays in their place.
        for sent in (stream, held):
            answer = until(lambda s=sent: refused(stack.enter_context(connected(path)), s), "one too many")  # type: ignore[misc]  # a default binds the loop's value
            assert refusal(answer) == (429, "limit_reached")
            assert b"32 follow or wait" in answer
        others_are_answered(team)
        at_once = json.dumps({"sessions": [team.ids["child"]]}).encode()  # waits for nothing
        sent = request("POST /v1/wait HTTP/1.1", *shown(team, "agent"), body=at_once)
        assert answered(exchange(path, sent))[0] == 200
    with ExitStack() as stack:
        until(
            lambda: refused(stack.enter_context(connected(path)), stream) is None,
            "those that have gone are not counted",
        )


# Too slowly


@pytest.mark.parametrize("where", WHERE)
def test_a_body_that_does_not_arrive_is_refused_and_its_connection_closed(
    impatient: Team, where: str
) -> None:
    head = request(
        "POST /v1/messages HTTP/1.1", *shown(impatient, where), "Content-Length: 10000", close=False
    )
    with connected(path_of(impatient, where)) as dribbling:
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
        status, code = refusal(answer)
        assert (status, code) == (408, "not_in_time")
        assert rest_of(dribbling) == b""
    others_are_answered(impatient)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("sent", [b"", b"GET /v1/hea", HEAD, POST + b"Content-Le"], ids=range(4))
def test_who_sends_no_whole_head_is_cut_off(impatient: Team, where: str, sent: bytes) -> None:
    with connected(path_of(impatient, where)) as slow:
        slow.sendall(sent)
        assert rest_of(slow) == b""


@pytest.mark.parametrize("where", WHERE)
def test_a_head_that_dribbles_is_cut_off_too_and_so_is_the_second_of_a_connection(
    impatient: Team, where: str
) -> None:
    with connected(path_of(impatient, where)) as slow:
        slow.sendall(request("GET /v1/health HTTP/1.1", *shown(impatient, where), close=False))
        assert b" 200 " in slow.recv(65536)
        limit = Limit()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012 - it goes on until then
            while not limit.is_over:
                slow.sendall(b"X")
                time.sleep(0.05)  # the dribble itself


@pytest.mark.parametrize("where", WHERE)
def test_who_does_not_read_what_it_asked_for_is_cut_off(impatient: Team, where: str) -> None:
    one = request("GET /v1/events?limit=10000 HTTP/1.1", *shown(impatient, where), close=False)
    with connected(path_of(impatient, where)) as deaf:
        deaf.settimeout(0.5)
        limit = Limit()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012 - it goes on until then
            while not limit.is_over:
                try:
                    deaf.sendall(one * 100)
                except TimeoutError:  # nothing more fits: it takes no more until somebody reads
                    continue
    others_are_answered(impatient)
