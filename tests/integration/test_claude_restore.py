"""Interrupt, restore, fork and adopt with the real Claude Code."""

import json
import os
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sm.core.models import Process
from sm.linux import platform, processes
from tests import claude_cli
from tests.archived import Archived
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance, calling_session
from tests.instance import until
from tests.integration.ended_agents import gone, wait_outbox
from tests.scripted_api import Kind, Request, ScriptedApi, Usage, tool, usage
from tests.waits import PATIENT

api = scripted_api("function")
claudes = claude_instance("function")


def turn_request(api: ScriptedApi, words: str) -> Request:
    """Wait for the API request of the turn with this prompt."""
    return api.wait_for(lambda: next(iter(api.turns(words)), None), words)


def conversation(claudes: ClaudeInstance, session_id: str) -> str:
    """The conversation id, from the state file that claude writes."""
    state = claudes.state_file(claudes.session(session_id)).read_text()
    conversation_id: str = json.loads(state)["sessionId"]
    return conversation_id


def wait_output_tokens(claudes: ClaudeInstance, session_id: str, output: int = 5) -> None:
    until(lambda: claudes.progress(session_id)["tokens"]["output"] == output, "its transcript")


def find_message(claudes: ClaudeInstance, session_id: str, number: int) -> dict[str, Any]:
    log: list[dict[str, Any]] = claudes.get("/v1/messages", session=session_id)
    return next(message for message in log if message["message_id"] == number)


def project_with_blocking_hook(claudes: ClaudeInstance) -> Path:
    """A directory whose UserPromptSubmit hook never returns for a prompt that contains `perish`.

    claude writes a prompt to its transcript only after all hooks have returned.
    """
    project = claudes.work / "blocking"
    os.makedirs(project / ".claude")
    os.mkfifo(project / "never")
    script = f"case $(cat) in *perish*) exec cat {project}/never;; esac"
    hook = {"type": "command", "command": script}
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    (project / ".claude" / "settings.json").write_text(json.dumps(settings))
    return project


def test_interrupt_ends_the_turn_and_is_refused_when_claude_is_idle(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "first-1 [[text:x]][[hold:long]]", "--name", "one")["session_id"]
    api.wait_for_hold("long")
    claudes.says(session_id, "running", "")
    assert claudes.sm("interrupt", "one").startswith("Interrupted plain-one")
    assert claudes.session(session_id)["status"] == "idle"
    assert "idle" in claudes.refused("interrupt", "one", exit_code=4)
    api.release("long")


def test_interrupt_is_refused_while_claude_shows_its_first_start_question(api: ScriptedApi) -> None:
    with ClaudeInstance(api, trusted=False) as claudes:
        session_id = claudes.spawn("Plain", "never-1", "--skip-checks")["session_id"]
        claudes.says(session_id, "waiting_input", "whether the directory is trusted")
        for again in (False, True):
            error = claudes.refused("interrupt", session_id, exit_code=4)
            assert (
                "cannot be interrupted during its start" in error
                and "whether the directory is trusted" in error
            )
            assert f"sm attach {session_id}" in error
            pid = claudes.session(session_id)["pid"]
            assert not gone(pid)
            if not again:
                claudes.kill_daemon()


def test_interrupt_closes_a_menu_that_a_person_opened(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn("Plain", "opened-1")["session_id"]
    claudes.idle(session_id)
    claudes.open_view(session_id, "Escape", "Escape")
    source = claudes.says(session_id, "waiting_input", "")["status_source"]
    assert source in ("screen", "state file")  # a later claude publishes the menu
    claudes.sm("interrupt", session_id)
    claudes.idle(session_id)


@pytest.mark.claude_core
def test_restore_resumes_the_conversation_when_claude_was_killed(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    before = claudes.spawn("Editor", "remember-1 blue", "--model", "haiku")
    session_id = before["session_id"]
    claudes.idle(session_id)
    conversation_id = conversation(claudes, session_id)
    claudes.sm("kill", session_id)
    claudes.sm("restore", session_id)
    after = claudes.idle(session_id)
    assert after["pid"] != before["pid"]
    assert (after["working_dir"], after["model"]) == (before["working_dir"], "haiku")
    assert conversation(claudes, session_id) == conversation_id
    claudes.prompt(session_id, "later-1")
    request = turn_request(api, "later-1")
    assert "remember-1 blue" in json.dumps(request.body["messages"])
    assert "haiku" in str(request.body["model"])
    assert "sm checkpoint" in request.system
    assert b"acceptEdits" in Path(f"/proc/{after['pid']}/cmdline").read_bytes()


def test_message_that_died_with_claude_is_unconfirmed_and_never_acknowledged(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    project = project_with_blocking_hook(claudes)
    spawned = claudes.spawn("Plain", "remember-1", "--working-dir", str(project))
    session_id = spawned["session_id"]
    claudes.idle(session_id)
    wait_output_tokens(claudes, session_id)
    # With --wait, the report of the hook alone would be no arrival.
    sent = claudes.json("send", session_id, "perish-1")
    until(
        lambda: find_message(claudes, session_id, sent["message_id"])["status"] == "submitted",
        "its hook reports",
    )
    sent = find_message(claudes, session_id, sent["message_id"])
    assert sent["evidence"] == "its UserPromptSubmit hook"
    number = sent["message_id"]
    os.kill(spawned["pid"], signal.SIGKILL)
    claudes.ended(session_id)
    lost = find_message(claudes, session_id, number)
    assert (lost["status"], lost["submitted_at"]) == ("unconfirmed", None)
    assert "did not store it in its conversation" in lost["reason"]
    until(lambda: f"message {number} to" in str(claudes.get("/v1/inbox")), "its sender is told")

    claudes.kill_daemon()
    with closing(sqlite3.connect(claudes.state / "sm.db")) as database:
        # An earlier version left such a message submitted.
        database.execute(
            "UPDATE messages SET state = 'submitted', submitted_at = ? WHERE id = ?",
            (sent["submitted_at"], number),
        )
        database.commit()
    claudes.sm("restore", session_id)
    assert find_message(claudes, session_id, number)["status"] == "unconfirmed"
    claudes.idle(session_id)
    claudes.prompt(session_id, "later-1")
    assert "perish-1" not in json.dumps(turn_request(api, "later-1").body["messages"])
    wait_output_tokens(claudes, session_id, 10)
    claudes.idle(session_id)
    assert find_message(claudes, session_id, number)["status"] == "unconfirmed"


def test_restore_ends_the_background_inbox_wait_of_a_killed_claude(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    shell = tool("Bash", command="sm inbox --take --wait", run_in_background=True)
    before = claudes.spawn("Editor", f"wait-1 {shell}[[then]][[text:waiting]]")
    session_id = before["session_id"]

    def inbox_waits() -> list[int]:
        return [
            process.pid
            for process in processes.process_tree(Process(0, f"{platform.boot_id()}/0"))
            if "inbox" in processes.command_line(process.pid)
            and processes.environ_value(process.pid, "SM_SESSION_ID") == session_id
        ]

    (old,) = until(inbox_waits, "a background wait")
    wait_output_tokens(claudes, session_id, 10)
    claudes.kill_daemon()  # no daemon tells the wait that its session has ended
    os.kill(before["pid"], signal.SIGKILL)
    claudes.sm("restore", session_id)
    claudes.idle(session_id)
    assert gone(old) and inbox_waits() == []
    assert claudes.json("send", session_id, "for the next one", "--wait", PATIENT)["status"] in (
        "submitted",
        "acknowledged",
    )
    api.wait_for(lambda: next(iter(api.turns("for the next one")), None), "the message is read")


def test_restore_all_resumes_every_session_when_the_tmux_server_was_killed(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    ids = [claudes.spawn("Plain", f"member-{number}")["session_id"] for number in (1, 2)]
    for session_id in ids:
        claudes.idle(session_id)
        # A claude that loses its terminal before it writes its transcript cannot be resumed.
        wait_output_tokens(claudes, session_id)
    server = int(claudes.tmux("display-message", "-p", "#{pid}"))
    os.kill(server, signal.SIGKILL)
    for session_id in ids:
        assert claudes.ended(session_id)["status"] == "error"
    claudes.sm("restore", "--all")
    for number, session_id in enumerate(ids, 1):
        claudes.idle(session_id)
        claudes.prompt(session_id, f"back-{number}")
        assert f"member-{number}" in json.dumps(turn_request(api, f"back-{number}").body["messages"])


def test_restore_all_continue_sends_only_interrupted_agents_on(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    cut_off = claudes.spawn("Plain", "cut-1 [[text:x]][[hold:cut]]", "--name", "cut")["session_id"]
    rests = claudes.spawn("Plain", "rests-1", "--name", "rests")["session_id"]
    claudes.idle(rests)
    wait_output_tokens(claudes, rests)
    api.wait_for_hold("cut")
    claudes.says(cut_off, "running", "")
    os.kill(int(claudes.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    for session_id in (cut_off, rests):
        assert claudes.ended(session_id)["status"] == "error"
    lines = claudes.sm("restore", "--all", "--continue").splitlines()
    assert [line for line in lines if "; it goes on with its turn" in line] == [
        line for line in lines if "plain-cut" in line
    ]
    assert len(lines) == 2
    api.release("cut")
    request = turn_request(api, "was started again")
    assert "cut-1" in json.dumps(request.body["messages"])
    claudes.idle(cut_off)
    claudes.idle(rests)
    assert claudes.json("log", rests) == []
    (message,) = claudes.json("log", cut_off)
    assert message["from"] == "operator"


@pytest.mark.claude_core
def test_fork_copies_the_conversation_and_continues_separately(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "common-1", "--name", "origin")["session_id"]
    claudes.idle(session_id)
    fork_id = claudes.json("fork", "origin", "--name", "other")["session_id"]
    claudes.idle(fork_id)
    claudes.prompt(fork_id, "own-1")
    request = turn_request(api, "own-1")
    assert "common-1" in json.dumps(request.body["messages"])
    assert calling_session(request) == fork_id
    claudes.idle(fork_id)
    assert conversation(claudes, fork_id) != conversation(claudes, session_id)
    assert len(api.turns("own-1")) == 1
    for each in (session_id, fork_id):
        wait_output_tokens(claudes, each)
    assert claudes.progress(fork_id)["tools_used"] == {}


def test_claude_in_a_users_pane_can_be_adopted_killed_and_restored(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    claudes.sm("daemon", "start")
    pane = claudes.start_in_user_pane("mine-1 [[text:hello]]")
    turn_request(api, "mine-1")
    until(lambda: "hello" in claudes.tmux("capture-pane", "-p", "-t", pane), "its answer")
    adopted = claudes.json("adopt", pane, "--name", "mine", "--type", "Plain")
    session_id = adopted["session_id"]
    idle = claudes.idle(session_id)
    assert (idle["provider"], idle["working_dir"]) == ("claude", str(claudes.work))
    until(lambda: claudes.progress(session_id)["tokens"]["output"] == 5, "its tokens")
    claudes.tmux("set-buffer", "-b", "p", "--", "mine-2 [[text:x]][[hold:mine]]")
    claudes.tmux("paste-buffer", "-p", "-r", "-b", "p", "-t", pane)
    until(lambda: "mine-2" in claudes.tmux("capture-pane", "-p", "-t", pane), "the prompt")
    claudes.tmux("send-keys", "-t", pane, "Enter")
    api.wait_for_hold("mine")
    claudes.says(session_id, "running", "claude is working")
    api.release("mine")
    claudes.idle(session_id)
    claudes.sm("kill", "mine")
    assert claudes.session(session_id)["status"] == "killed"
    assert claudes.tmux("list-panes", "-t", "=mine:", "-F", "#{pane_id} #{pane_dead}").split() == [pane, "0"]
    claudes.sm("restore", "mine")
    restored = claudes.idle(session_id)
    claudes.prompt(session_id, "mine-3")
    assert "mine-1" in json.dumps(turn_request(api, "mine-3").body["messages"])
    assert restored["tmux_session"] == f"claude-{session_id}"


def test_adopted_claude_that_its_shell_has_stopped_is_waiting_input(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    claudes.sm("daemon", "start")
    pane = claudes.start_in_user_pane("shell-1 [[text:hello]]")
    turn_request(api, "shell-1")
    until(lambda: "hello" in claudes.tmux("capture-pane", "-p", "-t", pane), "its answer")
    session_id = claudes.json("adopt", pane, "--type", "Plain")["session_id"]
    claudes.idle(session_id)
    claudes.tmux("send-keys", "-t", pane, "C-z")
    hint = f"type fg in its terminal: sm attach {session_id}"
    claudes.says(session_id, "waiting_input", f"it is stopped in the background of a shell; hint: {hint}")
    assert hint in claudes.refused("interrupt", session_id, exit_code=4)
    assert claudes.sm("send", session_id, "shell-2").startswith("queued (busy: it is stopped")
    claudes.tmux("send-keys", "-t", pane, "-l", "fg")
    claudes.tmux("send-keys", "-t", pane, "Enter")
    turn_request(api, "shell-2")
    claudes.idle(session_id)


def test_fork_that_ended_before_its_first_prompt_is_forked_again(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "origin-1")["session_id"]
    claudes.idle(session_id)
    fork_id = claudes.json("fork", session_id)["session_id"]
    for _ in range(2):
        claudes.idle(fork_id)
        claudes.sm("kill", "--force", fork_id)
        assert claudes.sm("restore", fork_id).startswith("Restored ")
    assert claudes.session(fork_id)["status"] in ("running", "idle")
    second_id = claudes.json("fork", fork_id)["session_id"]
    for number, copy in enumerate((fork_id, second_id)):
        claudes.idle(copy)
        claudes.prompt(copy, f"own-{number}")
        assert "origin-1" in json.dumps(turn_request(api, f"own-{number}").body["messages"])
        claudes.idle(copy)
    conversations = {conversation(claudes, each) for each in (session_id, fork_id, second_id)}
    assert len(conversations) == 3
    before = conversation(claudes, fork_id)
    claudes.sm("kill", fork_id)
    claudes.sm("restore", fork_id)
    claudes.idle(fork_id)
    assert conversation(claudes, fork_id) == before
    claudes.prompt(fork_id, "own-later")
    assert "own-0" in json.dumps(turn_request(api, "own-later").body["messages"])


def test_restore_fails_when_claude_does_not_find_the_conversation(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Plain", "lost-1")["session_id"]
    claudes.idle(session_id)
    wait_output_tokens(claudes, session_id)
    transcript = claudes.transcript(conversation(claudes, session_id))
    claudes.sm("kill", session_id)
    wait_outbox(claudes)
    Archived(claudes.state / "archives" / session_id).path.unlink()
    transcript.write_text('{"type": "of another version"}\n')
    done = claudes.run("restore", session_id)
    # A busy machine may need more time than a restore waits. Then the command must not claim a success.
    too_slow = "it is not known yet whether the agent accepts its conversation" in done.stdout
    assert done.returncode == (0 if too_slow else 9), done
    assert too_slow or f"the agent of session {session_id} ended at its start" in done.stderr
    ended = claudes.ended(session_id)
    assert ended["status"] == "error"
    assert "the conversation to resume does not exist" in ended["status_reason"]


NO_NETWORK = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}
FLAGS_ON = {"DISABLE_TELEMETRY": "", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": ""}
"""claude keeps the feature flags of its account in its file, and reads none while these variables are set."""
ASKS = ("tengu_gleaming_fair", "tengu_gleaming_fair_reuse")
"""The flag with which claude asks, by its names in 2.1.197 and 2.1.332."""
SUMMARIZES_AHEAD = ("tengu_sepia_moth", "tengu_amber_packet")
"""The flags with which 2.1.332 summarizes a long conversation before it has to, and keeps the summary in a file."""
NEARLY_FULL = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "200000"}
"""A window that LONG fills so far that claude begins its summary."""
LONG = usage(Usage(input=150_000, output=5))
WORDS = "long-1"


def set_flags(claudes: ClaudeInstance, *flags: str) -> None:
    """Turn feature flags on, while no claude runs."""
    directory = (
        claudes.claude_home.parent if claudes.container else claudes.claude_home
    )  # no CLAUDE_CONFIG_DIR there
    file = directory / ".claude.json"
    known = json.loads(file.read_text())
    known["cachedGrowthBookFeatures"] = dict.fromkeys(flags, True)
    file.write_text(json.dumps(known))


def restored_after_hours(claudes: ClaudeInstance, *, has_summary: bool = False) -> str:
    """Restore a session whose long conversation ended hours ago. Returns its id.

    `has_summary`: claude has a summary of the conversation ready. Otherwise 2.1.332 does not ask, whatever its flags
    are. 2.1.197 asks without one, and gets none.
    """
    has_summary = has_summary and claude_cli.version() != claude_cli.OLDEST
    variables = {**NO_NETWORK, **FLAGS_ON, **NEARLY_FULL}
    options = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    session_id: str = claudes.spawn("Plain", f"{WORDS} [[text:x]]", *options)["session_id"]
    claudes.idle(session_id)
    if has_summary:
        wait_output_tokens(claudes, session_id)
        claudes.sm("kill", session_id)
        set_flags(claudes, *SUMMARIZES_AHEAD)
        claudes.sm("restore", session_id)
        claudes.idle(session_id)
    for number in (2, 3):  # a summary begins with the turn after the one that fills the window
        claudes.sm("send", session_id, f"long-{number} {LONG}[[text:a long answer]]", "--wait", PATIENT)
        claudes.idle(session_id)
    until(lambda: (claudes.progress(session_id)["context_tokens"] or 0) > 150_000, "its tokens are counted")
    transcript = claudes.transcript(conversation(claudes, session_id))
    if has_summary:
        summary = transcript.with_suffix("") / "precompact.json"
        until(summary.exists, "claude has a summary")
    claudes.sm("kill", session_id)
    wait_outbox(claudes)
    claudes.sm("daemon", "stop")
    old = re.sub(r'"timestamp":"\d{4}-\d\d-\d\d', '"timestamp":"2026-01-01', transcript.read_text())
    transcript.write_text(old)
    with closing(sqlite3.connect(claudes.state / "sm.db")) as database, database:
        database.execute("UPDATE sessions SET turn_ended_at = '2026-01-01T00:00:00.000Z'")
    set_flags(claudes, *ASKS, *(SUMMARIZES_AHEAD if has_summary else ()))
    claudes.api.requests.clear()
    claudes.start_daemon()
    claudes.sm("restore", session_id)
    return session_id


def sees_beginning(claudes: ClaudeInstance, api: ScriptedApi, session_id: str) -> bool:
    """Return whether the next request to the model has the beginning of the conversation."""
    claudes.sm("send", session_id, "later [[text:yes]]", "--wait", PATIENT)
    return WORDS in json.dumps(turn_request(api, "later").body["messages"])


def compactions(api: ScriptedApi) -> int:
    return sum(request.kind is Kind.COMPACTION for request in api.requests)


@pytest.mark.parametrize("has_summary", [False, True])
def test_long_and_old_conversation_goes_on_whole_when_resume_is_full(
    api: ScriptedApi, has_summary: bool
) -> None:
    with ClaudeInstance(api, claude_more="  resume: full") as claudes:
        session_id = restored_after_hours(claudes, has_summary=has_summary)
        claudes.idle(session_id)
        assert sees_beginning(claudes, api, session_id)
        assert not claudes.get("/v1/requests")
        assert compactions(api) == 0


def test_long_and_old_conversation_is_compacted_once_when_resume_is_summary(api: ScriptedApi) -> None:
    with ClaudeInstance(api, claude_more="  resume: summary") as claudes:
        session_id = restored_after_hours(claudes)
        claudes.says(session_id, "idle", "the conversation was compacted")
        assert not sees_beginning(claudes, api, session_id)
        assert not claudes.get("/v1/requests")
        assert compactions(api) == 1


def test_long_and_old_conversation_is_asked_about_by_claude_when_resume_is_ask(api: ScriptedApi) -> None:
    with ClaudeInstance(api, claude_more="  resume: ask") as claudes:
        session_id = restored_after_hours(claudes, has_summary=True)
        (request,) = until(lambda: claudes.get("/v1/requests"), "the question is a request")
        assert request["kind"] == "dialog"
        assert "150k tokens" in request["questions"][0]["question"]
        claudes.answer_dialog(session_id, "2")  # the full session
        until(lambda: not claudes.get("/v1/requests"), "the request is closed")
        claudes.idle(session_id)
        assert sees_beginning(claudes, api, session_id)
        assert compactions(api) == 0
