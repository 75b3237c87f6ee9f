"""Pauses of real programs: their children are stopped, or all their processes are frozen."""

from pathlib import Path
from typing import Any

from sm.linux.processes import read_stat
from tests.fixtures import context_fixture
from tests.instance import SM
from tests.integration.played_claude import Stage
from tests.person_terminal import PersonTerminal
from tests.waits import until

stage = context_fixture("module", Stage)


def pause_of(stage: Stage, session_id: str) -> Any:
    return stage.session(session_id)["paused"]


def is_stopped(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.stopped


def child_of(stage: Stage, session: dict[str, Any]) -> int:
    def look() -> int | None:
        children = Path(f"/proc/{session['pid']}/task/{session['pid']}/children").read_text().split()
        return int(children[0]) if children else None

    return until(look, "the program has a child")


def test_children_of_a_program_are_stopped_and_continued(stage: Stage) -> None:
    session = stage.spawn("Sh", "sleep 1000; sleep 1001")
    child = child_of(stage, session)
    answer = stage.json("pause", session["session_id"])
    assert answer["paused"]["state"] == "paused"
    if answer["paused"]["held"] == "frozen":  # the program too
        assert answer["warnings"] == []
    else:
        assert "its program keeps running" in answer["warnings"][0]
        assert is_stopped(child)
    stage.sm("resume", session["session_id"])
    until(lambda: not is_stopped(child), "the child is continued")


def test_frozen_program_does_nothing_until_it_resumes(stage: Stage) -> None:
    """Where the machine has no cgroups, its program goes on, and the pause says so."""
    ticks = stage.home / "ticks"
    session = stage.spawn("Sh", f"while :; do echo tick >> {ticks}; sleep 0.05; done")["session_id"]
    until(lambda: ticks.exists(), "the program works")
    answer = stage.json("pause", session)
    if answer["paused"]["held"] != "frozen":
        assert "its program keeps running" in answer["warnings"][0]
        return
    done = ticks.read_text()
    refusal = stage.refused("interrupt", session, exit_code=4)
    assert "is paused: its processes are frozen" in refusal and f"sm resume {session}" in refusal
    assert f"sm resume {session}" in stage.refused("restore", session, exit_code=4)
    assert "its processes are frozen" in stage.sm("why", session)
    progress = stage.sm("progress", session).splitlines()
    assert "| paused (working) |" in progress[0]
    assert progress[1].startswith("Paused: ") and "its processes are frozen until sm resume" in progress[1]
    assert stage.json("progress", session)["paused"]["held"] == "frozen"
    with PersonTerminal([SM, "attach", session], stage.env, 100, 30) as person:
        attached = f"session {session} is paused: its processes are frozen until sm resume".encode()
        until(lambda: person.printed.count(attached) >= 2, "the reason is in the shell, and in tmux")
        person.press("\x02d")
    stage.kill_daemon()
    stage.sm("all")  # starts the next daemon
    assert (pause_of(stage, session)["state"], pause_of(stage, session)["held"]) == ("paused", "frozen")
    assert ticks.read_text() == done
    stage.sm("resume", session)
    until(lambda: len(ticks.read_text()) > len(done), "the program goes on")
    said = [event["message"].partition(": ")[2] for event in stage.json("events", session)]
    assert "its pause froze its processes; sm resume lets them go on" in said
    assert "its frozen processes go on" in said
    stage.sm("pause", session)
    stage.sm("kill", session)
    assert stage.session(session)["status"] == "killed"


def test_wait_of_a_frozen_process_survives_the_freeze_and_a_crash_of_the_daemon(stage: Stage) -> None:
    """As a hook that waits for the daemon when its agent is frozen."""
    got = stage.home / "got"
    program = f"sm inbox --take --wait > {got}.new 2>/dev/null; mv {got}.new {got}; sleep 1000"
    session = stage.spawn("Sh", program)["session_id"]
    until(lambda: stage.session(session)["status"] == "idle", "the program waits for a message")
    if stage.json("pause", session)["paused"]["held"] != "frozen":
        return  # no cgroup can be made here
    stage.sm("send", session, "while frozen", "--no-wait")
    (held,) = stage.json("log", session)
    assert (held["status"], held["reason"]) == ("queued", "the session is paused")
    stage.kill_daemon()
    stage.sm("all")  # starts the next daemon
    assert pause_of(stage, session)["held"] == "frozen"
    stage.sm("resume", session)
    assert until(got.exists, "the program has its message")
    assert got.read_text().count("while frozen") == 1
    stage.sm("kill", session)


def test_stopped_child_of_a_paused_program_is_killed_with_it(stage: Stage) -> None:
    session = stage.spawn("Sh", "sleep 1000; sleep 1001")
    child = child_of(stage, session)
    stage.sm("pause", session["session_id"])
    held = pause_of(stage, session["session_id"])["held"]
    assert held == "frozen" or is_stopped(child)
    stage.sm("kill", session["session_id"])
    until(lambda: read_stat(child) is None, "the child has ended")
    ended = stage.session(session["session_id"])
    assert (ended["status"], ended["paused"]) == ("killed", None)
