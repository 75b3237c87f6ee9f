"""The client against a scripted daemon."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sm import errors
from sm.client.http import Client, DaemonAway, new_key, percent_encode, session_path
from tests.cli.peer import HANG_UP, SILENCE, Peer, answer, chunked, error


@pytest.fixture
def client(peer: Peer) -> Client:
    return Client(peer.path)


def test_get_sends_protocol_header_and_encoded_query_and_returns_json(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/events", answer({"events": ["ä"], "last_seq": 7}))
    query = {"session": "a b&c/ü", "recursive": True, "type": None, "since": 0, "archived": False, "x": ""}
    assert client.get("/v1/events", query) == {"events": ["ä"], "last_seq": 7}
    (received,) = peer.received
    assert received.query == "session=a%20b%26c%2F%C3%BC&recursive=1&since=0"
    assert received.headers["sm-protocol"] == "1"
    assert "idempotency-key" not in received.headers


def test_post_sends_json_body_with_a_new_idempotency_key_each_time(peer: Peer, client: Client) -> None:
    peer.script("POST /v1/sessions", answer({}))
    client.post("/v1/sessions", {"agent_type": "Engineer", "args": ["ä"], "wait_s": None})
    client.post("/v1/sessions", {})
    first, second = peer.received
    assert first.json == {"agent_type": "Engineer", "args": ["ä"], "wait_s": None}
    assert first.headers["content-type"] == "application/json"
    assert first.key != second.key


def test_client_marks_request_as_repeated_when_an_earlier_attempt_may_have_succeeded(peer: Peer) -> None:
    client = Client(peer.path, lambda away: None)
    peer.script("POST /v1/sessions", HANG_UP, error("usage", "no", 400), answer({}))
    with pytest.raises(errors.UsageError):
        client.post("/v1/sessions")
    assert client.repeated
    client.post("/v1/sessions")
    assert not client.repeated


def test_get_reads_the_whole_body_when_response_is_chunked(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/me", chunked(b'{"note": "', b"x" * 200_000, b'"}'))
    assert client.get("/v1/me") == {"note": "x" * 200_000}


def test_get_reads_body_until_connection_closes_when_length_is_missing(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/me", b'HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\n\r\n{"note": "x"}')
    assert client.get("/v1/me") == {"note": "x"}


@pytest.mark.parametrize(
    "kind", [errors.NotFound, errors.LimitReached, errors.UnknownAgentType, errors.TerminalError]
)
def test_error_response_raises_the_exception_class_of_its_code(
    peer: Peer, client: Client, kind: type[errors.SmError]
) -> None:
    peer.script("GET /v1/me", error(kind.code, "what happened", kind.http_status, "what to type"))
    with pytest.raises(kind) as raised:
        client.get("/v1/me")
    assert type(raised.value) is kind
    assert (raised.value.message, raised.value.hint) == ("what happened", "what to type")


def test_error_response_raises_sm_error_when_code_is_unknown(peer: Peer, client: Client) -> None:
    peer.script("GET /v1/me", error("from_the_future", "no", 418))
    with pytest.raises(errors.SmError, match="no"):
        client.get("/v1/me")


@pytest.mark.parametrize("body", [b"", b"oops", b"[]", b'{"error": 1}', b'{"error": {"code": "usage"}}'])
def test_error_response_raises_error_with_http_status_when_body_is_malformed(
    peer: Peer, client: Client, body: bytes
) -> None:
    head = f"HTTP/1.1 500 X\r\nSM-Protocol: 1\r\nContent-Length: {len(body)}\r\n\r\n"
    peer.script("GET /v1/me", head.encode() + body)
    with pytest.raises(errors.SmError, match="500"):
        client.get("/v1/me")


@pytest.mark.parametrize("protocol", ["0", "2", "1.1"])
def test_client_reports_protocol_mismatch_with_restart_hint_when_versions_differ(
    peer: Peer, client: Client, protocol: str
) -> None:
    peer.script("GET /v1/me", answer({}, protocol=protocol))
    with pytest.raises(errors.ProtocolMismatch) as raised:
        client.get("/v1/me")
    assert raised.value.hint == "sm daemon restart"


def test_client_reports_protocol_mismatch_when_daemon_rejects_client_version(
    peer: Peer, client: Client
) -> None:
    peer.script(
        "GET /v1/me", error("protocol", "the daemon speaks protocol 1, you speak 2", 426, "sm daemon restart")
    )
    with pytest.raises(errors.ProtocolMismatch):
        client.get("/v1/me")


@pytest.mark.parametrize(
    "response",
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
def test_client_reports_protocol_mismatch_when_peer_is_not_an_sm_daemon(
    peer: Peer, client: Client, response: bytes
) -> None:
    peer.script("GET /v1/me", response)
    with pytest.raises(errors.ProtocolMismatch) as raised:
        client.get("/v1/me")
    assert "speaks protocol" not in raised.value.message, "a restart does not help here"


@pytest.mark.parametrize(
    "response",
    [
        HANG_UP,
        b"HTTP/1.1 200 OK\r\nSM-Proto",
        b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 10\r\n\r\n{",
        chunked(b"{", end=False),
        error("daemon_unavailable", "it is just stopping", 503),
    ],
    ids=["nothing", "half a head", "half a body", "half of the chunks", "a stopping daemon"],
)
def test_client_raises_daemon_away_when_response_is_cut_off_or_daemon_is_stopping(
    peer: Peer, client: Client, response: bytes
) -> None:
    peer.script("GET /v1/me", response)
    with pytest.raises(DaemonAway):
        client.get("/v1/me")


def test_client_raises_daemon_away_with_start_hint_when_socket_is_missing(home: Path) -> None:
    with pytest.raises(DaemonAway) as raised:
        Client(f"{home}/nothing/sm.sock").get("/v1/me")
    assert raised.value.hint == "sm daemon start"
    assert raised.value.exit_code == 7


def test_client_raises_daemon_away_when_socket_is_stale(home: Path) -> None:
    path = f"{home}/sm.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
    with pytest.raises(DaemonAway):
        Client(path).get("/v1/me")


def test_client_times_out_without_retry_when_daemon_does_not_answer(peer: Peer) -> None:
    retries: list[DaemonAway] = []
    peer.script("POST /v1/sessions", SILENCE)
    with pytest.raises(errors.DaemonUnavailable, match=r"within 0 s") as raised:
        Client(peer.path, retries.append).post("/v1/sessions", timeout_s=0.2)
    assert not isinstance(raised.value, DaemonAway)
    assert retries == []


def test_client_waits_for_daemon_when_listen_backlog_is_full(home: Path) -> None:
    path = f"{home}/sm.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(path)
        listener.listen(0)
        waiting.connect(path)  # the backlog is full: connect gives EAGAIN from now on
        with pytest.raises(errors.DaemonUnavailable, match="did not respond"):
            Client(path).get("/v1/me", timeout_s=0.1)

        def serve() -> None:
            queued, _ = listener.accept()
            queued.close()
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer({"late": True}))

        thread = threading.Thread(target=serve)
        thread.start()
        assert Client(path).get("/v1/me") == {"late": True}
        thread.join()


def test_client_retries_post_with_the_same_idempotency_key_when_connection_breaks(peer: Peer) -> None:
    away: list[DaemonAway] = []
    peer.script("POST /v1/sessions", HANG_UP, HANG_UP, answer({"session_id": "x"}))
    assert Client(peer.path, away.append).post("/v1/sessions", {"a": 1}) == {"session_id": "x"}
    assert len(away) == 2
    assert len({received.key for received in peer.received}) == 1
    assert {received.body for received in peer.received} == {b'{"a":1}'}


def test_client_refuses_socket_of_another_user_before_sending_anything(
    peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(errors.NotPermitted, match=f"belongs to user id {user}"):
        client.get("/v1/me")
    assert peer.received == []


def test_client_hints_at_sudo_when_root_uses_socket_of_another_user(
    peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(peer.path, 54321, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(errors.NotPermitted) as raised:
        client.get("/v1/me")
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("run sm as the owner: sudo -u ")


def test_client_names_sm_home_in_hint_when_socket_path_is_too_long() -> None:
    with pytest.raises(errors.UsageError) as raised:
        Client("/" + "x" * 104).get("/v1/me")
    assert "SM_HOME" in str(raised.value.hint)


@pytest.mark.parametrize("ref", ["", ".", ".."])
def test_session_path_refuses_reference_that_would_change_the_route(ref: str) -> None:
    with pytest.raises(errors.NotFound):
        session_path(ref)


def test_session_path_refuses_reference_that_is_longer_than_any_name() -> None:
    with pytest.raises(errors.NotFound) as raised:
        session_path("a" * 100_000)
    assert len(raised.value.message) < 100


def test_session_path_escapes_reference_within_its_segment() -> None:
    assert session_path("../health?x=1", "/kill") == "/v1/sessions/..%2Fhealth%3Fx%3D1/kill"
    assert percent_encode("naïve\udcff") == "na%C3%AFve%3F"


def test_new_key_is_unique_short_printable_ascii() -> None:
    key = new_key()
    assert 0 < len(key) <= 128
    assert key.isascii()
    assert key.isprintable()
    assert key != new_key()


def test_daemon_pid_comes_from_socket_peer_credentials(peer: Peer, client: Client) -> None:
    assert client.daemon_pid() == os.getpid()


# Event streams


def test_event_stream_is_parsed_when_chunks_split_events_anywhere(peer: Peer, client: Client) -> None:
    whole = b': hello\n\nid: 7\ndata: {"a":"\xc3\xa4"}\n\n: heartbeat\n\nid: 8\r\ndata: {\r\ndata: }\r\n\r\nid: 9\n\n'
    peer.script("GET /v1/events/stream", chunked(*(whole[i : i + 1] for i in range(len(whole)))))
    stream = client.events("/v1/events/stream", {"since": 6})
    assert next(stream) == (7, '{"a":"ä"}')
    assert next(stream) == (8, "{\n}")
    with pytest.raises(DaemonAway, match="closed the event stream"):
        next(stream)
    assert peer.received[0].query == "since=6"


def test_event_stream_raises_daemon_away_after_the_last_complete_event_when_connection_breaks(
    peer: Peer, client: Client
) -> None:
    peer.script("GET /v1/events/stream", chunked(b"id: 1\ndata: a\n\nid: 2\ndata: b", end=False))
    stream = client.events("/v1/events/stream")
    assert next(stream) == (1, "a")
    with pytest.raises(DaemonAway):
        next(stream)


def test_event_stream_raises_the_error_when_daemon_refuses_the_stream(peer: Peer, client: Client) -> None:
    opened: list[bool] = []
    peer.script("GET /v1/events/stream", error("not_found", "no such session", 404))
    with pytest.raises(errors.NotFound):
        next(client.events("/v1/events/stream", opened=lambda: opened.append(True)))
    assert opened == []


def test_event_stream_ends_when_reader_of_the_output_pipe_closes(peer: Peer, client: Client) -> None:
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
                    connection.recv(1)  # until the client disconnects

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(BrokenPipeError):
            next(Client(path).events("/v1/events/stream", reader_fd=writer))
        thread.join()
    os.close(writer)


# Agent sockets


@pytest.fixture
def agents(state: Path) -> Iterator[Peer]:
    """A scripted daemon on a workspace socket, where clients send a token."""
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


def test_client_reads_token_file_again_for_each_call_on_agent_socket(agents: Peer, token_file: Path) -> None:
    client = Client(agents.path)
    client.get("/v1/me")
    token_file.write_text("cd" * 32 + "\n")
    client.post("/v1/sessions/me/note", {"text": "x"})
    first, second = agents.received
    assert first.headers["authorization"] == "Bearer " + "ab" * 32
    assert second.headers["authorization"] == "Bearer " + "cd" * 32
    assert second.json == {"text": "x"}


@pytest.mark.parametrize("session_id", ["", "1a2b3c4d"])
def test_client_sends_its_token_to_the_operator_socket_only_as_a_session(
    peer: Peer, token_file: Path, monkeypatch: pytest.MonkeyPatch, session_id: str
) -> None:
    monkeypatch.setenv("SM_SESSION_ID", session_id)
    peer.script("GET /v1/me", answer({}))
    Client(peer.path).get("/v1/me")
    token_file.unlink()
    Client(peer.path).get("/v1/me")
    sent = [request.headers.get("authorization") for request in peer.received]
    assert sent == ["Bearer " + "ab" * 32 if session_id else None, None]


@pytest.mark.parametrize("text", [None, "", "\n", "ab cd", "ab\r\nX: y", "\xe9"])
def test_client_sends_nothing_to_agent_socket_when_token_is_missing_or_malformed(
    agents: Peer, token_file: Path, text: str | None
) -> None:
    token_file.unlink() if text is None else token_file.write_text(text)
    with pytest.raises(errors.NotPermitted, match="SM_TOKEN_FILE"):
        Client(agents.path).get("/v1/me")
    assert agents.received == []


def test_client_raises_unauthenticated_when_daemon_rejects_the_token(agents: Peer, token_file: Path) -> None:
    agents.script("GET /v1/health", error("unauthenticated", "nobody's", 401))
    with pytest.raises(errors.Unauthenticated) as raised:
        Client(agents.path).get("/v1/health")
    assert raised.value.exit_code == 5
