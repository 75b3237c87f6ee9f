"""One life of the daemon in the simulated night: its real parts with a clock that only the script moves.

The world outlives the daemon: the time and the position in the script are in shared memory. An entry is performed again
after a crash unless the daemon has answered it, as a hook or a command repeats a request that got no answer.
"""

import asyncio
import json
import mmap
import os
import signal
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from sm.api.sockets import SOCKET_LIMITS
from sm.capabilities.accounts import tables as accounts
from sm.capabilities.accounts.model import Account, AccountTimer
from sm.capabilities.accounts.settings import QuotaSection
from sm.capabilities.accounts.state import record_success
from sm.capabilities.budgets.model import Budget, BudgetTimer, parse_amounts
from sm.capabilities.budgets.tables import PART
from sm.capabilities.completion.model import CompletionTimer
from sm.capabilities.digest import operations
from sm.capabilities.digest.digests import DigestTimer
from sm.capabilities.digest.screen import digest_lines
from sm.capabilities.pauses.rules import PauseTimer
from sm.capabilities.warnings.model import WarningTimer
from sm.config import Config
from sm.config.loading import LoadedConfig
from sm.core.effects import Effect, EffectKind
from sm.core.faults import Fault, FaultKind
from sm.core.lifecycle import is_live
from sm.core.models import OPERATOR, Caller, Exit, Launch, Process, RequestKey, Session, Signal
from sm.core.next_process import Restarts
from sm.core.observation import Source
from sm.core.requests import Request
from sm.core.states import CallerKind, EventType, RequestKind, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.timers import TimerKind
from sm.core.timestamps import iso, later
from sm.core.usage import Usage
from sm.daemon.effect_record import EffectRecord
from sm.daemon.foundation import HostParts
from sm.daemon.front_doors import DaemonLife
from sm.daemon.wiring import DaemonParts
from sm.errors import NoServer
from sm.kernel import OperationCall
from sm.paths import InstancePaths
from sm.requests.answers import RequestReply
from sm.state.request_steps import open_of
from sm.state.session_steps import move
from sm.store import Store
from sm.terminals.base import Terminals
from tests.night.script import (
    ACCOUNT,
    BEGIN_S,
    BUDGETS,
    CRASHERS,
    LIMIT,
    LIMITED,
    NIGHT_S,
    PARENTS,
    RESETS_S,
    Act,
    Entry,
)
from tests.samples import LAUNCH, session

_STEP_S = 30.0
_KINDS: list[str] = [
    *Act, *TimerKind, *AccountTimer, *BudgetTimer, *CompletionTimer, *DigestTimer, *PauseTimer, *WarningTimer,
]  # fmt: skip
DIGEST_AT = "06:30"


class World:
    """The state that a crash of the daemon does not change. Shared by the processes of all lives."""

    _LAYOUT = struct.Struct("dqqq")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._LAYOUT.size)
        self._put(BEGIN_S, 0, 0, 0)

    def _get(self) -> tuple[float, int, int, int]:
        return self._LAYOUT.unpack(self._memory[:])

    def _put(self, now_s: float, answered: int, ticks: int, cut_off: int) -> None:
        self._memory[:] = self._LAYOUT.pack(now_s, answered, ticks, cut_off)

    def now_s(self) -> float:
        return self._get()[0]

    def set_time(self, now_s: float) -> None:
        self._put(now_s, *self._get()[1:])

    @property
    def answered(self) -> int:
        """How many entries of the script the daemon has answered."""
        return self._get()[1]

    def answer(self) -> None:
        now_s, answered, ticks, cut_off = self._get()
        self._put(now_s, answered + 1, ticks, cut_off)

    @property
    def ticks(self) -> int:
        """The moments so far at which a life could have ended: every SQL statement, and every answer."""
        return self._get()[2]

    def tick(self) -> None:
        now_s, answered, ticks, cut_off = self._get()
        self._put(now_s, answered, ticks + 1, cut_off)

    def is_first_cut_off(self, kind: str) -> bool:
        """True once for each act and kind of timers: a crash cuts the daemon off behind its first commit."""
        now_s, answered, ticks, cut_off = self._get()
        bit = 1 << _KINDS.index(kind)
        self._put(now_s, answered, ticks, cut_off | bit)
        return not cut_off & bit

    def was_cut_off(self, kind: str) -> bool:
        return bool(self._get()[3] & 1 << _KINDS.index(kind))


class _NoTerminals:
    """Terminals without a server."""

    trouble = None

    def on_titles(self, _listener: object) -> None:
        """No terminal changes its title."""

    def on_activity(self, _listener: object) -> None:
        """No terminal prints anything."""

    def on_viewers(self, _listener: object) -> None:
        """Nobody is attached to a terminal."""

    async def snapshot(self) -> Mapping[str, object]:
        raise NoServer("no server running")


def config() -> Config:
    """All times are those of the defaults. A warning about work is as its real rules find it."""
    return Config.model_validate({"notify": {"digest_at": DIGEST_AT}, "quota": {"stagger_s": 30}})


class Life:
    """The daemon from a start to its end or its SIGKILL.

    `kill_at`: the tick at which it is killed, or None for never. `cut_off`: also kill it behind the first commit of
    each act, before its answer, and of each kind of timers.
    """

    def __init__(
        self, directory: Path, world: World, script: list[Entry], kill_at: int | None, *, cut_off: bool
    ) -> None:
        self._directory = directory
        self._world = world
        self._script = script
        self._kill_at = kill_at
        self._cut_off = cut_off
        self._due: set[str] = set()
        """The kinds of timers whose first commit is awaited, to kill the daemon behind it."""
        self._has_committed = False
        self._acts: dict[Act, Callable[[Session, RequestKey], Awaitable[None]]] = {
            Act.USE: self._use,
            Act.CRASH: self._crash,
            Act.ASK: self._ask,
            Act.ANSWER: self._answer,
            Act.APPROVE: self._approve,
            Act.REJECT: self._reject,
            Act.MEET_LIMIT: self._meet_limit,
            Act.SUCCEED: self._succeed,
            Act.COMPLETE: self._complete,
        }

    def _tick(self, statement: str = "") -> None:
        self._world.tick()
        self._die_behind_commit()
        self._has_committed = bool(self._due) and statement.startswith(("COMMIT", "RELEASE"))
        if self._kill_at is not None and self._world.ticks >= self._kill_at:
            _die()

    def _die_behind_commit(self) -> None:
        if self._has_committed:
            for kind in self._due:
                self._world.is_first_cut_off(kind)
            _die()

    async def run(self) -> None:
        """Live until the morning."""
        world, state = self._world, self._directory
        paths = InstancePaths(f"{state}/config.yaml", str(state))
        for directory in (paths.run, paths.log, paths.archives):
            os.makedirs(directory, exist_ok=True)
        async with await Store.open(
            paths.database, lambda: iso(world.now_s()), steady=world.now_s
        ) as self.store:
            await self.store._writer.set_trace_callback(self._tick)
            self.parts = DaemonParts(
                paths,
                LoadedConfig(config()),
                self.store,
                cast(Terminals, _NoTerminals()),
                DaemonLife(world.now_s(), asyncio.Event()),
                SOCKET_LIMITS,
                HostParts(wall=world.now_s, steady=world.now_s),
            )
            self.base, self.requests = self.parts.base, self.parts.messages.requests
            for begin in self.parts.kernel.at_start:
                await begin()
            digests = asyncio.create_task(self.parts.kernel.tasks["digest"]())
            planned = ("digest", DigestTimer.DAY)
            await self.store.wait_until(lambda: planned in self.store.mail.open.timers)
            await self._live()
            digests.cancel()
            await self._report()

    async def _live(self) -> None:
        world = self._world
        while True:
            pause_s = await self._settle()
            entry = self._script[world.answered] if world.answered < len(self._script) else None
            if entry is not None and entry.at_s <= world.now_s():
                await self._perform(entry)
                if self._cut_off and world.is_first_cut_off(entry.act):
                    _die()
                self._tick()
                world.answer()
                self._tick()
                continue
            steps = [world.now_s() + min(pause_s, _STEP_S), BEGIN_S + NIGHT_S]
            if entry is not None:
                steps.append(entry.at_s)
            if world.now_s() >= BEGIN_S + NIGHT_S:
                return
            world.set_time(max(min(steps), world.now_s() + 0.001))

    async def _settle(self) -> float:
        """Carry out the effects and the due timers, until nothing is due. Returns the seconds until a timer is."""
        while True:
            timers, effects = self.store.mail.open.timers, self.store.mail.open.effects
            for effect in sorted(effects.values(), key=lambda e: e.id):
                if effect.kind == EffectKind.START:
                    await self._start(effect)
                else:
                    await EffectRecord(self.store).mark_finished(effect)
            if self._cut_off:
                due = {t.kind for t in timers.values() if t.seconds_left(self._world.now_s()) <= 0}
                self._due = {kind for kind in due if not self._world.was_cut_off(kind)}
            pause_s = await self.parts.due_timers.run_due(timers)
            self._die_behind_commit()
            self._due = set()
            if self.store.mail.open.timers is timers and not self.store.mail.open.effects:
                return _STEP_S if pause_s is None else pause_s

    async def _start(self, effect: Effect) -> None:
        """Record the start of a process. A start that a crash cut off finds the same process again."""
        async with self.store.transaction() as tx:
            session = tx.session(effect.session_id)
            signal = Signal(SignalKind.STARTED, "process", "the process started", tx.now)
            process = Process(10_000_000 + session.runs, f"night/{session.id}")
            await move(tx, self.base.notices, session.id, signal, process=process, started_at=tx.now)
            await tx.finish(effect)

    # Acts

    async def _perform(self, entry: Entry) -> None:
        key = RequestKey(f"{entry.agent}/{entry.at_s}", entry.act)
        if entry.act is Act.SPAWN:
            await self._spawn(entry.agent)
        else:
            await self._acts[entry.act](self.store.sessions[entry.agent], key)

    async def _spawn(self, agent: str) -> None:
        async with self.store.transaction() as tx:
            if tx.find(agent) is not None:
                return
            new = replace(
                session(agent, parent=PARENTS.get(agent), status=Status.SPAWNED),
                working_dir=str(self._directory),
                trust_level=TrustLevel.DIRECT,
                created_at=tx.now,
                status_at=tx.now,
                token_hash=agent,
                account=ACCOUNT if agent in LIMITED else None,
                restarts=Restarts() if agent in CRASHERS else None,
            )
            launch = Launch(LAUNCH.argv, str(self._directory), LAUNCH.environment, LAUNCH.inherited)
            await tx.insert(new, launch, "a task")
            await tx.event(EventType.SPAWNED, new, tx.now, f"spawned {agent}", {})
            await tx.effect(EffectKind.START, agent, {}, tx.now)
            if agent in LIMITED:
                tx.part(accounts.PART).put(Account(ACCOUNT, "command", "/night", "0" * 32))
            if agent in BUDGETS:
                limits = parse_amounts(LIMIT)
                tx.part(PART).put(Budget(agent, limits, steps=limits, state_at=tx.now))

    async def _use(self, agent: Session, key: RequestKey) -> None:
        if agent.paused is not None or not is_live(agent.status):
            return
        used = [Usage(key.text, "model", iso(self._world.now_s()), input=60, output=40)]
        async with self.store.transaction() as tx:
            for follower in self.parts.kernel.usage.followers:
                await follower.follow_usage(tx, tx.session(agent.id), used, None)
            tx.usage.add(agent.id, used)

    async def _crash(self, agent: Session, _key: RequestKey) -> None:
        if agent.process is not None and agent.exit is None:
            await self.base.ends.process_ended(agent.id, agent.process, Exit(3))

    async def _ask(self, agent: Session, key: RequestKey) -> None:
        await self.requests.ask(_caller(agent), "Which colour?", ["red", "blue"], None, key)
        async with self.store.transaction() as tx:
            now = tx.session(agent.id)
            if now.status is Status.RUNNING:
                asked = Signal(SignalKind.ASKED, "hook", "asks a question", tx.now)
                await move(tx, self.base.notices, agent.id, asked)

    async def _answer(self, agent: Session, key: RequestKey) -> None:
        request = self._open(agent, RequestKind.QUESTION)
        if request is not None:
            await self.requests.answer(OPERATOR, request.name, RequestReply(True, ("1",)), key)
        signal = Signal(SignalKind.BUSY, "hook", "goes on", iso(self._world.now_s()))
        async with self.store.transaction() as tx:
            await move(tx, self.base.notices, agent.id, signal)

    async def _approve(self, agent: Session, key: RequestKey) -> None:
        await self._decide(agent, key, approved=True)

    async def _reject(self, agent: Session, key: RequestKey) -> None:
        await self._decide(agent, key, approved=False)

    async def _decide(self, agent: Session, key: RequestKey, *, approved: bool) -> None:
        request = self._open(agent, RequestKind.BUDGET)
        if request is not None:
            await self.requests.answer(OPERATOR, request.name, RequestReply(approved), key)

    def _open(self, agent: Session, kind: RequestKind) -> Request | None:
        return next(iter(open_of(self.store.mail.open.requests, agent.id, [kind])), None)

    async def _meet_limit(self, agent: Session, key: RequestKey) -> None:
        fault = Fault(FaultKind.QUOTA, "limit reached", "session limit", RESETS_S)
        async with self.store.transaction() as tx:
            at = self._world.now_s()
            await self.base.faults.record(tx, agent.id, fault, at, key.text, Source.HOOK)

    async def _succeed(self, agent: Session, _key: RequestKey) -> None:
        async with self.store.transaction() as tx:
            await record_success(
                tx,
                tx.session(agent.id),
                self._world.now_s(),
                config().with_keys(QuotaSection).quota.stagger_s,
            )

    async def _complete(self, agent: Session, key: RequestKey) -> None:
        if is_live(agent.status) or agent.completed_at == iso(self._world.now_s()):
            await self.parts.sessions.reports.complete(_caller(agent), "the task is done", "completed", key)

    # The morning

    async def _report(self) -> None:
        """Write what was told, what is stored, and the digest to `night.json`."""

        async def rows(sql: str) -> list[list[Any]]:
            found = await self.store._reader.execute_fetchall(sql)
            return [list(row) for row in found]

        digest = await self.parts.kernel.use_cases[operations.SHOW](
            OperationCall(OPERATOR, "", operations.DigestPeriod(later(iso(BEGIN_S), -1)), None)
        )
        plain = asdict(digest)
        found = {
            "notices": await rows(
                "SELECT session_id, recipient, kind, text FROM notices ORDER BY session_id, id"
            ),
            "events": await rows(
                "SELECT session_id, type, json_extract(metadata, '$.kind'), json_extract(metadata, '$.ended'),"
                " json_extract(metadata, '$.state'), message FROM events ORDER BY session_id, seq"
            ),
            "messages": await rows("SELECT session_id, sender, state FROM messages ORDER BY session_id, id"),
            "requests": await rows("SELECT session_id, kind, state FROM requests ORDER BY session_id, id"),
            "budgets": await rows("SELECT id, state, spent_tokens FROM budgets ORDER BY id"),
            "sessions": await rows("SELECT id, status, paused IS NOT NULL FROM sessions ORDER BY id"),
            "outbox": await rows("SELECT session_id, kind FROM outbox ORDER BY session_id, id"),
            "digest": digest_lines(plain, datetime.fromisoformat(digest.until), 40, 160),
            "named": sorted({e["session_id"] for name in ("ended", "live") for e in plain[name]}),
            "digest_budgets": sorted(
                [e["session_id"], e["budget"]] for e in plain["spending"] if e["budget"]
            ),
            "digest_requests": [[e["session_id"], e["status"]] for e in plain["requests"]],
            "digest_warnings": sorted([e["session_id"], e["status"]] for e in plain["warnings"]),
        }
        (self._directory / "night.json").write_text(json.dumps(found))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _caller(agent: Session) -> Caller:
    return Caller(CallerKind.SESSION, agent.id)
