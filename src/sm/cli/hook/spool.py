"""Writes a session's events and reports to the spool while no daemon runs (docs/protocol.md)."""

import os
import time

from sm.cli.hook.emit import stamp
from sm.client.connection import read_token
from sm.errors import DaemonUnavailable, LimitReached, StorageFull
from sm.wire import SPOOL_MAX_BYTES, encode

TYPE_CHECKING = False  # see wire.py: hooks come here too
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sm.cli.instance import Instance

HOOKS_MAX_BYTES = SPOOL_MAX_BYTES * 3 // 4
"""The share of events. The rest is for the session's own reports, which must not be lost."""


def write(
    instance: "Instance",
    action: str,
    body: "Mapping[str, object]",
    key: str,
    *,
    emitted_at: str | None = None,
    most: int = SPOOL_MAX_BYTES,
    durable: bool = True,
) -> str:
    """Write one report to the spool, whole or not at all, and return the file's path.

    The session's directory then holds at most `most` bytes. A report that is not `durable` may be lost or empty after
    the machine fails.
    """
    session_id = instance.session_id or ""
    if len(session_id) != 8 or not set(session_id) <= set("0123456789abcdef"):
        raise DaemonUnavailable("no daemon answers, and SM_SESSION_ID names no session", "sm daemon start")
    _check(action, body)
    directory = f"{instance.places.spool}/{session_id}"
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
        for wanted in (instance.places.spool, directory):
            os.makedirs(wanted, 0o700, exist_ok=True)
        if _used(directory) + len(text) > most:
            raise LimitReached(
                f"the daemon is away and the spool of session {session_id} is full", "sm daemon start"
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
            f"the daemon is away and the report cannot be kept: {error.strerror}", "sm daemon start"
        ) from None
    return f"{directory}/{name}"


def _used(directory: str) -> int:
    """The size of all reports in the directory. Other processes add and remove reports at the same time."""
    used = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                used += entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return used


def _check(action: str, body: "Mapping[str, object]") -> None:
    """Refuse now what the daemon would refuse when nobody listens any more. Raises InvalidText."""
    if action == "hook":
        return  # nobody listens to it now either
    from sm.core.text import NOTE_MAX, REPORT_MAX, accepted

    if action == "note":
        accepted(str(body["text"]), "note", NOTE_MAX, one_line=True)
    elif body["message"] is not None:
        accepted(str(body["message"]), "message", REPORT_MAX)


def _token(environ: "Mapping[str, str]") -> str:
    """The token of the session. Raises DaemonUnavailable without one: the daemon would refuse the report."""
    try:
        token = read_token(environ.get("SM_TOKEN_FILE", ""))
    except OSError:
        token = ""
    if not token:
        raise DaemonUnavailable(
            "no daemon answers, and without the file that SM_TOKEN_FILE names no report can be kept",
            "sm daemon start",
        )
    return token


def remove(path: str) -> None:
    """Remove a report, if the daemon has not yet."""
    try:  # noqa: SIM105  contextlib would cost 2 ms
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
