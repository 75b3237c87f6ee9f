"""HTTP byte by byte, for requests that sm's own client never sends."""

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, Self


def connected(path: str, timeout_s: float | None = None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    connection.connect(path)
    return connection


class Connection(Protocol):
    """The part of a socket that these functions use."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def settimeout(self, timeout_s: float | None, /) -> None: ...
    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...


Connect = Callable[[str], Connection]
"""Connects with the socket at a path."""


class NoResponse(Exception):
    """The peer neither sends more bytes nor closes the connection."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(answer[:500])
        self.answer = answer


def read_to_end(connection: Connection) -> bytes:
    """All bytes until the peer closes the connection. Raises NoResponse."""
    answer = b""
    try:
        while piece := connection.recv(65536):
            answer += piece
    except ConnectionResetError:
        pass
    except TimeoutError:
        raise NoResponse(answer) from None
    return answer


def exchange(
    path: str, sent: bytes, *, silence_s: float | None = None, connect: Connect = connected
) -> bytes:
    """The complete response to these bytes.

    `silence_s`: how long to wait for a peer that may itself wait for more bytes. Without it such a peer is a failure.
    """
    with connect(path) as connection:
        with suppress(OSError):  # the peer may refuse the request before it has read everything
            connection.sendall(sent)
        if silence_s is not None:
            connection.settimeout(silence_s)
        try:
            return read_to_end(connection)
        except NoResponse as silent:
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


def parse_response(answer: bytes) -> tuple[int, Any]:
    """The HTTP status and the JSON of a response of sm."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"sm-protocol: 1" in head.lower(), answer[:500]
    return int(head.split()[1]), json.loads(body)


def parse_error(answer: bytes) -> tuple[int, str]:
    status, body = parse_response(answer)
    return status, body["error"]["code"]
