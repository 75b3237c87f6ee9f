"""Hostile HTTP clients on both sockets of a real daemon: too many bytes, connections and unread answers.

tests/played/test_hostile_http.py has the clients whose subject is the server's parser.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.instance import Instance
from tests.raw_http import connected, exchange, parse_error, request
from tests.team import Team

MIB = 1024 * 1024
SHORT_TIMEOUT_DAEMON = str(Path(__file__).with_name("short_timeout_daemon.py"))
SOCKETS = ("sm.sock", pytest.param("agent", marks=pytest.mark.full))
"""Both are served by the same code, and tests/played/test_hostile_http.py has them."""


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    team = Team()
    yield team
    team.check_log()
    team.end()


@pytest.fixture
def short_timeout() -> Iterator[Team]:
    """A team whose daemon closes slow connections after one second."""

    def start(instance: Instance) -> None:
        path = os.pathsep.join([str(Path(SHORT_TIMEOUT_DAEMON).parents[2]), *sys.path])
        instance.run_daemon(sys.executable, SHORT_TIMEOUT_DAEMON, env={"PYTHONPATH": path})

    team = Team(start)
    yield team
    team.check_log()
    team.end()


def peak_kib(team: Team) -> int:
    status = Path(f"/proc/{team.instance.daemon_pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


@pytest.mark.parametrize("how", ["announced", "in chunks"])
@pytest.mark.parametrize("where", SOCKETS)
def test_body_of_100_mb_is_refused_and_not_kept_in_memory(team: Team, where: str, how: str) -> None:
    before = peak_kib(team)
    if how == "announced":
        sent = request("POST /v1/sessions HTTP/1.1", *team.credentials(where), f"Content-Length: {100 * MIB}")
        sent += b"x" * (100 * MIB)
    else:
        sent = request("POST /v1/sessions HTTP/1.1", *team.credentials(where), "Transfer-Encoding: chunked")
        sent += b"100000\r\n%b\r\n" % (b"x" * MIB) * 100
    status, code = parse_error(exchange(team.path_of(where), sent))
    assert (status in (413, 429), code) == (True, "limit_reached")
    assert peak_kib(team) - before < 30 * 1024
    team.check_other_callers()


def test_daemon_socket_answers_while_1000_connections_are_open(team: Team) -> None:
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connected(str(team.instance.socket)))
        team.check_other_callers()
    team.check_other_callers()


@pytest.mark.parametrize("where", SOCKETS)
def test_connection_is_closed_when_the_client_does_not_read_the_answers(
    short_timeout: Team, where: str
) -> None:
    events = request("GET /v1/events?limit=10000 HTTP/1.1", *short_timeout.credentials(where), close=False)
    with connected(short_timeout.path_of(where)) as deaf:
        deaf.settimeout(0.5)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012 - the loop ends with the exception
            while True:
                try:
                    deaf.sendall(events * 100)
                except TimeoutError:  # the buffer is full until the answers are read
                    continue
    short_timeout.check_other_callers()
