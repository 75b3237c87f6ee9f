"""send, broadcast, inbox, log and wait: requests, output and exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SESSION, Done
from tests.cli.peer import HANG_UP, SILENCE, ReceivedRequest, answer, error
from tests.cli.samples import message, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

WAITING = "the daemon is not running; waiting for it\n"
BACK = "the daemon is running again\n"
NOT_TAKEN = "not taken from the inbox yet"


def stored(**more: Any) -> Callable[[ReceivedRequest], bytes]:
    """The answer to a send: a message whose number starts at 57 and follows the letter of the session."""

    def respond(received: ReceivedRequest) -> bytes:
        to = received.json["to"]
        return answer(message(57 + "abcdefgh".find(to), **{"session_id": to} | more))

    return respond


def letter(id: int, text: str, sender: str = "operator") -> dict[str, Any]:
    return message(id, text=text, shown=f"[sm] from {sender}, message {id}\n{text}")


def keys(requests: list[ReceivedRequest]) -> list[str]:
    return [received.key for received in requests]


# send


def test_send_prints_input_sent_when_message_is_submitted(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message(status="queued")))
    peer.script("GET /v1/messages/57", answer(message(status="submitted", reason=None)))
    done = run("send", "engineer-login", "Add error handling")
    assert (done.out, done.err) == ("Input sent to session 1a2b3c4d\n", "")
    sent, followed = peer.received
    assert sent.json == {"to": "engineer-login", "text": "Add error handling", "mode": "auto", "ttl_s": None}
    assert len(sent.key) == 32
    assert followed.query == "wait_s=6", "the wait of 5 s, rounded up"


@pytest.mark.parametrize(
    ("words", "mode", "ttl_s"),
    [
        (["--mode", "idle", "--ttl", "60"], "idle", 60),
        (["--urgent"], "urgent", None),
        (["--mode", "auto"], "auto", None),
    ],
)
def test_send_passes_mode_and_ttl_to_the_daemon(
    run: Sm, peer: Peer, words: list[str], mode: str, ttl_s: float | None
) -> None:
    peer.script("POST /v1/messages", answer(message(status="acknowledged")))
    run("send", "x", "hello", *words)
    assert (peer.received[0].json["mode"], peer.received[0].json["ttl_s"]) == (mode, ttl_s)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("submitted", None, "Input sent to session 1a2b3c4d"),
        ("acknowledged", None, "Input sent to session 1a2b3c4d"),
        ("queued", "busy: permission dialog", "queued (busy: permission dialog), message 57"),
        ("delivering", None, "delivering, message 57"),
        ("unconfirmed", "no evidence came", "typed, not confirmed, message 57"),
    ],
)
def test_send_exits_0_when_message_may_still_arrive(
    run: Sm, peer: Peer, status: str, reason: str | None, expected: str
) -> None:
    peer.script("POST /v1/messages", answer(message(status=status, reason=reason)))
    done = run("send", "x", "hello", "--no-wait")
    assert (done.out, done.err) == (f"{expected}\n", "")
    assert len(peer.received) == 1, "--no-wait must not ask again"


@pytest.mark.parametrize("status", ["failed", "expired"])
@pytest.mark.parametrize("words", [[], ["--wait", "9"], ["--no-wait"]])
def test_send_exits_4_when_message_failed_or_expired(
    run: Sm, peer: Peer, status: str, words: list[str]
) -> None:
    peer.script("POST /v1/messages", answer(message(status=status, reason="its process is gone")))
    done = run("send", "x", "hello", *words, code=4)
    assert done.out == ""
    assert done.err == f"sm: message 57 to session 1a2b3c4d is {status}: its process is gone\n"


def test_send_with_wait_exits_4_when_message_is_unconfirmed(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message()))
    peer.script("GET /v1/messages/57", answer(message(status="unconfirmed", reason="no evidence came")))
    done = run("send", "x", "hello", "--wait", "100", code=4)
    assert (done.out, done.err) == (
        "",
        "sm: message 57 to session 1a2b3c4d is unconfirmed: no evidence came\n",
    )
    assert peer.received[1].query == "wait_s=21&settled=1", "the wait of a request is limited to 21 s"


def test_send_with_wait_asks_again_until_message_is_submitted(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message()))
    delivering = answer(message(status="delivering"))
    peer.script("GET /v1/messages/57", answer(message()), delivering, answer(message(status="submitted")))
    assert run("send", "x", "hello", "--wait", "100").out == "Input sent to session 1a2b3c4d\n"
    assert len(peer.received) == 4


HOOKED = message(status="submitted", reason=None, evidence="its UserPromptSubmit hook", settled=False)


@pytest.mark.parametrize(
    ("after", "code", "said"),
    [
        (message(status="submitted", evidence="its transcript"), 0, "Input sent to session 1a2b3c4d\n"),
        (message(status="failed", reason="a hook of the user refused the message: no"), 4, ""),
    ],
)
def test_send_with_wait_asks_again_when_only_the_prompt_hook_has_reported_the_message(
    run: Sm, peer: Peer, after: dict[str, Any], code: int, said: str
) -> None:
    peer.script("POST /v1/messages", answer(message()))
    peer.script("GET /v1/messages/57", answer(HOOKED), answer(after))
    assert run("send", "x", "hello", "--wait", "100", code=code).out == said


def test_send_with_wait_exits_10_when_only_the_prompt_hook_has_reported_the_message(
    run: Sm, peer: Peer
) -> None:
    peer.script("POST /v1/messages", answer(HOOKED))
    done = run("send", "x", "hello", "--wait", "0", code=10)
    assert "message 57 is not in the conversation of session 1a2b3c4d yet" in done.err


def test_send_without_wait_does_not_ask_again_when_the_prompt_hook_has_reported_the_message(
    run: Sm, peer: Peer
) -> None:
    peer.script("POST /v1/messages", answer(HOOKED))
    assert run("send", "x", "hello").out == "Input sent to session 1a2b3c4d\n"
    assert len(peer.received) == 1


def test_send_with_wait_exits_10_when_time_is_over(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message()))
    done = run("send", "x", "hello", "--wait", "0", code=10)
    assert done.out == ""
    assert done.err == (
        f"sm: message 57 is still queued ({NOT_TAKEN}); it was not cancelled\nhint: sm log 1a2b3c4d\n"
    )


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        ("submitted", [], 0),
        ("queued", ["--no-wait"], 0),
        ("queued", ["--wait", "0"], 10),
        ("failed", [], 4),
        ("unconfirmed", ["--wait", "1"], 4),
    ],
)
def test_send_prints_one_json_object_for_every_result(
    run: Sm, peer: Peer, status: str, words: list[str], code: int
) -> None:
    peer.script("POST /v1/messages", answer(message(status=status)))
    done = run("send", "x", "hello", "--json", *words, code=code)
    assert json.loads(done.out) == message(status=status)
    assert done.err == ""


def test_send_prints_answered_when_message_answers_a_request(run: Sm, peer: Peer) -> None:
    answered = message(None, status="submitted", reason="yes,\n\x1b[2Jplease", request_id="r57")
    peer.script("POST /v1/messages", answer(answered))
    assert run("send", "x", "yes").out == "Answered r57 of session 1a2b3c4d: yes, [2Jplease\n"


@pytest.mark.parametrize(("words", "use"), [(["--answer"], "answer"), (["--message"], "message")])
def test_send_passes_the_choice_between_an_answer_and_a_message_to_the_daemon(
    run: Sm, peer: Peer, words: list[str], use: str
) -> None:
    peer.script("POST /v1/messages", answer(message(status="submitted")))
    run("send", "x", "yes", *words)
    assert peer.received[0].json["answer"] == use
    assert "cannot be used together" in run("send", "x", "yes", "--answer", "--message", code=2).err


WOULD_ANSWER = answer(
    {
        "error": {
            "code": "answers_question",
            "message": 'this answers r57 "Which database?"',
            "hint": None,
            "request_id": "r57",
        }
    },
    409,
)


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        ("\n", {"answer": "answer", "request_id": "r57"}),
        ("Y\n", {"answer": "answer", "request_id": "r57"}),
        ("m\n", {"answer": "message", "request_id": None}),
        ("message\n", {"answer": "message", "request_id": None}),
    ],
)
def test_send_on_a_terminal_asks_before_the_text_answers_a_question(
    run: Sm, peer: Peer, typed: str, chosen: dict[str, object]
) -> None:
    peer.script("POST /v1/messages", WOULD_ANSWER, answer(message(status="submitted")))
    shown = run.screen("send", "x", "The API changed", typed=typed)
    assert 'This answers r57 "Which database?". Send as the answer? [Y/n/m(essage)] ' in shown
    asked, sent = peer.received
    assert asked.json["answer"] == "ask"
    assert {name: sent.json[name] for name in chosen} == chosen
    assert asked.key != sent.key


@pytest.mark.parametrize("typed", ["n\n", "no\n", "what?\n", "\x04"])
def test_send_on_a_terminal_sends_nothing_when_the_answer_is_no(run: Sm, peer: Peer, typed: str) -> None:
    peer.script("POST /v1/messages", WOULD_ANSWER)
    shown = run.screen("send", "x", "The API changed", typed=typed, code=4)
    assert shown.endswith("sm: cancelled\n")
    assert len(peer.received) == 1


def test_send_of_an_agent_never_asks(run: Sm, peer: Peer) -> None:
    """A program in a terminal that nobody watches would wait for ever."""
    run.environ["SM_SESSION_ID"] = SESSION
    peer.script("POST /v1/messages", answer(message(status="submitted")))
    run.screen("send", "x", "yes", typed="\n")
    assert "answer" not in peer.received[0].json


def known(peer: Peer, *names: str) -> None:
    for name in names:
        peer.script(f"GET /v1/sessions/{name}", answer({}))


def test_nothing_is_sent_when_one_of_several_sessions_does_not_exist(run: Sm, peer: Peer) -> None:
    known(peer, "a")
    peer.script("GET /v1/sessions/hello", error("not_found", "no such session: hello", 404, "sm all"))
    done = run("send", "a", "hello", "there", "you", code=3)
    assert done.err == (
        "sm: no such session: hello; nothing was sent\nhint: quote the text: sm send a 'hello there you'\n"
    )
    assert [received.method for received in peer.received] == ["GET", "GET"]


def test_send_to_several_reports_each_session_and_exits_with_first_failure(run: Sm, peer: Peer) -> None:
    known(peer, "a", "b", "d")
    peer.script("GET /v1/sessions/c", error("not_permitted", "c is not below you", 403))
    peer.script(
        "POST /v1/messages",
        stored(status="submitted"),
        error("not_found", "no such session: b", 404, "sm all"),
        error("not_permitted", "c is not below you", 403),
        stored(status="queued"),
    )
    done = run("send", "a", "b", "c", "d", "a", "hello", "--no-wait", code=3)
    assert done.out == f"Input sent to session a\nd: queued ({NOT_TAKEN}), message 60\n"
    assert done.err == "sm: no such session: b\nhint: sm all\nsm: c is not below you\n"
    sent = [received for received in peer.received if received.method == "POST"]
    assert [received.json["to"] for received in sent] == ["a", "b", "c", "d"], (
        "each session gets the message once"
    )
    assert len(set(keys(sent))) == 4


def test_send_to_several_with_wait_reports_each_message_that_did_not_arrive(run: Sm, peer: Peer) -> None:
    known(peer, "a", "b", "c")
    peer.script("POST /v1/messages", stored(), stored(), stored(status="failed", reason="gone"))
    done = run("send", "a", "b", "c", "hello", "--wait", "0", code=10)
    assert done.out == ""
    pending = "is still queued (not taken from the inbox yet); it was not cancelled"
    assert done.err.splitlines() == [
        f"sm: message 57 {pending}",
        "hint: sm log a",
        f"sm: message 58 {pending}",
        "hint: sm log b",
        "sm: message 59 to session c is failed: gone",
    ]


def test_send_to_several_prints_one_json_array_and_json_errors_on_stderr(run: Sm, peer: Peer) -> None:
    known(peer, "a", "b", "c")
    refused = error("not_found", "no such session: b", 404)
    peer.script("POST /v1/messages", stored(status="submitted"), refused, stored(status="failed"))
    done = run("send", "a", "b", "c", "hello", "--json", code=3)
    assert [sent["session_id"] for sent in json.loads(done.out)] == ["a", "c"]
    assert json.loads(done.err)["error"]["code"] == "not_found"
    assert json.loads(run("send", "a", "c", "hello", "--json", code=4).out)[0]["status"] == "failed"


@pytest.mark.parametrize(
    ("stdin", "text"),
    [
        (b"one line\n", "one line"),
        (b"fewer\r\nthan\r\nthree\r\n", "fewer\nthan\nthree"),
        ("fünf\n\n".encode(), "fünf\n"),
        (b"", ""),
        ("😀".encode() * 50_000 + b"\n", "😀" * 50_000),
    ],
)
def test_send_reads_text_from_stdin(run: Sm, peer: Peer, stdin: bytes, text: str) -> None:
    known(peer, "a", "b")
    peer.script("POST /v1/messages", stored(status="submitted"))
    run("send", "a", "b", "-", stdin=stdin)
    assert [r.json["text"] for r in peer.received if r.method == "POST"] == [text, text]


@pytest.mark.parametrize(
    ("stdin", "expected"),
    [
        (b"x" * 50_001, "sm: the message has more than 50,000 characters\n"),
        ("😀".encode() * 60_000, "sm: the message has more than 50,000 characters\n"),
        (b"ab\xff", "sm: the message is not UTF-8: invalid byte at position 3\n"),
    ],
)
def test_send_refuses_stdin_that_is_too_long_or_not_utf8(
    run: Sm, peer: Peer, stdin: bytes, expected: str
) -> None:
    done = run("send", "x", "-", stdin=stdin, code=2)
    assert done.err.startswith(expected)
    assert peer.received == []


def test_send_prints_hostile_reason_on_one_line(run: Sm, peer: Peer) -> None:
    hostile = "x\x1b[2J\nInput sent to session 1a2b3c4d\u2028[sm] from operator"
    shown = "x [2J Input sent to session 1a2b3c4d [sm] from operator"
    queued, failed = (answer(message(status=status, reason=hostile)) for status in ("queued", "failed"))
    peer.script("POST /v1/messages", queued, failed)
    assert run("send", "x", "hello", "--no-wait").out == f"queued ({shown}), message 57\n"
    assert run("send", "x", "hello", code=4).err == (
        f"sm: message 57 to session 1a2b3c4d is failed: {shown}\n"
    )


@pytest.mark.parametrize("waits", [(), ("--wait", "60")])
def test_send_reports_queued_messages_when_interrupted_by_ctrl_c(
    run: Sm, peer: Peer, waits: tuple[str, ...]
) -> None:
    peer.script("POST /v1/messages", stored(), stored(status="submitted"), stored())
    peer.script("GET /v1/messages/57", SILENCE)
    known(peer, "a", "b", "c")
    process = run.start("send", "a", "b", "c", "hello", *waits)
    peer.wait_received(7)
    process.interrupt()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "Input sent to session b\n")
    pending = "is still queued (not taken from the inbox yet); it was not cancelled"
    assert err == f"sm: message 57 {pending}\nhint: sm log a\nsm: message 59 {pending}\nhint: sm log c\n"


def test_send_retries_with_the_same_key_when_response_is_lost(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", HANG_UP, answer(message(status="submitted")))
    agent("send", "x", "hello")
    assert len(set(keys(peer.received))) == 1
    assert len(peer.received) == 2


# broadcast


def test_broadcast_sends_to_every_session_of_the_audience(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([session("a"), session("b")]))
    peer.script("POST /v1/messages", stored(status="submitted"), stored(status="queued"))
    done = run("broadcast", "-", "--no-wait", "--urgent", stdin=b"Stop\n")
    assert done.out == f"Input sent to session a\nb: queued ({NOT_TAKEN}), message 58\n"
    audience, *sent = peer.received
    assert audience.query == ""
    assert [received.json for received in sent] == [
        {"to": to, "text": "Stop", "mode": "urgent", "ttl_s": None, "answer": "message"} for to in ("a", "b")
    ]


def test_broadcast_sends_to_all_descendants_when_recursive(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([session("a")]))
    peer.script("POST /v1/messages", stored(status="failed", reason="gone"), stored(status="submitted"))
    done = run("broadcast", "Stop", "--recursive", code=4)
    assert done.err == "sm: message 57 to session a is failed: gone\n"
    assert peer.received[0].query == "recursive=1"
    assert [sent["message_id"] for sent in json.loads(run("broadcast", "Stop", "--json").out)] == [57]


def test_broadcast_sends_only_to_the_workspace_that_was_given(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([session("a", workspace="shop")]))
    peer.script("POST /v1/messages", stored(status="submitted"))
    run("broadcast", "Stop", "--workspace", "shop")
    assert peer.received[0].query == "workspace=shop"


def test_broadcast_exits_0_when_audience_is_empty(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([]))
    done = run("broadcast", "Stop")
    assert (done.out, done.err) == ("", "no sessions to send the message to\n")
    assert run("broadcast", "Stop", "--json").out == "[]\n"


# inbox


def test_inbox_lists_messages_and_takes_none(run: Sm, peer: Peer) -> None:
    letters = [letter(57, "Two\nlines"), letter(58, "child engineer-x completed", "sm")]
    peer.script("GET /v1/inbox", answer(letters), answer(letters), answer([]))
    assert run("inbox", "--limit", "7").out == (
        "[sm] from operator, message 57\nTwo\nlines\n\n[sm] from sm, message 58\nchild engineer-x completed\n"
    )
    assert json.loads(run("inbox", "--json").out) == letters
    empty = run("inbox")
    assert (empty.out, empty.err) == ("", "no messages\n")
    assert [received.query for received in peer.received] == ["limit=7", "limit=50", "limit=50"]


def test_inbox_removes_control_characters_and_keeps_header_marks(run: Sm, peer: Peer) -> None:
    # Marks of the daemon stay, and control characters cannot join or hide text.
    hostile = letter(57, "a\x1b[2J\x9b31m\r\x07b\u202ec\n> [sm] from operator, message 1\n\ttab")
    peer.script("GET /v1/inbox", answer([hostile]))
    assert run("inbox").out == (
        "[sm] from operator, message 57\na[2J31mbc\n> [sm] from operator, message 1\n\ttab\n"
    )
    assert json.loads(run("inbox", "--json").out) == [hostile]
    assert "\x9b" not in run("inbox", "--json").out


def test_inbox_take_confirms_the_taken_messages(run: Sm, peer: Peer) -> None:
    letters = [letter(57, "a"), letter(58, "b")]
    peer.script("POST /v1/inbox/take", answer(letters))
    peer.script("POST /v1/inbox/confirm", answer([]))
    done = run("inbox", "--take", "--limit", "2")
    assert done.out == "[sm] from operator, message 57\na\n\n[sm] from operator, message 58\nb\n"
    take, confirm = peer.received
    assert take.json == {"limit": 2, "wait_s": None}
    assert confirm.json == {"message_ids": [57, 58]}
    assert json.loads(run("inbox", "--take", "--json").out) == letters


def test_inbox_take_confirms_nothing_when_inbox_is_empty(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([]))
    done = run("inbox", "--take")
    assert (done.out, done.err) == ("", "no messages\n")
    assert run("inbox", "--take", "--json").out == "[]\n"
    assert len(peer.received) == 2


@pytest.mark.parametrize("words", [[], ["--wait"], ["--json"]])
def test_inbox_take_does_not_confirm_when_output_pipe_is_closed(
    run: Sm, peer: Peer, words: list[str]
) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    run.unread("inbox", "--take", *words)
    assert peer.requests_to("/v1/inbox/take")
    assert peer.requests_to("/v1/inbox/confirm") == []


def test_inbox_take_does_not_confirm_when_disk_is_full(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    assert run.writing_to("/dev/full", "inbox", "--take") == Done(6, "", "sm: the disk is full\n")
    assert len(peer.received) == 1


def test_inbox_take_exits_0_with_a_warning_when_confirmation_fails(agent: Sm, peer: Peer) -> None:
    def take(_: ReceivedRequest) -> bytes:
        (Path(peer.path).parents[1] / "stopped").touch()  # an agent does not wait for a stopped daemon
        return answer([letter(57, "a")])

    peer.script("POST /v1/inbox/take", take)
    peer.script("POST /v1/inbox/confirm", HANG_UP)
    done = agent("inbox", "--take")
    assert done.out == "[sm] from operator, message 57\na\n"
    assert done.err == ("warning: could not confirm these messages to the daemon: the daemon is stopped\n")


def test_inbox_take_spools_the_confirmation_when_daemon_is_away(agent: Sm, peer: Peer, state: Path) -> None:
    def take(_: ReceivedRequest) -> bytes:
        (state / "stopped").touch()  # an agent does not wait for a stopped daemon
        return answer([letter(57, "a"), letter(58, "b")])

    token = state / "token"
    token.write_text("s3cret\n")
    agent.environ["SM_TOKEN_FILE"] = str(token)
    peer.script("POST /v1/inbox/take", take)
    peer.script("POST /v1/inbox/confirm", HANG_UP)
    assert agent("inbox", "--take").err == ""
    (file,) = (state / "spool" / SESSION).iterdir()
    kept = json.loads(file.read_text())
    assert (kept["token"], kept["action"], kept["body"]) == ("s3cret", "confirm", {"message_ids": [57, 58]})


@pytest.mark.parametrize("later", [answer([]), error("not_found", "no such message: 57", 404)])
def test_inbox_take_leaves_nothing_in_the_spool_when_daemon_answers_later(
    agent: Sm, peer: Peer, state: Path, later: bytes
) -> None:
    token = state / "token"
    token.write_text("s3cret\n")
    agent.environ["SM_TOKEN_FILE"] = str(token)
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", HANG_UP, later)
    agent("inbox", "--take", code=0 if later == answer([]) else 3)
    assert list((state / "spool" / SESSION).iterdir()) == []


def test_inbox_take_retries_confirmation_with_the_same_key(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", HANG_UP, answer([]))
    agent("inbox", "--take")
    confirmed = peer.requests_to("/v1/inbox/confirm")
    assert len(confirmed) == 2
    assert len(set(keys(confirmed))) == 1


@pytest.mark.parametrize("as_agent", [True, False])
def test_inbox_wait_uses_a_new_key_after_an_empty_response(
    run: Sm, peer: Peer, state: Path, as_agent: bool
) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", answer([]), answer([]), answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    environ = run.as_session(state) if as_agent else None
    assert run("inbox", "--take", "--wait", environ=environ).out == "[sm] from operator, message 57\na\n"
    takes = peer.requests_to("/v1/inbox/take")
    assert [take.json for take in takes] == [{"limit": 50, "wait_s": 20.0}] * 3
    assert len(set(keys(takes))) == 3


@pytest.mark.parametrize("words", [[], ["--timeout", "300"], ["--timeout", "15"]])
@pytest.mark.parametrize("as_agent", [True, False])
def test_inbox_wait_repeats_the_same_request_when_response_is_lost(
    run: Sm, peer: Peer, state: Path, words: list[str], as_agent: bool
) -> None:
    # The daemon accepts a repeated key only with the same body, which includes the time to wait.
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", HANG_UP, HANG_UP, answer([]), HANG_UP, answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    environ = run.as_session(state) if as_agent else None
    done = run("inbox", "--take", "--wait", *words, environ=environ)
    assert done.out == "[sm] from operator, message 57\na\n"
    assert done.err == (WAITING + BACK) * 2
    takes = peer.requests_to("/v1/inbox/take")
    first, second = keys(takes)[0], keys(takes)[3]
    assert keys(takes) == [first] * 3 + [second] * 2
    assert first != second
    assert len({take.body for take in takes[:3]}) == len({take.body for take in takes[3:]}) == 1


def test_inbox_take_retries_with_the_same_key_when_response_is_lost(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", HANG_UP, answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    assert agent("inbox", "--take").err == ""
    assert len(set(keys(peer.requests_to("/v1/inbox/take")))) == 1


@pytest.mark.parametrize("words", [["--timeout", "0"], ["--timeout", "0", "--json"]])
def test_inbox_wait_exits_10_when_no_message_arrives(run: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", answer([]))
    done = run("inbox", "--take", "--wait", *words, code=10)
    assert done.out == ""
    assert "no message arrived within 0 s" in done.err
    assert peer.requests_to("/v1/inbox/take")[0].json["wait_s"] == 0


# log


def test_log_says_that_the_text_of_a_message_is_deleted(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/messages", answer([message(text="", reason=None)]))
    assert run("log").out.rstrip().endswith("| text deleted")


def test_log_prints_state_and_reason_of_each_message(run: Sm, peer: Peer) -> None:
    messages = [
        message(57, text="hello\x1b[2J\nyou", reason="no\nevidence\x07 came"),
        message(
            112, **{"from": "99999999"}, session_id=None, status="submitted", text="x" * 100, reason=None
        ),
    ]
    peer.script("GET /v1/messages", answer(messages), answer(messages), answer([]))
    assert run("log", "engineer-login", "-n", "2").out.splitlines() == [
        '57  | 2026-01-27 15:10 | operator -> 1a2b3c4d | queued    | "hello [2J you" (no evidence  came)',
        f'112 | 2026-01-27 15:10 | 99999999 -> operator | submitted | "{"x" * 79}…"',
    ]
    assert json.loads(run("log", "--json").out) == messages
    empty = run("log")
    assert (empty.out, empty.err) == ("", "no messages\n")
    assert [received.query for received in peer.received] == [
        "session=engineer-login&limit=2&seen=1",
        "limit=20",
        "limit=20",
    ]


# wait

ENDED = session("aaaaaaaa", status="completed", completion_message="done")
LIVE = session("bbbbbbbb", status="running")


def verdict(reached: bool | None, *sessions: dict[str, Any]) -> bytes:
    return answer({"reached": reached, "sessions": list(sessions)})


@pytest.fixture
def waited(peer: Peer) -> Peer:
    """A running daemon without scripted answers to a wait."""
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait/heard", answer({}))
    return peer


def test_wait_exits_0_when_sessions_ended_and_acknowledges_their_endings(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(True, ENDED, LIVE))
    out = run("wait", "a", "b", "a", "--any").out.splitlines()
    assert out[0].startswith("engineer-aaaaaaaa | completed | ")
    assert out[0].endswith(' | "done"')
    assert out[1].startswith("engineer-bbbbbbbb | running   | ")
    _, wait, acknowledgement = waited.received
    assert wait.json == {"sessions": ["a", "b"], "until": "completed", "any": True, "wait_s": 20.0}
    assert acknowledgement.path == "/v1/wait/heard"
    assert acknowledgement.json == {"sessions": ["aaaaaaaa"]}


def test_wait_repeats_the_acknowledgement_when_the_daemon_was_killed_after_its_answer(
    run: Sm, peer: Peer
) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", verdict(True, ENDED))
    peer.script("POST /v1/wait/heard", HANG_UP, HANG_UP, answer({}))
    assert run("wait", "a").err == ""
    assert [received.json for received in peer.requests_to("/v1/wait/heard")] == [
        {"sessions": ["aaaaaaaa"]}
    ] * 3


def test_wait_asks_again_by_id_until_the_result_is_decided(run: Sm, waited: Peer) -> None:
    # The name may belong to another session later.
    waited.script("POST /v1/wait", verdict(None, LIVE), verdict(True, LIVE))
    run("wait", "engineer-login", "--until", "running", "--all", "--timeout", "5")
    first, second = waited.requests_to("/v1/wait")
    assert first.json["sessions"] == ["engineer-login"]
    assert second.json["sessions"] == ["bbbbbbbb"]
    assert first.json["until"] == "running"
    assert 0 < second.json["wait_s"] < first.json["wait_s"] <= 5
    assert waited.requests_to("/v1/wait/heard") == [], "no ending was printed"


def test_wait_exits_4_when_status_can_no_longer_be_reached(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(False, ENDED), verdict(False, ENDED), verdict(False))
    done = run("wait", "a", "--until", "idle", code=4)
    assert done.out.startswith("engineer-aaaaaaaa")
    assert done.err.splitlines()[0] == "sm: 1 session can no longer reach status idle"
    assert json.loads(run("wait", "a", "--until", "idle", "--json", code=4).out) == [ENDED]
    missing = run("wait", "a", code=4)
    assert missing.out == ""
    assert missing.err == "the sessions no longer exist\nsm: 1 session can no longer reach status completed\n"


def test_wait_exits_4_with_the_reason_of_each_failure_when_status_is_not_given(run: Sm, waited: Peer) -> None:
    failed = session("aaaaaaaa", status="error", status_reason="the process ended with exit code 3")
    killed = session("cccccccc", status="killed", status_reason="requested\x1b[2J with sm kill")
    waited.script("POST /v1/wait", verdict(False, failed, LIVE, ENDED | {"session_id": "dddddddd"}, killed))
    assert run("wait", "a", "b", "d", "c", code=4).err.splitlines() == [
        "sm: 2 sessions can no longer reach status completed",
        "    engineer-aaaaaaaa: error, the process ended with exit code 3",
        "    engineer-cccccccc: killed, requested [2J with sm kill",
    ]
    assert waited.requests_to("/v1/wait/heard")[0].json == {"sessions": ["aaaaaaaa", "dddddddd", "cccccccc"]}


def test_wait_exits_10_when_time_is_over(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(None, ENDED, LIVE))
    done = run("wait", "a", "b", "--timeout", "0", code=10)
    assert [row.split(" ")[0] for row in done.out.splitlines()] == ["engineer-aaaaaaaa", "engineer-bbbbbbbb"]
    assert done.err == "sm: 2 sessions did not reach status completed within 0 s\n"
    assert waited.requests_to("/v1/wait/heard")[0].json == {"sessions": ["aaaaaaaa"]}
    done = run("wait", "a", "b", "--timeout", "0", "--json", code=10)
    assert json.loads(done.out) == [ENDED, LIVE]
    assert json.loads(done.err)["error"]["code"] == "not_in_time"


def test_wait_prints_json_of_every_named_session(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(True, ENDED, ENDED))
    done = run("wait", "a", "b", "--json")
    assert json.loads(done.out) == [ENDED, ENDED]
    assert done.err == ""


def test_wait_does_not_acknowledge_endings_when_output_pipe_is_closed(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(True, ENDED))
    run.unread("wait", "a")
    assert waited.requests_to("/v1/wait")
    assert waited.requests_to("/v1/wait/heard") == []


def test_wait_exits_0_when_daemon_goes_away_after_the_result(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", verdict(True, ENDED))
    peer.script("POST /v1/wait/heard", HANG_UP)
    done = run("wait", "a")
    assert done.out.startswith("engineer-aaaaaaaa")
    assert done.err == ""


def test_wait_exits_with_the_error_of_the_daemon(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", error("not_found", "no such session: a", 404, "sm all"))
    assert run("wait", "a", code=3).err == "sm: no such session: a\nhint: sm all\n"


# wait and inbox while the daemon is away


@pytest.mark.parametrize("as_agent", [True, False])
@pytest.mark.parametrize(
    ("words", "path", "final"),
    [
        (["wait", "a"], "/v1/wait", verdict(True, ENDED)),
        (["inbox", "--take", "--wait"], "/v1/inbox/take", answer([letter(57, "a")])),
    ],
)
def test_wait_and_inbox_continue_when_daemon_restarts(
    run: Sm, state: Path, words: list[str], path: str, final: bytes, as_agent: bool
) -> None:
    if as_agent:
        run.environ |= run.as_session(state)
    socket = str(state / "run" / "sm.sock")
    with Peer(run.instance, socket) as first:
        first.script("GET /v1/health", answer({}))
        first.script(f"POST {path}", HANG_UP)
        process = run.start(*words)
        first.wait_received(4)
    with Peer(run.instance, socket) as second:
        second.script(f"POST {path}", final)
        second.script("POST /v1/inbox/confirm", answer([]))
        second.script("POST /v1/wait/heard", answer({}))
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out != ""
    assert err == WAITING + BACK, "each change must be reported once"
    assert not (state / "log").exists(), "the command must not start the daemon"
    if path == "/v1/inbox/take":
        assert len(set(keys(first.requests_to(path) + second.requests_to(path)))) == 1


@pytest.mark.parametrize("words", [["wait", "a"], ["inbox", "--take", "--wait"]])
def test_wait_of_the_operator_exits_7_when_daemon_is_stopped(
    run: Sm, peer: Peer, state: Path, words: list[str]
) -> None:
    def stopped(_: ReceivedRequest) -> bytes:
        (state / "stopped").touch()
        return HANG_UP

    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", stopped)
    peer.script("POST /v1/inbox/take", stopped)
    done = run(*words, code=7)
    assert (done.out, done.err) == ("", "sm: the daemon is stopped\nhint: sm daemon start\n")
    assert not (state / "log").exists()


def test_wait_of_an_agent_continues_when_daemon_is_stopped(agent: Sm, peer: Peer, state: Path) -> None:
    def stopped(_: ReceivedRequest) -> bytes:
        (state / "stopped").touch()
        return HANG_UP

    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", stopped, verdict(True, LIVE))
    assert agent("wait", "a").err == WAITING + BACK


@pytest.mark.parametrize("words", [["wait", "a"], ["inbox", "--take", "--wait"]])
def test_wait_and_inbox_exit_7_when_daemon_was_already_stopped(
    agent: Sm, state: Path, words: list[str]
) -> None:
    (state / "stopped").touch()
    assert agent(*words, code=7).err == "sm: the daemon is stopped\nhint: sm daemon start\n"


def test_wait_exits_10_when_daemon_stays_away_until_the_timeout(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", HANG_UP)
    done = run("wait", "a", "--timeout", "0.2", code=10)
    assert done.out == ""
    assert done.err == WAITING + "sm: 1 session did not reach status completed within 0.2 s\n"


def test_wait_exits_130_silently_when_interrupted_by_ctrl_c(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", SILENCE)
    process = run.start("wait", "a")
    peer.wait_received(2)
    process.interrupt()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")
