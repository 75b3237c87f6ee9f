"""Posts messages to the daemon, again while it is away, for `sm mcp`.

A repeated call of a tool has the same idempotency key, so that the daemon carries it out once. Imports C modules only.
"""

import _thread
import posix
import time

from sm.cli.mcp.answers import away, refusal, refusal_of
from sm.client.connection import (
    BadAnswer,
    ForeignListener,
    HttpConnection,
    TruncatedAnswer,
    read_token,
    request,
)
from sm.client.event_stream import EventTooLong, read_events
from sm.core.backoff import Backoff
from sm.wire import (
    ANSWER_READ,
    CLIENT_HEADER,
    MCP_CALL_MAX_S,
    PROTOCOL,
    PROTOCOL_HEADER,
    REPORT_READ_HEADER,
    decode,
)

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sm.cli.mcp.message import ClientMessage
    from sm.cli.mcp.report import SpooledReport

    Deliver = Callable[[bytes], None]
    """Prints one message for the client."""
    Log = Callable[[str], None]
    Message = dict[str, Any]

ROUTE = "/v1/mcp"
AWAY_S = 60.0
"""A call fails when the daemon has been away for this long."""
REPORT_AWAY_S = 5.0
"""The limit for a report that is in the spool."""
REPORTS = frozenset({"report_checkpoint", "report_note", "complete_session"})
"""The tools whose calls are spooled while the daemon is away."""

_POST_S = 30.0
"""The limit for a message without an answer."""
_ANSWER_S = 2.0 * MCP_CALL_MAX_S
_PAUSES_S = 0.02, 1.0
"""The first and the longest pause between tries."""
_ANSWER_MAX_BYTES = 16 << 20
_RETRIED = (408, 503)
"""HTTP statuses of a daemon that is stopping or has too many connections."""
_VERSION_HEADER = "Mcp-Protocol-Version"
_READ_S = 10.0
_ANSWER_READ = b'{"jsonrpc":"2.0","method":"%b"}' % ANSWER_READ.encode()
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

_Generation = tuple[int, int, int]
"""Identifies the socket of one run of the daemon."""


class _Busy(ConnectionError):
    """The daemon listens, and takes no request now."""


class Link:
    """The way to one daemon. Thread-safe."""

    def __init__(self, socket_path: bytes, token_file: bytes | None, log: "Log") -> None:
        """`token_file` is None if the caller has no token."""
        self._socket_path = socket_path
        self._token_file = token_file
        self._headers = {CLIENT_HEADER: posix.urandom(16).hex()}
        self._log = log
        self._handshake = _thread.allocate_lock()
        self._initialize: bytes | None = None
        """The client's `initialize`, which every later daemon gets too."""
        self._generation: _Generation | None = None

    def carry(self, call: "ClientMessage", deliver: "Deliver") -> None:
        """Post a message and deliver what the daemon answers. Returns when the call is over."""
        began = away_at = time.monotonic()
        limit_s, pauses = AWAY_S, Backoff(*_PAUSES_S)
        spooled: SpooledReport | None = None
        while not call.is_cancelled:
            try:
                self._try(call, deliver)
            except ForeignListener as error:
                self._refuse(call, deliver, "not_permitted", f"the socket of the daemon: {error}")
            except (BadAnswer, EventTooLong) as error:
                self._refuse(call, deliver, "protocol", f"the server on the socket of the daemon {error}")
            except OSError as error:  # timeouts too
                if isinstance(error, TruncatedAnswer):  # a daemon was there until now
                    away_at = time.monotonic()
                    pauses.reset()
                self._log(f"the daemon is away ({str(error) or 'no answer in time'}): {call.method}")
                if spooled is None and call.id is not None and call.params.get("name") in REPORTS:
                    spooled = self._spool(call)
                    limit_s = AWAY_S if spooled is None else REPORT_AWAY_S
                if time.monotonic() - away_at < limit_s:
                    time.sleep(pauses.next_s())
                    continue
                if call.id is not None:
                    deliver(away(call) if spooled is None else spooled.answer(call, began))
                return
            if spooled is not None:
                spooled.remove()
            return

    def _try(self, call: "ClientMessage", deliver: "Deliver") -> None:
        """Raises OSError when the daemon gave no answer, BadAnswer, EventTooLong."""
        generation = self._shake_hands(call)
        limit_s = _POST_S if call.id is None else _ANSWER_S
        with HttpConnection(self._socket_path, time.monotonic() + limit_s) as connection:
            call.connection = connection
            if call.is_cancelled:
                return
            status = self._post(connection, call.line, call.key)
            if status in _RETRIED:
                raise _Busy(f"HTTP status {status}")
            if status >= 400:
                body = connection.body(_ANSWER_MAX_BYTES)
                self._log(f"the daemon refused {call.method}: HTTP status {status}")
                if call.id is not None:
                    deliver(refusal_of(call, status, body))
            elif connection.headers.get("content-type", "").startswith("text/event-stream"):
                for _, event in read_events(connection.pieces(), _ANSWER_MAX_BYTES):
                    message = _message(event)
                    deliver(event.encode())
                    if "method" not in message:
                        return  # the response
            elif body := connection.body(_ANSWER_MAX_BYTES):
                message = _message(body.decode("utf-8", "replace"))
                if call.method == "initialize":
                    self._learn(call.line, message, generation)
                deliver(body)
                if REPORT_READ_HEADER.lower() in connection.headers:
                    self._report_read()

    def _post(self, connection: HttpConnection, line: bytes, key: str | None) -> int:
        """Send a message and return the HTTP status of the answer. Raises OSError, BadAnswer."""
        sent = request("POST", ROUTE, key=key, body=line, token=self._token(), headers=self._headers)
        try:
            connection.send(sent)
        except TimeoutError:
            raise
        except OSError:
            pass  # The daemon may refuse a request before reading all of it: its answer says why.
        status = connection.head()
        protocol = connection.headers.get(PROTOCOL_HEADER.lower())
        if protocol is None:
            raise BadAnswer("is not an sm daemon")
        if protocol != str(PROTOCOL):
            raise BadAnswer(f"speaks protocol {protocol}, this sm speaks {PROTOCOL}: start the agent again")
        return status

    def _token(self) -> str:
        """The caller's token; empty when it cannot be read, so that the daemon refuses the message."""
        if self._token_file is None:
            return ""
        try:
            return read_token(self._token_file)
        except OSError:
            return ""

    def _shake_hands(self, call: "ClientMessage") -> _Generation:
        """Initialize a daemon that has not seen this client, and return its generation. Raises OSError, BadAnswer."""
        status = posix.stat(self._socket_path)
        generation = status.st_dev, status.st_ino, status.st_mtime_ns
        with self._handshake:
            first = self._initialize
            if first is not None and generation != self._generation and call.method != "initialize":
                self._log("initialize again: another daemon listens")
                for line in (first, _INITIALIZED):
                    with HttpConnection(self._socket_path, time.monotonic() + _POST_S) as connection:
                        status_code = self._post(connection, line, None)
                        if status_code in _RETRIED:
                            raise _Busy(f"HTTP status {status_code}")
                        connection.body(_ANSWER_MAX_BYTES)
                self._generation = generation
        return generation

    def _learn(self, line: bytes, response: "Message", generation: _Generation) -> None:
        """Keep the client's handshake, with the protocol version that the daemon chose."""
        result = response.get("result")
        if not isinstance(result, dict):
            return  # an error: the client has no session yet
        version = result.get("protocolVersion")
        if isinstance(version, str) and version.isascii() and version.isprintable():
            self._headers = {**self._headers, _VERSION_HEADER: version}
        with self._handshake:
            self._initialize, self._generation = line, generation

    def _report_read(self) -> None:
        """Tell the daemon that the client has read the answer. Without a daemon nobody waits for the report."""
        from sm.cli.mcp.unread import wait_for_reader

        if not wait_for_reader(1, _READ_S):
            return
        try:
            with HttpConnection(self._socket_path, time.monotonic() + _POST_S) as connection:
                self._post(connection, _ANSWER_READ, None)
        except (OSError, BadAnswer) as error:
            self._log(f"the daemon does not know that its answer was read: {error}")

    def _spool(self, call: "ClientMessage") -> "SpooledReport | None":
        from sm.cli.mcp.report import spool

        return spool(call, self._log)

    def _refuse(self, call: "ClientMessage", deliver: "Deliver", code: str, message: str) -> None:
        self._log(f"{call.method} failed: {message}")
        if call.id is not None:
            deliver(refusal(call, code, message))


def _message(text: str) -> "Message":
    """Decode a JSON-RPC message of the daemon. Raises BadAnswer, so that stdout gets nothing else."""
    try:
        message = decode(text)
    except (ValueError, RecursionError):
        raise BadAnswer("sends an answer that is not JSON") from None
    if not isinstance(message, dict):
        raise BadAnswer("sends an answer that is no JSON-RPC message")
    return message
