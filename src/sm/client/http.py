"""The client's side of docs/protocol.md: HTTP/1.1 over the daemon's Unix socket, one connection for each request.

Every command and hook of every agent comes through here, so it loads C modules only: `socket`, `json`,
`http.client` and `typing` would each cost as much as the whole exchange (docs/benchmarks.md).
"""

import _socket
import os
import sys
import time

from sm.errors import (
    DaemonUnavailable,
    NotFound,
    NotPermitted,
    ProtocolMismatch,
    RateLimited,
    SmError,
    UsageError,
    from_wire,
)
from sm.paths import SOCKET_PATH_MAX_BYTES
from sm.wire import (
    AGENT_SOCKET_NAME,
    HEARTBEAT_S,
    KEY_HEADER,
    PROTOCOL,
    PROTOCOL_HEADER,
    TOKEN_MAX_BYTES,
    decode,
    encode,
)

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

TIMEOUT_S = 30.0
_HEAD_MAX_BYTES = 64 * 1024
_HEADERS_MAX = 100
_ANSWER_MAX_BYTES = 64 * 1024 * 1024
_EVENT_MAX_BYTES = 4 * 1024 * 1024
_UNRESERVED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)  # RFC 3986, 2.3


class Away(DaemonUnavailable):
    """Nobody answers, or the connection broke before the whole answer was here.

    What was asked for may have been done: repeat it with the same Idempotency-Key or not at all.
    """


def new_key() -> str:
    """An Idempotency-Key of our own."""
    return os.urandom(16).hex()


def quoted(text: str) -> str:
    """`text` percent-encoded for one segment of a path, or one value of a query."""
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in text.encode("utf-8", "replace"))


def session_path(ref: str, action: str = "") -> str:
    """The path of the session that a person named `ref`. Raises NotFound for what no session can be called."""
    if ref in ("", ".", ".."):  # an empty or dot segment would name another route
        raise NotFound(f"no session {ref!r}", "sm all")
    return f"/v1/sessions/{quoted(ref)}{action}"


def workspace_path(slug: str, action: str = "") -> str:
    """The path of a workspace. Raises NotFound for what none can be called."""
    if slug in ("", ".", ".."):
        raise NotFound(f"no such workspace: {slug!r}", "sm workspace list")
    return f"/v1/workspaces/{quoted(slug)}{action}"


class Client:
    """One daemon, as one caller. Holds no connection between calls.

    `on_away` is called whenever nobody answers; it returns when asking again makes sense (it has
    started the daemon, or waited for it) and raises when not. Without it the `Away` goes to the caller.
    `on_rate` is the same for what the daemon would take, but not so soon: it waits, or raises.

    Every call raises the daemon's own refusals as the errors of errors.py; Away; DaemonUnavailable when it
    does not answer in time; NotPermitted when the socket is somebody else's, or an agent socket and there is no
    token to show; ProtocolMismatch when it is not our daemon or another version of it.
    """

    __slots__ = ("_on_away", "_on_rate", "repeated", "socket_path")

    def __init__(
        self,
        socket_path: str,
        on_away: "Callable[[Away], None] | None" = None,
        on_rate: "Callable[[RateLimited], None] | None" = None,
    ) -> None:
        self.socket_path = socket_path
        self._on_away = on_away
        self._on_rate = on_rate
        self.repeated = False
        """Whether nobody answered a try of the last request: it may have been carried out, whatever came then."""

    def get(
        self, path: str, query: "Mapping[str, object] | None" = None, *, timeout_s: float = TIMEOUT_S
    ) -> "Any":
        """The answer's JSON. `query` entries that are None, False or empty are left out, True is sent as 1."""
        return _decoded(self.text("GET", path, query, timeout_s=timeout_s))

    def post(
        self,
        path: str,
        body: "Mapping[str, object] | None" = None,
        *,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> "Any":
        """The answer's JSON. Done once, however often it is tried: all tries carry one key."""
        return _decoded(self.text("POST", path, body=body or {}, key=key or new_key(), timeout_s=timeout_s))

    def text(
        self,
        method: str,
        path: str,
        query: "Mapping[str, object] | None" = None,
        *,
        body: "Mapping[str, object] | None" = None,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> str:
        """The answer's body as it came."""
        request = _request(method, path, query, body, key)
        self.repeated = False
        while True:
            try:
                return self._exchange(request, timeout_s)
            except Away as away:
                self.repeated = True
                if self._on_away is None:
                    raise
                self._on_away(away)
            except RateLimited as limited:
                if self._on_rate is None:
                    raise
                self._on_rate(limited)

    def events(
        self,
        path: str,
        query: "Mapping[str, object] | None" = None,
        *,
        opened: "Callable[[], None]" = lambda: None,
        reader_fd: int | None = None,
    ) -> "Iterator[tuple[int, str]]":
        """Server-sent events as (id, data), until the stream breaks: then Away, never a plain end.

        `opened` is called when the daemon has accepted to send them. `reader_fd` is where they are written to:
        when its reader has gone, BrokenPipeError is raised at once and not with the next event, which may be
        hours away. `on_away` has no part in it.
        """
        request = _request("GET", path, query, None, None)
        with _Exchange(self.socket_path, TIMEOUT_S, reader_fd) as exchange:
            exchange.ask(request)
            exchange.silence_s = 3 * HEARTBEAT_S
            opened()
            yield from exchange.events()

    def daemon_pid(self) -> int:
        """The process that listens on the socket, as the kernel knows it."""
        with _Exchange(self.socket_path, TIMEOUT_S) as exchange:
            return exchange.peer_pid

    def _exchange(self, request: bytes, timeout_s: float) -> str:
        with _Exchange(self.socket_path, timeout_s) as exchange:
            exchange.ask(request)
            return exchange.body().decode("utf-8", "replace")


def _decoded(text: str) -> "Any":
    try:
        return decode(text)
    except ValueError as error:
        raise ProtocolMismatch(f"the daemon's answer is {error}", "sm daemon restart") from None


def _request(
    method: str,
    path: str,
    query: "Mapping[str, object] | None",
    body: "Mapping[str, object] | None",
    key: str | None,
) -> bytes:
    pairs = [
        f"{name}={1 if value is True else quoted(str(value))}"
        for name, value in (query or {}).items()
        if value is not None and value is not False and value != ""
    ]
    target = path + ("?" + "&".join(pairs) if pairs else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n{PROTOCOL_HEADER}: {PROTOCOL}\r\n"
    if key is not None:
        head += f"{KEY_HEADER}: {key}\r\n"
    if body is None:
        return (head + "\r\n").encode("ascii")
    text = encode(body)
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode(
        "ascii"
    )


class _Exchange:
    """One connection: made, asked once, read, closed."""

    def __init__(self, path: str, timeout_s: float, reader_fd: int | None = None) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self.silence_s: float | None = None
        """When set, each wait is bounded by this and not the whole exchange by `timeout_s`."""
        self._deadline = time.monotonic() + timeout_s
        self._reader_fd = reader_fd
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._buffer = b""
        self._length: int | None = None
        self._chunked = False
        try:
            self.peer_pid = self._connect()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "_Exchange":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _connect(self) -> int:
        _check_owner(self.path)
        while True:
            self._bound()
            try:
                self._socket.connect(self.path)
                break
            except BlockingIOError:
                # A full backlog is not waited for on a Unix socket with a time-out (connect(2), EAGAIN).
                time.sleep(0.01)
            except (FileNotFoundError, ConnectionRefusedError):
                raise _nobody(self.path) from None
            except TimeoutError:
                raise self._no_answer() from None
            except PermissionError:
                raise NotPermitted(f"the socket {self.path} may not be used by this user") from None
            except ConnectionError as error:
                raise Away(f"the connection to the daemon broke: {error.strerror}") from None
        # The file says who made it; only the kernel says who listens now (struct ucred of unix(7): pid, uid, gid).
        credentials = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        uid = int.from_bytes(credentials[4:8], sys.byteorder)
        if uid != os.geteuid():
            raise NotPermitted(f"who listens on {self.path} is user {uid}")
        return int.from_bytes(credentials[:4], sys.byteorder)

    def _bound(self) -> None:
        left = self._deadline - time.monotonic() if self.silence_s is None else self.silence_s
        if left <= 0:
            raise self._no_answer()
        self._socket.settimeout(left)

    def _no_answer(self) -> SmError:
        if self.silence_s is not None:
            return Away(f"the daemon was silent for {self.silence_s:.0f} s")
        return DaemonUnavailable(f"the daemon did not answer within {self.timeout_s:.0f} s", "sm daemon logs")

    def ask(self, request: bytes) -> None:
        """Send the request and read the head of the answer. Raises the error that the answer is, if it is one."""
        if self.path.endswith(AGENT_SOCKET_NAME):
            line, _, rest = request.partition(b"\r\n")
            request = b"%b\r\nAuthorization: Bearer %b\r\n%b" % (line, _token(), rest)
        self._bound()
        try:
            self._socket.sendall(request)
        except TimeoutError:
            raise self._no_answer() from None
        except OSError:
            pass  # it may have refused us before it had read everything: its answer says why
        status, headers = self._head()
        protocol = headers.get(PROTOCOL_HEADER.lower())
        if protocol is None:
            raise ProtocolMismatch(f"what answers at {self.path} is not an sm daemon", "sm doctor")
        if protocol != str(PROTOCOL):
            raise ProtocolMismatch(
                f"the daemon speaks protocol {protocol}, this sm speaks {PROTOCOL}", "sm daemon restart"
            )
        if status >= 400:
            raise _refusal(status, self.body())

    def _head(self) -> tuple[int, dict[str, str]]:
        first = self._line().split(b" ", 2)
        if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
            raise ProtocolMismatch(f"what answers at {self.path} does not speak HTTP", "sm doctor")
        headers: dict[str, str] = {}
        for _ in range(_HEADERS_MAX):
            line = self._line()
            if not line:
                break
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        else:
            raise ProtocolMismatch(f"what answers at {self.path} sends no end of headers")
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length", "")
        self._length = int(length) if length.isascii() and length.isdigit() else None
        return int(first[1]), headers

    def body(self) -> bytes:
        """The whole body."""
        pieces = []
        size = 0
        for piece in self._pieces():
            pieces.append(piece)
            size += len(piece)
            if size > _ANSWER_MAX_BYTES:
                raise ProtocolMismatch(f"the daemon's answer is larger than {_ANSWER_MAX_BYTES >> 20} MiB")
        return b"".join(pieces)

    def events(self) -> "Iterator[tuple[int, str]]":
        """The body as server-sent events (HTML Living Standard, 9.2.6), of which we need `id` and `data`."""
        number = 0
        data: list[bytes] = []
        rest = b""
        for piece in self._pieces():
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > _EVENT_MAX_BYTES:
                raise Away("the daemon sent an event that never ends")
            for line in lines:
                name, _, value = line.rstrip(b"\r").partition(b":")
                value = value.removeprefix(b" ")
                if name == b"data":
                    data.append(value)
                elif name == b"id" and value.isdigit():
                    number = int(value)
                elif not line.rstrip(b"\r") and data:
                    yield number, b"\n".join(data).decode("utf-8", "replace")
                    data = []
        raise Away("the daemon ended the stream")

    def _pieces(self) -> "Iterator[bytes]":
        if self._chunked:  # RFC 9112, 7.1
            while size := self._chunk_size():
                while size:
                    piece = self._some(size)
                    size -= len(piece)
                    yield piece
                self._line()
            while self._line():
                pass
        elif self._length is not None:
            left = self._length
            while left:
                piece = self._some(left)
                left -= len(piece)
                yield piece
        else:
            if self._buffer:
                yield self._some(len(self._buffer))
            while piece := self._received():
                yield piece

    def _chunk_size(self) -> int:
        try:
            return int(self._line().partition(b";")[0], 16)
        except ValueError:
            raise ProtocolMismatch("the daemon's answer is cut into pieces wrongly") from None

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _HEAD_MAX_BYTES:
                raise ProtocolMismatch(f"what answers at {self.path} sends no end of line")
            self._buffer += self._more()
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _some(self, most: int) -> bytes:
        if not self._buffer:
            self._buffer = self._more()
        piece, self._buffer = self._buffer[:most], self._buffer[most:]
        return piece

    def _more(self) -> bytes:
        piece = self._received()
        if not piece:
            raise Away("the daemon went away in the middle of its answer")
        return piece

    def _received(self) -> bytes:
        self._bound()
        try:
            if self._reader_fd is not None:
                self._wait_watching_reader(self._reader_fd)
            return self._socket.recv(65536)
        except TimeoutError:
            raise self._no_answer() from None
        except ConnectionResetError:
            raise Away("the daemon went away in the middle of its answer") from None

    def _wait_watching_reader(self, reader_fd: int) -> None:
        import select

        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        poll.register(reader_fd, 0)  # POLLERR and POLLHUP are always told (poll(2))
        timeout_s = self._socket.gettimeout()
        ready = poll.poll(None if timeout_s is None else timeout_s * 1000)
        if not ready:
            raise TimeoutError
        if any(fd == reader_fd for fd, _ in ready):
            raise BrokenPipeError


def _token() -> bytes:
    """What the process of this session was given to show: read for each call, since `sm restore` gives another."""
    path = os.environ.get("SM_TOKEN_FILE", "")
    try:
        with open(path, "rb") as file:
            token = file.read(TOKEN_MAX_BYTES).strip()
    except OSError as error:
        raise NotPermitted(
            f"the file that SM_TOKEN_FILE names cannot be read: {error.strerror}",
            "this socket is for sandboxed agents, and for the commands that they run",
        ) from None
    if not token.isalnum():
        raise NotPermitted("the file that SM_TOKEN_FILE names holds no token")
    return token


def _check_owner(path: str) -> None:
    if len(os.fsencode(path)) > SOCKET_PATH_MAX_BYTES:
        raise UsageError(
            f"the socket path {path} is longer than {SOCKET_PATH_MAX_BYTES} bytes, which no system takes",
            "set SM_HOME to a directory with a shorter path",
        )
    try:
        uid = os.lstat(path).st_uid
    except (FileNotFoundError, NotADirectoryError):
        raise _nobody(path) from None
    except PermissionError:
        raise NotPermitted(
            f"the socket {path} is in a directory of another user", "set SM_HOME to a directory of your own"
        ) from None
    if uid != os.geteuid():
        raise NotPermitted(f"the socket {path} belongs to user {uid}", owner_hint(uid))


def owner_hint(uid: int) -> str:
    """What to type when an instance belongs to user `uid` and not to the caller."""
    import pwd

    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"#{uid}"
    if os.geteuid() == 0:
        return f"sudo -u '{name}' sm ..., as the owner"
    return f"it is the instance of {name}; set SM_HOME to a directory of your own"


def _nobody(path: str) -> Away:
    return Away(f"no daemon listens on {path}", "sm daemon start")


def _refusal(status: int, body: bytes) -> SmError:
    """The error that an answer of 400 and above stands for."""
    try:
        error = decode(body.decode("utf-8", "replace"))["error"]
        code, message, hint = str(error["code"]), str(error["message"]), error.get("hint")
    except (ValueError, TypeError, KeyError, AttributeError):
        return SmError(f"the daemon answered with status {status}", "sm daemon logs")
    if code == DaemonUnavailable.code:
        return Away(message, hint)  # it is just stopping
    return from_wire(code, message, None if hint is None else str(hint), error.get("retry_after_s"))
