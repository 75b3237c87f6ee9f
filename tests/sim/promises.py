"""The promises of the daemon to its users, checked on its rows and on the played world."""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from tests.sim.world import World

LIVE = ("spawned", "starting", "running", "idle", "waiting_input")


@dataclass(slots=True)
class Told:
    """The acts that the daemon has confirmed, and the texts that agents got."""

    spawned: list[str] = field(default_factory=list)
    """Session ids."""
    sent: list[str] = field(default_factory=list)
    """Texts of messages, each of which is unique."""
    heard: dict[str, list[str]] = field(default_factory=dict)
    """The texts that the agent of each session got."""
    overstepped: list[str] = field(default_factory=list)
    """Orders beyond the authority of their callers that were carried out."""


def broken(world: World, told: Told) -> list[str]:
    """Name each promise that does not hold at a settled point."""
    with closing(sqlite3.connect(world.paths.database)) as db:
        return [
            *_acts(db, told),
            *_agents(world, db),
            *_endings(db),
            *_messages(db, told.heard),
            *_numbers(db),
            *(f"5: carried out beyond authority: {order}" for order in told.overstepped),
        ]


def _acts(db: sqlite3.Connection, told: Told) -> list[str]:
    """Each confirmed act was carried out once, also when its request was repeated after a crash."""
    sessions = Counter(row[0] for row in db.execute("SELECT id FROM sessions"))
    texts = Counter(row[0] for row in db.execute("SELECT text FROM messages WHERE text LIKE 'tag%'"))
    found = [
        f"4: sessions without a confirmed spawn: {more}"
        for more in [sessions - Counter(told.spawned)]
        if more
    ]
    found += [f"4: spawned sessions are lost: {less}" for less in [Counter(told.spawned) - sessions] if less]
    found += [
        f"1: messages without a confirmed send: {more}" for more in [texts - Counter(told.sent)] if more
    ]
    found += [f"1: sent messages are lost: {less}" for less in [Counter(told.sent) - texts] if less]
    return found


def _agents(world: World, db: sqlite3.Connection) -> list[str]:
    """No agent is lost or doubled: each live session has one process, and each process a live session."""
    rows = db.execute(
        "SELECT id, status, pid, exit_code, exit_signal FROM sessions WHERE removed = 0"
    ).fetchall()
    processes = Counter[str]()
    by_session: dict[str, list[int]] = {}
    for process in world.kernel.processes.values():
        if process.exit is None and process.argv[:1] == ("agent",):
            session_id = process.environ["SM_SESSION_ID"]
            processes[session_id] += 1
            by_session.setdefault(session_id, []).append(process.pid)
    found = []
    for session_id, status, pid, *_ in rows:
        own = by_session.get(session_id, [])
        if len(own) > 1:
            found.append(f"4: session {session_id} has {len(own)} agents: {own}")
        if status in LIVE and status not in ("spawned", "starting") and pid not in own:
            found.append(f"2: session {session_id} is {status}, and its process {pid} is gone")
        if status in ("error", "killed", "abandoned") and own:
            found.append(f"4: session {session_id} is {status}, and its agent runs: {own}")
    return found


def _endings(db: sqlite3.Connection) -> list[str]:
    """Each ending is told once: one notice for each event of an end."""
    ended = Counter(
        row[0]
        for row in db.execute(
            "SELECT session_id FROM events WHERE type IN ('completed', 'error', 'killed', 'abandoned')"
        )
    )
    told = Counter(row[0] for row in db.execute("SELECT session_id FROM notices WHERE kind = 'ending'"))
    return [
        f"3: session {session_id} ended {ended[session_id]} times and was told {told[session_id]} times"
        for session_id in sorted({*ended, *told})
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


def _numbers(db: sqlite3.Connection) -> list[str]:
    """The numbers of events have no gap, and every row of JSON can be read."""
    numbers = [row[0] for row in db.execute("SELECT seq FROM events ORDER BY seq")]
    found = (
        []
        if numbers == list(range(1, len(numbers) + 1))
        else [f"4: the numbers of events have gaps: {numbers}"]
    )
    for (text,) in db.execute("SELECT metadata FROM events"):
        json.loads(text)
    return found
