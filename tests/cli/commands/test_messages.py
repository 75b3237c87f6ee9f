"""send, broadcast, inbox, log, wait: what they ask of the daemon, what they say, how they end."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import HANG_UP, SILENCE, Asked, Peer, answer, error
from tests.cli.samples import message, session
from tests.load import scaled

WAITING = "the daemon is away; waiting for it\n"
BACK = "the daemon is back\n"
NOT_TAKEN = "it has not taken it yet"


def stored(**more: Any) -> Callable[[Asked], bytes]:
    """The daemon's answer to a send: the message, to whom it was sent, numbered from 57 in the order of IDs."""

    def said(asked: Asked) -> bytes:
        to = asked.json["to"]
        return answer(message(57 + "abcdefgh".find(to), **{"session_id": to} | more))

    return said


def letter(id: int, text: str, sender: str = "operator") -> dict[str, Any]:
    return message(id, text=text, shown=f"[sm] from {sender}, message {id}\n{text}")


def keys(asked: list[Asked]) -> list[str]:
    return [each.headers["idempotency-key"] for each in asked]


def asked_for(peer: Peer, path: str) -> list[Asked]:
    return [asked for asked in peer.asked if asked.path == path]


# send


def test_send_says_that_the_input_was_sent(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message(status="queued")))
    peer.script("GET /v1/messages/57", answer(message(status="submitted", reason=None)))
    done = run("send", "engineer-login", "Add error handling")
    assert (done.out, done.err) == ("Input sent to session 1a2b3c4d\n", "")
    sent, followed = peer.asked
    assert sent.json == {"to": "engineer-login", "text": "Add error handling", "mode": "auto", "ttl_s": None}
    assert len(sent.headers["idempotency-key"]) == 32
    assert followed.query == "wait_s=5"


@pytest.mark.parametrize(
    ("words", "mode", "ttl_s"),
    [
        (["--mode", "idle", "--ttl", "60"], "idle", 60),
        (["--urgent"], "urgent", None),
        (["--mode", "auto"], "auto", None),
    ],
)
def test_send_passes_on_how_it_shall_be_delivered(
    run: Sm, peer: Peer, words: list[str], mode: str, ttl_s: float | None
) -> None:
    peer.script("POST /v1/messages", answer(message(status="acknowledged")))
    run("send", "x", "hello", *words)
    assert (peer.asked[0].json["mode"], peer.asked[0].json["ttl_s"]) == (mode, ttl_s)


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        ("submitted", None, "Input sent to session 1a2b3c4d"),
        ("acknowledged", None, "Input sent to session 1a2b3c4d"),
        ("queued", "busy: permission dialog", "queued (busy: permission dialog), message 57"),
        ("delivering", None, "delivering, message 57"),
        ("unconfirmed", "no evidence came", "typed, not confirmed, message 57"),
    ],
)
def test_send_ends_with_0_for_whatever_may_still_arrive(
    run: Sm, peer: Peer, status: str, reason: str | None, said: str
) -> None:
    peer.script("POST /v1/messages", answer(message(status=status, reason=reason)))
    done = run("send", "x", "hello", "--no-wait")
    assert (done.out, done.err) == (f"{said}\n", "")
    assert len(peer.asked) == 1, "with --no-wait nothing is waited for"


@pytest.mark.parametrize("status", ["failed", "expired"])
@pytest.mark.parametrize("words", [[], ["--wait", "9"], ["--no-wait"]])
def test_send_ends_with_4_for_what_cannot_arrive(run: Sm, peer: Peer, status: str, words: list[str]) -> None:
    peer.script("POST /v1/messages", answer(message(status=status, reason="its process is gone")))
    done = run("send", "x", "hello", *words, code=4)
    assert done.out == ""
    assert done.err == f"sm: message 57 to session 1a2b3c4d is {status}: its process is gone\n"


def test_send_that_must_arrive_ends_with_4_when_it_is_not_confirmed(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message()))
    peer.script("GET /v1/messages/57", answer(message(status="unconfirmed", reason="no evidence came")))
    done = run("send", "x", "hello", "--wait", "100", code=4)
    assert (done.out, done.err) == (
        "",
        "sm: message 57 to session 1a2b3c4d is unconfirmed: no evidence came\n",
    )
    assert peer.asked[1].query == "wait_s=21", "no request is held longer than the daemon holds one"


def test_send_that_must_arrive_asks_again_until_it_has(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message()))
    delivering = answer(message(status="delivering"))
    peer.script("GET /v1/messages/57", answer(message()), delivering, answer(message(status="submitted")))
    assert run("send", "x", "hello", "--wait", "100").out == "Input sent to session 1a2b3c4d\n"
    assert len(peer.asked) == 4


def test_send_that_must_arrive_in_time_ends_with_10(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", answer(message()))
    done = run("send", "x", "hello", "--wait", "0", code=10)
    assert done.out == ""
    assert done.err == (
        f"sm: message 57 is still queued ({NOT_TAKEN}); it was not taken back\nhint: sm log 1a2b3c4d\n"
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
def test_send_prints_one_json_document_whatever_becomes_of_it(
    run: Sm, peer: Peer, status: str, words: list[str], code: int
) -> None:
    peer.script("POST /v1/messages", answer(message(status=status)))
    done = run("send", "x", "hello", "--json", *words, code=code)
    assert json.loads(done.out) == message(status=status)
    assert done.err == ""


def test_send_to_a_session_that_asked_says_that_it_answered(run: Sm, peer: Peer) -> None:
    answered = message(None, status="submitted", reason="yes,\n\x1b[2Jplease", request_id="r57")
    peer.script("POST /v1/messages", answer(answered))
    assert run("send", "x", "yes").out == "Answered r57 of session 1a2b3c4d: yes, [2Jplease\n"


def test_send_to_several_tells_each_and_ends_with_the_first_failure(run: Sm, peer: Peer) -> None:
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
    assert [asked.json["to"] for asked in peer.asked] == ["a", "b", "c", "d"], "nobody gets it twice"
    assert len(set(keys(peer.asked))) == 4


def test_send_to_several_that_must_arrive_tells_each_that_did_not(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", stored(), stored(), stored(status="failed", reason="gone"))
    done = run("send", "a", "b", "c", "hello", "--wait", "0", code=10)
    assert done.out == ""
    still = "is still queued (it has not taken it yet); it was not taken back"
    assert done.err.splitlines() == [
        f"sm: message 57 {still}",
        "hint: sm log a",
        f"sm: message 58 {still}",
        "hint: sm log b",
        "sm: message 59 to session c is failed: gone",
    ]


def test_send_to_several_is_one_array_and_errors_are_json_on_stderr(run: Sm, peer: Peer) -> None:
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
def test_send_reads_its_text_from_stdin(run: Sm, peer: Peer, stdin: bytes, text: str) -> None:
    peer.script("POST /v1/messages", stored(status="submitted"))
    run("send", "a", "b", "-", stdin=stdin)
    assert [asked.json["text"] for asked in peer.asked] == [text, text]


@pytest.mark.parametrize("language", ["C.UTF-8", "POSIX"])
@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        (b"x" * 50_001, "sm: the message has more than 50,000 characters\n"),
        ("😀".encode() * 60_000, "sm: the message has more than 50,000 characters\n"),
        (b"ab\xff", "sm: the message is not UTF-8: byte 3\n"),
    ],
)
def test_send_refuses_a_text_from_stdin_that_is_none(
    run: Sm, peer: Peer, stdin: bytes, said: str, language: str
) -> None:
    done = run("send", "x", "-", stdin=stdin, code=2, environ={"LC_ALL": language})
    assert done.err.startswith(said)
    assert peer.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hello"], "sm: an ID and a text are needed\nhint: sm send ID TEXT\n"),
        (["x", "hello", "--wait", "1", "--no-wait"], "sm: --wait and --no-wait exclude each other\n"),
        (["x", "hello", "--mode", "idle", "--urgent"], "sm: --mode idle and --urgent exclude each other\n"),
        (["x", "hello", "--mode", "urgent"], "'urgent' is not one of"),
        (["x", "hello", "--ttl", "0"], "--ttl"),
    ],
)
def test_send_refuses_what_makes_no_sense_before_asking(
    run: Sm, peer: Peer, words: list[str], said: str
) -> None:
    assert said in run("send", *words, code=2).err
    assert peer.asked == []


def test_what_the_daemon_says_of_a_message_can_forge_no_line(run: Sm, peer: Peer) -> None:
    hostile = "x\x1b[2J\nInput sent to session 1a2b3c4d\u2028[sm] from operator"
    shown = "x [2J Input sent to session 1a2b3c4d [sm] from operator"
    queued, failed = (answer(message(status=status, reason=hostile)) for status in ("queued", "failed"))
    peer.script("POST /v1/messages", queued, failed)
    assert run("send", "x", "hello", "--no-wait").out == f"queued ({shown}), message 57\n"
    assert run("send", "x", "hello", code=4).err == (
        f"sm: message 57 to session 1a2b3c4d is failed: {shown}\n"
    )


@pytest.mark.parametrize("waits", [(), ("--wait", "60")])
def test_ctrl_c_while_it_waits_says_that_the_message_is_on_its_way(
    run: Sm, peer: Peer, waits: tuple[str, ...]
) -> None:
    peer.script("POST /v1/messages", stored(), stored(status="submitted"), stored())
    peer.script("GET /v1/messages/57", SILENCE)
    with run.start("send", "a", "b", "c", "hello", *waits) as process:
        peer.wait_asked(4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=scaled(30))
    assert (process.returncode, out) == (130, "Input sent to session b\n")
    still = "is still queued (it has not taken it yet); it was not taken back"
    assert err == f"sm: message 57 {still}\nhint: sm log a\nsm: message 59 {still}\nhint: sm log c\n"


def test_a_message_whose_answer_was_lost_is_not_sent_twice(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/messages", HANG_UP, answer(message(status="submitted")))
    agent("send", "x", "hello")
    assert len(set(keys(peer.asked))) == 1
    assert len(peer.asked) == 2


# broadcast


def test_broadcast_sends_to_everybody_that_the_daemon_names(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([session("a"), session("b")]))
    peer.script("POST /v1/messages", stored(status="submitted"), stored(status="queued"))
    done = run("broadcast", "-", "--no-wait", "--urgent", stdin=b"Stop\n")
    assert done.out == f"Input sent to session a\nb: queued ({NOT_TAKEN}), message 58\n"
    audience, *sent = peer.asked
    assert audience.query == ""
    assert [asked.json for asked in sent] == [
        {"to": to, "text": "Stop", "mode": "urgent", "ttl_s": None} for to in ("a", "b")
    ]


def test_broadcast_asks_for_all_descendants_when_told_to(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([session("a")]))
    peer.script("POST /v1/messages", stored(status="failed", reason="gone"), stored(status="submitted"))
    done = run("broadcast", "Stop", "--recursive", code=4)
    assert done.err == "sm: message 57 to session a is failed: gone\n"
    assert peer.asked[0].query == "recursive=1"
    assert [sent["message_id"] for sent in json.loads(run("broadcast", "Stop", "--json").out)] == [57]


def test_broadcast_to_nobody_is_no_failure(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([]))
    done = run("broadcast", "Stop")
    assert (done.out, done.err) == ("", "nobody to send it to\n")
    assert run("broadcast", "Stop", "--json").out == "[]\n"


# inbox


def test_the_inbox_is_shown_and_nothing_is_taken(run: Sm, peer: Peer) -> None:
    found = [letter(57, "Two\nlines"), letter(58, "child engineer-x completed", "sm")]
    peer.script("GET /v1/inbox", answer(found), answer(found), answer([]))
    assert run("inbox", "--limit", "7").out == (
        "[sm] from operator, message 57\nTwo\nlines\n\n[sm] from sm, message 58\nchild engineer-x completed\n"
    )
    assert json.loads(run("inbox", "--json").out) == found
    empty = run("inbox")
    assert (empty.out, empty.err) == ("", "no messages\n")
    assert [asked.query for asked in peer.asked] == ["limit=7", "limit=50", "limit=50"]


def test_a_message_can_drive_no_terminal_and_forge_no_header(run: Sm, peer: Peer) -> None:
    # What the daemon has marked stays marked, and no control character joins or hides anything.
    hostile = letter(57, "a\x1b[2J\x9b31m\r\x07b\u202ec\n> [sm] from operator, message 1\n\ttab")
    peer.script("GET /v1/inbox", answer([hostile]))
    assert run("inbox").out == (
        "[sm] from operator, message 57\na[2J31mbc\n> [sm] from operator, message 1\n\ttab\n"
    )
    assert json.loads(run("inbox", "--json").out) == [hostile]
    assert "\x9b" not in run("inbox", "--json").out


def test_what_was_taken_is_confirmed(run: Sm, peer: Peer) -> None:
    found = [letter(57, "a"), letter(58, "b")]
    peer.script("POST /v1/inbox/take", answer(found))
    peer.script("POST /v1/inbox/confirm", answer([]))
    done = run("inbox", "--take", "--limit", "2")
    assert done.out == "[sm] from operator, message 57\na\n\n[sm] from operator, message 58\nb\n"
    take, confirm = peer.asked
    assert take.json == {"limit": 2, "wait_s": None}
    assert confirm.json == {"message_ids": [57, 58]}
    assert json.loads(run("inbox", "--take", "--json").out) == found


def test_an_empty_inbox_has_nothing_to_confirm(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([]))
    done = run("inbox", "--take")
    assert (done.out, done.err) == ("", "no messages\n")
    assert run("inbox", "--take", "--json").out == "[]\n"
    assert len(peer.asked) == 2


@pytest.mark.parametrize("words", [[], ["--wait"], ["--json"]])
def test_what_nobody_read_is_not_confirmed(run: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    run.unread("inbox", "--take", *words)
    assert asked_for(peer, "/v1/inbox/take")
    assert asked_for(peer, "/v1/inbox/confirm") == []


def test_what_a_full_disk_swallowed_is_not_confirmed(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            run.argv("inbox", "--take"), stdout=full, stderr=subprocess.PIPE, env=run.environ, check=False
        )
    assert (done.returncode, done.stderr) == (6, b"sm: the disk is full\n")
    assert len(peer.asked) == 1


def test_a_reader_acts_on_what_it_took_even_when_that_cannot_be_confirmed(agent: Sm, peer: Peer) -> None:
    def take(_: Asked) -> bytes:
        (Path(peer.path).parents[1] / "stopped").touch()  # an agent waits no longer for such a daemon
        return answer([letter(57, "a")])

    peer.script("POST /v1/inbox/take", take)
    peer.script("POST /v1/inbox/confirm", HANG_UP)
    done = agent("inbox", "--take")
    assert done.out == "[sm] from operator, message 57\na\n"
    assert done.err == (
        "warning: the daemon does not know that these messages were taken: the daemon was stopped\n"
    )


def test_a_lost_confirmation_is_repeated_with_its_key(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", HANG_UP, answer([]))
    agent("inbox", "--take")
    confirmed = asked_for(peer, "/v1/inbox/confirm")
    assert len(confirmed) == 2
    assert len(set(keys(confirmed))) == 1


@pytest.mark.parametrize("as_agent", [True, False])
def test_an_inbox_that_waits_asks_with_a_new_key_after_an_empty_answer(
    run: Sm, peer: Peer, state: Path, as_agent: bool
) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", answer([]), answer([]), answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    environ = run.as_session(state) if as_agent else None
    assert run("inbox", "--take", "--wait", environ=environ).out == "[sm] from operator, message 57\na\n"
    takes = asked_for(peer, "/v1/inbox/take")
    assert [take.json for take in takes] == [{"limit": 50, "wait_s": 20.0}] * 3
    assert len(set(keys(takes))) == 3


@pytest.mark.parametrize("words", [[], ["--timeout", "300"], ["--timeout", "15"]])
@pytest.mark.parametrize("as_agent", [True, False])
def test_a_take_whose_answer_was_lost_is_repeated_as_it_was(
    run: Sm, peer: Peer, state: Path, words: list[str], as_agent: bool
) -> None:
    # The daemon takes one key for one request only when its body is the same, the time to wait included.
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", HANG_UP, HANG_UP, answer([]), HANG_UP, answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    environ = run.as_session(state) if as_agent else None
    done = run("inbox", "--take", "--wait", *words, environ=environ)
    assert done.out == "[sm] from operator, message 57\na\n"
    assert done.err == (WAITING + BACK) * 2
    takes = asked_for(peer, "/v1/inbox/take")
    first, second = keys(takes)[0], keys(takes)[3]
    assert keys(takes) == [first] * 3 + [second] * 2
    assert first != second
    assert len({take.body for take in takes[:3]}) == len({take.body for take in takes[3:]}) == 1


def test_a_take_without_wait_is_repeated_with_its_key_too(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/inbox/take", HANG_UP, answer([letter(57, "a")]))
    peer.script("POST /v1/inbox/confirm", answer([]))
    assert agent("inbox", "--take").err == ""
    assert len(set(keys(asked_for(peer, "/v1/inbox/take")))) == 1


@pytest.mark.parametrize("words", [["--timeout", "0"], ["--timeout", "0", "--json"]])
def test_an_inbox_to_which_nothing_comes_ends_with_10(run: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/inbox/take", answer([]))
    done = run("inbox", "--take", "--wait", *words, code=10)
    assert done.out == ""
    assert "no message came within 0 s" in done.err
    assert asked_for(peer, "/v1/inbox/take")[0].json["wait_s"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--take", "--timeout", "5"], "--timeout needs --wait"),
        (["--wait"], "--wait needs --take"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_an_inbox_refuses_what_makes_no_sense(run: Sm, peer: Peer, words: list[str], said: str) -> None:
    assert said in run("inbox", *words, code=2).err
    assert peer.asked == []


# log


def test_the_log_shows_what_became_of_each_message(run: Sm, peer: Peer) -> None:
    found = [
        message(57, text="hello\x1b[2J\nyou", reason="no\nevidence\x07 came"),
        message(
            112, **{"from": "99999999"}, session_id=None, status="submitted", text="x" * 100, reason=None
        ),
    ]
    peer.script("GET /v1/messages", answer(found), answer(found), answer([]))
    assert run("log", "engineer-login", "-n", "2").out.splitlines() == [
        '57  | 15:10 | operator -> 1a2b3c4d | queued    | "hello [2J you" (no evidence  came)',
        f'112 | 15:10 | 99999999 -> operator | submitted | "{"x" * 79}…"',
    ]
    assert json.loads(run("log", "--json").out) == found
    empty = run("log")
    assert (empty.out, empty.err) == ("", "no messages\n")
    assert [asked.query for asked in peer.asked] == ["session=engineer-login&limit=2", "limit=20", "limit=20"]


# wait

ENDED = session("aaaaaaaa", status="completed", completion_message="done")
LIVE = session("bbbbbbbb", status="running")


def verdict(reached: bool | None, *sessions: dict[str, Any]) -> bytes:
    return answer({"reached": reached, "sessions": list(sessions)})


@pytest.fixture
def waited(peer: Peer) -> Peer:
    """A daemon that runs; the test says what its answers to a wait are."""
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait/heard", answer({}))
    return peer


def test_wait_ends_with_0_when_they_have_ended_and_says_that_it_told_so(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(True, ENDED, LIVE))
    out = run("wait", "a", "b", "a", "--any").out.splitlines()
    assert out[0].startswith("engineer-aaaaaaaa (aaaaaaaa) | completed | ")
    assert out[0].endswith(' | "done"')
    assert out[1].startswith("engineer-bbbbbbbb (bbbbbbbb) | running   | ")
    _, asked, heard = waited.asked
    assert asked.json == {"sessions": ["a", "b"], "until": "ended", "any": True, "wait_s": 20.0}
    assert heard.path == "/v1/wait/heard"
    assert heard.json == {"sessions": ["aaaaaaaa"]}


def test_wait_asks_again_for_the_ids_until_it_is_decided(run: Sm, waited: Peer) -> None:
    # The name may be another session's by then.
    waited.script("POST /v1/wait", verdict(None, LIVE), verdict(True, LIVE))
    run("wait", "engineer-login", "--until", "running", "--all", "--timeout", "5")
    first, second = asked_for(waited, "/v1/wait")
    assert first.json["sessions"] == ["engineer-login"]
    assert second.json["sessions"] == ["bbbbbbbb"]
    assert first.json["until"] == "running"
    assert 0 < second.json["wait_s"] < first.json["wait_s"] <= 5
    assert asked_for(waited, "/v1/wait/heard") == [], "no ending was told"


def test_wait_ends_with_4_when_it_can_be_no_more(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(False, ENDED), verdict(False, ENDED), verdict(False))
    done = run("wait", "a", "--until", "idle", code=4)
    assert done.out.startswith("engineer-aaaaaaaa")
    assert done.err == "sm: it cannot come to idle any more\n"
    assert json.loads(run("wait", "a", "--until", "idle", "--json", code=4).out) == [ENDED]
    gone = run("wait", "a", code=4)
    assert gone.out == ""
    assert gone.err == "no such sessions any more\nsm: it cannot come to ended any more\n"


def test_wait_ends_with_10_when_it_was_not_in_time(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(None, ENDED, LIVE))
    done = run("wait", "a", "b", "--timeout", "0", code=10)
    assert [row.split(" ")[0] for row in done.out.splitlines()] == ["engineer-aaaaaaaa", "engineer-bbbbbbbb"]
    assert done.err == "sm: 2 sessions did not come to ended within 0 s\n"
    assert asked_for(waited, "/v1/wait/heard")[0].json == {"sessions": ["aaaaaaaa"]}
    done = run("wait", "a", "b", "--timeout", "0", "--json", code=10)
    assert json.loads(done.out) == [ENDED, LIVE]
    assert json.loads(done.err)["error"]["code"] == "not_in_time"


def test_wait_prints_json_of_all_that_were_named(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(True, ENDED, ENDED))
    done = run("wait", "a", "b", "--json")
    assert json.loads(done.out) == [ENDED, ENDED]
    assert done.err == ""


def test_an_ending_that_nobody_read_was_not_heard(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", verdict(True, ENDED))
    run.unread("wait", "a")
    assert asked_for(waited, "/v1/wait")
    assert asked_for(waited, "/v1/wait/heard") == []


def test_a_daemon_that_goes_away_after_its_answer_changes_nothing_about_it(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", verdict(True, ENDED))
    peer.script("POST /v1/wait/heard", HANG_UP)
    done = run("wait", "a")
    assert done.out.startswith("engineer-aaaaaaaa")
    assert done.err == ""


def test_wait_ends_with_the_daemons_refusal(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", error("not_found", "no such session: a", 404, "sm all"))
    assert run("wait", "a", code=3).err == "sm: no such session: a\nhint: sm all\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "--any", "--all"], "--any and --all exclude each other"),
        (["a", "--until", "done"], "'done' is not one of"),
        ([], "missing argument"),
    ],
)
def test_wait_refuses_what_makes_no_sense(run: Sm, peer: Peer, words: list[str], said: str) -> None:
    assert said in run("wait", *words, code=2).err
    assert peer.asked == []


# Over a daemon that goes away


@pytest.mark.parametrize("as_agent", [True, False])
@pytest.mark.parametrize(
    ("words", "path", "final"),
    [
        (["wait", "a"], "/v1/wait", verdict(True, ENDED)),
        (["inbox", "--take", "--wait"], "/v1/inbox/take", answer([letter(57, "a")])),
    ],
)
def test_who_waits_waits_on_over_a_restart_of_the_daemon(
    run: Sm, state: Path, words: list[str], path: str, final: bytes, as_agent: bool
) -> None:
    if as_agent:
        run.environ |= run.as_session(state)
    socket = str(state / "run" / "sm.sock")
    with Peer(socket) as first:
        first.script("GET /v1/health", answer({}))
        first.script(f"POST {path}", HANG_UP)
        process = run.start(*words)
        first.wait_asked(4)
    with Peer(socket) as second:
        second.script(f"POST {path}", final)
        second.script("POST /v1/inbox/confirm", answer([]))
        second.script("POST /v1/wait/heard", answer({}))
        out, err = process.communicate(timeout=scaled(30))
    assert process.returncode == 0
    assert out != ""
    assert err == WAITING + BACK, "each is told once, however often the daemon was asked meanwhile"
    assert not (state / "log").exists(), "who waits never starts the daemon"
    if path == "/v1/inbox/take":
        assert len(set(keys(asked_for(first, path) + asked_for(second, path)))) == 1


@pytest.mark.parametrize("words", [["wait", "a"], ["inbox", "--take", "--wait"]])
def test_a_persons_wait_ends_when_the_daemon_was_stopped_on_purpose(
    run: Sm, peer: Peer, state: Path, words: list[str]
) -> None:
    def stopped(_: Asked) -> bytes:
        (state / "stopped").touch()
        return HANG_UP

    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", stopped)
    peer.script("POST /v1/inbox/take", stopped)
    done = run(*words, code=7)
    assert (done.out, done.err) == ("", "sm: the daemon was stopped\nhint: sm daemon start\n")
    assert not (state / "log").exists()


def test_an_agents_wait_goes_on_even_then(agent: Sm, peer: Peer, state: Path) -> None:
    def stopped(_: Asked) -> bytes:
        (state / "stopped").touch()
        return HANG_UP

    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", stopped, verdict(True, LIVE))
    assert agent("wait", "a").err == WAITING + BACK


@pytest.mark.parametrize("words", [["wait", "a"], ["inbox", "--take", "--wait"]])
def test_nothing_is_waited_for_where_the_daemon_was_stopped_before(
    agent: Sm, state: Path, words: list[str]
) -> None:
    (state / "stopped").touch()
    assert agent(*words, code=7).err == "sm: the daemon was stopped\nhint: sm daemon start\n"


def test_time_is_over_for_who_waits_for_a_daemon_that_is_away(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}))
    peer.script("POST /v1/wait", HANG_UP)
    done = run("wait", "a", "--timeout", "0.2", code=10)
    assert done.out == ""
    assert done.err == WAITING + "sm: 1 session did not come to ended within 0.2 s\n"


def test_ctrl_c_ends_a_wait_quietly(run: Sm, waited: Peer) -> None:
    waited.script("POST /v1/wait", SILENCE)
    with run.start("wait", "a") as process:
        waited.wait_asked(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=scaled(30))
    assert (process.returncode, out, err) == (130, "", "")
