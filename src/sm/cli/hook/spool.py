"""Writes a session's events and reports to the spool while no daemon runs (docs/protocol.md)."""

import os
import time

from sm.cli.hook.transport import stamp
from sm.client.connection import read_token
from sm.errors import DaemonUnavailable, LimitReached, StorageFull
from sm.wire import SPOOL_MAX_BYTES, encode

TYPE_CHECKING = False  # see wire.py: hooks load this module too
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sm.cli.instance import Instance

HOOKS_MAX_BYTES = SPOOL_MAX_BYTES * 3 // 4
"""The limit of hook events. The rest is reserved for the session's own reports, which must not be lost."""


def write(
    instance: "Instance",
    action: str,
    body: "Mapping[str, object]",
    key: str,
    *,
    emitted_at: str | None = None,
    max_bytes: int = SPOOL_MAX_BYTES,
    durable: bool = True,
) -> str:
    """Write one report to the spool atomically, and return the file's path.

    Keeps the session's directory within `max_bytes`. A report that is not `durable` may be lost or empty after a
    machine crash. Raises DaemonUnavailable, LimitReached or StorageFull.
    """
    session_id = instance.session_id or ""
    if len(session_id) != 8 or not set(session_id) <= set("0123456789abcdef"):
        raise DaemonUnavailable(
            "the daemon does not respond, and SM_SESSION_ID is not a session id", "sm daemon start"
        )
    directory = f"{instance.paths.spool}/{session_id}"
    text = encode(
        {
            "key": key,
            "token": _token(instance.environ),
            "emitted_at": emitted_at or stamp(time.time_ns()),
            "action": action,
            "body": dict(body),
        }
    )
    name = f"{time.time_ns()}-{os.urandom(4).hex()}.json"
    hidden = f"{directory}/.{name}"
    try:
        for path in (instance.paths.spool, directory):
            os.makedirs(path, 0o700, exist_ok=True)
        if _size(directory) + len(text) > max_bytes:
            raise LimitReached(
                f"the daemon does not respond, and the spool of session {session_id} is full",
                "sm daemon start",
            )
        file = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(text.encode("ascii"))
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.rename(hidden, f"{directory}/{name}")
    except OSError as error:
        remove(hidden)
        raise StorageFull(
            f"the daemon does not respond, and the report cannot be stored: {error.strerror}",
            "sm daemon start",
        ) from None
    return f"{directory}/{name}"


def write_event(body: "Mapping[str, object]", key: str, emitted_at: str) -> None:
    """Write a hook's event to the spool. Drops it on a socket of neither this instance nor a container."""
    from sm.cli.instance import Instance

    instance = Instance(os.environ)
    if instance.has_default_socket or instance.is_contained:
        write(instance, "hook", body, key, emitted_at=emitted_at, max_bytes=HOOKS_MAX_BYTES, durable=False)


def _size(directory: str) -> int:
    """Sum up the reports in a directory. Other processes add and remove reports at the same time."""
    size = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                size += entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return size


def _token(environ: "Mapping[str, str]") -> str:
    """Read the session's token. Raises DaemonUnavailable without one: the daemon would refuse the report."""
    try:
        token = read_token(environ.get("SM_TOKEN_FILE", ""))
    except OSError:
        token = ""
    if not token:
        raise DaemonUnavailable(
            "the daemon does not respond, and reports cannot be stored without the token file (SM_TOKEN_FILE)",
            "sm daemon start",
        )
    return token


def remove(path: str) -> None:
    """Remove a report unless the daemon already has."""
    try:  # noqa: SIM105  contextlib would cost 2 ms
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
