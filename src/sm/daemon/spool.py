"""Replays reports that sessions spooled while no daemon ran, in order of emission (docs/protocol.md, The spool)."""

import hmac
import logging
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, BaseModel, Field, StrictStr

from sm.api.body import fingerprint
from sm.core.models import Caller, RequestKey, Session, digest
from sm.core.states import CallerKind
from sm.core.timestamps import iso
from sm.errors import RateLimited, SmError, StorageFull, UsageError
from sm.linux.files import read_or_empty
from sm.messaging import Messages
from sm.monitor import Observer
from sm.sessions.reports import Reports
from sm.wire import SPOOL_MAX_BYTES

log = logging.getLogger(__name__)

_NAME = re.compile(r"\d{1,20}-[0-9a-f]{1,32}\.json")
_HALF = re.compile(rf"\.{_NAME.pattern}")
"""The temporary name of a report while its session writes it."""
_HALF_FOR_S = 60.0
_NUMBER_MAX = 2**53


def _time(text: str) -> str:
    """Normalize the time of a report, and cap it at now. Raises ValueError."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return iso(min(at.timestamp(), time.time()))


class Report(BaseModel):
    """A spooled request: a file that a session wrote into its directory."""

    path: str
    session_id: str
    key: StrictStr
    token: StrictStr = Field(repr=False)
    emitted_at: Annotated[str, AfterValidator(_time)]
    action: str
    body: dict[str, Any] = Field(repr=False)


async def replay(
    directory: str,
    sessions: Mapping[str, Session],
    reports: Reports,
    messages: Messages,
    observer: Observer,
) -> None:
    """Carry out and remove every spooled report, and log those that are refused or fail.

    Sessions can write anything into the spool, so no report may stop the daemon.
    """
    for report in sorted(_reports(directory), key=lambda r: (r.emitted_at, r.path)):
        session = sessions.get(report.session_id)
        known = session.token_hash if session else None
        if known is None or not hmac.compare_digest(known, digest(report.token)):
            log.warning(
                "refused a spooled report without the session's token",
                extra={"sm_session": report.session_id},
            )
        else:
            try:
                await _carry_out(report, reports, messages, observer)
            except StorageFull as error:
                # Nothing was written: this report and the rest stay for the next replay.
                log.warning("postponed the spooled reports: %s", error.message)
                return
            except RateLimited as error:
                # The report stays for a later replay, so that it is not lost.
                log.debug("postponed a spooled report: %s", error.message)
                continue
            except SmError as error:
                log.warning(
                    "refused a spooled report: %s", error.message, extra={"sm_session": report.session_id}
                )
            except Exception:
                log.exception("failed to carry out a spooled report", extra={"sm_session": report.session_id})
        _remove(report.path, report.session_id)


async def _carry_out(report: Report, reports: Reports, messages: Messages, observer: Observer) -> None:
    caller = Caller(CallerKind.SESSION, report.session_id)
    body, at = report.body, report.emitted_at
    match report.action:
        case "checkpoint":
            key = _key(report, "/v1/sessions/me/checkpoints")
            metadata = body.get("metadata") or {}
            if not isinstance(metadata, dict):
                raise UsageError("metadata must be an object")
            await reports.checkpoint(caller, str(body.get("message", "")), metadata, key, at)
        case "note":
            await reports.note(caller, str(body.get("text", "")), _key(report, "/v1/sessions/me/note"), at)
        case "complete":
            message = body.get("message")
            key = _key(report, "/v1/sessions/me/complete")
            status = str(body.get("status") or "completed")
            await reports.complete(caller, None if message is None else str(message), status, key, at)
        case "confirm":
            await messages.confirm(caller, _numbers(body.get("message_ids")))
        case "hook":
            payload = body.get("payload")
            if not isinstance(payload, dict):
                raise UsageError("payload must be an object")
            await observer.hook(report.session_id, payload, at)
        case _:
            log.warning(
                "refused a spooled report with an unknown action", extra={"sm_session": report.session_id}
            )


def _numbers(value: Any) -> list[int]:
    """The ids of messages. Raises UsageError."""
    if not isinstance(value, list) or not all(type(n) is int and 0 < n < _NUMBER_MAX for n in value):
        raise UsageError("message_ids must be a list of numbers")
    return value


def _key(report: Report, path: str) -> RequestKey:
    """The key of the same request over HTTP, which may have been carried out just before the daemon ended."""
    return RequestKey(report.key, fingerprint(path, report.body))


def _reports(directory: str) -> list[Report]:
    reports = []
    with os.scandir(directory) as sessions:
        for session in sessions:
            try:
                if session.is_dir(follow_symlinks=False):
                    reports += _of_session(session)
            except OSError as error:
                log.warning("could not read a spool: %s", error, extra={"sm_session": session.name})
    return reports


def _of_session(session: "os.DirEntry[str]") -> list[Report]:
    reports, left_bytes = [], SPOOL_MAX_BYTES
    with os.scandir(session.path) as files:
        for file in sorted(files, key=lambda f: f.name):
            if _HALF.fullmatch(file.name):  # its writer was killed, or still writes
                with suppress(FileNotFoundError):
                    if file.stat(follow_symlinks=False).st_mtime < time.time() - _HALF_FOR_S:
                        _remove(file.path, session.name)
            if not _NAME.fullmatch(file.name) or file.is_dir(follow_symlinks=False):
                continue
            try:
                text = read_or_empty(file.path, left_bytes)
                left_bytes -= len(text)
                value = {**orjson.loads(text), "path": file.path, "session_id": session.name}
                reports.append(Report.model_validate(value))
            except (ValueError, TypeError, OverflowError):
                log.warning(
                    "removed a spooled report that could not be read", extra={"sm_session": session.name}
                )
                _remove(file.path, session.name)
    return reports


def _remove(path: str, session_id: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # the session has delivered the report itself
    except OSError as error:
        log.warning("could not remove a spooled report: %s", error, extra={"sm_session": session_id})
