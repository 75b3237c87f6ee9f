"""How an event of a hook reaches the daemon: one request on the socket, or the spool while the daemon is away.

C modules only, as in `sm.cli.hook.emit`.
"""

import posix

from sm.client.connection import ForeignListener, HttpConnection, read_token, request
from sm.wire import AGENT_SOCKET_NAME

_TOO_LATE = 408
_TOO_MANY = 429


def send(route: str, body: str, key: str, deadline: float) -> "HttpConnection | None":
    """Post `body` to the daemon and return the connection, on which the answer comes.

    None: a process of another user listens on the socket; it was sent nothing. Raises OSError.
    """
    path = posix.environ[b"SM_SOCKET"]
    token = _token() if path.endswith(AGENT_SOCKET_NAME.encode()) else ""
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
    """Whether the daemon would give the same answer to a repetition of the request."""
    return status // 100 in (2, 4) and status not in (_TOO_LATE, _TOO_MANY)


def _token() -> str:
    """The token of this session. Without one the daemon refuses the event, and a repetition would be refused too."""
    try:
        return read_token(posix.environ[b"SM_TOKEN_FILE"])
    except OSError:
        return ""


def spool(body: "dict[str, object]", key: str, emitted_at: str) -> None:
    """Leave the event in the spool. A session on an agent socket has no spool: its event is dropped."""
    import os

    from sm.cli.hook.spool import HOOKS_MAX_BYTES, write
    from sm.cli.instance import Instance

    instance = Instance(os.environ)
    if instance.own_socket:
        write(instance, "hook", body, key, emitted_at=emitted_at, most=HOOKS_MAX_BYTES, durable=False)
