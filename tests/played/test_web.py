"""Logins of `sm web` at the daemon, and the command in a session."""

import pytest

from sm.wire import LOGIN_HEADER
from tests.fixtures import context_fixture
from tests.raw_http import exchange, parse_error, read_to_end, request
from tests.sim.stage import Instance

instance = context_fixture("function", Instance)


def test_session_cannot_act_as_a_login(instance: Instance) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    token = (instance.launch_dir / f"{agent}.token").read_text().strip()
    bearer = f"Authorization: Bearer {token}"
    for headers, answer in (((bearer,), "200"), ((bearer, f"{LOGIN_HEADER}: phone"), "403")):
        asked = request("GET /v1/me HTTP/1.1", *headers)
        with instance.connected(str(instance.socket), env={"SM_SESSION_ID": agent}) as connection:
            connection.sendall(asked)
            assert read_to_end(connection).startswith(f"HTTP/1.1 {answer} ".encode())


@pytest.mark.parametrize("name", ["a b", "x" * 41, "a)", "", "\u00e4"])
def test_operator_cannot_send_an_invalid_login(instance: Instance, name: str) -> None:
    instance.sm("all")
    sent = request("GET /v1/health HTTP/1.1", f"{LOGIN_HEADER}: {name}")
    answer = exchange(str(instance.socket), sent, connect=instance.connected)
    assert parse_error(answer) == (400, "usage")


@pytest.mark.parametrize("words", [(), ("link",), ("logins",), ("revoke", "--all")])
def test_web_is_refused_from_a_session(instance: Instance, words: tuple[str, ...]) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    error = instance.refused("web", *words, env=instance.as_session(agent), exit_code=5)
    assert error == "sm: sm web is for people, not for agents\nhint: to list sessions: sm ls\n"
