"""Measures the size of the database on disk: 100 events for each session, and what else a session of claude leaves."""

import asyncio
import glob
import os
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing

from bench.instance import ended_session
from bench.row import Effort, Row
from sm.core.effects import EffectKind
from sm.core.messages import SM_ITSELF, TERMINAL, Message, Notice
from sm.core.models import Caller, Launch, RequestKey, Session
from sm.core.states import CallerKind, EventType, MessageMode, MessageState, NoticeKind
from sm.core.usage import FilePosition, ToolUse, Usage
from sm.store import Store, Transaction

_MB = 1_000_000
_EVENTS = 100
"""For each session, as the number of the other rows: a working day of an agent."""
_MESSAGES = 10
_NOTICES = 20
_REQUESTS = 30
_EFFECTS = 15
_MODEL_CALLS = 150
_BACKUPS = 7
_SYLLABLES = (
    "ba",
    "co",
    "del",
    "fi",
    "gan",
    "hu",
    "jor",
    "ki",
    "lem",
    "mo",
    "nar",
    "pe",
    "qui",
    "ros",
    "su",
    "tel",
)
_random = random.Random(1)


def _words(count: int) -> str:
    """Words that compress about as well as English text."""
    return " ".join("".join(_random.choices(_SYLLABLES, k=_random.choice((1, 2, 3)))) for _ in range(count))


def _launch() -> Launch:
    environment = {f"VARIABLE_{number}": _words(8) for number in range(40)}
    inherited = dict(list(environment.items())[:20])
    return Launch(("claude", "--model", "sonnet"), "/home/user/projects/shop", environment, inherited)


def measure(effort: Effort) -> Iterator[Row]:
    count = effort.stored
    with tempfile.TemporaryDirectory(prefix="sm-bench-") as home:
        path = f"{home}/sm.db"
        asyncio.run(_fill(path, count))
        what = f"{count} sessions and {count * _EVENTS} events"
        yield Row(f"database of {what}", "MB", os.path.getsize(path) / _MB)
        with closing(sqlite3.connect(path)) as db:
            tables = db.execute(
                "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) GROUP BY 1 ORDER BY 2 DESC"
            ).fetchall()
        for table, size in tables:
            yield Row(f"  table {table}", "MB", size / _MB)
        backups = [os.path.getsize(file) for file in glob.glob(f"{path}.*.backup*")]
        yield Row(f"{len(backups)} daily backups of it", "MB", sum(backups) / _MB)


async def _fill(path: str, count: int) -> None:
    async with await Store.open(path) as store:
        for number in range(count):
            async with store.transaction() as tx:
                session = ended_session(number, "/home/user/projects/shop")
                await tx.insert(session, _launch(), _words(80))
                await _report(tx, session)
                await _correspond(tx, session)
                _count_tokens(tx, session)
            for _ in range(_REQUESTS):
                caller = Caller(CallerKind.SESSION, session.id)
                key = RequestKey(f"{_random.getrandbits(128):032x}", f"{_random.getrandbits(256):064x}")
                async with store.transaction(caller, key) as tx:
                    tx.remember(session.id)
        for day in range(_BACKUPS):
            await store.backup(f"2026-01-{day + 1:02}", _BACKUPS)


async def _report(tx: Transaction, session: Session) -> None:
    for number in range(_EVENTS):
        metadata = {"source": "hook", "reason": "the agent ended its turn", "number": str(number)}
        line = f"{session.friendly_name} reached milestone {number}: {_words(8)}"
        await tx.event(EventType.CHECKPOINT, session, tx.now, line, metadata)
    for _ in range(_EFFECTS):
        await tx.effect(EffectKind.INTERRUPT, session.id, {"by": "operator"}, tx.now)
        await tx.finish(tx.effects[-1])


async def _correspond(tx: Transaction, session: Session) -> None:
    for number in range(_MESSAGES):
        message = Message(
            id=tx.mail.new_id("messages"),
            session_id=session.id,
            sender=SM_ITSELF,
            mode=MessageMode.AUTO,
            state=MessageState.ACKNOWLEDGED,
            created_at=tx.now,
            state_at=tx.now,
            via=TERMINAL,
            evidence="UserPromptSubmit hook",
        )
        tx.mail.add_message(message, _words(120))
        for part in range(_NOTICES // _MESSAGES):
            notice = Notice(
                tx.mail.new_id("notices"),
                session.id,
                None,
                NoticeKind.IDLE,
                f"idle:{number}.{part}",
                _words(50),
                tx.now,
            )
            await tx.mail.add_notice(notice)
            tx.mail.finish_notices([notice], "sent", message.id)


def _count_tokens(tx: Transaction, session: Session) -> None:
    transcript = f"/home/user/.claude/projects/-home-user-projects-shop/{session.id}.jsonl"
    tx.measures.set_position(session.id, transcript, FilePosition(4711, 1_000_000))
    calls = range(_MODEL_CALLS)
    tx.usage.add(
        session.id,
        [
            Usage(f"msg_{_random.getrandbits(96):024x}", "claude-sonnet-4-6", tx.now, 9, 500, 90_000, 2_000)
            for n in calls
        ],
    )
    tx.measures.tools(
        session.id, [ToolUse(f"toolu_{_random.getrandbits(96):024x}", "Bash", tx.now) for n in calls]
    )
    tx.measures.facts(
        session.id, {"model": "claude-sonnet-4-6", "todo": [{"content": _words(10)} for _ in range(5)]}
    )
