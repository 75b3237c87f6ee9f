"""Replay of spooled reports."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sm.core.models import Caller, Exit, RequestKey, Session, Workspace, digest
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.daemon.spool import replay
from sm.errors import RateLimited
from sm.messaging import Inbox
from sm.monitor import Observer
from sm.paths import InstancePaths
from sm.sessions.reports import Reports
from sm.store import Store
from tests.samples import AT, LAUNCH, session

TOKEN = "s3cret"
SESSION = replace(session("aaaa1111"), token_hash=digest(TOKEN))


class LimitedReports:
    """Reports of a session that may report one note now, and its completion at any time."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def note(self, caller: Caller, text: str, key: RequestKey | None, at: str | None) -> None:
        if self.done:
            raise RateLimited("too many notes", retry_after_s=9)
        self.done.append(text)

    async def complete(self, caller: Caller, message: str | None, *rest: object) -> None:
        self.done.append(str(message))


@pytest.fixture
def paths(tmp_path: Path) -> InstancePaths:
    paths = InstancePaths(str(tmp_path / "config.yaml"), str(tmp_path))
    Path(paths.spool).mkdir()
    return paths


def spool(
    directory: str, number: int, action: str, body: Mapping[str, Any], *, of: Session = SESSION
) -> Path:
    path = Path(directory) / of.id / f"{number:020}-ab.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    report = {"key": f"k{number}", "token": TOKEN, "emitted_at": AT, "action": action, "body": body}
    path.write_text(json.dumps(report))
    return path


async def replayed(paths: InstancePaths, *sessions: Session) -> list[str]:
    """The reports that a replay carries out, for these sessions in an empty database."""
    reports = LimitedReports()
    Path(paths.database).unlink(missing_ok=True)
    async with await Store.open(paths.database) as store:
        async with store.transaction() as tx:
            for slug in {s.workspace for s in sessions} - {None}:
                tx.put_workspace(Workspace(str(slug), "/work", AT))
            for session_ in sessions:
                await tx.insert(session_, LAUNCH, None)
        store.memory.forget_old()
        await replay(paths, store, cast(Reports, reports), cast(Inbox, None), cast(Observer, None))
    return reports.done


async def test_replay_keeps_reports_over_the_rate_limit_for_later(paths: InstancePaths) -> None:
    notes = [spool(paths.spool, n, "note", {"text": f"note {n}"}) for n in range(3)]
    end = spool(paths.spool, 3, "complete", {"message": "done"})
    assert await replayed(paths, SESSION) == ["note 0", "done"]
    assert [path.exists() for path in (*notes, end)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("status", "completed_at", "is_carried_out"),
    [
        (Status.KILLED, "2001-01-01T00:00:00.000Z", False),
        (Status.KILLED, "2999-01-01T00:00:00.000Z", True),
        (Status.ERROR, "2001-01-01T00:00:00.000Z", True),
    ],
)
async def test_replay_refuses_report_that_was_written_after_the_kill_of_its_session(
    paths: InstancePaths, status: Status, completed_at: str, is_carried_out: bool
) -> None:
    """The emission time in the report, which the session chooses, does not matter."""
    ended = replace(SESSION, status=status, completed_at=completed_at, exit=Exit(signal=9))
    path = spool(paths.spool, 1, "note", {"text": "late"})
    assert await replayed(paths, ended) == (["late"] if is_carried_out else [])
    assert not path.exists()


# Containers

BOXED = replace(SESSION, effective_mode=TrustLevel.SANDBOXED)
"""A sandboxed session without a workspace, and one of a workspace."""
SHOP = replace(BOXED, id="bbbb2222", workspace="shop")
BOXED_OLD = replace(BOXED, status=Status.COMPLETED, exit=Exit(0), completed_at=AT, seen_at=AT)
"""Ended so long ago that it is not in memory."""


async def test_replay_carries_out_reports_in_the_home_directory_of_a_container(paths: InstancePaths) -> None:
    for session_ in (BOXED, SHOP):
        path = spool(paths.sandbox(session_.workspace).spool, 1, "note", {"text": session_.id}, of=session_)
        assert await replayed(paths, session_) == [session_.id]
        assert not path.exists()


async def test_replay_carries_out_report_in_a_container_of_a_session_that_left_memory(
    paths: InstancePaths,
) -> None:
    for boxed in (BOXED, SHOP):
        old = replace(BOXED_OLD, id=boxed.id, workspace=boxed.workspace)
        path = spool(paths.sandbox(old.workspace).spool, 1, "note", {"text": old.id}, of=old)
        assert await replayed(paths, old) == [old.id]
        assert not path.exists()


async def test_replay_reads_twenty_of_the_sessions_in_a_container_that_left_memory(
    paths: InstancePaths,
) -> None:
    place = paths.sandbox(None).spool
    old = [replace(BOXED_OLD, id=f"dddd{n:04}", name=f"engineer-{n}") for n in range(25)]
    files = [spool(place, n, "complete", {"message": s.id}, of=s) for n, s in enumerate(old)]
    for n in range(30):
        spool(place, n, "complete", {"message": "of nobody"}, of=replace(BOXED_OLD, id=f"cccc{n:04}"))
    first = await replayed(paths, *old)
    assert len(first) == 20
    assert {*first, *await replayed(paths, *old)} == {s.id for s in old}
    assert not any(path.exists() for path in files)


@pytest.mark.parametrize(
    "caller",
    [
        SESSION,
        replace(BOXED, workspace="bank"),
        replace(BOXED, id="cccc3333"),
        replace(BOXED, token_hash=None),
    ],
    ids=["direct", "other workspace", "other session", "other token"],
)
async def test_replay_refuses_report_in_a_container_of_which_the_session_is_not(
    paths: InstancePaths, caller: Session
) -> None:
    spool(paths.sandbox(None).spool, 1, "note", {"text": "x"})
    assert await replayed(paths, caller) == []


async def test_replay_follows_no_link_out_of_a_container(paths: InstancePaths, tmp_path: Path) -> None:
    own = spool(str(tmp_path / "elsewhere"), 1, "note", {"text": "x"})
    home = Path(paths.sandbox(None).home)
    home.mkdir(parents=True)
    (home / ".local").symlink_to(tmp_path)
    assert await replayed(paths, BOXED) == []
    (home / ".local").unlink()
    place = Path(paths.sandbox(None).spool)
    place.mkdir(parents=True)
    (place / BOXED.id).symlink_to(own.parent)
    assert await replayed(paths, BOXED) == []
    (place / BOXED.id).unlink()
    (place / BOXED.id).mkdir()
    link = place / BOXED.id / own.name
    link.symlink_to(own)
    assert await replayed(paths, BOXED) == []
    assert own.exists()
    assert not link.is_symlink()


async def test_replay_removes_pipes_and_bounds_large_files_of_a_container(paths: InstancePaths) -> None:
    place = Path(paths.sandbox(None).spool) / BOXED.id
    spool(str(place.parent), 0, "note", {"text": "the first one"})
    os.mkfifo(place / "1-ab.json")
    with (place / "2-ab.json").open("wb") as file:
        file.truncate(2 << 30)
    (place / "3-ab.json").mkdir()
    assert await replayed(paths, BOXED) == ["the first one"]
    assert os.listdir(place) == ["3-ab.json"]
