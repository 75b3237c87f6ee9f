"""HTTP byte by byte, for what no client of ours would send."""

import json
import socket
from contextlib import suppress
from typing import Any

from tests.load import scaled


def connected(path: str, timeout_s: float | None = None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(scaled() if timeout_s is None else timeout_s)
    connection.connect(path)
    return connection


class Silent(Exception):
    """The peer neither says more nor closes the connection."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(answer[:500])
        self.answer = answer


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the peer closes the connection. Raises Silent."""
    answer = b""
    try:
        while piece := connection.recv(65536):
            answer += piece
    except ConnectionResetError:
        pass
    except TimeoutError:
        raise Silent(answer) from None
    return answer


def exchange(path: str, sent: bytes, *, silence_s: float | None = None) -> bytes:
    """Everything that is answered to these bytes.

    `silence_s`: how long to wait for a peer that may itself wait for more; without it that is a failure.
    """
    with connected(path) as connection:
        with suppress(OSError):  # it has refused before it had read everything
            connection.sendall(sent)
        if silence_s is not None:
            connection.settimeout(silence_s)
        try:
            return rest_of(connection)
        except Silent as silent:
            if silence_s is None:
                raise
            return silent.answer


def request(line: str, *headers: str, body: bytes = b"", host: str = "sm", close: bool = True) -> bytes:
    head = [
        line,
        f"Host: {host}",
        *(["Connection: close"] if close else []),
        *headers,
        *([f"Content-Length: {len(body)}"] if body else []),
    ]
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body


def answered(answer: bytes) -> tuple[int, Any]:
    """The status and the JSON of an answer of ours."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"sm-protocol: 1" in head.lower(), answer[:500]
    return int(head.split()[1]), json.loads(body)


def refusal(answer: bytes) -> tuple[int, str]:
    status, body = answered(answer)
    return status, body["error"]["code"]
