"""Restore, interrupt and fork of sessions whose programs are played: exactly one agent."""

import asyncio
import os
import signal
from collections import Counter
from typing import Any

import pytest

from sm.capabilities.archives.keeper import Archives
from sm.client.http import Client, new_key
from tests.fixtures import context_fixture
from tests.sim.counted_agents import (
    CountedStage,
    agents_of,
    left_over,
    spawn_counted,
    starts,
    token_is_right,
)
from tests.sim.programs import Running
from tests.sim.stage import Instance, until


async def cannot_run(_: Running) -> int:
    return 126


instance = context_fixture("function", CountedStage)


def spawn_killed(instance: Instance, name: str, *arguments: str) -> dict[str, Any]:
    session = spawn_counted(instance, name, *arguments)
    instance.sm("kill", session["session_id"], "--force")
    return session


def types(instance: Instance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id)]


def lose_tmux(instance: Instance, *sessions: dict[str, Any]) -> None:
    instance.world.server.kill()
    for session in sessions:
        assert instance.ended(session["session_id"])["status"] in ("error", "completed")


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill", "SIGKILL", "tmux kill-session"])
def test_restore_starts_a_new_process_with_the_same_identity(instance: Instance, end: str) -> None:
    name = end.replace(" ", "-").lower()
    code = f" {end[-1]}" if end.startswith("exit") else ""
    before = instance.spawn("Counted", f"{name}{code}", "--name", name)
    session_id = before["session_id"]
    until(lambda: starts(instance, name), "the agent runs")
    if end == "kill":
        instance.sm("kill", session_id)
    elif end == "SIGKILL":
        os.kill(before["pid"], signal.SIGKILL)
    elif end == "tmux kill-session":
        instance.world.server.close(before["tmux_session"])
    ended = instance.ended(session_id)
    token = (instance.state / "launch" / f"{session_id}.token").read_text()
    (instance.work / f"{name}.go").touch()

    assert instance.sm("restore", session_id) == f"Restored counted-{name}\n"

    after = instance.session(session_id)
    assert after["status"] == "running"
    assert after["pid"] not in (None, before["pid"])
    same = ("session_id", "name", "friendly_name", "tmux_session", "working_dir", "trust_level", "agent_type")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert (after["exit_code"], after["exit_signal"], after["completed_at"]) == (None, None, None)
    assert after["started_at"] > ended["completed_at"]
    until(lambda: len(starts(instance, name)) == 2, "the agent runs again")
    assert starts(instance, name)[1] == after["pid"]
    assert agents_of(instance, {session_id}) == Counter({session_id: 1})
    assert (instance.state / "launch" / f"{session_id}.token").read_text() != token
    assert token_is_right(instance, session_id)
    assert types(instance, session_id) == ["spawned", "started", ended["status"], "reopened", "started"]


def test_restored_session_can_end_again_with_its_own_notice(instance: Instance) -> None:
    session = spawn_counted(instance, "told", "--name", "told")
    session_id = session["session_id"]
    os.kill(session["pid"], signal.SIGKILL)
    instance.ended(session_id)
    instance.sm("restore", "counted-told")
    instance.sm("output", session_id)
    again = instance.session(session_id)
    os.kill(again["pid"], signal.SIGTERM)
    ended = instance.ended(session_id)
    assert (ended["status"], ended["exit_signal"]) == ("error", signal.SIGTERM)
    prefix = "the process ended with signal"
    until(lambda: f"{prefix} 9" in (text := instance.sm("inbox")) and f"{prefix} 15" in text, "both notices")
    assert types(instance, session_id).count("error") == 2


def test_restore_is_refused_when_the_process_is_alive(instance: Instance) -> None:
    live = spawn_counted(instance, "live")
    error = instance.refused("restore", live["session_id"], exit_code=4)
    assert "is running" in error and f"hint: sm attach {live['session_id']}" in error
    done = instance.spawn("Sh", "sm complete fine > done.txt 2>&1; exec sleep 1000")
    instance.in_status(done["session_id"], "completed")
    assert "its process still runs" in instance.refused("restore", done["session_id"], exit_code=4)
    assert instance.lives(live["pid"]) and instance.lives(done["pid"])
    instance.refused("restore", "ffffffff", exit_code=3)
    instance.refused("restore", exit_code=2)
    instance.refused("restore", "--all", live["session_id"], exit_code=2)


def test_restore_is_refused_when_the_working_directory_is_gone(instance: Instance) -> None:
    directory = instance.work / "short-lived"
    directory.mkdir()
    session_id = instance.spawn("Sleeper", "--working-dir", str(directory))["session_id"]
    instance.sm("kill", session_id)
    directory.rmdir()
    error = instance.refused("restore", session_id, exit_code=2)
    assert f"{directory} does not exist" in error
    assert instance.session(session_id)["status"] == "killed"
    directory.mkdir()
    instance.sm("restore", session_id)


def test_restore_is_refused_when_a_live_session_has_the_name(instance: Instance) -> None:
    first = spawn_killed(instance, "first", "--name", "taken")["session_id"]
    second = spawn_counted(instance, "second", "--name", "taken")["session_id"]
    assert "name counted-taken is already used by a live session" in instance.refused(
        "restore", first, exit_code=2
    )
    instance.sm("kill", second)
    instance.sm("restore", first)


def test_restore_unarchives_the_session(instance: Instance) -> None:
    session_id = spawn_killed(instance, "archived")["session_id"]
    instance.sm("archive", session_id)
    assert instance.json("restore", session_id)["archived"] is False
    assert types(instance, session_id)[-3:] == ["reopened", "archived", "started"]


def test_session_whose_restore_failed_can_be_restored_later(instance: Instance) -> None:
    installed = instance.world.programs.installed
    installed["comes-and-goes"] = installed["sleep"]
    session_id = instance.spawn("Goer", "1000")["session_id"]
    instance.sm("kill", session_id)
    installed["comes-and-goes"] = cannot_run
    instance.json("restore", session_id)
    assert instance.ended(session_id)["status"] == "error"
    installed["comes-and-goes"] = installed["sleep"]
    assert instance.json("restore", session_id)["status"] == "running"


def test_retried_restore_request_starts_one_process(instance: Instance) -> None:
    session_id = spawn_killed(instance, "repeated")["session_id"]
    client, key = Client(str(instance.socket)), new_key()
    answers = [client.post(f"/v1/sessions/{session_id}/restore", {}, key=key) for _ in range(3)]
    assert len({answer["pid"] for answer in answers}) == 1
    assert types(instance, session_id).count("reopened") == 1
    assert len(starts(instance, "repeated")) == 2


def test_session_can_restore_only_its_descendants(instance: Instance) -> None:
    parent = spawn_counted(instance, "parent")["session_id"]
    child = spawn_killed(instance, "child", "--parent", parent)["session_id"]
    other = spawn_killed(instance, "other")["session_id"]
    env = {"SM_SESSION_ID": parent}
    instance.refused("restore", other, exit_code=5, env=env)
    instance.refused("restore", "--all", exit_code=5, env=env)
    instance.refused("interrupt", other, exit_code=5, env=env)
    instance.refused("fork", other, exit_code=5, env=env)
    instance.refused("adopt", "%0", exit_code=5, env=env)
    instance.sm("restore", child, env=env)
    assert instance.session(child)["parent_session_id"] == parent


def test_cleanup_of_the_old_terminal_does_not_close_the_new_one(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleanup = "child_agents: {cleanup: {close_tmux_session: true}}\n"
    instance.config.write_text(instance.config.read_text() + cleanup)
    is_kept, slow = Archives.is_kept, [20.0]

    async def look_slowly(archives: Archives, session_id: str, since_s: float) -> bool:
        await asyncio.sleep(slow.pop() if slow else 0)
        return await is_kept(archives, session_id, since_s)

    monkeypatch.setattr(Archives, "is_kept", look_slowly)
    session = spawn_counted(instance, "cleaned")
    session_id = session["session_id"]
    os.kill(session["pid"], signal.SIGKILL)
    instance.ended(session_id)
    Client(str(instance.socket)).post(f"/v1/sessions/{session_id}/restore", {}, key=new_key())
    assert not slow  # the old terminal is still being closed
    instance.settle()
    assert instance.session(session_id)["status"] == "running"
    assert f"command-{session_id}" in instance.world.server.panes
    assert len(starts(instance, "cleaned")) == 2


def test_restore_all_restores_only_sessions_lost_with_tmux(instance: Instance) -> None:
    parent = spawn_counted(instance, "a")
    child = spawn_counted(instance, "b", "--parent", parent["session_id"])
    lone, archived = spawn_counted(instance, "c"), spawn_counted(instance, "d")
    before = spawn_killed(instance, "e")
    assert instance.sm("restore", "--all") == "no sessions to restore\n"
    lose_tmux(instance, parent, child, lone, archived)
    instance.sm("archive", archived["session_id"])
    lost = [s["session_id"] for s in (parent, child, lone)]
    restored = instance.json("restore", "--all")
    assert {s["session_id"] for s in restored} == set(lost)
    for session_id, name in zip(lost, "abc", strict=True):
        until(lambda n=name: len(starts(instance, n)) == 2, "the agent runs again")  # type: ignore[misc]  # a default binds the loop's value
        assert instance.session(session_id)["status"] == "running"
        assert token_is_right(instance, session_id)
    assert agents_of(instance, set(lost)) == Counter(dict.fromkeys(lost, 1))
    order = [e["session_id"] for e in instance.events() if e["type"] == "reopened"]
    assert order.index(parent["session_id"]) < order.index(child["session_id"])
    assert instance.session(before["session_id"])["status"] == "killed"
    assert instance.json("restore", "--all") == []


def test_restore_all_continues_when_one_session_cannot_be_restored(instance: Instance) -> None:
    directory = instance.work / "place"
    directory.mkdir()
    lost, good = instance.spawn("Sleeper", "--working-dir", str(directory)), spawn_counted(instance, "good")
    lose_tmux(instance, lost, good)
    directory.rmdir()
    done = instance.run("restore", "--all")
    assert done.returncode == 2
    assert done.stdout == f"Restored {good['name']}\n"
    assert f"{directory} does not exist" in done.stderr


def test_restore_tree_restores_parents_before_children(instance: Instance) -> None:
    parent = spawn_counted(instance, "p")["session_id"]
    child = spawn_counted(instance, "q", "--parent", parent)["session_id"]
    grandchild = spawn_counted(instance, "r", "--parent", child)["session_id"]
    instance.config.write_text(instance.config.read_text() + "child_agents: {on_parent_end: keep}\n")
    instance.kill_daemon()
    instance.sm("kill", "--tree", parent)
    answer = instance.json("restore", "--tree", parent)
    assert answer["restored"] == [parent, child, grandchild]
    assert [s["session_id"] for s in answer["restored_too"]] == [child, grandchild]
    instance.sm("kill", child, grandchild)
    assert instance.json("restore", "--tree", parent)["restored"] == [child, grandchild]
    assert "is running" in instance.refused("restore", "--tree", parent, exit_code=4)


def test_interrupt_is_sent_once_for_each_idempotency_key(instance: Instance) -> None:
    session = instance.spawn("Catcher", "int")
    session_id, out = session["session_id"], instance.work / "int"
    until(out.exists, "the agent runs")
    assert instance.sm("interrupt", session_id) == f"Interrupt sent to {session['name']}\n"
    until(lambda: out.read_text() == "ready\ncaught\n", "the first interrupt")
    client, key = Client(str(instance.socket)), new_key()
    answers = [client.post(f"/v1/sessions/{session_id}/interrupt", {}, key=key) for _ in range(3)]
    assert {answer["interrupted"] for answer in answers} == {None}
    until(lambda: out.read_text() == "ready\ncaught\ncaught\n", "the second interrupt")
    instance.sm("kill", session_id, "--force")
    assert "has ended" in instance.refused("interrupt", session_id, exit_code=4)
    assert out.read_text() == "ready\ncaught\ncaught\n"


def test_exit_signal_is_sigint_when_an_interrupt_ends_the_program(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper")["session_id"]
    instance.sm("interrupt", session_id)
    assert instance.ended(session_id)["exit_signal"] == signal.SIGINT


def test_fork_is_refused_when_there_is_no_conversation(instance: Instance) -> None:
    session_id = spawn_counted(instance, "unforked")["session_id"]
    assert "has no conversation to resume" in instance.refused("fork", session_id, exit_code=2)


# Crashes

POINTS = [
    "HostSandbox.prepare before 1",  # inside the transaction
    "HostSandbox.prepare after 1",
    "Transaction.effect after 1",
    "Store.transaction before 3",  # the transaction of the new start
    "Store.transaction after 3",
    "Tmux.close before 1",
    "Tmux.close after 1",
    "HostSandbox.prepare after 2",
    "Tmux.open before 1",
    "Tmux.open after 1",
    "HostSandbox.wait_started after 1",
    "AgentStarts.record_start before 1",
    "AgentStarts.record_start after 1",
]


@pytest.mark.parametrize("point", POINTS)
def test_restore_starts_exactly_one_agent_when_the_daemon_crashes_at_any_step(
    instance: Instance, point: str
) -> None:
    session_id = instance.spawn("Counted", "agent 3")["session_id"]
    instance.ended(session_id)
    instance.settle()
    (instance.work / "agent.go").touch()
    instance.kill_daemon()
    daemon = instance.start_crashing_daemon(point)
    instance.sm("restore", session_id)
    daemon.wait()  # the daemon was dropped, and `sm restore` started another one and retried
    until(lambda: len(starts(instance, "agent")) >= 2, "the agent runs")
    session = instance.session(session_id)
    assert (session["status"], starts(instance, "agent")[1:]) == ("running", [session["pid"]])
    assert agents_of(instance, {session_id}) == Counter({session_id: 1})
    assert token_is_right(instance, session_id)
    instance.settle()
    assert types(instance, session_id) == ["spawned", "started", "error", "reopened", "started"]
    assert left_over(instance, {session_id}) == []


def test_agent_that_exits_immediately_is_not_started_again_after_a_crash(instance: Instance) -> None:
    session_id = instance.spawn("Counted", "quick 7")["session_id"]
    instance.ended(session_id)
    instance.kill_daemon()
    daemon = instance.start_crashing_daemon("AgentStarts.record_start before 1")
    instance.sm("restore", session_id)
    daemon.wait()
    assert instance.ended(session_id)["exit_code"] == 7
    assert len(starts(instance, "quick")) == 2


@pytest.mark.parametrize(
    ("point", "times"),
    [("Tmux.press before 1", 0), ("Tmux.press after 1", 1), ("EffectRecord.mark_taken before 1", 1)],
)
def test_interrupt_is_sent_at_most_once_when_the_daemon_crashes(
    instance: Instance, point: str, times: int
) -> None:
    session_id = instance.spawn("Catcher", "caught")["session_id"]
    out = instance.work / "caught"
    until(out.exists, "the agent runs")
    instance.kill_daemon()
    daemon = instance.start_crashing_daemon(point)
    done = instance.run("interrupt", session_id)
    daemon.wait()
    # An interrupt whose result is unknown is reported as an error and never repeated.
    assert done.returncode == (0 if point.startswith("EffectRecord") else 9), done
    instance.settle()
    assert out.read_text() == "ready\n" + "caught\n" * times
    instance.sm("kill", session_id, "--force")
    assert out.read_text() == "ready\n" + "caught\n" * times
