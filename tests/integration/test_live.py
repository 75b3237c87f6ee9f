"""Live rows for a reader whose connection is full."""

from tests.instance import Instance
from tests.live_board import board
from tests.raw_http import connected, request
from tests.session_client import request_as


def note(instance: Instance, session_id: str, *texts: str) -> None:
    requests = [("POST", "/v1/sessions/me/note", None, {"text": text}) for text in texts]
    assert [code for code, *_ in request_as(instance, session_id, *requests)] == ["ok"] * len(texts)


def test_slow_reader_gets_the_newest_state_and_no_queue(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    with connected(str(instance.socket)) as slow, board(instance.socket) as shown:
        slow.sendall(request("GET /v1/live HTTP/1.1", close=False))
        for number in range(40):
            note(instance, session_id, f"note {number} {'x' * 100}")
        shown.shows(session_id, lambda row: str(row["note"]).startswith("note 39 "))
        assert len(shown.updates) <= 41
        text = b""
        while b"note 39" not in text:
            text += slow.recv(1 << 20)
        # Revisions that came while the reader did not read are one.
        assert text.count(b"data: ") <= len(shown.updates)
