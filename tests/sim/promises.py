"""The promises of the daemon to its users (section 1 of the design), checked on its rows and on the played world."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

import orjson

from sm.providers.claude.plan import ClaudeProvider
from tests.sim.endings import wrong_endings
from tests.sim.sums import wrong_sums
from tests.sim.told import Told
from tests.sim.wire import Caller, target
from tests.sim.world import World

_INTERRUPTING = ("Escape", *ClaudeProvider.stop_background_keys)
LIVE = ("spawned", "starting", "running", "idle", "waiting_input")


async def broken(world: World, told: Told) -> list[str]:
    """Name each promise that does not hold at a settled point. Each text begins with the number of the promise."""
    shown = await _listed(world.operator)
    report = await world.operator.get("/v1/usage/report")
    with closing(sqlite3.connect(world.paths.database)) as db:
        return [
            *_acts(db, told),
            *_agents(world, db),
            *_shown(db, shown),
            *_notices(db),
            *wrong_endings(db, told),
            *_messages(db, told.heard),
            *_numbers(db),
            *wrong_sums(db, told, report),
            *(f"5: carried out beyond authority: {order}" for order in told.overstepped),
            *_typed(db, told),
            *(f"2: {what}" for what in told.waited),
        ]


async def _listed(operator: Caller) -> list[dict[str, object]]:
    """Every session that lists have, read by page."""
    found, before = list[dict[str, object]](), None
    while True:
        query = {"all": 1} if before is None else {"all": 1, "before": before}
        page = await operator.answer("GET", target("/v1/sessions", query))
        found += orjson.loads(page.body)
        before = page.headers.get("sm-next")
        if before is None:
            return found


def _acts(db: sqlite3.Connection, told: Told) -> list[str]:
    """Each confirmed act was carried out once, also when its request was repeated after a crash."""
    sessions = Counter(row[0] for row in db.execute("SELECT id FROM sessions"))
    texts = Counter(row[0] for row in db.execute("SELECT text FROM messages WHERE text LIKE 'tag%'"))
    found = []
    if (more := sessions - Counter(told.spawned)).total() > told.refused_spawns:
        found.append(f"4: sessions without a confirmed spawn: {sorted(more)}")
    if less := Counter(told.spawned) - sessions:
        found.append(f"4: spawned sessions are lost: {sorted(less)}")
    if more := texts - Counter([*told.sent, *told.refused_sends, *told.phoned]):
        found.append(f"1: messages without a confirmed send: {sorted(more)}")
    removed = {text for text in told.sent if text.rpartition(" ")[2] in told.removed}
    if less := Counter(text for text in told.sent if text not in removed) - texts:
        found.append(f"1: sent messages are lost: {sorted(less)}")
    return found


def _agents(world: World, db: sqlite3.Connection) -> list[str]:
    """No agent is lost or doubled: each live session has one process, and each process a live session."""
    rows = db.execute("SELECT id, status, pid FROM sessions WHERE removed = 0").fetchall()
    by_session: dict[str, list[int]] = {}
    for process in world.kernel.processes.values():
        if process.exit is None and process.argv[0] in ("agent", "/usr/bin/stand-in"):
            by_session.setdefault(process.environ["SM_SESSION_ID"], []).append(process.pid)
    found = []
    for session_id, status, pid in rows:
        own = by_session.pop(session_id, [])
        if len(own) > 1:
            found.append(f"4: session {session_id} has {len(own)} agents: {own}")
        if status in LIVE and status not in ("spawned", "starting") and pid not in own:
            found.append(f"2: session {session_id} is {status}, and its process {pid} is gone")
        if status == "killed" and own:
            found.append(f"4: session {session_id} is {status}, and its agent runs: {own}")
    found += [f"4: agents without a session: {session_id}" for session_id in by_session]
    return found


def _shown(db: sqlite3.Connection, shown: Iterable[Mapping[str, object]]) -> list[str]:
    """Compare the answers of the daemon with its rows."""
    rows = dict(db.execute("SELECT id, status FROM sessions WHERE removed = 0 AND archived = 0"))
    answered = {str(s["session_id"]): s["status"] for s in shown if not s["archived"]}
    return [
        f"2: session {session_id} is {rows.get(session_id)} and is shown as {answered.get(session_id)}"
        for session_id in sorted({*rows, *answered})
        if rows.get(session_id) != answered.get(session_id)
    ]


def _notices(db: sqlite3.Connection) -> list[str]:
    """Each ending is told once: one notice for each event of an end."""
    ended = Counter(
        row[0]
        for row in db.execute(
            "SELECT session_id FROM events WHERE type IN ('completed', 'error', 'killed', 'abandoned')"
        )
    )
    told = Counter(row[0] for row in db.execute("SELECT session_id FROM notices WHERE kind = 'ending'"))
    removed = {row[0] for row in db.execute("SELECT id FROM sessions WHERE removed = 1")}
    return [
        f"3: session {session_id} ended {ended[session_id]} times and was told {told[session_id]} times"
        for session_id in sorted({*ended, *told} - removed)
        if ended[session_id] != told[session_id]
    ]


def _messages(db: sqlite3.Connection, heard: Mapping[str, Sequence[str]]) -> list[str]:
    """Each message arrives once, only at its recipient, or its sender can read why not."""
    found = []
    got = {session_id: Counter(texts) for session_id, texts in heard.items()}
    rows = db.execute(
        "SELECT id, session_id, state, text, evidence, reason FROM messages WHERE sender != 'sm'"
    )
    for message_id, session_id, state, text, evidence, reason in rows.fetchall():
        if session_id is None or not text.startswith("tag"):
            continue
        times = {s: counts[text] for s, counts in got.items() if counts[text]}
        elsewhere = {s: n for s, n in times.items() if s != session_id}
        if elsewhere:
            found.append(f"7: message {message_id} to {session_id} arrived at {elsewhere}")
        own = times.get(session_id, 0)
        if own > 1:
            found.append(f"1: message {message_id} arrived {own} times")
        if state in ("submitted", "acknowledged") and own != 1:
            found.append(f"1: message {message_id} is {state} and arrived {own} times")
        if state in ("failed", "expired"):
            if own:
                found.append(f"1: message {message_id} is {state} and arrived")
            if not (reason or evidence):
                found.append(f"1: message {message_id} is {state} without a reason")
    return found


def _typed(db: sqlite3.Connection, told: Told) -> list[str]:
    """Nothing is typed into a dialog. The keys of an interrupt or a pause may come after one has opened."""
    interrupted = {row[0] for row in db.execute("SELECT session_id FROM outbox WHERE kind = 'interrupt'")}
    return [
        f"7: {text[:60]!r} {where} {session_id}"
        for session_id, text, where in told.journal.wrongly_typed
        if text not in _INTERRUPTING or session_id not in interrupted
    ]


def _numbers(db: sqlite3.Connection) -> list[str]:
    """The numbers of events have no gap, and every row of JSON can be read."""
    numbers = [row[0] for row in db.execute("SELECT seq FROM events ORDER BY seq")]
    gaps = [n for n, seq in enumerate(numbers, 1) if n != seq][:3]
    found = [f"4: the numbers of events have gaps, at {gaps}"] if gaps else []
    for (text,) in db.execute("SELECT metadata FROM events"):
        json.loads(text)
    return found
