"""Endings that wait for time or for an answer of tmux, with played programs."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.integration.ended_agents import end_events, outcome, rows
from tests.sim.programs import Running
from tests.sim.stage import Instance, until

instance = context_fixture("function", Instance, "  Stubborn: {command: [stubborn]}")


async def stubborn(program: Running) -> None:
    """Write the signals that it ignores to the file `heard`."""
    heard = Path(program.process.cwd, "heard")

    def write(word: str) -> None:
        with heard.open("a") as file:
            file.write(f"{word}\n")

    program.process.handlers[signal.SIGHUP] = lambda: None
    program.process.handlers[signal.SIGTERM] = lambda: write("SIGTERM")
    await asyncio.sleep(100_000)


def spawn_stubborn(instance: Instance) -> str:
    instance.world.programs.installed["stubborn"] = stubborn
    session_id: str = instance.spawn("Stubborn")["session_id"]
    instance.settle()
    return session_id


def test_kill_sends_sigkill_after_the_grace_time_when_sigterm_is_ignored(instance: Instance) -> None:
    session_id = spawn_stubborn(instance)
    instance.sm("kill", session_id)
    assert outcome(instance.session(session_id)) == ("killed", None, signal.SIGKILL)
    assert (instance.work / "heard").exists()


def test_kill_force_ends_the_grace_time_of_an_earlier_kill_and_the_agent_once(instance: Instance) -> None:
    session_id = spawn_stubborn(instance)
    first = instance.start_command("kill", session_id)
    until((instance.work / "heard").exists, "the first kill has sent SIGTERM")
    began = instance.now()
    instance.sm("kill", session_id, "--force")
    assert instance.now() - began < timedelta(seconds=2)  # virtual time; the grace time is 5 s
    assert first.wait(20) == 0
    assert end_events(instance, session_id) == ["killed"]


def test_kill_ends_the_process_but_keeps_the_status_when_the_session_is_completed(instance: Instance) -> None:
    session_id = instance.spawn("Sh", "sm complete 'all done'; echo $? > code; exec sleep 1000")["session_id"]
    assert (
        until(
            lambda: (instance.work / "code").exists() and (instance.work / "code").read_text(),
            "it is completed",
        )
        == "0\n"
    )
    pid = instance.session(session_id)["pid"]
    assert instance.lives(pid)
    instance.sm("kill", session_id)
    assert not instance.lives(pid)
    after = instance.session(session_id)
    assert outcome(after) == ("completed", None, signal.SIGTERM)
    assert after["completion_message"] == "all done"
    assert end_events(instance, session_id) == ["completed"]
    for _ in range(2):
        error = instance.refused("kill", session_id, exit_code=4)
        assert f"session {session_id} has already ended (completed)" in error


def test_kill_is_refused_when_the_session_was_killed(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper")["session_id"]
    instance.sm("kill", session_id)
    assert "has already ended (killed)" in instance.refused("kill", session_id, exit_code=4)
    assert end_events(instance, session_id) == ["killed"]


def test_completed_session_stays_completed_when_its_process_fails(instance: Instance) -> None:
    session_id = instance.spawn("Sh", "sm complete done > complete.out 2>&1; exit 3")["session_id"]
    ended = until(
        lambda: (s := instance.session(session_id))["exit_code"] is not None and s, "its end is known"
    )
    assert outcome(ended) == ("completed", 3, None)
    assert end_events(instance, session_id) == ["completed"]


def test_session_reports_its_own_error_or_abandonment(instance: Instance) -> None:
    for status in ("error", "abandoned"):
        session_id = instance.spawn(
            "Sh", f"sm complete 'no luck' --status {status} > said.{status}; sleep 1000"
        )
        ended = instance.in_status(session_id["session_id"], status)
        assert (ended["completion_message"], ended["status_source"]) == ("no luck", "report")


def test_kill_ends_all_named_sessions_and_reports_the_unknown_one(instance: Instance) -> None:
    first, second = (instance.spawn("Sleeper")["session_id"] for _ in range(2))
    ended = instance.run("kill", first, "ffffffff", second)
    assert ended.returncode == 3
    assert "no such session: ffffffff" in ended.stderr
    assert [instance.session(session_id)["status"] for session_id in (first, second)] == ["killed", "killed"]


def test_session_can_be_killed_while_it_is_starting(instance: Instance) -> None:
    instance.spawn("Sleeper", "--name", "other")
    instance.world.server.is_deaf = True  # the start cannot continue
    try:
        spawn = instance.start_command("spawn", "Sleeper", "--name", "slow")
        until(lambda: instance.run("status", "sleeper-slow").returncode == 0, "the session exists")
        session_id = instance.session("sleeper-slow")["session_id"]
        assert instance.session(session_id)["status"] in ("spawned", "starting")
        kill = instance.start_command("kill", session_id)
        until(lambda: rows(instance, "SELECT 1 FROM outbox WHERE kind = 'kill'"), "the kill is recorded")
    finally:
        instance.world.server.is_deaf = False
    assert (spawn.wait(60), kill.wait(60)) == (0, 0)
    ended = instance.session(session_id)
    assert ended["status"] == "killed"
    assert end_events(instance, session_id) == ["killed"]
    assert ended["pid"] is None or not instance.lives(ended["pid"])


def test_kill_says_that_the_end_is_not_known_when_tmux_does_not_answer(instance: Instance) -> None:
    instance.sm("status")
    session = instance.spawn("Sleeper")
    instance.world.server.is_deaf = True
    try:
        error = instance.refused("kill", session["session_id"], exit_code=9)
        assert f"it is not known whether session {session['session_id']} has ended" in error
        assert "because tmux does not respond" in error and "did not end" not in error
        assert not instance.lives(session["pid"])
    finally:
        instance.world.server.is_deaf = False
    assert instance.ended(session["session_id"])["status"] == "killed"


@pytest.mark.parametrize("restart", ["never", "on-failure"])
def test_agent_that_ended_before_its_kill_was_not_killed_and_does_not_start_again(
    instance: Instance, restart: str
) -> None:
    instance.sm("status")
    session = instance.spawn("Sleeper", "--restart", restart)
    instance.world.server.is_deaf = True
    try:
        os.kill(session["pid"], signal.SIGUSR1)
        until(lambda: not instance.lives(session["pid"]), "the agent has ended")
        kill = instance.start_command("kill", session["session_id"])
        until(lambda: rows(instance, "SELECT 1 FROM outbox WHERE kind = 'kill'"), "the kill is recorded")
        instance.restart()
    finally:
        instance.world.server.is_deaf = False
    assert kill.wait(60) == 0
    instance.settle()
    assert outcome(instance.session(session["session_id"])) == ("error", None, signal.SIGUSR1)
    assert end_events(instance, session["session_id"]) == ["error"]


def test_status_is_marked_stale_when_tmux_does_not_answer(instance: Instance) -> None:
    instance.sm("status")
    session = instance.spawn("Sleeper")
    instance.world.server.is_deaf = True
    try:
        os.kill(session["pid"], signal.SIGUSR1)
        until(lambda: not instance.lives(session["pid"]), "the agent has ended")
        until(lambda: instance.session(session["session_id"])["status_stale"], "its status is marked stale")
        stale = instance.session(session["session_id"])
        assert (stale["status"], stale["exit_code"], stale["exit_signal"]) == ("running", None, None)
        trouble = instance.json("status")["trouble"]
        assert [line for line in trouble if session["session_id"] in line]
    finally:
        instance.world.server.is_deaf = False
    ended = instance.ended(session["session_id"])
    assert outcome(ended) == ("error", None, signal.SIGUSR1)
    # The daemon forgets that it could not look a moment after it has stored the end.
    until(lambda: not instance.session(session["session_id"])["status_stale"], "its status is verified")
    until(lambda: instance.json("status")["trouble"] == [], "no trouble is left")
