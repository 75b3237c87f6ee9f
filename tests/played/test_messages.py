"""Messages, waits and requests through the real command: refusals, delivery, expiry and answers."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.board import needs
from sm.client.http import Client
from sm.errors import AnswersQuestion, IllegalState
from tests.sim.programs import Running
from tests.sim.stage import Instance, until

MORE = """
  Inbox: {command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}
  Deaf: {command: [sleep, "1000"], prompt: file}
  Tty: {command: [sh, -c, "while read -r x; do echo \\"$x\\" >> read-$SM_SESSION_ID; done"], prompt: file, input: tty}
  Counter: {command: [counter], prompt: file, input: tty}
"""


async def counter(program: Running) -> None:
    """Write what it reads to the file `heard`, and the interrupts."""
    heard = Path(program.process.cwd, "heard")

    def write(line: str) -> None:
        with heard.open("a") as file:
            file.write(f"{line}\n")

    program.process.handlers[signal.SIGINT] = lambda: write("interrupted")
    while True:
        write(await program.read_line())


@pytest.fixture
def home() -> Iterator[Instance]:
    with Instance(MORE) as home:
        home.world.programs.installed["counter"] = counter
        yield home


def texts(path: Path) -> list[str]:
    """The texts that an Inbox agent has taken."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [message["text"] for line in lines for message in json.loads(line)]


def log_of(home: Instance, session_id: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = home.json("log", session_id)
    return messages


# Refused


def test_send_is_refused_when_the_process_of_the_session_is_gone(home: Instance) -> None:
    gone = home.spawn("Sh", "exit 0")["session_id"]
    home.ended(gone)
    error = home.refused("send", gone, "hello", exit_code=4)
    assert error == (
        f"sm: session {gone} has ended (completed): it cannot receive messages\nhint: sm restore {gone}\n"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * 50_001, "the message has more than 50,000 characters"),
        ("paste\x1b[201~rm -rf", "message: character U+001B at position 6 is not allowed"),
        ("turn \u202eround", "message: character U+202E at position 6 is not allowed"),
        (" \n ", "the message is empty"),
    ],
)
def test_send_refuses_dangerous_texts(home: Instance, text: str, why: str) -> None:
    deaf = home.spawn("Deaf")["session_id"]
    assert home.refused("send", deaf, "-", stdin=text, exit_code=2).startswith(f"sm: {why}")
    assert log_of(home, deaf) == []
    home.sm("kill", deaf, "--force")


def test_send_refuses_a_nul_character_with_its_position(home: Instance) -> None:
    deaf = home.spawn("Deaf")["session_id"]
    error = home.refused("send", deaf, "-", stdin="ab\0c", exit_code=2)
    assert "character U+0000 at position 3" in error
    home.sm("kill", deaf, "--force")


def test_send_to_a_terminal_reader_refuses_several_lines_and_long_lines(home: Instance) -> None:
    tty = home.spawn("Tty")["session_id"]
    assert "must be one line" in home.refused("send", tty, "two\nlines", exit_code=2)
    assert "at most 4,000 are allowed" in home.refused("send", tty, "x" * 3_990, exit_code=2)
    home.sm("kill", tty, "--force")


# Delivered


def test_text_of_50000_characters_arrives_unchanged(home: Instance) -> None:
    inbox = home.spawn("Inbox")["session_id"]
    text = ("0123456789 äöü€😀\t\n" * 3_000)[:50_000]
    assert home.sm("send", inbox, "-", stdin=text + "\n") == f"Input sent to session {inbox}\n"
    assert texts(home.work / f"read-{inbox}") == [text]


def test_send_reaches_several_recipients(home: Instance) -> None:
    pair = [home.spawn("Inbox")["session_id"] for _ in range(2)]
    sent = home.json("send", *pair, "to both")
    assert [m["session_id"] for m in sent] == pair
    assert {m["status"] for m in sent} == {"submitted"}
    assert [texts(home.work / f"read-{reader}") for reader in pair] == [["to both"], ["to both"]]


# Not delivered


def test_message_expires_with_a_notice_when_it_is_not_taken_in_time(home: Instance) -> None:
    deaf = home.spawn("Deaf")["session_id"]
    before = home.json("status")["dead_letters"]
    error = home.refused("send", deaf, "anybody?", "--ttl", "1", "--wait", "30", exit_code=4)
    assert "expired: not delivered in time" in error
    assert home.json("status")["dead_letters"] == before + 1
    # A sender that waited knows the result and gets no notice; a sender that did not wait gets one.
    home.sm("send", deaf, "still nobody?", "--ttl", "1", "--no-wait")
    number = log_of(home, deaf)[-1]["message_id"]
    entry = f"message {number} to deaf-{deaf} ({deaf}) expired"
    until(lambda: any(entry in m["text"] for m in home.json("inbox")), "the operator's notice")
    assert not any("anybody?" in m["text"] for m in home.json("inbox"))


def test_message_fails_with_a_notice_when_its_recipient_ends(home: Instance) -> None:
    deaf = home.spawn("Deaf")["session_id"]
    script = (
        f"sm send {deaf} 'from a session' --no-wait; sm inbox --take --wait > told-of-it; exec sleep 1000"
    )
    home.spawn("Sh", script)
    until(lambda: log_of(home, deaf), "the message is queued")
    home.sm("kill", deaf, "--force")
    (message,) = log_of(home, deaf)
    assert message["status"] == "failed"
    assert message["reason"] == f"session {deaf} has ended (killed)"
    path = home.work / "told-of-it"
    until(lambda: path.exists() and " failed: " in path.read_text(), "the sender's notice")


def test_send_wait_times_out_and_leaves_the_message_queued(home: Instance) -> None:
    deaf = home.spawn("Deaf")["session_id"]
    error = home.refused("send", deaf, "later", "--wait", "0.5", exit_code=10)
    assert "still queued (not taken from the inbox yet); it was not cancelled" in error
    assert log_of(home, deaf)[0]["status"] == "queued"


# Waiting


def test_wait_reports_reached_unreachable_and_timed_out_conditions(home: Instance) -> None:
    quick, slow = home.spawn("Sh", "exit 0")["session_id"], home.spawn("Deaf")["session_id"]
    assert quick in home.sm("wait", quick, slow, "--any", "--until", "ended", "--timeout", "30")
    ended = home.run("wait", quick, slow, "--all", "--timeout", "0.5")
    assert (ended.returncode, "did not reach status completed within 0.5 s" in ended.stderr) == (10, True)
    ended = home.run("wait", quick, "--until", "error")
    assert ended.returncode == 4
    assert ended.stderr.startswith("sm: 1 session can no longer reach status error\n")
    assert home.run("wait", slow, "--until", "running").returncode == 0


@pytest.mark.parametrize(
    ("script", "exit_code", "reason"),
    [("exit 0", 0, ""), ("exit 3", 4, "exit code 3"), ("sm complete --status error 'no key'", 4, "error, ")],
)
def test_wait_without_a_status_succeeds_only_when_the_session_completed(
    home: Instance, script: str, exit_code: int, reason: str
) -> None:
    session_id = home.spawn("Sh", script)["session_id"]
    done = home.run("wait", session_id, "--timeout", "30")
    assert (done.returncode, reason in done.stderr) == (exit_code, True)
    assert home.run("wait", session_id, "--until", "ended", "--timeout", "30").returncode == 0


# Requests


def test_first_answer_wins_and_a_late_answer_is_refused(home: Instance) -> None:
    asker = home.spawn(
        "Sh", "sm ask 'Which way?' --option left --option right --wait 60 > way; exec sleep 1000"
    )
    session_id = asker["session_id"]
    home.in_status(session_id, "waiting_input")
    (request,) = home.json("requests", session_id)
    another = {"approved": True, "answers": ["1"], "shown": "0" * 32}
    with pytest.raises(IllegalState, match="has changed since it was shown"):
        Client(str(home.socket)).post(f"/v1/requests/{request['request_id']}/answer", another)
    assert (
        home.sm("answer", request["request_id"], "2")
        == f"Answered {request['request_id']} of {asker['label']}\n"
    )
    until(lambda: (home.work / "way").read_text() == "right\n", "the answer")
    error = home.refused("answer", request["request_id"], "1", exit_code=4)
    assert f"{request['request_id']} was answered by operator at " in error
    assert ': "right"\n' in error
    assert "no open requests" in home.refused("answer", session_id, "1", exit_code=4)
    home.refused("answer", "r99999", "1", exit_code=3)
    assert home.refused("approve", "99", exit_code=3).endswith("an r before its number: r99\n")
    home.in_status(session_id, "running")


def test_send_answers_the_only_open_question(home: Instance) -> None:
    asker = home.spawn("Sh", "sm ask 'Yes or no?' --wait 60 > yes-or-no; exec sleep 1000")["session_id"]
    home.in_status(asker, "waiting_input")
    (request,) = home.json("requests", asker)
    assert home.sm("send", asker, "yes") == f"Answered {request['request_id']} of session {asker}: yes\n"
    until(lambda: (home.work / "yes-or-no").read_text() == "yes\n", "the answer")
    assert log_of(home, asker) == []


def test_message_and_broadcast_leave_the_only_open_question_open(home: Instance) -> None:
    script = "sm ask 'Which database should we use?' --wait 60 > database; exec sleep 1000"
    asker = home.spawn("Sh", script)["session_id"]
    home.in_status(asker, "waiting_input")
    (request,) = home.json("requests", asker)
    home.sm("broadcast", "The API changed: pull before you continue", "--no-wait")
    home.sm("send", asker, "and again", "--message", "--no-wait")
    assert [m["text"] for m in log_of(home, asker)] == [
        "The API changed: pull before you continue",
        "and again",
    ]
    assert [r["request_id"] for r in home.json("requests", asker)] == [request["request_id"]]
    client = Client(str(home.socket))
    asks = {"to": asker, "text": "sqlite", "answer": "ask"}
    with pytest.raises(
        AnswersQuestion, match=r'this answers r[0-9]+ "Which database should we use[?]"'
    ) as refused:
        client.post("/v1/messages", asks)
    assert refused.value.request_id == request["request_id"]
    with pytest.raises(IllegalState, match="has no open question r99"):
        client.post("/v1/messages", asks | {"answer": "answer", "request_id": "r99"})
    answered = home.sm("send", asker, "sqlite", "--answer")
    assert answered == f"Answered {request['request_id']} of session {asker}: sqlite\n"
    until(lambda: (home.work / "database").read_text() == "sqlite\n", "the answer")
    assert "has no question that a text can answer" in home.refused(
        "send", asker, "postgres", "--answer", exit_code=4
    )
    assert client.post("/v1/messages", asks)["status"] == "queued", "without a question it is a message"
    home.sm("kill", asker)


def test_answer_comes_as_a_message_when_the_asker_does_not_wait(home: Instance) -> None:
    script = "sm ask 'When?'; sm inbox --take --wait --json > when; exec sleep 1000"
    asker = home.spawn("Sh", script)["session_id"]
    (request,) = until(lambda: home.json("requests", asker), "the request")
    home.sm("answer", request["request_id"], "tomorrow")
    until(lambda: texts(home.work / "when"), "the answer")
    assert texts(home.work / "when") == [f"answer to {request['request_id']}: tomorrow"]


def test_session_cannot_answer_requests_of_other_sessions(home: Instance) -> None:
    asker = home.spawn("Sh", "sm ask 'Who?' ; exec sleep 1000")["session_id"]
    (request,) = until(lambda: home.json("requests", asker), "the request")
    name = request["request_id"]
    home.spawn("Sh", f"sm answer {name} me 2> stranger; echo $? >> stranger; exec sleep 1000")
    until(
        lambda: (home.work / "stranger").exists() and (home.work / "stranger").read_text().endswith("3\n"),
        "the refusal",
    )
    assert home.json("requests", asker)[0]["state"] == "open"


def test_send_is_refused_to_unknown_archived_and_own_sessions(home: Instance) -> None:
    assert "no such session" in home.refused("send", "nobody-there", "hello", exit_code=3)
    gone = home.spawn("Sh", "exit 0")["session_id"]
    home.ended(gone)
    home.sm("archive", gone)
    assert f"hint: sm restore {gone}" in home.refused("send", gone, "hello", exit_code=4)
    own = home.spawn("Deaf")["session_id"]
    refused = home.run_inside(own, "send", own, "hello")
    assert refused.returncode == 5
    assert f"session {own} may not send messages to itself" in refused.stderr


def test_inbox_gives_urgent_messages_first_and_idle_messages_to_a_waiting_agent(home: Instance) -> None:
    first, second = "sm inbox --take --json > first", "sm inbox --take --wait --json > second"
    script = f"while [ ! -e may-read ]; do sleep 0.05; done; {first}; {second}; exec sleep 1000"
    busy = home.spawn("Sh", script)["session_id"]
    output = home.sm("send", busy, "when idle", "--mode", "idle", "--no-wait")
    assert output.startswith("queued (held until the session is idle: it is running), message ")
    home.sm("send", busy, "one", "--no-wait")
    home.sm("send", busy, "now", "--urgent", "--no-wait")
    (home.work / "may-read").touch()
    until(lambda: len(texts(home.work / "second")) == 1, "the second read")
    assert texts(home.work / "first") == ["now", "one"]
    assert texts(home.work / "second") == ["when idle"]


def test_urgent_message_interrupts_the_program_before_it_is_typed(home: Instance) -> None:
    counter = home.spawn("Counter")["session_id"]
    log = home.work / "heard"
    home.sm("send", counter, "ready?")
    until(lambda: log.exists() and "ready?" in log.read_text(), "the agent reads")
    home.sm("send", counter, "stop that", "--urgent")
    until(lambda: log.read_text().rstrip().endswith("stop that"), "both messages")
    assert "interrupted" in log.read_text()
    assert home.session(counter)["status"] == "running"


def test_urgent_message_to_a_terminal_needs_permission_to_interrupt(home: Instance) -> None:
    counter = home.spawn("Counter")["session_id"]
    peer = {"SM_SESSION_ID": home.spawn("Inbox")["session_id"]}
    error = home.refused("send", counter, "drop that", "--urgent", exit_code=5, env=peer)
    assert f"may not interrupt session {counter}" in error
    home.sm("send", counter, "when you can", env=peer)
    reader = home.spawn("Inbox")["session_id"]
    assert (
        home.sm("send", reader, "first of all", "--urgent", env=peer) == f"Input sent to session {reader}\n"
    )


def test_message_reopens_a_completed_session_whose_process_runs(home: Instance) -> None:
    script = "sm complete first; sm inbox --take --wait > /dev/null; sm complete second; exec sleep 1000"
    again = home.spawn("Sh", script)["session_id"]
    home.sm("wait", again, "--timeout", "60")
    assert home.sm("send", again, "more work") == f"Input sent to session {again}\n"
    until(lambda: home.session(again)["completion_message"] == "second", "the second completion")
    types = [e["type"] for e in home.events(again)]
    assert types.count("completed") == 2
    assert types.index("reopened") < types.index("message")


def test_message_is_unconfirmed_when_the_reader_dies_after_taking_it(home: Instance) -> None:
    deaf = home.spawn("Deaf")
    home.sm("send", deaf["session_id"], "hello", "--no-wait")
    ((said, taken),) = home.request_as(deaf["session_id"], ("POST", "/v1/inbox/take"))
    assert (said, len(taken)) == ("ok", 1)
    until(lambda: log_of(home, deaf["session_id"])[0]["status"] == "unconfirmed", "its final status")
    (message,) = log_of(home, deaf["session_id"])
    assert message["reason"] == "the recipient took it from the inbox but did not confirm it"


def test_wait_continues_when_the_daemon_restarts(home: Instance) -> None:
    slow = home.spawn("Sh", "while [ ! -e end-now ]; do sleep 0.05; done")["session_id"]
    waiting = home.start_command("wait", slow, "--json")
    home.kill_daemon()
    home.sm("status")
    (home.work / "end-now").touch()
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert [s["status"] for s in json.loads(out)] == ["completed"]


def test_question_can_expire_be_cancelled_and_be_denied(home: Instance) -> None:
    expired = home.spawn(
        "Sh", "sm ask 'Soon?' --expires 1 --wait 60 2> soon; echo $? >> soon; exec sleep 1000"
    )
    until(lambda: "\n4\n" in (home.work / "soon").read_text(), "the expiry")
    assert "is expired: nobody answered in time" in (home.work / "soon").read_text()
    (request,) = home.json("requests", expired["session_id"], "--all")
    assert "expired at" in home.refused("answer", request["request_id"], "now", exit_code=4)
    ended = home.spawn("Sh", "sm ask 'Me?'; exit 0")["session_id"]
    home.ended(ended)
    (request,) = home.json("requests", ended, "--all")
    assert (request["state"], request["reason"]) == ("cancelled", f"session {ended} has ended")
    home.refused("answer", request["request_id"], "you", exit_code=4)
    denied = home.spawn("Sh", "sm ask 'Please?' --wait 60 2> please; echo $? >> please; exec sleep 1000")[
        "session_id"
    ]
    home.in_status(denied, "waiting_input")
    assert home.sm("deny", denied, "not today").startswith("Denied r")
    until(lambda: (home.work / "please").read_text().endswith("\n4\n"), "the refusal")
    assert "was denied: not today" in (home.work / "please").read_text()


def test_broadcast_of_a_session_reaches_only_its_children(home: Instance) -> None:
    parent = home.spawn(
        "Sh", "while [ ! -e tell ]; do sleep 0.05; done; sm broadcast 'to mine' > said; exec sleep 1000"
    )
    child = home.spawn("Inbox", "--parent", parent["session_id"])["session_id"]
    stranger = home.spawn("Inbox")["session_id"]
    (home.work / "tell").touch()
    until(lambda: texts(home.work / f"read-{child}") == ["to mine"], "the child's message")
    assert log_of(home, stranger) == []
    path = home.work / "said"
    until(lambda: path.read_text() == f"Input sent to session {child}\n", "the parent's output")


def test_answer_to_an_agent_that_never_confirms_does_not_need_a_person(home: Instance) -> None:
    agent = home.spawn("Tty", "x")["session_id"]
    assert home.run_inside(agent, "ask", "Which colour?").returncode == 0
    home.sm("answer", "r1", "red")
    home.settle()
    (answer,) = [m for m in home.get("/v1/messages") if m["session_id"] == agent]
    assert (answer["from"], answer["status"]) == ("operator", "unconfirmed")
    assert needs({}, home.get("/v1/requests"), [answer], {}, home.now().timestamp()) == []
