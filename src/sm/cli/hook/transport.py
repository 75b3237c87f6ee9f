"""Sends requests of a hook to the daemon, and notices the end of its agent.

Imports C modules only, as `sm.cli.hook.emit` does.
"""

import _signal  # type: ignore[import-not-found]  # as in emit.py
import posix
import select
import time

from sm.client.connection import ForeignListener, HttpConnection, read_token, request

ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
"""The signals with which an agent ends its hook."""

_REQUEST_TIMEOUT = 408
_TOO_MANY_REQUESTS = 429


def send(route: str, body: str, key: str, deadline: float) -> "HttpConnection | None":
    """Post `body` to the daemon and return the connection with the unread answer. Raises OSError.

    Returns None, with nothing sent, if a process of another user listens on the socket.
    """
    path = posix.environ[b"SM_SOCKET"]
    token = _token()
    try:
        connection = HttpConnection(path, deadline)
    except ForeignListener:
        return None
    try:
        connection.send(request("POST", route, key=key, body=body, token=token))
    except OSError:
        connection.close()
        raise
    return connection


def is_final(status: int) -> bool:
    """True for a status that a retry of the request would get again."""
    return status // 100 in (2, 4) and status not in (_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS)


def _token() -> str:
    """Read the session's token; empty when it cannot be read, so that the daemon refuses the event."""
    try:
        return read_token(posix.environ[b"SM_TOKEN_FILE"])
    except OSError:
        return ""


def stdout_closed(within_s: float = 0.0) -> bool:
    """Wait at most `within_s` for the reader of stdout to close it. True when it is closed."""
    poll = select.poll()
    poll.register(1, 0)  # POLLERR of a pipe, POLLHUP of a socket, POLLNVAL without a stdout
    return bool(poll.poll(1000 * within_s))


def stamp(at_ns: int) -> str:
    """Format nanoseconds since the epoch as a time of the protocol. Importing `datetime` would take 5 ms."""
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest_ns // 1000:06}Z"
