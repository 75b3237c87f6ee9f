"""Observes agents that have turns: their hooks, the state they publish, transcripts, titles, screens.

What a source says becomes an `Observation` (by the provider's reader), `evidence.Ledger` weighs them, and a verdict
that differs from the session's status becomes a signal. Files are followed with inotify and a slow sweep behind it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from sm.errors import SmError, StorageFull, TerminalError
from sm.evidence import Activity, Ledger, Observation, Source, Verdict
from sm.lifecycle import is_ended, is_live
from sm.listening import Listening, changes, content
from sm.manager import Manager
from sm.measuring import Measuring
from sm.models import Process, Session, Signal, SignalKind, Status
from sm.persisting import persist
from sm.providers.base import FIRST_TURN_S, Heard, HookNews, Reader, TranscriptNews
from sm.store import Store, Transaction
from sm.terminals.base import Terminals
from sm.views import iso

log = logging.getLogger(__name__)

_SWEEP_EVERY_S = 10.0
_STARTING_LOOKS_S = (1.0, 2.0, 4.0, 7.0, 11.0)
"""When to look at the screen of an agent that has not said that it is ready, in seconds after its start."""
_STARTING_EVERY_S = 15.0
_LOOK_AGAIN_S = 1.0
_FIRST_LOOK_S = 0.1
_LOOKS_AGAIN = 5
_DRAWN_WITHIN_S = 0.05
"""How long an agent may take to draw what it has begun to."""
_LAST_LOOK_WITHIN_S = 5.0
_HOOKS_WAITING_MAX = 32
_WAITS_FOR_HOOK_S = 5.0
"""How long an agent may wait for a hook that it has called."""

_SIGNALS = {
    Activity.BUSY: SignalKind.BUSY,
    Activity.BLOCKED: SignalKind.ASKED,
    Activity.IDLE: SignalKind.WENT_IDLE,
}
_STATUSES = {
    Activity.BUSY: Status.RUNNING,
    Activity.BLOCKED: Status.WAITING_INPUT,
    Activity.IDLE: Status.IDLE,
}


class News(Protocol):
    """Whoever is told of what agents say beside what they do. The same may be told more than once, and late."""

    async def heard(self, session_id: str, heard: Heard, source: Source) -> None:
        """The agent has taken a text as input, or keeps it for later."""

    async def tool_begins(self, session_id: str) -> None:
        """A tool is about to be used; the agent waits until this returns, and may open a dialog then."""

    async def tool_ended(self, session_id: str, tool_use: str, allowed: bool) -> None:
        """The use of a tool is over. `allowed`: False when a person has refused it."""

    async def turn_ends(self, session_id: str) -> None:
        """Its turn is about to end: as soon as this returns, with which the hook may wait for a moment."""

    async def turn_ended(self, session_id: str, at: float) -> None:
        """A turn was finished, at this time in seconds since the epoch."""


@dataclass
class _Observed:
    """One agent process under observation."""

    session_id: str
    reader: Reader
    ledger: Ledger
    started_s: float
    process: Process | None = None
    state_file: str | None = None
    tty: str | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """Of its process; None until `_prepare` has looked."""
    real_dir: str = ""
    """Its working directory without links: claude names the file after that."""
    expects_turn: bool = False
    ready: bool = False
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    state_due: bool = True
    state_changed_ns: int = 0
    """When the state file was written that was read last."""
    hooks_waiting: int = 0
    transcript_due: bool = True
    screen_due_s: float | None = None
    looks: int = 0
    unread: int = 0
    """How often in a row its screen showed nothing that is known."""
    activity: str | None = None
    hook_seen: bool = False
    tools_begun: dict[str, str] = field(default_factory=dict)
    """The id of the tool that each sub-agent is using, of the agent itself under an empty name: the last one begun."""

    def poke(self, *, state: bool = False, transcript: bool = False, screen_s: float | None = None) -> None:
        self.state_due |= state
        self.transcript_due |= transcript
        if screen_s is not None and (self.screen_due_s is None or screen_s < self.screen_due_s):
            self.screen_due_s = screen_s
        self.poked.set()

    def drawn(self, at: float) -> None:
        """It has begun to draw something, which is there at `at`."""
        self.unread = 0
        self.poke(screen_s=at)


class Observer:
    """Follows every agent of a provider that has a reader.

    `transcripts_every_s`: how often a transcript is looked at although nothing told of a change; a file of a
    sub-agent changes without a word. `off`: sources not to believe (for measurements).
    """

    def __init__(
        self,
        store: Store,
        manager: Manager,
        terminals: Terminals,
        measuring: Measuring,
        news: News,
        *,
        transcripts_every_s: float,
        off: Collection[Source] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._manager = manager
        self._terminals = terminals
        self._measuring = measuring
        self._news = news
        self._transcripts_every_s = transcripts_every_s
        self._off = frozenset(off)
        self._clock = clock
        self._observed: dict[str, _Observed] = {}
        self._listening = Listening()
        self._sweeping: asyncio.Task[None] | None = None
        terminals.on_titles(self._titles)

    # Who is observed

    def watch(self, session_id: str, process: Process, tty: str | None) -> None:
        """Its process runs, in this terminal: observe it until `forget`."""
        known = self._observed.get(session_id)
        if known is not None and known.process not in (None, process):  # a restored session's other process
            self.forget(session_id)
        observed = self._of(session_id)
        if observed is None:
            return
        observed.process = process
        observed.tty = tty
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep(), name="sweep state files")
        if observed.task is None:
            observed.task = asyncio.create_task(self._follow(observed), name=f"observe {session_id}")

    def forget(self, session_id: str) -> None:
        """Its process is gone."""
        observed = self._observed.pop(session_id, None)
        if observed is None:
            return
        self._listening.forget(session_id)
        self._measuring.forget(session_id)
        if observed.task is not None:
            observed.task.cancel()

    async def ended(self, session_id: str) -> None:
        """Its process is gone: count what it wrote last. To be called before anybody is told; `forget` follows."""
        observed = self._of(session_id)
        if observed is None:
            return
        try:
            async with asyncio.timeout(_LAST_LOOK_WITHIN_S), observed.lock:
                await self._prepare(observed)
                await self._read_transcript(observed)
        except Exception:
            log.exception("failed to read what it wrote last", extra={"sm_session": session_id})

    def _of(self, session_id: str) -> _Observed | None:
        found = self._observed.get(session_id)
        session = self._store.sessions.get(session_id)
        if found is not None or session is None:
            return found
        reader = self._manager.provider(session).reader
        if reader is None:
            return None
        found = _Observed(session_id, reader, Ledger(self._off), self._clock())
        found.ready = session.status not in (Status.SPAWNED, Status.STARTING)
        self._observed[session_id] = found
        return found

    def close(self) -> None:
        for session_id in tuple(self._observed):
            self.forget(session_id)
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._listening.close()

    # What others ask

    def now(self) -> float:
        return self._clock()

    def ledger(self, session_id: str) -> Ledger | None:
        found = self._observed.get(session_id)
        return None if found is None else found.ledger

    async def facts(self, session_id: str) -> list[str]:
        """What else is known, in words, for `sm why`."""
        found = self._observed.get(session_id)
        said = []
        if found is not None and found.ready and not found.hook_seen:
            said.append("no hook of this process was seen")
        ending = (await self._store.measures.facts(session_id)).get("ending")
        if ending is not None and found is None:
            said.append(f"it said itself that it ends (SessionEnd: {ending})")
        return said

    def activity(self, session_id: str) -> str | None:
        """What the agent does now, in one line."""
        found = self._observed.get(session_id)
        return None if found is None else found.activity

    def tool_begun(self, session_id: str, agent: str) -> str | None:
        """The id of the tool that this sub-agent of the session began last (empty: the agent itself)."""
        found = self._observed.get(session_id)
        return None if found is None else found.tools_begun.get(agent)

    async def blocked(self, session_id: str) -> str | None:
        """Why the agent waits for an answer: by what it publishes at this moment, else by the last verdict.

        None: it does not, as far as it is known.
        """
        observed = self._observed.get(session_id)
        if observed is None:
            return None
        file = None if Source.STATE_FILE in self._off else observed.state_file
        if file is not None and observed.process is not None:
            _, text = await asyncio.to_thread(content, file)
            found = None if text is None else observed.reader.state(text, observed.process)
            if found is not None:
                said, _ = found
                return said.reason if said.activity is Activity.BLOCKED else None
        verdict = observed.ledger.verdict(self._clock())
        if verdict is None or verdict.said.activity is not Activity.BLOCKED:
            return None
        return verdict.said.reason

    def is_stale(self, session_id: str) -> bool:
        found = self._observed.get(session_id)
        return found is not None and bool(found.ledger.entries) and found.ledger.is_stale(self._clock())

    # Hooks

    async def hook(self, session_id: str, payload: Mapping[str, Any], emitted_at: str) -> None:
        """An event of the session's own hooks; returns when what it means is on disk.

        Raises StorageFull when too many wait for that already: `sm hook` leaves them in the spool then.
        """
        session = self._store.sessions.get(session_id)
        observed = None if session is None or session.exit is not None else self._of(session_id)
        if observed is None:
            return
        at = min(datetime.fromisoformat(emitted_at).timestamp(), self._clock())
        if observed.hooks_waiting >= _HOOKS_WAITING_MAX:
            raise StorageFull("the daemon cannot write down what the agent does", "free some space")
        observed.hooks_waiting += 1
        try:
            await self._hook(observed, payload, at)
        finally:
            observed.hooks_waiting -= 1

    async def _hook(self, observed: _Observed, payload: Mapping[str, Any], at: float) -> None:
        async with observed.lock:
            if self._observed.get(observed.session_id) is not observed:  # its process has gone meanwhile
                return
            await self._prepare(observed)
            news = observed.reader.hook(payload, at, expects_turn=observed.expects_turn)
            await self._take(observed, news, at)
        observed.poke(state=True, transcript=True)
        await self._tell(observed, news, at)

    async def _tell(self, observed: _Observed, news: HookNews, at: float) -> None:
        session_id = observed.session_id
        who = "" if news.said is None else news.said.who
        if news.heard is not None:
            await self._news.heard(session_id, news.heard, Source.HOOK)
        if news.turn_finished:
            await self._news.turn_ended(session_id, at)
            if self._clock() - at < _WAITS_FOR_HOOK_S:
                await self._news.turn_ends(session_id)
        if news.tool_ended is not None:
            if observed.tools_begun.get(who) == news.tool_ended:
                del observed.tools_begun[who]
            await self._news.tool_ended(session_id, news.tool_ended, True)
        if news.tool_begins is not None:
            observed.tools_begun[who] = news.tool_begins
            if self._clock() - at < _WAITS_FOR_HOOK_S:  # else it comes out of the spool
                await self._news.tool_begins(session_id)

    async def _tell_of_lines(self, session_id: str, news: TranscriptNews) -> None:
        for heard in news.heard:
            await self._news.heard(session_id, heard, Source.TRANSCRIPT)
        for tool_use, allowed in news.tools_ended.items():
            await self._news.tool_ended(session_id, tool_use, allowed)
        if news.turn_finished is not None:
            await self._news.turn_ended(session_id, min(news.turn_finished, self._clock()))

    async def _take(self, observed: _Observed, news: HookNews, at: float) -> None:
        observed.hook_seen = True
        if observed.ledger.is_late(Source.HOOK, at, self._clock()) and news.ending is None:
            return  # it was overtaken: by now the conversation may be another
        if news.started:
            observed.ledger.forget(Source.TRANSCRIPT, Source.SCREEN)
        if news.ending is not None:
            await self._measuring.ends(observed.session_id, news.ending)
        if news.activity is not None:
            observed.activity = news.activity
        await self._learn(observed, news.conversation, news.transcript, news.model)
        taken = news.said is not None and self._add(observed, news.said)
        if news.ready:
            await self._ready(observed, "hook", f"{news.name}: it takes input")
        session = self._store.sessions.get(observed.session_id)
        if taken and news.said is not None and news.said.turn is not None:
            observed.expects_turn = False
        if taken and news.said is not None and session is not None and news.said.opens:
            await self._reopen(session, "hook", iso(news.said.at))
        if taken:
            await self._decide(observed)

    def _add(self, observed: _Observed, said: Observation) -> bool:
        """Take note of it; False when it came too late. The log can be replayed (tests/test_recorded.py)."""
        # A source that an agent can write to may name any time; one to come would silence it until then.
        said = replace(said, at=min(said.at, self._clock()))
        what = {f"sm_{name}": value for name, value in asdict(said).items() if name != "reason"}
        log.debug("observed", extra={"sm_session": observed.session_id, **what})
        return observed.ledger.add(said, self._clock())

    async def _learn(
        self, observed: _Observed, conversation: str | None, transcript: str | None, model: str | None
    ) -> None:
        """Keep what was learned about the conversation; without a change nothing is written."""
        session = self._store.sessions.get(observed.session_id)
        if session is None:
            return
        if transcript and transcript != session.transcript:
            await self._measuring.heard_of(session.id, transcript)
        found = {"conversation": conversation, "transcript": transcript}
        facts = {key: value for key, value in found.items() if value and value != getattr(session, key)}
        if model and session.model is None:  # a later process of the session shall run on the same
            facts["model"] = model
        if facts:

            async def unit(tx: Transaction) -> None:
                await tx.update(tx.session(session.id), **facts)

            await persist(lambda: self._store.write(unit))
        if model:
            await self._measuring.runs_on(session.id, model)

    async def _ready(self, observed: _Observed, source: str, reason: str) -> None:
        if not observed.ready:  # it may show why it will answer no prompt: nobody is to take it for ready
            await self._read_screen(observed)
        observed.ready = True
        await self._measuring.ends(observed.session_id, None)
        await self._observe(observed.session_id, SignalKind.STARTED, source, reason, self._manager.now())

    async def _reopen(self, session: Session, source: str, at: str) -> None:
        """An ended session whose process got more to do works again."""
        if is_ended(session.status) and session.exit is None and at > session.status_at:
            await self._observe(session.id, SignalKind.REOPENED, source, "it was given more to do", at)

    # What is looked at for all

    async def _sweep(self) -> None:
        """See that what stands still stands, for all in one go: inotify tells of changes, but not everywhere."""
        states_s, transcripts_s = time.monotonic(), time.monotonic()
        while True:
            await asyncio.sleep(min(_SWEEP_EVERY_S, self._transcripts_every_s))
            try:
                if time.monotonic() - states_s >= _SWEEP_EVERY_S:
                    states_s = time.monotonic()
                    await self._sweep_states()
                if time.monotonic() - transcripts_s >= self._transcripts_every_s:
                    transcripts_s = time.monotonic()
                    await self._sweep_transcripts()
            except Exception:
                log.exception("failed a sweep")

    async def _sweep_transcripts(self) -> None:
        files = {}
        for session_id, observed in self._observed.items():
            session = self._store.sessions.get(session_id)
            path = None if session is None else session.transcript or self._expected(observed, session)
            if path is not None and observed.environment is not None:
                files[session_id] = (path, observed.reader.home(observed.environment))
        for session_id in await self._measuring.grown(files):
            if (grown := self._observed.get(session_id)) is not None:
                grown.poke(transcript=True)

    async def _sweep_states(self) -> None:
        files = {s: o.state_file for s, o in self._observed.items() if o.state_file is not None}
        for session_id, changed_ns in (await asyncio.to_thread(changes, files)).items():
            observed = self._observed.get(session_id)
            if observed is None:
                continue
            if changed_ns == observed.state_changed_ns:
                observed.ledger.seen(Source.STATE_FILE, self._clock())
            else:
                observed.poke(state=True)

    # The loop of one session

    async def _follow(self, observed: _Observed) -> None:
        while True:
            observed.poked.clear()
            pause_s: float | None = _SWEEP_EVERY_S
            try:
                async with observed.lock:
                    await self._prepare(observed)
                    await self._read(observed)
                    pause_s = await self._decide(observed)
            except SmError as error:
                log.warning("could not observe: %s", error.message, extra={"sm_session": observed.session_id})
            except Exception:
                log.exception("failed to observe", extra={"sm_session": observed.session_id})
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await observed.poked.wait()
                    continue
            observed.state_due = True  # what stands must be seen to stand
            if observed.ready and Source.STATE_FILE not in observed.ledger.entries:
                observed.poke(screen_s=self._clock())

    async def _prepare(self, observed: _Observed) -> None:
        """Find out once where the agent's files are."""
        if observed.environment is None:
            launch = await self._store.launch(observed.session_id)
            session = self._store.sessions[observed.session_id]
            # A restored one goes on with what was said, and waits for more.
            observed.expects_turn = launch.has_prompt and session.openings == 1
            observed.environment = launch.environment
            observed.real_dir = await asyncio.to_thread(os.path.realpath, session.working_dir)
        if observed.state_file is None and observed.process is not None:
            observed.state_file = observed.reader.state_file(observed.environment, observed.process.pid)
            self._listening.listen(
                observed.state_file, observed.session_id, lambda: observed.poke(state=True)
            )

    async def _read(self, observed: _Observed) -> None:
        now = self._clock()
        if observed.state_due:
            observed.state_due = False
            await self._read_state(observed)
        if observed.transcript_due:
            observed.transcript_due = False
            await self._read_transcript(observed)
        if observed.screen_due_s is not None and now >= observed.screen_due_s:
            observed.screen_due_s = None
            await self._read_screen(observed)
        if not observed.ready and observed.screen_due_s is None:
            since = now - observed.started_s
            due = next((at for at in _STARTING_LOOKS_S[observed.looks :] if at > since - 1.0), None)
            observed.looks += 1
            observed.screen_due_s = now + _STARTING_EVERY_S if due is None else observed.started_s + due

    async def _read_state(self, observed: _Observed) -> None:
        if observed.state_file is None or observed.process is None:
            return
        self._listening.listen(observed.state_file, observed.session_id, lambda: observed.poke(state=True))
        observed.state_changed_ns, text = await asyncio.to_thread(content, observed.state_file)
        found = None if text is None else observed.reader.state(text, observed.process)
        if found is None:
            if text is None:
                observed.ledger.forget(Source.STATE_FILE)
            return
        said, conversation = found
        before = observed.ledger.entries.get(Source.STATE_FILE)
        # Where no hook tells of it (they may be switched off), the transcript has something new now.
        observed.transcript_due |= before is None or before.said.activity is not said.activity
        self._add(observed, said)
        observed.ledger.seen(Source.STATE_FILE, self._clock())
        if conversation:
            await self._learn(observed, conversation, None, None)
        # One that has a prompt publishes that it is idle until it takes that: its hook says more.
        fresh = self._clock() - observed.started_s < FIRST_TURN_S
        awaited = observed.expects_turn and said.activity is Activity.IDLE and fresh
        if not (observed.ready or awaited or Source.STATE_FILE in self._off):
            await self._ready(observed, Source.STATE_FILE, "it publishes its state")

    async def _read_transcript(self, observed: _Observed) -> None:
        session = self._store.sessions.get(observed.session_id)
        if session is None:
            return
        path = session.transcript or self._expected(observed, session)
        if path is None or observed.environment is None:
            return
        self._listening.listen(path, session.id, lambda: observed.poke(transcript=True))
        below = observed.reader.home(observed.environment)
        # A fork has all lines of its original, and a person may go on with any old conversation (`/resume`).
        since = "" if session.token_hash is None else session.created_at  # an adopted one brings its own
        said = await self._measuring.read(
            session,
            path,
            observed.reader,
            lambda news: self._tell_of_lines(session.id, news),
            below=below,
            since=since,
        )
        for each in said:
            self._add(observed, each)

    def _expected(self, observed: _Observed, session: Session) -> str | None:
        """Where the transcript should be of an agent that has not said so (no hook of it was heard)."""
        if session.conversation is None or observed.environment is None:
            return None
        return observed.reader.transcript(observed.environment, observed.real_dir, session.conversation)

    async def _read_screen(self, observed: _Observed) -> None:
        session = self._store.sessions.get(observed.session_id)
        if session is None:
            return
        try:
            lines = await self._terminals.visible(session.terminal)
        except TerminalError:
            return
        now = self._clock()
        if not observed.ready:
            trouble = observed.reader.trouble(lines, session.working_dir, exited=False)
            if trouble is not None:
                await self._stuck(session, f"{trouble.message}; hint: {trouble.hint}", iso(now))
            return
        said = observed.reader.screen(lines, now)
        if said is None:  # half drawn, or nothing that is known: soon there may be more of it
            observed.ledger.forget(Source.SCREEN)
            if observed.unread < _LOOKS_AGAIN:
                observed.poke(screen_s=now + _FIRST_LOOK_S * 2**observed.unread)
                observed.unread += 1
            return
        observed.unread = 0
        self._add(observed, said)
        if said.activity is Activity.BLOCKED:  # nobody tells when a dialog that a person has opened is closed
            observed.poke(screen_s=now + _LOOK_AGAIN_S)

    async def _stuck(self, session: Session, reason: str, at: str) -> None:
        """Something keeps it from starting, and a person has to do something about it."""
        if session.status is Status.WAITING_INPUT and session.status_reason != reason:
            await self._explain(session, Source.SCREEN, reason, at)
        else:
            await self._observe(session.id, SignalKind.ASKED, Source.SCREEN, reason, at)

    async def _decide(self, observed: _Observed) -> float | None:
        """Make the session's status follow the verdict; the seconds until it may be another."""
        session = self._store.sessions.get(observed.session_id)
        now = self._clock()
        verdict = observed.ledger.verdict(now)
        if session is None or verdict is None or not observed.ready:
            return self._pause(observed, now, None)
        if verdict.said.activity is Activity.BUSY:
            self._listening.leave_terminal(session.id)
        elif observed.tty is not None:  # a person may open something at its prompt
            self._listening.listen_to_terminal(
                observed.tty, session.id, lambda: observed.drawn(self._clock() + _DRAWN_WITHIN_S)
            )
        if is_live(session.status):
            await self._follow_verdict(session, verdict)
        elif not observed.hook_seen and verdict.said.source in (Source.STATE_FILE, Source.TRANSCRIPT):
            # Without hooks nobody tells what was asked of it; but it has rested since, and works again.
            since = observed.ledger.entries[verdict.said.source].since
            if verdict.said.activity is Activity.BUSY:
                await self._reopen(session, verdict.said.source, iso(since))
        if verdict.said.activity is not Activity.BUSY:
            observed.activity = None
        return self._pause(observed, now, observed.ledger.next_look(now))

    async def _follow_verdict(self, session: Session, verdict: Verdict) -> None:
        said = verdict.said
        stronger = tuple(Source)[: tuple(Source).index(said.source)]
        why = [verdict.overruled[source] for source in stronger if source in verdict.overruled]
        reason = f"{said.reason} ({'; '.join(why)})" if why else said.reason
        wanted = _STATUSES[said.activity]
        if session.status is not wanted:
            at = max(iso(said.at), session.status_at)
            await self._observe(session.id, _SIGNALS[said.activity], said.source, reason, at)
        elif wanted is Status.WAITING_INPUT and session.status_reason != reason:
            await self._explain(session, said.source, reason, iso(said.at))

    async def _explain(self, session: Session, source: str, reason: str, at: str) -> None:
        """The same status for another reason: it waits for another answer."""

        async def unit(tx: Transaction) -> None:
            now = tx.session(session.id)
            if now.status is session.status:
                await tx.update(now, status_source=source, status_reason=reason, status_at=at)

        await persist(lambda: self._store.write(unit))

    async def _observe(self, session_id: str, kind: SignalKind, source: str, reason: str, at: str) -> None:
        signal = Signal(kind, source, reason, at)
        await persist(lambda: self._manager.observe(session_id, signal))

    def _pause(self, observed: _Observed, now: float, look_s: float | None) -> float | None:
        """Until when nothing has to be looked at unless something tells of a change; None: for ever."""
        screen_s = None if observed.screen_due_s is None else observed.screen_due_s - now
        waits = [wait for wait in (look_s, screen_s) if wait is not None]
        return max(0.02, min(waits)) if waits else None

    # What tells that there is something to read

    def _titles(self, changed: Mapping[str, str]) -> None:
        now = self._clock()
        for session_id, glyph in changed.items():
            observed = self._observed.get(session_id)
            if observed is None:
                continue
            said = observed.reader.title(glyph, now)
            if said is None:
                observed.ledger.forget(Source.TITLE)
            else:
                self._add(observed, said)
            observed.poke()

    def printed(self, moved: Collection[str]) -> None:
        """Their terminals printed something: the screens may be worth a look."""
        now = self._clock()
        for session_id in moved:
            observed = self._observed.get(session_id)
            if observed is None or not observed.ready:
                continue
            believed = observed.ledger.verdict(now)
            published = Source.STATE_FILE in observed.ledger.entries
            if not published or (believed is not None and believed.said.activity is Activity.IDLE):
                observed.poke(screen_s=now)
