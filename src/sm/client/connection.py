"""Exchanges one HTTP/1.1 request with the daemon over its Unix socket, for all commands and hooks.

An agent blocks while its hook runs, so this module loads C modules only: `socket`, `http.client`, `os` and `typing`
would each cost as much as the whole exchange (docs/benchmarks.md). `sm.client.http` turns OSError and BadAnswer into
errors for users.
"""

import _socket
import posix
import sys
import time

from sm.wire import AGENT_SOCKET_NAME, KEY_HEADER, PROTOCOL, PROTOCOL_HEADER, TOKEN_MAX_BYTES

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEAD_MAX_BYTES = 64 * 1024
_HEADERS_MAX = 100
_PIECE_BYTES = 64 * 1024
_BACKLOG_PAUSE_S = 0.01


class BadAnswer(ValueError):
    """The peer violated the protocol. `hint` is the command to type."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class TruncatedAnswer(ConnectionError):
    """The connection ended before the end of the answer."""

    def __init__(self) -> None:
        super().__init__("the daemon closed the connection during its answer")


class ForeignListener(PermissionError):
    """A process of another user listens on the socket. Nothing was sent to it."""

    def __init__(self, uid: int) -> None:
        super().__init__(f"user {uid} listens on the socket")
        self.uid = uid


def request(
    method: str,
    target: str,
    *,
    key: str | None = None,
    body: str | bytes | None = None,
    token: str = "",
    headers: "Mapping[str, str] | None" = None,
    content_type: str = "application/json",
) -> bytes:
    """Encode a request. `token` identifies the session that sends it.

    `body` is JSON, in ASCII if it is a str, or a file of the `content_type`.
    """
    head = f"{method} {target} HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n{PROTOCOL_HEADER}: {PROTOCOL}\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    if key is not None:
        head += f"{KEY_HEADER}: {key}\r\n"
    if headers:
        head += "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if body is None:
        return f"{head}\r\n".encode("ascii")
    content = body.encode("ascii") if isinstance(body, str) else body
    head += f"Content-Type: {content_type}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode("ascii") + content


def read_token(path: str | bytes) -> str:
    """Read a session's token; empty when the file holds none. Raises OSError.

    `sm restore` writes a new token, so each request reads the file again. Opening does not block, even on a FIFO.
    """
    file = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK)
    try:
        token = posix.read(file, TOKEN_MAX_BYTES).strip().decode("ascii", "replace")
    finally:
        posix.close(file)
    return token if token.isalnum() else ""


class HttpConnection:
    """A connection to the daemon for one request.

    Each wait ends with TimeoutError at `deadline` (time.monotonic), or after `silence_s` seconds when that is set. With
    `reader_fd`, a wait for bytes raises BrokenPipeError when the reader of that descriptor has closed it.
    """

    __slots__ = (
        "_buffer", "_chunked", "_length", "_socket", "deadline", "headers", "peer_pid", "reader_fd", "silence_s",
    )  # fmt: skip

    def __init__(self, path: str | bytes, deadline: float, reader_fd: int | None = None) -> None:
        """Connect. Raises OSError; ForeignListener when the listener belongs to another user."""
        self.deadline = deadline
        self.silence_s: float | None = None
        self.headers: dict[str, str] = {}
        self.reader_fd = reader_fd
        self._buffer = b""
        self._length: int | None = None
        self._chunked = False
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            self.peer_pid = self._connect(path)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "HttpConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        """End the exchange from another thread, whose wait ends with OSError."""
        try:  # noqa: SIM105  contextlib would cost 2 ms
            self._socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass

    def _connect(self, path: str | bytes) -> int:
        while True:
            self._set_timeout()
            try:
                self._socket.connect(path)
                break
            except BlockingIOError:
                # connect(2), EAGAIN: with a timeout the kernel does not wait for room in a full backlog.
                time.sleep(_BACKLOG_PAUSE_S)
        # The file's owner created the socket; the kernel knows its listener (struct ucred of unix(7): pid, uid, gid).
        credentials = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        uid = int.from_bytes(credentials[4:8], sys.byteorder)
        # A container connects to a daemon of the same user or of root, which agents there cannot become.
        name = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
        by_root = uid == 0 and name.endswith(AGENT_SOCKET_NAME.encode())
        if uid != posix.geteuid() and not by_root:
            raise ForeignListener(uid)
        return int.from_bytes(credentials[:4], sys.byteorder)

    def _set_timeout(self) -> None:
        left_s = self.deadline - time.monotonic() if self.silence_s is None else self.silence_s
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def send(self, data: bytes) -> None:
        """Raises OSError."""
        self._set_timeout()
        self._socket.sendall(data)

    def head(self) -> int:
        """Read the status line and headers, and return the status. Raises OSError, BadAnswer."""
        first = self._line().split(b" ", 2)
        if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
            raise BadAnswer("does not speak HTTP", "sm doctor")
        for _ in range(_HEADERS_MAX):
            line = self._line()
            if not line:
                break
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
        else:
            raise BadAnswer("sends headers without an end")
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = self.headers.get("content-length", "")
        self._length = int(length) if length.isascii() and length.isdigit() else None
        return int(first[1])

    def body(self, max_bytes: int) -> bytes:
        """Raises OSError, BadAnswer."""
        pieces = []
        size = 0
        for piece in self.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise BadAnswer(f"sends an answer larger than {max_bytes >> 20} MiB")
        return b"".join(pieces)

    def pieces(self) -> "Iterator[bytes]":
        """Yield the body as it arrives. Raises OSError, BadAnswer."""
        if self._chunked:  # RFC 9112, 7.1
            while size := self._chunk_size():
                while size:
                    piece = self._read(size)
                    size -= len(piece)
                    yield piece
                self._line()
            while self._line():
                pass
        elif self._length is not None:
            left = self._length
            while left:
                piece = self._read(left)
                left -= len(piece)
                yield piece
        else:
            if self._buffer:
                yield self._read(len(self._buffer))
            while piece := self._receive():
                yield piece

    def _chunk_size(self) -> int:
        try:
            return int(self._line().partition(b";")[0], 16)
        except ValueError:
            raise BadAnswer("sends a malformed chunk") from None

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _HEAD_MAX_BYTES:
                raise BadAnswer("sends a line without an end")
            self._buffer += self._receive_more()
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _read(self, max_bytes: int) -> bytes:
        if not self._buffer:
            self._buffer = self._receive_more()
        piece, self._buffer = self._buffer[:max_bytes], self._buffer[max_bytes:]
        return piece

    def _receive_more(self) -> bytes:
        piece = self._receive()
        if not piece:
            raise TruncatedAnswer
        return piece

    def _receive(self) -> bytes:
        self._set_timeout()
        if self.reader_fd is not None:
            self._wait_for_bytes(self.reader_fd)
        try:
            return self._socket.recv(_PIECE_BYTES)
        except ConnectionResetError:
            raise TruncatedAnswer from None

    def _wait_for_bytes(self, reader_fd: int) -> None:
        import select

        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        poll.register(reader_fd, 0)  # poll(2) always reports POLLERR and POLLHUP
        ready = poll.poll(1000 * (self._socket.gettimeout() or 0.0))
        if not ready:
            raise TimeoutError
        if any(fd == reader_fd for fd, _ in ready):
            raise BrokenPipeError
