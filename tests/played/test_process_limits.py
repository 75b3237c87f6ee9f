"""The umask and the soft limits of agents: those of the caller's shell, of the parent, or of the last shell."""

import json
import os
import re
import resource
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest

from tests.fixtures import context_fixture
from tests.played.test_agents import Team
from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Person
from tests.telegram_fixtures import bot_api, connected_instance, person

instance = context_fixture("function", Instance)
team = context_fixture("function", Team)
api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
home = connected_instance()
GIVEN = {"umask": 0o027, "nofile": 410}
INHERITED = (None, None)
"""Of an agent whose launch script sets neither: it has those of the terminal server."""


@contextmanager
def shell(umask: int, nofile: int) -> Iterator[None]:
    """Let this process, and so the commands that it plays, have the limits of a shell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, hard))
    before = os.umask(umask)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.umask(before)


def limits_of(instance: Instance, session_id: str) -> tuple[str | None, str | None]:
    """The umask and the limit of open files that the launch script of the agent has set."""
    script = instance.world.programs.running[session_id].process.script
    umask = re.search(r"^umask (\S+)$", script, re.MULTILINE)
    nofile = re.search(r"^\{ ulimit -S -n (\S+) \|\|", script, re.MULTILINE)
    return umask and umask[1], nofile and nofile[1]


def spawn_by(instance: Instance, caller: str | None, limits: Mapping[str, object] | None) -> str:
    """Spawn by a request of a session or of the operator. Returns the id of the new session."""
    body = {"agent_type": "Sleeper", "working_dir": str(instance.work), "process_limits": limits}
    [[outcome, *answer]] = instance.request_as(caller, ("POST", "/v1/sessions", None, body))
    assert outcome == "ok", answer
    return str(answer[0]["session_id"])


def test_agent_has_the_limits_of_the_shell_that_spawned_it(instance: Instance) -> None:
    with shell(0o027, 410):
        first = instance.spawn("Sleeper", "x")["session_id"]
    with shell(0o002, 420):
        second = instance.spawn("Sleeper", "x")["session_id"]
    assert limits_of(instance, first) == ("0027", "410")
    assert limits_of(instance, second) == ("0002", "420")


def test_child_has_the_limits_of_its_parent_whoever_spawns_it(instance: Instance) -> None:
    with shell(0o027, 410):
        parent = instance.spawn("Sleeper", "x")["session_id"]
    with shell(0o002, 420):
        child = instance.spawn("Sleeper", "x", "--parent", parent)["session_id"]
        answer = instance.run_inside(parent, "spawn", "Sleeper", "x", "--json")
    assert limits_of(instance, child) == ("0027", "410")
    assert limits_of(instance, json.loads(answer.stdout)["session_id"]) == ("0027", "410")


def test_session_cannot_choose_the_limits_of_its_child_or_of_later_spawns(instance: Instance) -> None:
    with shell(0o027, 410):
        parent = instance.spawn("Sleeper", "x")["session_id"]
    child = spawn_by(instance, parent, {"umask": 0, "nofile": 9999})
    assert limits_of(instance, child) == ("0027", "410")
    later = spawn_by(instance, None, None)
    assert limits_of(instance, later) == ("0027", "410")


def test_claude_keeps_the_limits_of_its_spawn_when_it_is_restored_or_forked(team: Team) -> None:
    with shell(0o027, 410):
        session_id = team.spawn("Plain")["session_id"]
    team.argv(session_id)
    team.sm("kill", session_id)
    with shell(0o002, 420):
        team.sm("restore", session_id)
        assert limits_of(team, session_id) == ("0027", "410")
        fork = team.json("fork", session_id)["session_id"]
    assert limits_of(team, fork) == ("0027", "410")


def test_restored_agent_has_the_limits_of_its_spawn(instance: Instance) -> None:
    with shell(0o027, 410):
        session_id = instance.spawn("Sleeper", "x")["session_id"]
    instance.sm("kill", session_id)
    instance.kill_daemon()
    with shell(0o002, 420):
        instance.sm("restore", session_id)
    assert limits_of(instance, session_id) == ("0027", "410")


def test_session_of_an_earlier_version_is_restored_with_the_limits_of_the_terminal_server(
    instance: Instance,
) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    instance.sm("kill", session_id)
    instance.kill_daemon()
    with closing(sqlite3.connect(instance.state / "sm.db")) as database, database:
        database.execute("UPDATE sessions SET launch = json_remove(launch, '$.process_limits')")
        database.execute("DELETE FROM meta WHERE name = 'shell_limits'")
    database.close()
    instance.sm("restore", session_id)
    assert limits_of(instance, session_id) == INHERITED


def test_spawn_from_a_chat_has_the_limits_of_the_last_shell(
    home: Instance, api: PlayedTelegramApi, ann: Person
) -> None:
    def spawned() -> str:
        known = {s["session_id"] for s in home.get("/v1/sessions")}
        ann.says("/new Sleeper work")
        until(lambda: len(home.get("/v1/sessions")) > len(known), "the chat has started an agent")
        (new,) = {s["session_id"] for s in home.get("/v1/sessions")} - known
        until(lambda: home.session(new)["pid"], "the agent runs")
        return str(new)

    with shell(0o007, 430):
        assert limits_of(home, spawned()) == INHERITED
    with shell(0o027, 410):
        home.spawn("Sleeper", "x")
    home.kill_daemon()
    home.start_daemon()
    assert limits_of(home, spawned()) == ("0027", "410")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"umask": 0o1000}, "process_limits: umask must be a number from 0 to 511"),
        ({"nofile": -2}, "process_limits: nofile must be a number from -1 to 9223372036854775807"),
        ({"umask": "0022"}, "the values of process_limits must be whole numbers"),
        ({"umask; touch x": 1, "umask": -1}, "process_limits: umask must be a number from 0 to 511"),
    ],
)
def test_wrong_limits_are_refused(instance: Instance, wrong: dict[str, object], message: str) -> None:
    instance.start_daemon()
    body = {"agent_type": "Sleeper", "working_dir": str(instance.work), "process_limits": wrong}
    [[code, said, _]] = instance.request_as(None, ("POST", "/v1/sessions", None, body))
    assert (code, said) == ("usage", message)


def test_unknown_names_of_limits_are_ignored(instance: Instance) -> None:
    instance.start_daemon()
    session_id = spawn_by(instance, None, {**GIVEN, "rtprio; touch x": 1})
    assert "touch" not in instance.world.programs.running[session_id].process.script
    assert limits_of(instance, session_id) == ("0027", "410")


def test_status_names_the_terminal_server_to_the_operator_only(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    server = instance.world.server.process
    assert server is not None
    assert instance.get("/v1/status")["terminal_server"] == server.pid
    ((_, shown),) = instance.request_as(session_id, ("GET", "/v1/status"))
    assert shown["terminal_server"] is None
