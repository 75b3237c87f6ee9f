"""Replay of spooled reports."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from sm.core.models import Caller, RequestKey, Session, digest
from sm.daemon.spool import replay
from sm.errors import RateLimited
from sm.messaging import Messages
from sm.monitor import Observer
from sm.sessions.reports import Reports
from tests.samples import AT, session

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


def spool(directory: Path, number: int, action: str, body: Mapping[str, Any]) -> Path:
    path = directory / SESSION.id / f"{number:020}-ab.json"
    path.parent.mkdir(exist_ok=True)
    report = {"key": f"k{number}", "token": TOKEN, "emitted_at": AT, "action": action, "body": body}
    path.write_text(json.dumps(report))
    return path


async def test_replay_keeps_reports_over_the_rate_limit_for_later(tmp_path: Path) -> None:
    notes = [spool(tmp_path, n, "note", {"text": f"note {n}"}) for n in range(3)]
    end = spool(tmp_path, 3, "complete", {"message": "done"})
    reports, sessions = LimitedReports(), cast(Mapping[str, Session], {SESSION.id: SESSION})
    await replay(str(tmp_path), sessions, cast(Reports, reports), cast(Messages, None), cast(Observer, None))
    assert reports.done == ["note 0", "done"]
    assert [path.exists() for path in (*notes, end)] == [False, True, True, False]
