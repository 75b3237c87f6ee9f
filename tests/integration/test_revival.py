"""Sessions that go on: restored, interrupted, forked, adopted. Exactly one agent, whatever dies and when."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client, new_key
from sm.core.models import digest
from tests.instance import SM, Instance, until
from tests.integration.test_crash_in_spawn import Stage, agents_of, left_over, starts
from tests.integration.test_endings import gone, rows, tmux_server, written

COUNTED = "echo $$ >> {}; exec sleep 1000"
"""An agent that says each time that it was started."""
UNTIL_TOLD = "echo $$ >> {0}; if [ -e {0}.go ]; then exec sleep 1000; else exit {1}; fi"
"""The same, which ends by itself the first time."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Instance]:
    with Instance() as made:
        yield made


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance() as made:
        yield made


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def counted(instance: Instance, name: str, *arguments: str) -> dict[str, Any]:
    session = instance.spawn("Sh", COUNTED.format(name), *arguments)
    until(lambda: starts(instance.work / name), f"{name} runs")
    return session


def killed(instance: Instance, name: str, *arguments: str) -> dict[str, Any]:
    session = counted(instance, name, *arguments)
    instance.sm("kill", session["session_id"], "--force")
    return session


def column(instance: Instance, name: str, session_id: str) -> Any:
    """A column of the session's row."""
    return dict(rows(instance, f"SELECT id, {name} FROM sessions"))[session_id]  # noqa: S608 - names of ours


def token_is_right(instance: Instance, session_id: str) -> bool:
    """Whether the token that the agent finds is the one that the daemon would know it by."""
    token = (instance.state / "launch" / f"{session_id}.token").read_text()
    return bool(column(instance, "token_hash", session_id) == digest(token))


def types(instance: Instance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id)]


def lose_tmux(instance: Instance, *sessions: dict[str, Any]) -> None:
    os.kill(tmux_server(instance), signal.SIGKILL)
    for session in sessions:
        until(lambda pid=session["pid"]: gone(pid), "it went with its terminal")  # type: ignore[misc]  # a default binds the loop's value
        until(
            lambda s=session: instance.session(s["session_id"])["status"] in ("error", "completed"),  # type: ignore[misc]  # the same
            "its end is known",
        )


# Restoring one


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill", "SIGKILL", "tmux kill-session"])
def test_a_session_that_ended_goes_on_as_itself_in_a_new_process(shared: Instance, end: str) -> None:
    name = end.replace(" ", "-").lower()
    script = UNTIL_TOLD.format(name, end[-1]) if end.startswith("exit") else COUNTED.format(name)
    before = shared.spawn("Sh", script, "--name", name)
    session_id = before["session_id"]
    until(lambda: starts(shared.work / name), "it runs")
    if end == "kill":
        shared.sm("kill", session_id)
    elif end == "SIGKILL":
        os.kill(before["pid"], signal.SIGKILL)
    elif end == "tmux kill-session":
        shared.tmux("kill-session", "-t", f"=command-{session_id}")
    ended = shared.ended(session_id)
    token = (shared.state / "launch" / f"{session_id}.token").read_text()
    (shared.work / f"{name}.go").touch()

    assert shared.sm("restore", session_id) == f"Restored sh-{name} ({session_id})\n"

    after = shared.session(session_id)
    assert after["status"] == "running"
    assert after["pid"] not in (None, before["pid"])
    same = ("session_id", "name", "friendly_name", "tmux_session", "working_dir", "trust_level", "agent_type")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert (after["exit_code"], after["exit_signal"], after["completed_at"]) == (None, None, None)
    assert after["started_at"] > ended["completed_at"]
    until(lambda: len(starts(shared.work / name)) == 2, "the agent runs again")
    assert starts(shared.work / name)[1] == after["pid"]
    assert agents_of({session_id}) == Counter({session_id: 1})
    assert (shared.state / "launch" / f"{session_id}.token").read_text() != token
    assert token_is_right(shared, session_id)
    assert types(shared, session_id) == ["spawned", "started", ended["status"], "reopened", "started"]


def test_a_restored_session_is_used_like_any_other_and_its_next_end_is_told(shared: Instance) -> None:
    session = counted(shared, "told", "--name", "told")
    session_id = session["session_id"]
    os.kill(session["pid"], signal.SIGKILL)
    shared.ended(session_id)
    shared.sm("restore", "sh-told")
    shared.sm("output", session_id)
    again = shared.session(session_id)
    os.kill(again["pid"], signal.SIGTERM)
    ended = shared.ended(session_id)
    assert (ended["status"], ended["exit_signal"]) == ("error", signal.SIGTERM)
    told = "its process ended: signal"
    until(lambda: f"{told} 9" in (said := shared.sm("inbox")) and f"{told} 15" in said, "both ends are told")
    assert types(shared, session_id).count("error") == 2


def test_what_lives_is_not_restored(shared: Instance) -> None:
    live = counted(shared, "live")
    error = shared.refused("restore", live["session_id"], exit_code=4)
    assert "it runs" in error and f"hint: sm attach {live['session_id']}" in error
    done = shared.spawn("Sh", "sm complete fine > done.txt 2>&1; exec sleep 1000")
    shared.in_status(done["session_id"], "completed")
    assert "its process lives" in shared.refused("restore", done["session_id"], exit_code=4)
    assert not gone(live["pid"]) and not gone(done["pid"])
    shared.refused("restore", "ffffffff", exit_code=3)
    shared.refused("restore", exit_code=2)
    shared.refused("restore", "--all", live["session_id"], exit_code=2)


def test_a_session_whose_directory_is_gone_is_not_restored(shared: Instance) -> None:
    place = shared.work / "short-lived"
    place.mkdir()
    session_id = shared.spawn("Sleeper", "--working-dir", str(place))["session_id"]
    shared.sm("kill", session_id)
    place.rmdir()
    error = shared.refused("restore", session_id, exit_code=2)
    assert f"{place} does not exist" in error
    assert shared.session(session_id)["status"] == "killed"
    place.mkdir()
    shared.sm("restore", session_id)


def test_a_name_that_a_live_session_has_taken_is_not_given_twice(shared: Instance) -> None:
    first = killed(shared, "first", "--name", "taken")["session_id"]
    second = counted(shared, "second", "--name", "taken")["session_id"]
    assert "named sh-taken already" in shared.refused("restore", first, exit_code=2)
    shared.sm("kill", second)
    shared.sm("restore", first)


def test_an_archived_session_comes_back_into_sight(shared: Instance) -> None:
    session_id = killed(shared, "archived")["session_id"]
    shared.sm("archive", session_id)
    assert shared.json("restore", session_id)["archived"] is False
    assert types(shared, session_id)[-3:] == ["reopened", "archived", "started"]


def test_one_that_cannot_start_is_an_error_and_can_be_restored_later(shared: Instance) -> None:
    program = shared.work / "comes-and-goes"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    session_id = shared.spawn("Sh", f"exec {program}")["session_id"]
    shared.sm("kill", session_id)
    program.chmod(0o600)
    shared.json("restore", session_id)
    assert shared.ended(session_id)["status"] == "error"
    program.chmod(0o700)
    assert shared.json("restore", session_id)["status"] == "running"


def test_a_request_that_is_repeated_restores_once(shared: Instance) -> None:
    session_id = killed(shared, "repeated")["session_id"]
    client, key = Client(str(shared.socket)), new_key()
    answers = [client.post(f"/v1/sessions/{session_id}/restore", {}, key=key) for _ in range(3)]
    assert len({answer["pid"] for answer in answers}) == 1
    assert types(shared, session_id).count("reopened") == 1
    assert len(starts(shared.work / "repeated")) == 2


def test_a_session_restores_its_own_descendants_only(shared: Instance) -> None:
    parent = counted(shared, "parent")["session_id"]
    child = killed(shared, "child", "--parent", parent)["session_id"]
    other = killed(shared, "other")["session_id"]
    env = {"SM_SESSION_ID": parent}
    shared.refused("restore", other, exit_code=5, env=env)
    shared.refused("restore", "--all", exit_code=5, env=env)
    shared.refused("interrupt", other, exit_code=5, env=env)
    shared.refused("fork", other, exit_code=5, env=env)
    shared.refused("adopt", "%0", exit_code=5, env=env)
    shared.sm("restore", child, env=env)
    assert shared.session(child)["parent_session_id"] == parent


def test_a_program_that_somebody_runs_in_the_old_terminal_is_left_alone(shared: Instance) -> None:
    session_id = killed(shared, "strange")["session_id"]
    shared.tmux("respawn-pane", "-t", f"=command-{session_id}:", "sleep 1000")
    pid = int(shared.tmux("display-message", "-p", "-t", f"=command-{session_id}:", "#{pane_pid}"))
    assert "is not its agent" in shared.refused("restore", session_id, exit_code=4)
    assert not gone(pid)


def test_the_old_terminals_clean_up_does_not_take_the_new_one(instance: Instance) -> None:
    cleanup = "child_agents: {cleanup: {close_tmux_session: true}}\n"
    instance.config.write_text(instance.config.read_text() + cleanup)
    session = counted(instance, "cleaned")
    session_id = session["session_id"]
    os.kill(session["pid"], signal.SIGKILL)
    instance.ended(session_id)
    Client(str(instance.socket)).post(f"/v1/sessions/{session_id}/restore", {}, key=new_key())
    until(
        lambda: rows(instance, "SELECT count(*) FROM outbox WHERE state IN ('pending', 'taken')") == [(0,)],
        "everything that was to be done is done",
    )
    assert instance.session(session_id)["status"] == "running"
    assert instance.tmux("has-session", "-t", f"=command-{session_id}") == ""
    assert len(starts(instance.work / "cleaned")) == 2


def test_what_the_old_process_left_behind_takes_no_message_of_the_new_one(instance: Instance) -> None:
    """Also what is out of its process tree: claude gives each command a kernel session of its own."""
    waits = "sm inbox --take --wait > {0}.out 2>&1; echo ended $? >> {0}.out"
    tree, away = waits.format("tree"), waits.format("away")
    quiet = "< /dev/null > /dev/null 2>&1"
    script = (
        f"if [ -e again ]; then echo $$ >> wrote; exec sleep 1000; fi; (trap '' HUP; {tree}) {quiet} & "
        f"setsid sh -c '{away}' {quiet} & setsid sh -c 'echo $$ > stays; exec sleep 1000' {quiet} & "
        "while [ ! -s stays ]; do sleep 0.1; done; echo $$ >> wrote; exec sleep 1000"
    )
    session = instance.spawn("Sh", script)
    session_id = session["session_id"]
    until(lambda: starts(instance.work / "wrote"), "it runs")
    other = counted(instance, "other")
    instance.in_status(session_id, "idle")  # both wait
    stays = int((instance.work / "stays").read_text())
    (instance.work / "again").touch()
    os.kill(session["pid"], signal.SIGKILL)
    instance.ended(session_id)
    for name in ("tree", "away"):
        until(lambda n=name: "ended 4" in (instance.work / f"{n}.out").read_text(), "its wait has ended")  # type: ignore[misc]  # a default binds the loop's value
        assert "its process is gone" in (instance.work / f"{name}.out").read_text()
    as_it = {"SM_SESSION_ID": session_id}
    assert "its process is gone" in instance.refused("inbox", "--take", exit_code=4, env=as_it)
    refused = instance.refused("wait", other["session_id"], "--timeout", "20", exit_code=4, env=as_it)
    assert "its process is gone" in refused
    assert not gone(stays)
    instance.sm("restore", session_id)
    assert gone(stays)
    assert not gone(other["pid"])
    message = instance.json("send", session_id, "for the new one")
    assert message["status"] == "queued"
    assert "for the new one" in instance.sm("inbox", "--take", env=as_it)
    assert len(starts(instance.work / "wrote")) == 2


# Restoring many


def test_all_that_were_lost_with_tmux_come_back_and_nothing_else(instance: Instance) -> None:
    parent = counted(instance, "a")
    child = counted(instance, "b", "--parent", parent["session_id"])
    lone, put_away = counted(instance, "c"), counted(instance, "d")
    before = killed(instance, "e")
    assert instance.sm("restore", "--all") == "no session was lost\n"
    lose_tmux(instance, parent, child, lone, put_away)
    instance.sm("archive", put_away["session_id"])
    wanted = [s["session_id"] for s in (parent, child, lone)]
    restored = instance.json("restore", "--all")
    assert {s["session_id"] for s in restored} == set(wanted)
    for session_id, name in zip(wanted, "abc", strict=True):
        until(lambda n=name: len(starts(instance.work / n)) == 2, "it runs again")  # type: ignore[misc]  # a default binds the loop's value
        assert instance.session(session_id)["status"] == "running"
        assert token_is_right(instance, session_id)
    assert agents_of(set(wanted)) == Counter(dict.fromkeys(wanted, 1))
    order = [e["session_id"] for e in instance.events() if e["type"] == "reopened"]
    assert order.index(parent["session_id"]) < order.index(child["session_id"])
    assert instance.session(before["session_id"])["status"] == "killed"
    assert instance.json("restore", "--all") == []


@pytest.mark.parametrize("away", [False, True])
def test_one_whose_terminal_a_person_closed_does_not_come_back_with_all(
    instance: Instance, away: bool
) -> None:
    closed, lost = counted(instance, "closed"), counted(instance, "lost")
    server = tmux_server(instance)
    if away:
        instance.kill_daemon()
    instance.tmux("kill-session", "-t", f"=command-{closed['session_id']}")
    until(lambda: gone(closed["pid"]), "it went with its terminal")
    assert instance.in_status(closed["session_id"], "error")["status_source"] == "terminal"
    if away:
        instance.kill_daemon()
    os.kill(server, signal.SIGKILL)
    until(lambda: gone(lost["pid"]), "it went with its terminal")
    if away:  # the person goes on with tmux before anybody asks sm
        lost_s = time.time()
        until(
            lambda: int(time.time()) > int(lost_s), "tmux, which knows whole seconds, can tell the two apart"
        )
        instance.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    ended = instance.in_status(lost["session_id"], "error")
    assert ended["status_source"] == "tmux server", ended["status_reason"]
    assert [s["session_id"] for s in instance.json("restore", "--all")] == [lost["session_id"]]
    assert instance.session(closed["session_id"])["status"] == "error"
    instance.sm("restore", closed["session_id"])


def test_all_that_were_lost_while_the_daemon_was_away_come_back(instance: Instance) -> None:
    sessions = [counted(instance, name) for name in "ab"]
    server = tmux_server(instance)
    instance.kill_daemon()
    os.kill(server, signal.SIGKILL)
    for session in sessions:
        until(lambda pid=session["pid"]: gone(pid), "it went with its terminal")  # type: ignore[misc]  # a default binds the loop's value
    assert {s["session_id"] for s in instance.json("restore", "--all")} == {s["session_id"] for s in sessions}
    for name in "ab":
        until(lambda n=name: len(starts(instance.work / n)) == 2, "it runs again")  # type: ignore[misc]  # the same


def test_one_of_all_that_cannot_be_restored_keeps_none_of_the_others(instance: Instance) -> None:
    place = instance.work / "place"
    place.mkdir()
    lost, good = instance.spawn("Sleeper", "--working-dir", str(place)), counted(instance, "good")
    lose_tmux(instance, lost, good)
    place.rmdir()
    done = instance.run("restore", "--all")
    assert done.returncode == 2
    assert done.stdout == f"Restored {good['name']} ({good['session_id']})\n"
    assert f"{place} does not exist" in done.stderr


def test_a_tree_is_restored_from_the_top(instance: Instance) -> None:
    parent = counted(instance, "p")["session_id"]
    child = counted(instance, "q", "--parent", parent)["session_id"]
    below = counted(instance, "r", "--parent", child)["session_id"]
    instance.config.write_text(instance.config.read_text() + "child_agents: {on_parent_end: keep}\n")
    instance.kill_daemon()
    instance.sm("kill", "--tree", parent)
    answer = instance.json("restore", "--tree", parent)
    assert answer["restored"] == [parent, child, below]
    assert [s["session_id"] for s in answer["restored_too"]] == [child, below]
    instance.sm("kill", child, below)
    assert instance.json("restore", "--tree", parent)["restored"] == [child, below]
    assert "it runs" in instance.refused("restore", "--tree", parent, exit_code=4)


# Crashes

POINTS = [
    "HostSandbox.prepare before 1",  # within the transaction
    "HostSandbox.prepare after 1",
    "Transaction.effect after 1",
    "Store.transaction before 3",  # the session starts again
    "Store.transaction after 3",
    "Tmux.close before 1",
    "Tmux.close after 1",
    "HostSandbox.prepare after 2",
    "Tmux.open before 1",
    "PaneCreator._start_agent after 1",
    "Tmux.open after 1",
    "HostSandbox.wait_started after 1",
    "Spawner.started before 1",
    "Spawner.started after 1",
]


@pytest.fixture(scope="module")
def ended_ones(stage: Stage) -> dict[str, str]:
    """A session for each of POINTS, whose process is gone."""
    daemon = stage.start_daemon()
    ids = {}
    for point in POINTS:
        script = UNTIL_TOLD.format(point.replace(" ", "-"), 3)
        ids[point] = stage.request(script, f"for {point}")["session_id"]
    for point, session_id in ids.items():
        stage.ended(session_id)
        (stage.work / f"{point.replace(' ', '-')}.go").touch()
    daemon.kill()
    return ids


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_step_of_a_restore_gives_exactly_one_agent(
    stage: Stage, ended_ones: dict[str, str], point: str
) -> None:
    session_id = ended_ones[point]
    wrote = stage.work / point.replace(" ", "-")
    daemon = stage.start_daemon(point)
    stage.sm("restore", session_id)
    daemon.wait()  # it did die, and `sm restore` has started another and asked that again
    until(lambda: len(starts(wrote)) >= 2, "the agent runs")
    session = stage.session(session_id)
    assert (session["status"], starts(wrote)[1:]) == ("running", [session["pid"]])
    assert agents_of({session_id}) == Counter({session_id: 1})
    assert token_is_right(stage, session_id)
    stage.kill_daemon()
    told = [
        type
        for of, type in rows(stage, "SELECT session_id, type FROM events ORDER BY seq")
        if of == session_id
    ]
    assert told == ["spawned", "started", "error", "reopened", "started"]
    assert left_over(stage, {row[0] for row in rows(stage, "SELECT id FROM sessions")}) == []


def test_one_that_ends_at_once_is_not_started_again_by_a_crash(stage: Stage) -> None:
    daemon = stage.start_daemon()
    session_id = stage.spawn("Sh", "echo $$ >> quick; exit 7")["session_id"]
    stage.ended(session_id)
    daemon.kill()
    daemon = stage.start_daemon("Spawner.started before 1")
    stage.sm("restore", session_id)
    daemon.wait()
    assert stage.ended(session_id)["exit_code"] == 7
    assert len(starts(stage.work / "quick")) == 2
    stage.kill_daemon()


# Interrupting

CATCHES = "trap 'echo caught >> {0}' INT; echo ready >> {0}; while :; do sleep 0.1; done"


def test_a_program_is_interrupted_once(shared: Instance) -> None:
    session = shared.spawn("Sh", CATCHES.format("int"))
    session_id, out = session["session_id"], shared.work / "int"
    written(out)
    assert shared.sm("interrupt", session_id) == f"Interrupt sent to {session['name']} ({session_id})\n"
    until(lambda: out.read_text() == "ready\ncaught\n", "it has caught it")
    client, key = Client(str(shared.socket)), new_key()
    answers = [client.post(f"/v1/sessions/{session_id}/interrupt", {}, key=key) for _ in range(3)]
    assert {answer["interrupted"] for answer in answers} == {None}
    until(lambda: out.read_text() == "ready\ncaught\ncaught\n", "it has caught the second")
    shared.sm("kill", session_id, "--force")
    assert "has ended" in shared.refused("interrupt", session_id, exit_code=4)
    assert out.read_text() == "ready\ncaught\ncaught\n"


def test_an_interrupt_that_ends_a_program_is_its_end(shared: Instance) -> None:
    session_id = shared.spawn("Sleeper")["session_id"]
    shared.sm("interrupt", session_id)
    assert shared.ended(session_id)["exit_signal"] == signal.SIGINT


@pytest.mark.parametrize(
    ("point", "times"), [("Tmux.press before 1", 0), ("Tmux.press after 1", 1), ("Manager.taken before 1", 1)]
)
def test_a_crash_never_interrupts_twice(stage: Stage, point: str, times: int) -> None:
    daemon = stage.start_daemon()
    out = stage.work / point.replace(" ", "-")
    session_id = stage.spawn("Sh", CATCHES.format(out))["session_id"]
    written(out)
    daemon.kill()
    daemon = stage.start_daemon(point)
    done = stage.run("interrupt", session_id)
    daemon.wait()
    # What was begun and not seen to end is told as that, and never repeated.
    assert done.returncode == (0 if point.startswith("Manager") else 9), done
    until(lambda: out.read_text() == "ready\n" + "caught\n" * times, "it was interrupted so often")
    stage.sm("kill", session_id, "--force")
    assert out.read_text() == "ready\n" + "caught\n" * times
    stage.kill_daemon()


# Forking


def test_a_program_has_nothing_to_fork(shared: Instance) -> None:
    session_id = counted(shared, "unforked")["session_id"]
    assert "there is no conversation to go on with" in shared.refused("fork", session_id, exit_code=2)


# Adopting

TALK = "0f0e0d0c-0b0a-4908-8706-050403020100"
FAKE = """
state=$HOME/.claude/sessions/$$.json
mkdir -p "$HOME/.claude/sessions"
say() {
    about='{"pid": %s, "sessionId": "%s", "status": "%s", "statusUpdatedAt": %s}'
    printf "$about" $$ TALK "$1" "$(date +%s%3N)" > "$state.new"
    mv "$state.new" "$state"
}
stty -icanon -echo min 1
say busy
echo "$$ $*" | head -n 1 >> "$HOME/work/claudes"
echo "what it shows"
while key=$(dd bs=1 count=1 2> /dev/null); do
    case $key in
        b) say busy ;;
        m) sm me --json > "$HOME/work/me.new" 2>&1; mv "$HOME/work/me.new" "$HOME/work/me" ;;
        x) exit 5 ;;
        *) say idle ;;
    esac
done
""".replace("TALK", TALK)


class Person:
    """Somebody who runs agents in panes of their own, on the tmux server that the daemon uses."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        # A stand-in for the real one: `claude` is the shell, by what the kernel says it was started as.
        self.program = instance.work / "claude"
        self.program.symlink_to("/bin/sh")
        self.script = instance.work / "fake"
        self.script.write_text(FAKE)
        command = json.dumps([str(self.program), str(self.script)])
        instance.config.write_text(instance.config.read_text() + f"claude: {{default_command: {command}}}\n")
        instance.spawn("Sleeper")

    def opens(self, name: str, command: str = "sh") -> str:
        """A pane of theirs."""
        self.instance.tmux("new-session", "-d", "-s", name, "-c", str(self.instance.work), command)
        return self.instance.tmux("display-message", "-p", "-t", f"={name}:", "#{pane_id}").strip()

    def types(self, pane: str, text: str) -> None:
        self.instance.tmux("send-keys", "-t", pane, "-l", text)

    def runs(self, pane: str) -> int:
        """A claude in a shell; its process."""
        before = len(self.claudes())
        self.types(pane, f"{self.program} {self.script}\n")
        return until(lambda: self.claudes()[before:], "claude runs")[0]

    def claudes(self) -> list[int]:
        path = self.instance.work / "claudes"
        return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []

    def does(self, pane: str, what: str) -> None:
        """Type a command into a shell, and see that it is carried out."""
        done = self.instance.work / f"done-{new_key()}"
        self.types(pane, f"{what}; touch {done}\n")
        until(done.exists, f"the shell has done: {what}")


@pytest.fixture
def person(instance: Instance) -> Person:
    return Person(instance)


def test_an_agent_in_a_persons_shell_becomes_a_session_and_the_shell_stays_theirs(person: Person) -> None:
    instance, pane = person.instance, person.opens("mine")
    pid = person.runs(pane)
    session = instance.json("adopt", pane, "--name", "Login")
    session_id = session["session_id"]
    assert (session["pid"], session["provider"], session["status"]) == (pid, "claude", "running")
    assert (session["working_dir"], session["friendly_name"]) == (str(instance.work), "general-purpose-login")
    assert (session["effective_mode"], session["parent_session_id"]) == ("direct", None)
    assert session["tmux_session"] == f"claude-{session_id}"
    assert (
        instance.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id} #{remain-on-exit}") == f"{pane} off\n"
    )
    assert "is session" in instance.refused("adopt", pane, exit_code=4)
    assert "what it shows" in instance.sm("output", session_id)
    argv = Client(str(instance.socket)).get(f"/v1/sessions/{session_id}/attach")["argv"]
    assert pane in argv and argv[-1] == "=mine:"
    assert json.loads(column(instance, "launch", session_id))["inherited"]["HOME"] == str(instance.home)
    assert column(instance, "token_hash", session_id) is None
    assert column(instance, "conversation", session_id) == TALK

    # Who is who: the agent, and its owner in another pane beside it.
    person.types(pane, "m")
    until((instance.work / "me").exists, "it asks")
    assert json.loads((instance.work / "me").read_text())["session_id"] == session_id
    instance.tmux("split-window", "-d", "-t", pane, "-c", str(instance.work), "sh")
    beside = instance.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id}").split()[1]
    person.does(beside, f"{SM} me > {instance.work}/operator 2>&1")
    assert "you are the operator" in (instance.work / "operator").read_text()

    # What it publishes is its status, and Escape makes it leave off.
    assert instance.sm("interrupt", session_id).startswith("Interrupted general-purpose-login")
    instance.in_status(session_id, "idle")
    assert "nothing to interrupt" in instance.refused("interrupt", session_id, exit_code=4)
    instance.kill_daemon()
    assert instance.session(session_id)["status"] == "idle"

    instance.sm("kill", session_id)
    assert gone(pid)
    assert instance.session(session_id)["status"] == "killed"
    archive = instance.state / "archives" / f"{session_id}.txt"
    until(
        lambda: "@sm" not in instance.tmux("show-options", "-p", "-t", pane), "the pane is its owner's again"
    )
    assert "what it shows" in archive.read_text()
    person.does(pane, f"{SM} me > {instance.work}/after 2>&1")
    assert "you are the operator" in (instance.work / "after").read_text()

    after = instance.json("restore", session_id)
    until(lambda: len(person.claudes()) == 2, "it runs again")
    assert after["pid"] == person.claudes()[1] != pid
    assert f"--resume {TALK}" in (instance.work / "claudes").read_text().splitlines()[1]
    assert token_is_right(instance, session_id)
    assert instance.tmux("has-session", "-t", f"=claude-{session_id}") == ""
    person.does(pane, "true")


def test_a_persons_shell_around_an_adopted_agent_is_the_operator(person: Person) -> None:
    instance, pane = person.instance, person.opens("mine")
    pid = person.runs(pane)
    instance.json("adopt", pane)
    instance.tmux("send-keys", "-t", pane, "C-z")
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T", "it is stopped")
    person.does(pane, f"{SM} me > {instance.work}/shell 2>&1")
    assert "you are the operator" in (instance.work / "shell").read_text()
    person.types(pane, "fg\n")


def test_an_adopted_agent_is_restored_with_the_options_that_it_had(person: Person) -> None:
    instance, pane = person.instance, person.opens("mine")
    config = instance.config.read_text().replace(
        "claude: {", "claude: {default_args: ['--permission-mode', 'acceptEdits'], "
    )
    instance.config.write_text(config)
    instance.sm("daemon", "restart")
    options = "--model opus --permission-mode plan --add-dir /tmp"
    person.types(pane, f"{person.program} {person.script} hello {options}\n")
    until(person.claudes, "claude runs")
    session_id = instance.json("adopt", pane)["session_id"]
    instance.sm("kill", session_id)
    instance.sm("restore", session_id)
    until(lambda: len(person.claudes()) == 2, "it runs again")
    (_, ran) = (instance.work / "claudes").read_text().splitlines()
    assert f" --model opus --permission-mode plan --add-dir /tmp --resume {TALK} " in ran
    assert "acceptEdits" not in ran


def test_a_broken_file_of_servers_keeps_no_running_agent_from_being_adopted(person: Person) -> None:
    instance, pane = person.instance, person.opens("mine")
    (instance.home / ".claude.json").write_text("{")
    (instance.work / ".mcp.json").write_text("{")
    instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
    person.runs(pane)
    session = instance.json("adopt", pane)  # nothing is given to what runs already
    assert session["workspace"] == "shop"
    instance.sm("kill", session["session_id"])
    assert "cannot be used: it is no JSON" in instance.refused("restore", session["session_id"], exit_code=2)


def test_an_adopted_agents_pane_is_its_owners_again_also_without_an_archive(person: Person) -> None:
    instance, pane = person.instance, person.opens("mine")
    cleanup = "child_agents: {cleanup: {auto_archive_transcript: false}}\n"
    instance.config.write_text(instance.config.read_text() + cleanup)
    instance.sm("daemon", "restart")
    person.runs(pane)
    session_id = instance.json("adopt", pane)["session_id"]
    instance.sm("kill", session_id)
    until(
        lambda: "@sm" not in instance.tmux("show-options", "-p", "-t", pane), "the pane is its owner's again"
    )
    person.runs(pane)
    assert instance.json("adopt", pane)["session_id"] != session_id


@pytest.mark.parametrize("what", ["pipe", "link"])
def test_what_an_agent_publishes_is_no_pipe_and_no_link(person: Person, what: str) -> None:
    instance, pane = person.instance, person.opens("mine")
    pid = person.runs(pane)
    state = instance.home / ".claude" / "sessions" / f"{pid}.json"
    until(state.exists, "it has published")
    elsewhere = instance.home / "elsewhere"
    state.rename(elsewhere)
    if what == "pipe":
        os.mkfifo(state)
    else:
        state.symlink_to(elsewhere)
    session_id = instance.json("adopt", pane)["session_id"]
    assert column(instance, "conversation", session_id) is None


def test_an_agent_that_ends_in_a_persons_shell_leaves_no_exit_code(person: Person) -> None:
    instance, pane = person.instance, person.opens("mine")
    person.runs(pane)
    session_id = instance.json("adopt", "=mine:")["session_id"]
    person.types(pane, "x")
    ended = instance.ended(session_id)
    assert (ended["status"], ended["exit_code"], ended["exit_signal"]) == ("error", None, None)
    person.does(pane, "true")
    person.runs(pane)
    assert instance.json("adopt", pane)["session_id"] != session_id


def test_an_agent_that_is_the_panes_own_process_ends_with_its_code(person: Person) -> None:
    instance = person.instance
    pane = person.opens("own", f"exec {person.program} {person.script}")
    until(person.claudes, "claude runs")
    session_id = instance.json("adopt", pane)["session_id"]
    person.types(pane, "x")
    assert instance.ended(session_id)["exit_code"] == 5
    assert "what it shows" in instance.sm("output", session_id)
    instance.json("restore", session_id)
    assert pane not in instance.tmux("list-panes", "-a", "-F", "#{pane_id}").split()


def test_of_two_agents_in_one_pane_none_is_adopted(person: Person) -> None:
    claude = f"{person.program} {person.script}"
    pane = person.opens("two", f"{claude} < /dev/ptmx & {claude}; wait")
    until(lambda: len(person.claudes()) == 2, "both run")
    assert "more than one agent" in person.instance.refused("adopt", pane, exit_code=4)


def test_a_crash_at_any_step_of_an_adoption_makes_one_session() -> None:
    with Stage() as stage:
        daemon = stage.start_daemon()
        person = Person(stage)
        daemon.kill()
        points = ("Spawner.insert after", "Tmux.adopt after", "Spawner.started after")
        for number, point in enumerate(points):
            daemon = stage.start_daemon(f"{point} 1")
            pane = person.opens(f"mine{number}")
            pid = person.runs(pane)
            session = stage.json("adopt", pane)
            daemon.wait()
            assert (session["pid"], session["status"]) == (pid, "running"), point
            assert [s["pid"] for s in stage.json("all")].count(pid) == 1, point
            stage.kill_daemon()
            assert not gone(pid)


def test_a_fork_goes_on_with_a_copy_beside_the_other(person: Person) -> None:
    instance = person.instance
    parent = instance.spawn("Sleeper")["session_id"]
    child = instance.spawn("general-purpose", "do it", "--parent", parent)
    until(lambda: column(instance, "conversation", child["session_id"]) == TALK, "it has said what it is in")
    forked = instance.json("fork", child["session_id"], "--name", "other", env={"SM_SESSION_ID": parent})
    assert forked["session_id"] != child["session_id"] and forked["pid"] != child["pid"]
    assert forked["friendly_name"] == "general-purpose-other"
    same = ("parent_session_id", "working_dir", "agent_type", "trust_level", "effective_mode")
    assert {key: forked[key] for key in same} == {key: child[key] for key in same}
    until(lambda: len(person.claudes()) == 2, "both run")
    ran = (instance.work / "claudes").read_text().splitlines()
    assert f"--resume {TALK} --fork-session" in next(
        line for line in ran if line.startswith(f"{forked['pid']} ")
    )
    instance.sm("kill", parent)
    below = instance.json("fork", child["session_id"])
    assert below["parent_session_id"] is None


def test_what_is_no_agent_is_not_adopted(shared: Instance) -> None:
    session_id = counted(shared, "ours")["session_id"]
    shared.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    pane = shared.tmux("display-message", "-p", "-t", "=mine:", "#{pane_id}").strip()
    assert f"no agent runs in pane {pane}" in shared.refused("adopt", pane, exit_code=4)
    for nowhere in ("%999999", "no-such-session:", "", "-x\x07"):
        shared.refused("adopt", "--", nowhere, exit_code=3)
    assert "that sm has made" in shared.refused("adopt", f"=command-{session_id}:", exit_code=4)
    assert shared.tmux("show-options", "-p", "-t", pane) == ""
    shared.tmux("kill-session", "-t", "=mine")
