"""Replays reports that sessions spooled while no daemon ran, in order of emission (docs/protocol.md, The spool).

Sessions on this host write to the spool of the instance, sandboxed ones to the home directory of their container. Both
can write anything there: no link is followed, and the number and size of files are bounded.
"""

import asyncio
import hmac
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, BaseModel, Field, StrictStr

from sm.api.body import fingerprint
from sm.core.dataclass import dataclass
from sm.core.models import Caller, RequestKey, Session, digest
from sm.core.states import CallerKind, TrustLevel
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.errors import RateLimited, SmError, StorageFull, UsageError
from sm.linux.files import Content, directory_below, read_file
from sm.messaging import Inbox
from sm.monitor import Observer
from sm.paths import InstancePaths, SandboxPaths
from sm.sessions.reports import Reports
from sm.store import Store
from sm.store.history import Chosen, among, texts
from sm.wire import SPOOL_MAX_BYTES

log = logging.getLogger(__name__)

_NAME = re.compile(r"\d{1,20}-[0-9a-f]{1,32}\.json")
_HALF = re.compile(rf"\.{_NAME.pattern}")
"""The temporary name of a report while its session writes it."""
_HALF_FOR_S = 60.0
_NUMBER_MAX = 2**53
_ENTRIES_MAX = 10_000
"""Entries of one directory that are read at a time. More files than this exceed `SPOOL_MAX_BYTES`."""
_SESSION_ID = re.compile(r"[0-9a-f]{8}")
_OLD_MAX = 20
"""Sessions of one container that are not in memory whose reports are read at a time: their agents choose the files."""


def _time(text: str) -> str:
    """Normalize the time of a report, and cap it at now. Raises ValueError."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return iso(min(at.timestamp(), time.time()))


@dataclass(frozen=True, slots=True)
class Spool:
    """The directory of one session's reports: `parts` below `base`. The session can write below `base`."""

    session_id: str
    base: str
    parts: tuple[str, ...]

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of the directory. Raises OSError."""
        with directory_below(self.base, self.parts) as directory:
            yield directory


class Report(BaseModel):
    """A spooled request: the file `name` that a session wrote into its directory."""

    spool: Spool
    name: str
    written_at: float
    """The time of the file's last change, in seconds of Unix time; by the kernel, so the session cannot choose it."""
    key: StrictStr
    token: StrictStr = Field(repr=False)
    emitted_at: Annotated[str, AfterValidator(_time)]
    action: str
    body: dict[str, Any] = Field(repr=False)

    @property
    def session_id(self) -> str:
        return self.spool.session_id


async def replay(
    paths: InstancePaths, store: Store, reports: Reports, inbox: Inbox, observer: Observer
) -> None:
    """Carry out and remove every spooled report, and log those that are refused or fail.

    Sessions can write anything into the spool, so no report may stop the daemon.
    """
    reported = _reports(_host_spools(paths.spool))
    if contained := await _container_spools(paths, store):
        reported += await asyncio.to_thread(_reports, contained)
    for report in sorted(reported, key=lambda r: (r.emitted_at, r.name)):
        session = store.sessions.get(report.session_id)
        known = session.token_hash if session else None
        if known is None or not hmac.compare_digest(known, digest(report.token)):
            log.warning(
                "refused a spooled report without the session's token",
                extra={"sm_session": report.session_id},
            )
        elif session is not None and _is_after_kill(report, session):
            log.warning(
                "refused a spooled report that is newer than the kill of its session",
                extra={"sm_session": report.session_id},
            )
        else:
            try:
                await _carry_out(report, reports, inbox, observer)
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
        _remove(report.spool, report.name)


def _is_after_kill(report: Report, session: Session) -> bool:
    """True if a process of a killed session wrote the report after the kill: its token is no longer valid."""
    if session.status is not Status.KILLED or session.exit is None or session.completed_at is None:
        return False
    return report.written_at > datetime.fromisoformat(session.completed_at).timestamp()


async def _carry_out(report: Report, reports: Reports, inbox: Inbox, observer: Observer) -> None:
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
            await inbox.confirm(caller, _numbers(body.get("message_ids")))
        case "hook":
            payload = body.get("payload")
            if not isinstance(payload, dict):
                raise UsageError("payload must be an object")
            await observer.hook(report.session_id, payload, at)
            if body.get("awaits_tools") is True:
                await observer.first_turns.begin_unheld(report.session_id, at)
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


def _host_spools(directory: str) -> list[Spool]:
    with os.scandir(directory) as entries:
        return [Spool(entry.name, directory, (entry.name,)) for entry in islice(entries, _ENTRIES_MAX)]


async def _container_spools(paths: InstancePaths, store: Store) -> list[Spool]:
    """The spools of the sandboxed sessions, by their ids: other directories in a container are not read."""
    kept: dict[str | None, set[str]] = {slug: set() for slug in (None, *store.workspaces)}
    for session in store.sessions.values():
        if session.effective_mode is TrustLevel.SANDBOXED:
            kept.setdefault(session.workspace, set()).add(session.id)
    # In a thread: agents can make their directories slow.
    written = await asyncio.to_thread(_written, {slug: paths.sandbox(slug) for slug in kept}, kept)
    found = list[Spool]()
    for slug, spools in written.items():
        others = [spool.session_id for spool in spools if spool.session_id not in kept[slug]]
        sandboxed = Chosen("effective_mode = ? AND workspace IS ?", (TrustLevel.SANDBOXED, slug))
        old = await store.history.ids(sandboxed.also(among("id"), texts(others))) if others else []
        read = kept[slug].union(old[:_OLD_MAX])
        found += [spool for spool in spools if spool.session_id in read]
    return found


def _written(
    places: Mapping[str | None, SandboxPaths], kept: Mapping[str | None, Set[str]]
) -> dict[str | None, list[Spool]]:
    """The directories with names of sessions in each container: those of `kept` sessions, and others with files."""
    found = dict[str | None, list[Spool]]()
    for slug, place in places.items():
        parts = place.spool.removeprefix(place.home + "/").split("/")
        try:
            with directory_below(place.home, parts) as directory, os.scandir(directory) as entries:
                names = [e.name for e in islice(entries, _ENTRIES_MAX) if _SESSION_ID.fullmatch(e.name)]
        except (FileNotFoundError, NotADirectoryError):
            continue  # no reports
        except OSError as error:
            log.warning("could not read the spools in %s: %s", place.home, error)
            continue
        spools = [Spool(name, place.home, (*parts, name)) for name in names]
        found[slug] = [spool for spool in spools if spool.session_id in kept[slug] or _has_files(spool)]
    return found


def _has_files(spool: Spool) -> bool:
    with suppress(OSError), spool.opened() as directory, os.scandir(directory) as entries:
        return any(True for _ in entries)
    return False


def _reports(spools: list[Spool]) -> list[Report]:
    """Blocks."""
    reports: list[Report] = []
    for spool in spools:
        try:
            with spool.opened() as directory:
                reports += _of_session(spool, directory)
        except (FileNotFoundError, NotADirectoryError):
            continue  # no reports, or a file
        except OSError as error:
            log.warning("could not read a spool: %s", error, extra={"sm_session": spool.session_id})
    return reports


def _of_session(spool: Spool, directory: int) -> Iterator[Report]:
    left_bytes = SPOOL_MAX_BYTES
    with os.scandir(directory) as files:
        entries = sorted(islice(files, _ENTRIES_MAX), key=lambda f: f.name)
    for file in entries:
        if _HALF.fullmatch(file.name):  # its writer was killed, or still writes
            with suppress(FileNotFoundError):
                status = os.stat(file.name, dir_fd=directory, follow_symlinks=False)
                if status.st_mtime < time.time() - _HALF_FOR_S:
                    _remove(spool, file.name)
        if not _NAME.fullmatch(file.name) or file.is_dir(follow_symlinks=False):
            continue
        try:
            content = _content(file.name, left_bytes, directory)
            text, written_at = (content.data, content.status.st_ctime) if content else (b"", 0.0)
            left_bytes -= len(text)
            known = {"spool": spool, "name": file.name, "written_at": written_at}
            yield Report.model_validate({**orjson.loads(text), **known})
        except (ValueError, TypeError, OverflowError):
            log.warning(
                "removed a spooled report that could not be read", extra={"sm_session": spool.session_id}
            )
            _remove(spool, file.name)


def _content(name: str, limit_bytes: int, directory: int) -> Content | None:
    """The beginning of a regular file; None when it cannot be read."""
    try:
        return read_file(name, limit_bytes, directory=directory)
    except OSError:
        return None


def _remove(spool: Spool, name: str) -> None:
    try:
        with spool.opened() as directory:
            os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass  # the session has delivered the report itself
    except OSError as error:
        log.warning("could not remove a spooled report: %s", error, extra={"sm_session": spool.session_id})
