"""Restore, interrupt, fork and adopt: exactly one agent, even when the daemon crashes."""

import json
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client, new_key
from sm.core.models import digest
from sm.linux.process_limits import soft_limits
from tests.archived import Archived
from tests.claude_cli import answer_first_questions
from tests.fixtures import context_fixture
from tests.instance import SM, Instance, until
from tests.integration.ended_agents import gone, rows, tmux_server, wait_line
from tests.integration.test_crash_in_spawn import Stage, agents_of, left_over, starts
from tests.waits import PATIENT

COUNTED_SCRIPT = "echo $$ >> {}; exec sleep 1000"
"""An agent that appends its pid to a file at each start."""
EXITS_ONCE = "echo $$ >> {0}; if [ -e {0}.go ]; then exec sleep 1000; else exit {1}; fi"
"""The same, but the agent exits unless the file with suffix `.go` exists."""


shared = context_fixture("module", Instance)
stage = context_fixture("module", Stage)


def spawn_counted(instance: Instance, name: str, *arguments: str) -> dict[str, Any]:
    session = instance.spawn("Sh", COUNTED_SCRIPT.format(name), *arguments)
    until(lambda: starts(instance.work / name), f"{name} runs")
    return session


def spawn_killed(instance: Instance, name: str, *arguments: str) -> dict[str, Any]:
    session = spawn_counted(instance, name, *arguments)
    instance.sm("kill", session["session_id"], "--force")
    return session


def column(instance: Instance, name: str, session_id: str) -> Any:
    """A column of the session's row."""
    return dict(rows(instance, f"SELECT id, {name} FROM sessions"))[session_id]  # noqa: S608 - column names of these tests


def token_is_right(instance: Instance, session_id: str) -> bool:
    """True if the token file of the agent matches the hash in the database."""
    token = (instance.state / "launch" / f"{session_id}.token").read_text()
    return bool(column(instance, "token_hash", session_id) == digest(token))


def types(instance: Instance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id)]


def lose_tmux(instance: Instance, *sessions: dict[str, Any]) -> None:
    os.kill(tmux_server(instance), signal.SIGKILL)
    for session in sessions:
        until(lambda pid=session["pid"]: gone(pid), "its process has ended")  # type: ignore[misc]  # a default binds the loop's value
        until(
            lambda s=session: instance.session(s["session_id"])["status"] in ("error", "completed"),  # type: ignore[misc]  # the same
            "its final status",
        )


# Restore one session


@pytest.mark.parametrize("end", ["exit 3", "tmux kill-session"])
def test_restore_starts_a_new_process_with_the_same_identity(shared: Instance, end: str) -> None:
    name = end.replace(" ", "-").lower()
    script = EXITS_ONCE.format(name, end[-1]) if end.startswith("exit") else COUNTED_SCRIPT.format(name)
    before = shared.spawn("Sh", script, "--name", name)
    session_id = before["session_id"]
    until(lambda: starts(shared.work / name), "the agent runs")
    if end == "kill":
        shared.sm("kill", session_id)
    elif end == "SIGKILL":
        os.kill(before["pid"], signal.SIGKILL)
    elif end == "tmux kill-session":
        shared.tmux("kill-session", "-t", f"=command-{session_id}")
    ended = shared.ended(session_id)
    token = (shared.state / "launch" / f"{session_id}.token").read_text()
    (shared.work / f"{name}.go").touch()

    assert shared.sm("restore", session_id) == f"Restored sh-{name}\n"

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


def test_restore_is_refused_when_another_program_runs_in_the_old_terminal(shared: Instance) -> None:
    session_id = spawn_killed(shared, "strange")["session_id"]
    shared.tmux("respawn-pane", "-t", f"=command-{session_id}:", "sleep 1000")
    pid = int(shared.tmux("display-message", "-p", "-t", f"=command-{session_id}:", "#{pane_pid}"))
    assert "is not its agent" in shared.refused("restore", session_id, exit_code=4)
    assert not gone(pid)


def _said_at_end(file: Path) -> str:
    """Wait until a command whose exit code follows its output has ended; return what it wrote."""

    def look() -> str | None:
        words = file.read_text()
        return words if re.search(r"^ended \d+$", words, re.MULTILINE) else None

    return until(look, f"the command of {file.name} has ended")


def test_orphans_of_the_old_process_cannot_take_messages_and_end_at_restore(instance: Instance) -> None:
    """This includes processes outside the process tree: claude gives each command its own kernel session."""
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
    until(lambda: starts(instance.work / "wrote"), "the agent runs")
    other = spawn_counted(instance, "other")
    instance.in_status(session_id, "idle")  # one of them waits
    stays = int((instance.work / "stays").read_text())
    (instance.work / "again").touch()
    os.kill(session["pid"], signal.SIGKILL)
    instance.ended(session_id)
    said = [_said_at_end(instance.work / f"{name}.out") for name in ("tree", "away")]
    assert all("has ended" in words for words in said)
    # 4: it waited, and its wait ended; 5: it began to wait when the old process had ended.
    codes = {words.split()[-1] for words in said}
    assert "4" in codes and codes <= {"4", "5"}
    env = {"SM_SESSION_ID": session_id}
    assert "has ended" in instance.refused("inbox", "--take", exit_code=5, env=env)
    error = instance.refused("wait", other["session_id"], "--timeout", PATIENT, exit_code=5, env=env)
    assert "has ended" in error
    assert not gone(stays)
    instance.sm("restore", session_id)
    assert gone(stays)
    assert not gone(other["pid"])
    message = instance.json("send", session_id, "for the new one")
    assert message["status"] == "queued"
    assert "for the new one" in instance.sm("inbox", "--take", env=env)
    assert len(starts(instance.work / "wrote")) == 2


# Restore several sessions


@pytest.mark.parametrize("away", [False, True])
def test_restore_all_skips_a_session_whose_terminal_a_person_closed(instance: Instance, away: bool) -> None:
    closed, lost = spawn_counted(instance, "closed"), spawn_counted(instance, "lost")
    server = tmux_server(instance)
    if away:
        instance.kill_daemon()
    instance.tmux("kill-session", "-t", f"=command-{closed['session_id']}")
    until(lambda: gone(closed["pid"]), "its process has ended")
    assert instance.in_status(closed["session_id"], "error")["status_source"] == "terminal"
    if away:
        instance.kill_daemon()
    os.kill(server, signal.SIGKILL)
    until(lambda: gone(lost["pid"]), "its process has ended")
    if away:  # the user starts tmux again before any sm command
        lost_s = time.time()
        until(lambda: int(time.time()) > int(lost_s), "the next second, the resolution of tmux's start time")
        instance.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    ended = instance.in_status(lost["session_id"], "error")
    assert ended["status_source"] == "tmux server", ended["status_reason"]
    assert [s["session_id"] for s in instance.json("restore", "--all")] == [lost["session_id"]]
    assert instance.session(closed["session_id"])["status"] == "error"
    instance.sm("restore", closed["session_id"])


def test_restore_all_restores_sessions_lost_while_no_daemon_ran(instance: Instance) -> None:
    sessions = [spawn_counted(instance, name) for name in "ab"]
    server = tmux_server(instance)
    instance.kill_daemon()
    os.kill(server, signal.SIGKILL)
    for session in sessions:
        until(lambda pid=session["pid"]: gone(pid), "its process has ended")  # type: ignore[misc]  # a default binds the loop's value
    assert {s["session_id"] for s in instance.json("restore", "--all")} == {s["session_id"] for s in sessions}
    for name in "ab":
        until(lambda n=name: len(starts(instance.work / n)) == 2, "the agent runs again")  # type: ignore[misc]  # the same


# Crashes

# One of each kind of act. tests/played/test_restore.py has every step.
POINTS = ["Store.transaction after 3", "PaneCreator._start_agent after 1", "Tmux.open after 1"]


@pytest.fixture(scope="module")
def ended_sessions(stage: Stage) -> dict[str, str]:
    """An ended session for each of POINTS."""
    daemon = stage.start_daemon()
    ids = {}
    for point in POINTS:
        script = EXITS_ONCE.format(point.replace(" ", "-"), 3)
        ids[point] = stage.request(script, f"for {point}")["session_id"]
    for point, session_id in ids.items():
        stage.ended(session_id)
        (stage.work / f"{point.replace(' ', '-')}.go").touch()
    daemon.kill()
    return ids


@pytest.mark.parametrize("point", POINTS)
def test_restore_starts_exactly_one_agent_when_the_daemon_crashes_at_any_step(
    stage: Stage, ended_sessions: dict[str, str], point: str
) -> None:
    session_id = ended_sessions[point]
    pid_file = stage.work / point.replace(" ", "-")
    daemon = stage.start_daemon(point)
    stage.sm("restore", session_id)
    daemon.wait()  # the daemon died, and `sm restore` started another one and retried
    until(lambda: len(starts(pid_file)) >= 2, "the agent runs")
    session = stage.session(session_id)
    assert (session["status"], starts(pid_file)[1:]) == ("running", [session["pid"]])
    assert agents_of({session_id}) == Counter({session_id: 1})
    assert token_is_right(stage, session_id)
    stage.kill_daemon()
    types = [
        type
        for of, type in rows(stage, "SELECT session_id, type FROM events ORDER BY seq")
        if of == session_id
    ]
    assert types == ["spawned", "started", "error", "reopened", "started"]
    assert left_over(stage, {row[0] for row in rows(stage, "SELECT id FROM sessions")}) == []


# Interrupt

CATCHES_SIGINT = "trap 'echo caught >> {0}' INT; echo ready >> {0}; while :; do sleep 0.1; done"


def test_interrupt_is_sent_at_most_once_when_the_daemon_crashes(stage: Stage) -> None:
    daemon = stage.start_daemon()
    out = stage.work / "interrupted"
    session_id = stage.spawn("Sh", CATCHES_SIGINT.format(out))["session_id"]
    wait_line(out)
    daemon.kill()
    daemon = stage.start_daemon("Tmux.press after 1")
    done = stage.run("interrupt", session_id)
    daemon.wait()
    # An interrupt whose result is unknown is reported as an error and never repeated.
    assert done.returncode == 9, done
    until(lambda: out.read_text() == "ready\n" + "caught\n", "the interrupts")
    stage.sm("kill", session_id, "--force")
    assert out.read_text() == "ready\n" + "caught\n"
    stage.kill_daemon()


# Fork


# Adopt

CONVERSATION = "0f0e0d0c-0b0a-4908-8706-050403020100"
FAKE = """
state=$HOME/.claude/sessions/$$.json
project=$HOME/.claude/projects/$(pwd | tr -c 'A-Za-z0-9\n' - )
mkdir -p "$HOME/.claude/sessions" "$project"
echo '{"type": "user", "uuid": "u1", "parentUuid": null}' > "$project/TALK.jsonl"
say() {
    about='{"pid": %s, "sessionId": "%s", "status": "%s", "statusUpdatedAt": %s}'
    printf "$about" $$ TALK "$1" "$(date +%s%3N < /dev/null)" > "$state.new"
    mv "$state.new" "$state" < /dev/null
}
stty -icanon -echo min 1
say busy
echo "$$ $*" | head -n 1 >> "$HOME/work/claudes"
echo "what it shows"
while IFS= read -r -N 1 key; do
    case $key in
        b) say busy ;;
        m) sm me --json > "$HOME/work/me.new" 2>&1 < /dev/null; mv "$HOME/work/me.new" "$HOME/work/me" ;;
        x) exit 5 ;;
        *) say idle ;;
    esac
done
""".replace("TALK", CONVERSATION)


class User:
    """A user who runs agents in their own panes, on the tmux server that the daemon uses."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        # A stand-in for claude: a shell that the kernel shows as started from a file named `claude`.
        answer_first_questions(instance.home)
        self.program = instance.work / "claude"
        self.program.symlink_to("/bin/bash")  # reads single keys itself, as claude does
        self.script = instance.work / "fake"
        self.script.write_text(FAKE)
        command = json.dumps([str(self.program), str(self.script)])
        instance.config.write_text(instance.config.read_text() + f"claude: {{default_command: {command}}}\n")
        instance.spawn("Sleeper")

    def open_pane(self, name: str, command: str = "sh") -> str:
        self.instance.tmux("new-session", "-d", "-s", name, "-c", str(self.instance.work), command)
        return self.instance.tmux("display-message", "-p", "-t", f"={name}:", "#{pane_id}").strip()

    def type_text(self, pane: str, text: str) -> None:
        self.instance.tmux("send-keys", "-t", pane, "-l", text)

    def start_claude(self, pane: str) -> int:
        """Start a claude in the shell of a pane; return its pid."""
        before = len(self.claude_pids())
        self.type_text(pane, f"{self.program} {self.script}\n")
        return until(lambda: self.claude_pids()[before:], "claude runs")[0]

    def claude_pids(self) -> list[int]:
        path = self.instance.work / "claudes"
        return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []

    def run_command(self, pane: str, what: str) -> None:
        """Type a command into a shell and wait until it has run."""
        done = self.instance.work / f"done-{new_key()}"
        self.type_text(pane, f"{what}; touch {done}\n")
        until(done.exists, f"the shell has done: {what}")


@pytest.fixture
def user(instance: Instance) -> User:
    return User(instance)


def test_adopt_manages_a_claude_in_a_users_shell_and_leaves_the_shell(user: User) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    pid = user.start_claude(pane)
    session = instance.json("adopt", pane, "--name", "Login")
    session_id = session["session_id"]
    assert (session["pid"], session["provider"], session["status"]) == (pid, "claude", "running")
    assert (session["working_dir"], session["friendly_name"]) == (str(instance.work), "general-purpose-login")
    assert (session["effective_mode"], session["parent_session_id"]) == ("direct", None)
    assert session["tmux_session"] == f"claude-{session_id}"
    assert (
        instance.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id} #{remain-on-exit}") == f"{pane} off\n"
    )
    assert "is already session" in instance.refused("adopt", pane, exit_code=4)
    assert "what it shows" in instance.sm("output", session_id)
    argv = Client(str(instance.socket)).get(f"/v1/sessions/{session_id}/attach")["argv"]
    assert pane in argv and argv[-1] == "=mine:"
    assert json.loads(column(instance, "launch", session_id))["inherited"]["HOME"] == str(instance.home)
    assert column(instance, "token_hash", session_id) is None
    assert column(instance, "conversation", session_id) == CONVERSATION

    # The agent is identified as the session, its owner in a second pane as the operator.
    user.type_text(pane, "m")
    until((instance.work / "me").exists, "the answer of sm me")
    assert json.loads((instance.work / "me").read_text())["session_id"] == session_id
    instance.tmux("split-window", "-d", "-t", pane, "-c", str(instance.work), "sh")
    beside = instance.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id}").split()[1]
    user.run_command(beside, f"{SM} me > {instance.work}/operator 2>&1")
    assert "you are the operator" in (instance.work / "operator").read_text()

    # The status comes from the state file, and Escape interrupts the agent.
    assert instance.sm("interrupt", session_id).startswith("Interrupted general-purpose-login")
    instance.in_status(session_id, "idle")
    assert "nothing to interrupt" in instance.refused("interrupt", session_id, exit_code=4)
    instance.kill_daemon()
    assert instance.session(session_id)["status"] == "idle"

    instance.sm("kill", session_id)
    assert gone(pid)
    assert instance.session(session_id)["status"] == "killed"
    archive = Archived(instance.state / "archives" / session_id) / "terminal.txt"
    until(lambda: "@sm" not in instance.tmux("show-options", "-p", "-t", pane), "the pane is released")
    assert "what it shows" in archive.read_text()
    user.run_command(pane, f"{SM} me > {instance.work}/after 2>&1")
    assert "you are the operator" in (instance.work / "after").read_text()

    after = instance.json("restore", session_id)
    until(lambda: len(user.claude_pids()) == 2, "the agent runs again")
    assert after["pid"] == user.claude_pids()[1] != pid
    assert f"--resume {CONVERSATION}" in (instance.work / "claudes").read_text().splitlines()[1]
    assert token_is_right(instance, session_id)
    assert instance.tmux("has-session", "-t", f"=claude-{session_id}") == ""
    user.run_command(pane, "true")


def test_users_shell_around_an_adopted_agent_is_identified_as_the_operator(user: User) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    pid = user.start_claude(pane)
    instance.json("adopt", pane)
    instance.tmux("send-keys", "-t", pane, "C-z")
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T", "claude is stopped")
    user.run_command(pane, f"{SM} me > {instance.work}/shell 2>&1")
    assert "you are the operator" in (instance.work / "shell").read_text()
    user.type_text(pane, "fg\n")


def test_restored_adopted_agent_keeps_its_command_line_options(user: User) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    config = instance.config.read_text().replace(
        "claude: {", "claude: {default_args: ['--permission-mode', 'acceptEdits'], "
    )
    instance.config.write_text(config)
    instance.sm("daemon", "restart")
    options = "--model opus --permission-mode plan --add-dir /tmp"
    user.type_text(pane, f"{user.program} {user.script} hello {options}\n")
    until(user.claude_pids, "claude runs")
    session_id = instance.json("adopt", pane)["session_id"]
    instance.sm("kill", session_id)
    instance.sm("restore", session_id)
    until(lambda: len(user.claude_pids()) == 2, "the agent runs again")
    (_, ran) = (instance.work / "claudes").read_text().splitlines()
    assert f" --model opus --permission-mode plan --add-dir /tmp --resume {CONVERSATION} " in ran
    assert "acceptEdits" not in ran


def test_restored_adopted_agent_keeps_its_umask_and_soft_limits(user: User) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    user.run_command(pane, "umask 027; ulimit -S -n 300")
    before = soft_limits(user.start_claude(pane))
    session_id = instance.json("adopt", pane)["session_id"]
    instance.sm("kill", session_id)
    assert soft_limits(instance.json("restore", session_id)["pid"]) == before
    assert (before["umask"], before["nofile"]) == (0o027, 300)


def test_broken_mcp_file_does_not_prevent_adopt_but_prevents_restore(user: User) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    (instance.home / ".claude.json").write_text("{")
    (instance.work / ".mcp.json").write_text("{")
    instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
    user.start_claude(pane)
    session = instance.json("adopt", pane)  # a running agent gets no MCP servers
    assert session["workspace"] == "shop"
    instance.sm("kill", session["session_id"])
    assert "invalid JSON" in instance.refused("restore", session["session_id"], exit_code=2)


def test_pane_can_be_adopted_again_after_kill_when_archiving_is_off(user: User) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    cleanup = "child_agents: {cleanup: {auto_archive_transcript: false}}\n"
    instance.config.write_text(instance.config.read_text() + cleanup)
    instance.sm("daemon", "restart")
    user.start_claude(pane)
    session_id = instance.json("adopt", pane)["session_id"]
    instance.sm("kill", session_id)
    until(lambda: "@sm" not in instance.tmux("show-options", "-p", "-t", pane), "the pane is released")
    user.start_claude(pane)
    assert instance.json("adopt", pane)["session_id"] != session_id


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_state_file_that_is_a_pipe_or_a_link_is_ignored(user: User, kind: str) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    pid = user.start_claude(pane)
    state = instance.home / ".claude" / "sessions" / f"{pid}.json"
    until(state.exists, "the state file")
    elsewhere = instance.home / "elsewhere"
    state.rename(elsewhere)
    if kind == "pipe":
        os.mkfifo(state)
    else:
        state.symlink_to(elsewhere)
    session_id = instance.json("adopt", pane)["session_id"]
    assert column(instance, "conversation", session_id) is None


def test_adopted_agent_that_ends_in_a_users_shell_has_no_exit_code(user: User) -> None:
    instance, pane = user.instance, user.open_pane("mine")
    user.start_claude(pane)
    session_id = instance.json("adopt", "=mine:")["session_id"]
    user.type_text(pane, "x")
    ended = instance.ended(session_id)
    assert (ended["status"], ended["exit_code"], ended["exit_signal"]) == ("error", None, None)
    user.run_command(pane, "true")
    user.start_claude(pane)
    assert instance.json("adopt", pane)["session_id"] != session_id


def test_adopted_agent_that_is_the_pane_process_has_an_exit_code(user: User) -> None:
    instance = user.instance
    pane = user.open_pane("own", f"exec {user.program} {user.script}")
    until(user.claude_pids, "claude runs")
    session_id = instance.json("adopt", pane)["session_id"]
    user.type_text(pane, "x")
    assert instance.ended(session_id)["exit_code"] == 5
    assert "what it shows" in instance.sm("output", session_id)
    instance.json("restore", session_id)
    assert pane not in instance.tmux("list-panes", "-a", "-F", "#{pane_id}").split()


def test_adopt_is_refused_when_two_agents_run_in_one_pane(user: User) -> None:
    claude = f"{user.program} {user.script}"
    pane = user.open_pane("two", f"{claude} < /dev/ptmx & {claude}; wait")
    until(lambda: len(user.claude_pids()) == 2, "both agents run")
    assert "more than one agent" in user.instance.refused("adopt", pane, exit_code=4)


def test_adopt_makes_one_session_when_the_daemon_crashes_at_any_step() -> None:
    with Stage() as stage:
        daemon = stage.start_daemon()
        user = User(stage)
        daemon.kill()
        points = ("Spawner.insert after", "Tmux.adopt after", "AgentStarts.record_start after")
        for number, point in enumerate(points):
            daemon = stage.start_daemon(f"{point} 1")
            pane = user.open_pane(f"mine{number}")
            pid = user.start_claude(pane)
            session = stage.json("adopt", pane)
            daemon.wait()
            assert (session["pid"], session["status"]) == (pid, "running"), point
            assert [s["pid"] for s in stage.json("all")].count(pid) == 1, point
            stage.kill_daemon()
            assert not gone(pid)


def test_fork_starts_a_second_agent_with_a_copy_of_the_conversation(user: User) -> None:
    instance = user.instance
    parent = instance.spawn("Sleeper")["session_id"]
    child = instance.spawn("general-purpose", "do it", "--parent", parent)
    until(
        lambda: column(instance, "conversation", child["session_id"]) == CONVERSATION,
        "its conversation is known",
    )
    forked = instance.json("fork", child["session_id"], "--name", "other", env={"SM_SESSION_ID": parent})
    assert forked["session_id"] != child["session_id"] and forked["pid"] != child["pid"]
    assert forked["friendly_name"] == "general-purpose-other"
    same = ("parent_session_id", "working_dir", "agent_type", "trust_level", "effective_mode")
    assert {key: forked[key] for key in same} == {key: child[key] for key in same}
    until(lambda: len(user.claude_pids()) == 2, "both agents run")
    ran = (instance.work / "claudes").read_text().splitlines()
    assert f"--resume {CONVERSATION} --fork-session" in next(
        line for line in ran if line.startswith(f"{forked['pid']} ")
    )
    instance.sm("kill", parent)
    below = instance.json("fork", child["session_id"])
    assert below["parent_session_id"] is None


def test_adopt_is_refused_when_the_pane_runs_no_foreign_agent(shared: Instance) -> None:
    session_id = spawn_counted(shared, "ours")["session_id"]
    shared.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    pane = shared.tmux("display-message", "-p", "-t", "=mine:", "#{pane_id}").strip()
    refused = shared.refused("adopt", pane, exit_code=4)
    assert f"no agent runs in pane {pane}" in refused
    assert "start the agent in the pane first" in refused
    for nowhere in ("%999999", "no-such-session:", "", "-x\x07"):
        shared.refused("adopt", "--", nowhere, exit_code=3)
    assert "belongs to a terminal of this or another instance" in shared.refused(
        "adopt", f"=command-{session_id}:", exit_code=4
    )
    assert shared.tmux("show-options", "-p", "-t", pane) == ""
    shared.tmux("kill-session", "-t", "=mine")
