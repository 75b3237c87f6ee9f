"""The client against a scripted daemon."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sm import errors
from sm.client.http import Away, Client, new_key, quoted, session_path
from tests.cli.peer import HANG_UP, SILENCE, Peer, answer, chunked, error


@pytest.fixture
def client(peer: Peer) -> Client:
    return Client(peer.path)


def test_get_sends_the_protocol_and_its_query_and_returns_the_json(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/events", answer({"events": ["ä"], "last_seq": 7}))
    query = {"session": "a b&c/ü", "recursive": True, "type": None, "since": 0, "archived": False, "x": ""}
    assert client.get("/v1/events", query) == {"events": ["ä"], "last_seq": 7}
    (asked,) = peer.asked
    assert asked.query == "session=a%20b%26c%2F%C3%BC&recursive=1&since=0"
    assert asked.headers["sm-protocol"] == "1"
    assert "idempotency-key" not in asked.headers


def test_post_sends_its_body_with_a_key_of_its_own(peer: Peer, client: Client) -> None:
    peer.script("POST /v1/sessions", answer({}))
    client.post("/v1/sessions", {"agent_type": "Engineer", "args": ["ä"], "wait_s": None})
    client.post("/v1/sessions", {})
    first, second = peer.asked
    assert first.json == {"agent_type": "Engineer", "args": ["ä"], "wait_s": None}
    assert first.headers["content-type"] == "application/json"
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


def test_a_client_says_whether_an_earlier_try_of_its_request_may_have_been_carried_out(peer: Peer) -> None:
    client = Client(peer.path, lambda away: None)
    peer.script("POST /v1/sessions", HANG_UP, error("usage", "no", 400), answer({}))
    with pytest.raises(errors.UsageError):
        client.post("/v1/sessions")
    assert client.repeated
    client.post("/v1/sessions")
    assert not client.repeated


def test_an_answer_in_chunks_is_put_together(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/me", chunked(b'{"note": "', b"x" * 200_000, b'"}'))
    assert client.get("/v1/me") == {"note": "x" * 200_000}


def test_an_answer_without_a_length_ends_with_the_connection(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/me", b'HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\n\r\n{"note": "x"}')
    assert client.get("/v1/me") == {"note": "x"}


@pytest.mark.parametrize(
    "kind", [errors.NotFound, errors.LimitReached, errors.UnknownAgentType, errors.TerminalError]
)
def test_a_refusal_is_raised_as_the_error_it_names(
    peer: Peer, client: Client, kind: type[errors.SmError]
) -> None:
    peer.script("GET /v1/me", error(kind.code, "what happened", kind.http_status, "what to type"))
    with pytest.raises(kind) as raised:
        client.get("/v1/me")
    assert type(raised.value) is kind
    assert (raised.value.message, raised.value.hint) == ("what happened", "what to type")


def test_a_refusal_that_a_newer_daemon_invented_is_an_error_all_the_same(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/me", error("from_the_future", "no", 418))
    with pytest.raises(errors.SmError, match="no"):
        client.get("/v1/me")


@pytest.mark.parametrize("body", [b"", b"oops", b"[]", b'{"error": 1}', b'{"error": {"code": "usage"}}'])
def test_a_refusal_without_words_is_an_error_with_its_status(peer: Peer, client: Client, body: bytes) -> None:
    head = f"HTTP/1.1 500 X\r\nSM-Protocol: 1\r\nContent-Length: {len(body)}\r\n\r\n"
    peer.script("GET /v1/me", head.encode() + body)
    with pytest.raises(errors.SmError, match="500"):
        client.get("/v1/me")


@pytest.mark.parametrize("protocol", ["0", "2", "1.1"])
def test_another_protocol_is_a_mismatch_with_the_hint_to_restart(
    peer: Peer, client: Client, protocol: str
) -> None:
    peer.script("GET /v1/me", answer({}, protocol=protocol))
    with pytest.raises(errors.ProtocolMismatch) as raised:
        client.get("/v1/me")
    assert raised.value.hint == "sm daemon restart"


def test_a_daemon_that_refuses_our_protocol_is_a_mismatch(peer: Peer, client: Client) -> None:
    peer.script(
        "GET /v1/me", error("protocol", "the daemon speaks protocol 1, you speak 2", 426, "sm daemon restart")
    )
    with pytest.raises(errors.ProtocolMismatch):
        client.get("/v1/me")


@pytest.mark.parametrize(
    "said",
    [
        answer({}, protocol=None),
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 3\r\n\r\n{{{",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000,
        b"x" * 100_000,
    ],
    ids=["no protocol", "no http", "no status", "wrong chunk", "no json", "endless headers", "endless line"],
)
def test_what_is_not_our_daemon_is_a_mismatch(peer: Peer, client: Client, said: bytes) -> None:
    peer.script("GET /v1/me", said)
    with pytest.raises(errors.ProtocolMismatch) as raised:
        client.get("/v1/me")
    assert "speaks protocol" not in raised.value.message, "it speaks none, and a restart will not teach it"


@pytest.mark.parametrize(
    "said",
    [
        HANG_UP,
        b"HTTP/1.1 200 OK\r\nSM-Proto",
        b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 10\r\n\r\n{",
        chunked(b"{", end=False),
        error("daemon_unavailable", "it is just stopping", 503),
    ],
    ids=["nothing", "half a head", "half a body", "half of the chunks", "a stopping daemon"],
)
def test_a_broken_answer_is_away(peer: Peer, client: Client, said: bytes) -> None:
    peer.script("GET /v1/me", said)
    with pytest.raises(Away):
        client.get("/v1/me")


def test_nobody_there_is_away_with_the_hint_to_start(home: Path) -> None:
    with pytest.raises(Away) as raised:
        Client(f"{home}/nothing/sm.sock").get("/v1/me")
    assert raised.value.hint == "sm daemon start"
    assert raised.value.exit_code == 7


def test_a_socket_that_a_dead_daemon_left_is_away(home: Path) -> None:
    path = f"{home}/sm.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
    with pytest.raises(Away):
        Client(path).get("/v1/me")


def test_a_silent_daemon_is_given_up_and_not_asked_again(peer: Peer) -> None:
    asked_for_help: list[Away] = []
    peer.script("POST /v1/sessions", SILENCE)
    with pytest.raises(errors.DaemonUnavailable, match=r"within 0 s") as raised:
        Client(peer.path, asked_for_help.append).post("/v1/sessions", timeout_s=0.2)
    assert not isinstance(raised.value, Away)
    assert asked_for_help == []


def test_a_daemon_too_busy_to_accept_is_waited_for(home: Path) -> None:
    path = f"{home}/sm.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(path)
        listener.listen(0)
        waiting.connect(path)  # the backlog is full: connect gives EAGAIN from now on
        with pytest.raises(errors.DaemonUnavailable, match="did not answer"):
            Client(path).get("/v1/me", timeout_s=0.1)

        def serve() -> None:
            first, _ = listener.accept()
            first.close()
            second, _ = listener.accept()
            with second:
                second.recv(65536)
                second.sendall(answer({"late": True}))

        thread = threading.Thread(target=serve)
        thread.start()
        assert Client(path).get("/v1/me") == {"late": True}
        thread.join()


def test_a_broken_post_is_repeated_with_its_key_once_the_daemon_is_back(peer: Peer) -> None:
    away: list[Away] = []
    peer.script("POST /v1/sessions", HANG_UP, HANG_UP, answer({"session_id": "x"}))
    assert Client(peer.path, away.append).post("/v1/sessions", {"a": 1}) == {"session_id": "x"}
    assert len(away) == 2
    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 1
    assert {asked.body for asked in peer.asked} == {b'{"a":1}'}


def test_a_socket_of_another_user_is_refused_before_anything_is_sent(
    peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(errors.NotPermitted, match=f"belongs to user {mine}"):
        client.get("/v1/me")
    assert peer.asked == []


def test_root_is_told_to_run_as_the_owner(
    peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(peer.path, 54321, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(errors.NotPermitted) as raised:
        client.get("/v1/me")
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("sudo -u ")


def test_a_socket_path_that_no_system_takes_names_sm_home() -> None:
    with pytest.raises(errors.UsageError) as raised:
        Client("/" + "x" * 104).get("/v1/me")
    assert "SM_HOME" in str(raised.value.hint)


@pytest.mark.parametrize("ref", ["", ".", ".."])
def test_what_would_name_another_route_is_no_session(ref: str) -> None:
    with pytest.raises(errors.NotFound):
        session_path(ref)


def test_a_reference_stays_within_its_segment() -> None:
    assert session_path("../health?x=1", "/kill") == "/v1/sessions/..%2Fhealth%3Fx%3D1/kill"
    assert quoted("naïve\udcff") == "na%C3%AFve%3F"


def test_keys_are_what_the_protocol_allows() -> None:
    key = new_key()
    assert 0 < len(key) <= 128
    assert key.isascii()
    assert key.isprintable()
    assert key != new_key()


def test_the_daemons_pid_is_the_kernels_word(peer: Peer, client: Client) -> None:
    assert client.daemon_pid() == os.getpid()


# Event streams


def test_events_come_as_they_are_sent_whatever_the_pieces(peer: Peer, client: Client) -> None:
    whole = b': hello\n\nid: 7\ndata: {"a":"\xc3\xa4"}\n\n: heartbeat\n\nid: 8\r\ndata: {\r\ndata: }\r\n\r\nid: 9\n\n'
    peer.script("GET /v1/events/stream", chunked(*(whole[i : i + 1] for i in range(len(whole)))))
    stream = client.events("/v1/events/stream", {"since": 6})
    assert next(stream) == (7, '{"a":"ä"}')
    assert next(stream) == (8, "{\n}")
    with pytest.raises(Away, match="ended the stream"):
        next(stream)
    assert peer.asked[0].query == "since=6"


def test_a_stream_that_breaks_is_away_after_what_came_whole(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/events/stream", chunked(b"id: 1\ndata: a\n\nid: 2\ndata: b", end=False))
    stream = client.events("/v1/events/stream")
    assert next(stream) == (1, "a")
    with pytest.raises(Away):
        next(stream)


def test_a_refused_stream_is_the_error_it_names(peer: Peer, client: Client) -> None:
    opened: list[bool] = []
    peer.script("GET /v1/events/stream", error("not_found", "no such session", 404))
    with pytest.raises(errors.NotFound):
        next(client.events("/v1/events/stream", opened=lambda: opened.append(True)))
    assert opened == []


def test_a_stream_ends_as_soon_as_its_reader_is_gone(peer: Peer, client: Client) -> None:
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        path = peer.path + ".2"
        listener.bind(path)
        listener.listen(1)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(chunked(end=False))
                os.close(reader)
                with suppress(ConnectionResetError):
                    connection.recv(1)  # until the client leaves

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(BrokenPipeError):
            next(Client(path).events("/v1/events/stream", reader_fd=writer))
        thread.join()
    os.close(writer)


# An agent socket


@pytest.fixture
def agents(state: Path) -> Iterator[Peer]:
    """A daemon on the socket of a workspace, which is to be shown a token."""
    with Peer(f"{state}/run/w/0123456789abcdef/s") as peer:
        peer.script("POST /v1/sessions/me/note", answer({}))
        peer.script("GET /v1/me", answer({}))
        yield peer


@pytest.fixture
def token_file(state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = state / "1a2b3c4d.token"
    path.write_text("ab" * 32)
    monkeypatch.setenv("SM_TOKEN_FILE", str(path))
    return path


def test_an_agent_socket_is_shown_the_token_as_it_is_at_each_call(agents: Peer, token_file: Path) -> None:
    client = Client(agents.path)
    client.get("/v1/me")
    token_file.write_text("cd" * 32 + "\n")
    client.post("/v1/sessions/me/note", {"text": "x"})
    first, second = agents.asked
    assert first.headers["authorization"] == "Bearer " + "ab" * 32
    assert second.headers["authorization"] == "Bearer " + "cd" * 32
    assert second.json == {"text": "x"}


def test_the_daemons_own_socket_is_shown_no_token(peer: Peer, token_file: Path) -> None:
    peer.script("GET /v1/me", answer({}))
    Client(peer.path).get("/v1/me")
    assert "authorization" not in peer.asked[0].headers


@pytest.mark.parametrize("text", [None, "", "\n", "ab cd", "ab\r\nX: y", "\xe9"])
def test_without_a_token_to_show_nothing_is_asked(agents: Peer, token_file: Path, text: str | None) -> None:
    token_file.unlink() if text is None else token_file.write_text(text)
    with pytest.raises(errors.NotPermitted, match="SM_TOKEN_FILE"):
        Client(agents.path).get("/v1/me")
    assert agents.asked == []


def test_a_token_that_is_refused_is_an_error_of_its_own(agents: Peer, token_file: Path) -> None:
    agents.script("GET /v1/health", error("unauthenticated", "nobody's", 401))
    with pytest.raises(errors.Unauthenticated) as raised:
        Client(agents.path).get("/v1/health")
    assert raised.value.exit_code == 5
