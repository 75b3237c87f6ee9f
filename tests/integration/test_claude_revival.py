"""Interrupted, restored, forked and adopted: the real Claude Code."""

import json
import os
import shlex
import signal
from pathlib import Path

from sm.core.models import Process
from sm.linux import platform, processes
from tests import claude_cli
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.integration.test_endings import gone
from tests.scripted_api import Request, ScriptedApi, tool

api = scripted_api("function")
claudes = claude_instance("function")


def asked(api: ScriptedApi, words: str) -> Request:
    """The request of the turn with this prompt."""
    return api.wait_for(lambda: next(iter(api.turns(words)), None), words)


def conversation(claudes: ClaudeInstance, session_id: str) -> str:
    """The id of claude's own, by the file that it writes."""
    (path,) = (claudes.home / ".claude" / "sessions").glob(f"{claudes.session(session_id)['pid']}.json")
    found: str = json.loads(path.read_text())["sessionId"]
    return found


def written(claudes: ClaudeInstance, session_id: str, output: int = 5) -> None:
    until(lambda: claudes.progress(session_id)["tokens"]["output"] == output, "its transcript")


def test_an_interrupt_ends_the_turn_and_there_is_nothing_to_interrupt_after_that(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "first-1 [[text:x]][[hold:long]]", "--name", "one")["session_id"]
    api.wait_for_hold("long")
    claudes.says(session_id, "running", "")
    assert claudes.sm("interrupt", "one").startswith("Interrupted plain-one")
    assert claudes.session(session_id)["status"] == "idle"
    assert "idle" in claudes.refused("interrupt", "one", exit_code=4)
    api.release("long")


def test_an_interrupt_does_not_end_one_that_its_first_question_keeps_from_starting(api: ScriptedApi) -> None:
    with ClaudeInstance(api, trusted=False) as claudes:
        session_id = claudes.spawn("Plain", "never-1")["session_id"]
        claudes.says(session_id, "waiting_input", "whether the directory is trusted")
        for again in (False, True):
            said = claudes.refused("interrupt", session_id, exit_code=4)
            assert "was not ready yet" in said and "whether the directory is trusted" in said
            assert f"sm attach {session_id}" in said
            pid = claudes.session(session_id)["pid"]
            assert not gone(pid)
            if not again:
                claudes.kill_daemon()


def test_an_interrupt_closes_what_a_person_has_opened(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn("Plain", "opened-1")["session_id"]
    claudes.idle(session_id)
    claudes.keys(session_id, "Escape", "Escape")
    assert claudes.says(session_id, "waiting_input", "")["status_source"] == "screen"
    claudes.sm("interrupt", session_id)
    claudes.idle(session_id)


def test_a_killed_one_goes_on_with_what_was_said(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    before = claudes.spawn("Editor", "remember-1 blue", "--model", "haiku")
    session_id = before["session_id"]
    claudes.idle(session_id)
    said_in = conversation(claudes, session_id)
    claudes.sm("kill", session_id)
    claudes.sm("restore", session_id)
    after = claudes.idle(session_id)
    assert after["pid"] != before["pid"]
    assert (after["working_dir"], after["model"]) == (before["working_dir"], "haiku")
    assert conversation(claudes, session_id) == said_in
    claudes.prompt(session_id, "later-1")
    request = asked(api, "later-1")
    assert "remember-1 blue" in json.dumps(request.body["messages"])
    assert "haiku" in str(request.body["model"])
    assert "sm checkpoint" in request.system
    assert b"acceptEdits" in Path(f"/proc/{after['pid']}/cmdline").read_bytes()


def test_a_wait_in_the_background_of_a_killed_claude_takes_nothing_of_the_next_one(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    shell = tool("Bash", command="sm inbox --take --wait", run_in_background=True)
    before = claudes.spawn("Editor", f"wait-1 {shell}[[then]][[text:waiting]]")
    session_id = before["session_id"]

    def waits() -> list[int]:
        everything = processes.process_tree(Process(0, f"{platform.boot_id()}/0"))
        return [
            each.pid
            for each in everything
            if "inbox" in processes.command_line(each.pid)
            and processes.environ_value(each.pid, "SM_SESSION_ID") == session_id
        ]

    (old,) = until(waits, "it waits in the background")
    written(claudes, session_id, 10)
    claudes.kill_daemon()  # nobody can tell it that its session has ended
    os.kill(before["pid"], signal.SIGKILL)
    claudes.sm("restore", session_id)
    claudes.idle(session_id)
    assert gone(old) and waits() == []
    assert claudes.json("send", session_id, "for the next one", "--wait", "30")["status"] in (
        "submitted",
        "acknowledged",
    )
    api.wait_for(lambda: next(iter(api.turns("for the next one")), None), "what it has read")


def test_all_come_back_after_their_tmux_server_was_killed(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    ids = [claudes.spawn("Plain", f"member-{number}")["session_id"] for number in (1, 2)]
    for session_id in ids:
        claudes.idle(session_id)
        # A claude that loses its terminal before it has written its transcript has nothing to resume.
        written(claudes, session_id)
    server = int(claudes.tmux("display-message", "-p", "#{pid}"))
    os.kill(server, signal.SIGKILL)
    for session_id in ids:
        assert claudes.ended(session_id)["status"] == "error"
    claudes.sm("restore", "--all")
    for number, session_id in enumerate(ids, 1):
        claudes.idle(session_id)
        claudes.prompt(session_id, f"back-{number}")
        assert f"member-{number}" in json.dumps(asked(api, f"back-{number}").body["messages"])


def test_a_fork_knows_what_its_original_knew_and_goes_its_own_way(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "common-1", "--name", "origin")["session_id"]
    claudes.idle(session_id)
    fork_id = claudes.json("fork", "origin", "--name", "other")["session_id"]
    claudes.idle(fork_id)
    claudes.prompt(fork_id, "own-1")
    request = asked(api, "own-1")
    assert "common-1" in json.dumps(request.body["messages"])
    claudes.idle(fork_id)
    assert conversation(claudes, fork_id) != conversation(claudes, session_id)
    assert len(api.turns("own-1")) == 1
    own = until(
        lambda: claudes.progress(fork_id)["tokens"]["output"] and claudes.progress(fork_id), "its tokens"
    )
    assert own["tokens"]["output"] == claudes.progress(session_id)["tokens"]["output"] == 5
    assert own["tools_used"] == {}


def test_a_claude_of_a_person_becomes_a_session_where_it_is(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    claudes.sm("daemon", "start")
    claudes.tmux("-f", "/dev/null", "new-session", "-d", "-s", "mine", "-x", "120", "-y", "40", "sh")
    (pane,) = claudes.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id}").split()
    environment = claude_cli.environment(claudes.home, api)
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    line = f"cd {claudes.work} && env -i {words} {claude_cli.binary()} 'mine-1 [[text:hello]]'"
    claudes.tmux("send-keys", "-t", pane, "-l", line)
    claudes.tmux("send-keys", "-t", pane, "Enter")
    asked(api, "mine-1")
    until(lambda: "hello" in claudes.tmux("capture-pane", "-p", "-t", pane), "its answer")
    adopted = claudes.json("adopt", pane, "--name", "mine", "--type", "Plain")
    session_id = adopted["session_id"]
    idle = claudes.idle(session_id)
    assert (idle["provider"], idle["working_dir"]) == ("claude", str(claudes.work))
    until(lambda: claudes.progress(session_id)["tokens"]["output"] == 5, "what it has used")
    claudes.tmux("set-buffer", "-b", "p", "--", "mine-2 [[text:x]][[hold:mine]]")
    claudes.tmux("paste-buffer", "-p", "-r", "-b", "p", "-t", pane)
    until(lambda: "mine-2" in claudes.tmux("capture-pane", "-p", "-t", pane), "the prompt")
    claudes.tmux("send-keys", "-t", pane, "Enter")
    api.wait_for_hold("mine")
    claudes.says(session_id, "running", "it says busy")
    api.release("mine")
    claudes.idle(session_id)
    claudes.sm("kill", "mine")
    assert claudes.session(session_id)["status"] == "killed"
    assert claudes.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id} #{pane_dead}").split() == [pane, "0"]
    claudes.sm("restore", "mine")
    restored = claudes.idle(session_id)
    claudes.prompt(session_id, "mine-3")
    assert "mine-1" in json.dumps(asked(api, "mine-3").body["messages"])
    assert restored["tmux_session"] == f"claude-{session_id}"
