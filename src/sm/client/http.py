"""Calls the daemon's API (docs/protocol.md), one connection for each request, and raises its refusals as errors.

Every command imports this module, so it loads C modules only (see `sm.client.connection`).
"""

import os
import time

from sm.client.connection import (
    BadAnswer,
    ForeignListener,
    HttpConnection,
    TruncatedAnswer,
    read_token,
    request,
)
from sm.errors import (
    DaemonUnavailable,
    InvalidText,
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
    LEFT_HEADER,
    NEXT_HEADER,
    PROTOCOL,
    PROTOCOL_HEADER,
    decode,
    encode,
)

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

TIMEOUT_S = 30.0
START_TIMEOUT_S = 120.0
"""For requests that start agents. The daemon may make a container first, and gives up an agent itself after 30 s."""
_DOWNLOAD_TIMEOUT_S = 600.0
"""The daemon compresses the whole file before it answers."""
_ANSWER_MAX_BYTES = 64 * 1024 * 1024
_EVENT_MAX_BYTES = 4 * 1024 * 1024
_REF_MAX = 1000
"""Characters. No name of a session is as long."""
_UNRESERVED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)  # RFC 3986, 2.3


class DaemonAway(DaemonUnavailable):
    """No daemon answers, or the connection broke before the end of the answer.

    The daemon may have executed the request: retry only with the same Idempotency-Key.
    """


def new_key() -> str:
    return os.urandom(16).hex()


def percent_encode(text: str) -> str:
    """Percent-encode `text` as one path segment or query value."""
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in text.encode("utf-8", "replace"))


def session_path(ref: str, action: str = "") -> str:
    """Raises NotFound for a reference that cannot name a session."""
    # An empty or dot segment would name another route, and a longer request line is not valid for the daemon.
    if ref in ("", ".", "..") or len(ref) > _REF_MAX:
        raise NotFound(f"no such session: {ref[:40]!r}", "list sessions: sm all")
    return f"/v1/sessions/{percent_encode(ref)}{action}"


def workspace_path(slug: str, action: str = "") -> str:
    """Raises NotFound for a slug that cannot name a workspace."""
    if slug in ("", ".", ".."):
        raise NotFound(f"no such workspace: {slug!r}", "list workspaces: sm workspace list")
    return f"/v1/workspaces/{percent_encode(slug)}{action}"


def account_path(name: str, action: str) -> str:
    """Raises NotFound for a name that cannot name an account."""
    if name in ("", ".", ".."):
        raise NotFound(f"no such account: {name!r}", "list accounts: sm accounts")
    return f"/v1/accounts/{percent_encode(name)}{action}"


class Client:
    """Sends requests to one daemon. Keeps no connection between calls.

    `on_away` handles DaemonAway: it returns to request a retry (it started the daemon, or waited for it), or raises.
    `on_rate` handles RateLimited in the same way. Without a handler the caller gets the error.

    Every call raises the daemon's refusals as the errors of errors.py, and:
    - DaemonAway;
    - DaemonUnavailable when the daemon does not answer in time;
    - NotPermitted when the socket belongs to another user, or is an agent socket and the caller has no token;
    - ProtocolMismatch when the server is not an sm daemon, or has another protocol version.
    """

    __slots__ = ("_on_away", "_on_rate", "left", "next_page", "repeated", "socket_path")

    def __init__(
        self,
        socket_path: str,
        on_away: "Callable[[DaemonAway], None] | None" = None,
        on_rate: "Callable[[RateLimited], None] | None" = None,
    ) -> None:
        self.socket_path = socket_path
        self._on_away = on_away
        self._on_rate = on_rate
        self.repeated = False
        """True after a retry of the last request: the daemon may have executed it even if the last try failed."""
        self.next_page: str | None = None
        """The parameter `before` of the next page, if the last answer was a page of a list."""
        self.left = 0
        """The number of sessions on later pages."""

    def get(
        self, path: str, query: "Mapping[str, object] | None" = None, *, timeout_s: float = TIMEOUT_S
    ) -> "Any":
        """Return the decoded answer. None, False and empty values of `query` are omitted; True is sent as 1."""
        return decode_answer(self.text("GET", path, query, timeout_s=timeout_s))

    def post(
        self,
        path: str,
        body: "Mapping[str, object] | None" = None,
        *,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> "Any":
        """Return the decoded answer. All retries carry one key, so the daemon executes the request once."""
        return decode_answer(
            self.text("POST", path, body=body or {}, key=key or new_key(), timeout_s=timeout_s)
        )

    def upload(self, path: str, query: "Mapping[str, object]", content: bytes) -> "Any":
        """Send a file, and return the decoded answer. A retry may leave an upload that nobody knows."""
        return decode_answer(self._text("POST", _target(path, query), content, new_key(), TIMEOUT_S))

    def delete(self, path: str) -> "Any":
        """Return the decoded answer."""
        return decode_answer(self.text("DELETE", path))

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
        """Return the body of the answer without decoding it."""
        return self._text(
            method, _target(path, query), None if body is None else _content(body), key, timeout_s
        )

    def _text(
        self, method: str, target: str, content: str | bytes | None, key: str | None, timeout_s: float
    ) -> str:
        """Send a request, again and again as the handlers say."""
        self.repeated = False
        while True:
            try:
                return self._exchange(method, target, content, key, timeout_s)
            except DaemonAway as away:
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
        """Yield server-sent events as (id, data). Raises DaemonAway when the stream ends or breaks.

        `opened` is called when the daemon has accepted the request. `reader_fd` is the caller's output: when its
        reader closes it, BrokenPipeError is raised: the next event may be hours away. `on_away` is not
        called.
        """
        with _Exchange(self.socket_path, TIMEOUT_S, reader_fd) as connection:
            _ask(connection, self.socket_path, "GET", _target(path, query))
            connection.silence_s = 3 * HEARTBEAT_S
            opened()
            yield from _events(connection)

    def download(self, path: str, write: "Callable[[bytes], object]") -> None:
        """Pass the body of the answer to `write`, in pieces. `on_away` is not called."""
        with _Exchange(self.socket_path, _DOWNLOAD_TIMEOUT_S) as connection:
            _ask(connection, self.socket_path, "GET", path)
            connection.silence_s = TIMEOUT_S
            for piece in connection.pieces():
                write(piece)

    def daemon_pid(self) -> int:
        """Ask the kernel for the pid of the process that listens on the socket."""
        with _Exchange(self.socket_path, TIMEOUT_S) as connection:
            return connection.peer_pid

    def _exchange(
        self, method: str, target: str, content: str | bytes | None, key: str | None, timeout_s: float
    ) -> str:
        with _Exchange(self.socket_path, timeout_s) as connection:
            _ask(connection, self.socket_path, method, target, content, key)
            self.next_page = connection.headers.get(NEXT_HEADER.lower())
            self.left = int(connection.headers.get(LEFT_HEADER.lower(), "0"))
            return connection.body(_ANSWER_MAX_BYTES).decode("utf-8", "replace")


def decode_answer(text: str) -> "Any":
    """The value of an answer. Raises ProtocolMismatch."""
    try:
        return decode(text)
    except ValueError as error:
        raise ProtocolMismatch(f"invalid answer from the daemon: {error}", "sm daemon restart") from None


def _content(body: "Mapping[str, object]") -> str:
    """Encode a body. Raises InvalidText for a value of the shell that is not UTF-8."""
    text = encode(body)
    if "\\udc" in text:  # Python passes such bytes on as lone surrogates
        for name, value in body.items():
            if isinstance(value, str) and (shown := _bad_text(value)) is not None:
                raise InvalidText(f"{name.replace('_', ' ')} {shown} is not valid UTF-8")
    return text


def _bad_text(text: str) -> str | None:
    """A beginning of `text` with its invalid bytes as `\\xNN`, or None if the text is valid."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        first = text[max(0, error.start - 40) : error.start + 40]
        return first.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return None


def _target(path: str, query: "Mapping[str, object] | None") -> str:
    pairs = [
        f"{name}={1 if value is True else percent_encode(str(value))}"
        for name, value in (query or {}).items()
        if value is not None and value is not False and value != ""
    ]
    return path + ("?" + "&".join(pairs) if pairs else "")


class _Exchange:
    """Opens a connection and raises its failures as the errors of errors.py."""

    __slots__ = ("_connection", "_path", "_reader_fd", "_timeout_s")

    def __init__(self, path: str, timeout_s: float, reader_fd: int | None = None) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._reader_fd = reader_fd

    def __enter__(self) -> HttpConnection:
        path = self._path
        _check_owner(path)
        try:
            self._connection = HttpConnection(path, time.monotonic() + self._timeout_s, self._reader_fd)
        except (FileNotFoundError, ConnectionRefusedError):
            raise _no_listener(path) from None
        except TimeoutError:
            raise self._no_answer(None) from None
        except ForeignListener as error:
            raise NotPermitted(f"the process that listens on {path} belongs to user id {error.uid}") from None
        except PermissionError:
            raise NotPermitted(f"permission denied: cannot use the socket {path}") from None
        except ConnectionError as error:
            raise DaemonAway(f"lost the connection to the daemon: {error.strerror}") from None
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._connection.close()
        if isinstance(error, TimeoutError):
            raise self._no_answer(self._connection.silence_s) from None
        if isinstance(error, TruncatedAnswer):
            raise DaemonAway(str(error)) from None
        if isinstance(error, BadAnswer):
            raise ProtocolMismatch(f"the server on {self._path} {error}", error.hint) from None

    def _no_answer(self, silence_s: float | None) -> SmError:
        if silence_s is not None:
            return DaemonAway(f"the daemon sent nothing for {silence_s:.0f} s")
        return DaemonUnavailable(
            f"the daemon did not respond within {self._timeout_s:.0f} s", "sm daemon logs"
        )


def _ask(
    connection: HttpConnection,
    path: str,
    method: str,
    target: str,
    content: str | bytes | None = None,
    key: str | None = None,
) -> None:
    """Send a request and read the head of the answer. Raises the daemon's refusal."""
    token = _token() if path.endswith(AGENT_SOCKET_NAME) else _session_token()
    try:
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        connection.send(request(method, target, key=key, body=content, token=token, content_type=kind))
    except TimeoutError:
        raise
    except OSError:
        pass  # The daemon may refuse a request before reading all of it: its answer says why.
    status = connection.head()
    protocol = connection.headers.get(PROTOCOL_HEADER.lower())
    if protocol is None:
        raise BadAnswer("is not an sm daemon", "sm doctor")
    if protocol != str(PROTOCOL):
        raise ProtocolMismatch(
            f"the daemon speaks protocol {protocol}, this sm speaks {PROTOCOL}", "sm daemon restart"
        )
    if status >= 400:
        raise refusal_of(status, connection.body(_ANSWER_MAX_BYTES))


def _events(connection: HttpConnection) -> "Iterator[tuple[int, str]]":
    from sm.client.event_stream import EventTooLong, read_events

    try:
        yield from read_events(connection.pieces(), _EVENT_MAX_BYTES)
    except EventTooLong:
        raise DaemonAway("the daemon sent an event that is too long") from None
    raise DaemonAway("the daemon closed the event stream")


def _token() -> str:
    """Raises NotPermitted when the caller has no token."""
    try:
        token = read_token(os.environ.get("SM_TOKEN_FILE", ""))
    except OSError as error:
        raise NotPermitted(
            f"cannot read the token file (SM_TOKEN_FILE): {error.strerror}",
            "this socket is only for commands that sandboxed agents run",
        ) from None
    if not token:
        raise NotPermitted("the token file (SM_TOKEN_FILE) is empty")
    return token


def _session_token() -> str:
    """The token of the session that runs this command, for `sm.sock`. Empty without a session or a token file."""
    try:
        return read_token(os.environ["SM_TOKEN_FILE"]) if os.environ.get("SM_SESSION_ID") else ""
    except (KeyError, OSError):
        return ""


def _check_owner(path: str) -> None:
    if len(os.fsencode(path)) > SOCKET_PATH_MAX_BYTES:
        raise UsageError(
            f"the socket path {path} is longer than {SOCKET_PATH_MAX_BYTES} bytes",
            "set SM_HOME to a directory with a shorter path",
        )
    try:
        uid = os.lstat(path).st_uid
    except (FileNotFoundError, NotADirectoryError):
        raise _no_listener(path) from None
    except PermissionError:
        raise NotPermitted(
            f"the socket {path} is in a directory of another user", "set SM_HOME to a directory of your own"
        ) from None
    if uid != os.geteuid():
        raise NotPermitted(f"the socket {path} belongs to user id {uid}", owner_hint(uid))


def owner_hint(uid: int) -> str:
    """The hint of an error about an instance that belongs to user `uid`."""
    import pwd

    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"#{uid}"
    if os.geteuid() == 0:
        return f"run sm as the owner: sudo -u '{name}' sm ..."
    return f"this instance belongs to {name}; set SM_HOME to a directory of your own"


def _no_listener(path: str) -> DaemonAway:
    return DaemonAway(f"no daemon is running at {path}", "sm daemon start")


def refusal_of(status: int, body: bytes) -> SmError:
    """The error in an answer of the daemon."""
    try:
        error = decode(body.decode("utf-8", "replace"))["error"]
        code, message, hint = str(error["code"]), str(error["message"]), error.get("hint")
    except (ValueError, TypeError, KeyError, AttributeError):
        return SmError(f"the daemon answered with HTTP status {status}", "sm daemon logs")
    if code == DaemonUnavailable.code:
        return DaemonAway(message, hint)  # the daemon is stopping
    more = error.get("retry_after_s"), error.get("directory"), error.get("request_id")
    return from_wire(code, message, None if hint is None else str(hint), *more)
