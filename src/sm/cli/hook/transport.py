"""Sends a hook's event to the daemon's socket, or writes it to the spool.

Imports C modules only, as `sm.cli.hook.emit` does.
"""

import posix

from sm.client.connection import ForeignListener, HttpConnection, read_token, request

_REQUEST_TIMEOUT = 408
_TOO_MANY_REQUESTS = 429


def send(route: str, body: str, key: str, deadline: float) -> "HttpConnection | None":
    """Post `body` to the daemon and return the connection with the unread answer. Raises OSError.

    None: a process of another user listens on the socket, so nothing was sent.
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


def spool(body: "dict[str, object]", key: str, emitted_at: str) -> None:
    """Write the event to the spool. Drops it on a socket of neither this instance nor a container."""
    import os

    from sm.cli.hook.spool import HOOKS_MAX_BYTES, write
    from sm.cli.instance import Instance

    instance = Instance(os.environ)
    if instance.has_default_socket or instance.is_contained:
        write(instance, "hook", body, key, emitted_at=emitted_at, max_bytes=HOOKS_MAX_BYTES, durable=False)
