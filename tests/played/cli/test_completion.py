"""Words that `sm` offers for a command line in a shell, and the scripts of the shells."""

from pathlib import Path

import pytest

from sm.cli.group import COMMANDS
from tests.cli.peer import ReceivedRequest, answer
from tests.cli.samples import request, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer


def test_completion_offers_commands_and_names_of_sessions(run: Sm, peer: Peer) -> None:
    evil = session("bbbbbbbb", friendly_name="engineer-$(rm -rf)")
    peer.script("GET /v1/sessions", answer([session(friendly_name="engineer-login"), evil]))
    assert run.complete("sm chec") == ["plain,checkpoints", "plain,checkpoint", "plain,check"]
    assert run.complete("sm kill eng") == ["plain,engineer-login"]
    assert run.complete("sm status 1a") == ["plain,1a2b3c4d"]
    assert run.complete("sm spawn --mo") == ["plain,--model"]


@pytest.mark.parametrize("command", ["approve", "deny", "reject", "answer"])
def test_completion_of_answer_commands_offers_open_requests(run: Sm, peer: Peer, command: str) -> None:
    evil = request(58, session_id="bbbbbbbb", name="engineer-$(rm -rf)")
    several = [request(number, session_id="cccccccc", name="engineer-two") for number in (59, 60)]
    peer.script("GET /v1/requests", answer([request(57), *several, evil]))
    assert run.complete(f"sm {command} r5") == ["plain,r57", "plain,r59", "plain,r58"]
    assert run.complete(f"sm {command} eng") == ["plain,engineer-login"]
    assert run.complete(f"sm {command} 1a") == ["plain,1a2b3c4d"]
    further = [] if command == "answer" else ["plain,r57", "plain,r59", "plain,r60", "plain,r58"]
    assert sorted(run.complete(f"sm {command} r57 r")) == sorted(further)
    assert run.complete(f"sm {command} r57 eng") == [], "only the first argument can be a session"
    assert {received.query for received in peer.received} == {""}, "only open requests are offered"


@pytest.mark.parametrize("command", ["requests", "why"])
def test_completion_offers_requests_and_sessions(run: Sm, peer: Peer, command: str) -> None:
    def requests(received: ReceivedRequest) -> bytes:
        return answer(
            [request(57), request(56, state="answered")] if "all" in received.query else [request(57)]
        )

    peer.script("GET /v1/requests", requests)
    peer.script("GET /v1/sessions", answer([session(friendly_name="rust-login")]))
    assert run.complete(f"sm {command} r") == ["plain,r57", "plain,r56", "plain,rust-login"]
    assert run.complete(f"sm {command} ") == ["plain,r57", "plain,rust-login"]


SESSIONS = [
    session("aaaaaaaa", friendly_name="engineer-login", status="idle", note="a, b: c\x1b[2J"),
    session("bbbbbbbb", friendly_name="engineer-done", status="completed", pid=None, exit_code=0),
    session("cccccccc", friendly_name="engineer-lives", status="completed"),
    session(
        "dddddddd",
        friendly_name="engineer-twice",
        label="engineer-twice (dddddddd)",
        status="killed",
        exit_signal=9,
    ),
    session("eeeeeeee", friendly_name="engineer-hidden", status="error", exit_code=1, archived=True),
]


@pytest.mark.parametrize(
    ("commands", "offered"),
    [
        ("attach send kill interrupt wait", "engineer-login engineer-lives"),
        ("rm restore", "engineer-done dddddddd engineer-hidden"),
        ("archive", "engineer-done engineer-lives dddddddd"),
        ("unarchive", "engineer-hidden"),
        ("status tail", "engineer-login engineer-done engineer-lives dddddddd"),
    ],
)
def test_completion_offers_only_sessions_to_which_the_command_applies(
    run: Sm, peer: Peer, commands: str, offered: str
) -> None:
    def sessions(received: ReceivedRequest) -> bytes:
        return answer([s for s in SESSIONS if "archived" in received.query or not s["archived"]])

    peer.script("GET /v1/sessions", sessions)
    for command in commands.split():
        assert run.complete(f"sm {command} ") == [f"plain,{word}" for word in offered.split()], command


def test_completion_knows_the_name_part_of_a_reference(run: Sm, peer: Peer) -> None:
    other = session("ffffffff", agent_type="Tester", friendly_name="tester-login")
    peer.script(
        "GET /v1/sessions", answer(SESSIONS[:4]), answer([*SESSIONS[:4], other]), answer(SESSIONS[:4])
    )
    assert run.complete("sm tail lo") == ["plain,login"]
    assert run.complete("sm tail lo") == [], "two sessions have this part"
    assert run.complete("sm tail tw") == [], "another session has this name"


def test_completion_describes_sessions_by_their_whole_status(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions", answer(SESSIONS[:1]))
    peer.script("GET /v1/requests", answer([request(57)]))
    words = {"COMP_WORDS": "sm kill eng", "COMP_CWORD": "eng"}
    fish = run(code=None, environ={"_SM_COMPLETE": "fish_complete", **words}).out
    assert fish == "plain,engineer-login\tidle: a, b: c [2J\n"
    zsh = run(code=None, environ={"_SM_COMPLETE": "zsh_complete", **words, "COMP_CWORD": "2"}).out
    assert zsh == "plain\nengineer-login\nidle: a, b: c [2J\n"
    words = {"COMP_WORDS": "sm approve r", "COMP_CWORD": "r"}
    fish = run(code=None, environ={"_SM_COMPLETE": "fish_complete", **words}).out
    assert fish == "plain,r57\tquestion of engineer-login, open\n"


def test_fish_script_keeps_commas_of_descriptions(run: Sm) -> None:
    script = run("completion", "fish").out
    assert 'string split --max 1 "," $completion' in script
    assert 'string split ","' not in script


def test_completion_omits_internal_commands(run: Sm) -> None:
    names = [f"plain,{name}" for _, name, _ in COMMANDS]
    assert run.complete("sm ") == run.complete("sm help ") == names
    assert run.complete("sm hoo") == run.complete("sm help hoo") == []
    assert run.complete("sm help daemon sta") == ["plain,start", "plain,status"]
    assert run.complete("sm help spawn x") == run.complete("sm help nonsense x") == []


def test_completion_is_empty_when_no_daemon_runs(run: Sm, home: Path) -> None:
    assert run.complete("sm kill eng") == []
    assert run.complete("sm why r") == []
    assert not (home / "state").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])  # for bash, click runs bash: tests/cli/test_processes.py
def test_completion_prints_a_script_for_the_shell(run: Sm, shell: str) -> None:
    assert "_SM_COMPLETE" in run("completion", shell).out
