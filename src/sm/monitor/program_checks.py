"""Knows the programs of agent CLIs that agents start, and has those checked that were not (`sm check`)."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

from sm.config import Config
from sm.core.lifecycle import is_live
from sm.core.lines import plural
from sm.core.models import Session
from sm.core.observation import Source
from sm.core.program_states import ProgramState
from sm.core.states import TrustLevel
from sm.errors import NotFound
from sm.linux.processes import program_of
from sm.monitor.files import FileEvents
from sm.monitor.listeners import AgentListener
from sm.providers.base import Provider
from sm.providers.checks import CheckRecord, CheckRecords
from sm.providers.readers import AcceptedInput
from sm.state.announcements import announce
from sm.store import Store, durable
from sm.store.history import Chosen

T = TypeVar("T")
log = logging.getLogger(__name__)

_REMOVED = " (deleted)"
"""The end of the path of a program whose file is gone (proc(5), /proc/pid/exe)."""
_RECORDS = ""
"""Listens to changes of the outcomes, as the owner of a watch. The others are the names of providers."""
_QUIET_S = 2.0
"""An update writes several files. The program is looked at this long after the last change."""

RunCheck = Callable[[str, str], Awaitable[None]]
"""Check the program at a path for a provider, and keep the outcome. May take minutes."""


class _Program(NamedTuple):
    path: str
    size: int
    mtime_ns: int


class _Found(NamedTuple):
    """A program to look up. `version`: what a script says, which has the outcomes of the program that it starts."""

    provider: str
    program: _Program
    is_script: bool = False
    version: str | None = None


class _Start(NamedTuple):
    """The start of an agent, by which its program is found. `version`: what the program said, if it was asked."""

    provider: str
    environment: Mapping[str, str]
    version: str | None = None


class _Installed(NamedTuple):
    """The program that new agents of a provider start."""

    program: _Program
    version: str | None


class ProgramChecks(AgentListener):
    """Looks at a program when an agent starts or works, when the daemon starts, and when the file has changed.

    Agents and their spawns never wait for a check. A program is checked once for each start of the daemon if its check
    gives no outcome. A script is not checked: the program that it starts is found when its agent works.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        records: CheckRecords,
        providers: Mapping[str, Provider],
        run_check: RunCheck,
    ) -> None:
        self._config = config
        self._store = store
        self._records = records
        self._providers = providers
        self._run_check = run_check
        self._seen: dict[_Program, _Found] = {}
        self._tried: set[_Program] = set()
        """The programs whose check was due since the start of the daemon."""
        self._found: dict[_Program, CheckRecord | None] = {}
        """The outcomes of each program that was looked up, None for one that was not checked."""
        self._by_version: dict[tuple[str, str], CheckRecord | None] = {}
        """The outcomes by provider and version, None for a version that was not checked."""
        self._installed: dict[str, _Installed] = {}
        self._starts: asyncio.Queue[_Start] = asyncio.Queue()
        self._programs: asyncio.Queue[_Found] = asyncio.Queue()
        self._due: asyncio.Queue[_Found] = asyncio.Queue()
        self._checking: set[_Found] = set()
        """The programs that are in `_due`, and the one whose check runs."""
        self._files = FileEvents()
        self._delays: dict[str, asyncio.TimerHandle] = {}
        self._begun = asyncio.Event()
        self._telling = asyncio.Lock()

    # Reports of other parts

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        session = self._store.sessions.get(session_id)
        if session is not None:
            self._look(session)

    def agent_planned(
        self, provider: str, environment: Mapping[str, str], version: str | None
    ) -> ProgramState | None:
        """Look at the program that an agent on this host starts with this environment.

        Returns at once with what is known of this version, as `state_of`.
        """
        if self._providers[provider].setup is not None:
            self._starts.put_nowait(_Start(provider, environment, version))
        return self.state_of(provider, version)

    # Work

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._begin())
                tasks.create_task(_work(self._starts, self._find))
                tasks.create_task(_work(self._programs, self._look_up))
                tasks.create_task(_work(self._due, self._check))
        finally:
            for delay in self._delays.values():
                delay.cancel()
            self._files.close()

    async def join(self) -> None:
        """Wait until every program that was found so far is settled. `run` must run."""
        await self._begun.wait()
        for queue in (self._starts, self._programs, self._due):
            await queue.join()

    async def _begin(self) -> None:
        """Look at the programs of live agents, and at those that the last agents of each provider were started with."""
        # In a directory of its own, which exists: a watch on the state directory would see each write to the database.
        self._files.listen(self._records.stamp, _RECORDS, self._records_changed)
        newest: dict[str, Session] = {}
        for session in sorted(self._store.sessions.values(), key=lambda s: s.created_at):
            self._look(session)
            if session.effective_mode is TrustLevel.DIRECT:
                newest[session.provider] = session
        for name, provider in self._providers.items():
            if provider.setup is None:
                continue
            both = filter(None, (newest.get(name), await self._newest_past(name)))
            started = max(both, key=lambda s: s.created_at, default=None)
            if started is None:
                continue
            try:
                launch = await self._store.launch(started.id)
            except NotFound:  # removed meanwhile
                continue
            self._starts.put_nowait(_Start(name, launch.environment))
        self._begun.set()

    async def _newest_past(self, provider: str) -> Session | None:
        """The session of a provider that ended last, of those that are not in memory."""
        chosen = Chosen("provider = ? AND effective_mode = ?", (provider, TrustLevel.DIRECT))
        return next(iter((await self._store.history.page(chosen, None, 1)).sessions), None)

    async def _find(self, start: _Start) -> None:
        """Find the program that such an agent starts, and watch its file and the link to it."""
        setup = self._providers[start.provider].setup
        assert setup is not None
        found = await asyncio.to_thread(setup.installed, start.environment)
        self._files.forget(start.provider)
        if found is None:
            self._installed.pop(start.provider, None)
            return
        again = start._replace(version=None)
        for path in {found.link, found.path}:
            self._files.listen(path, start.provider, lambda: self._file_changed(again))
        program = await asyncio.to_thread(_identity, found.path)
        version = start.version or found.version
        self._installed[start.provider] = _Installed(program, version)
        if found.is_script or self._found.get(program) is None:
            self._see(_Found(start.provider, program, found.is_script, version if found.is_script else None))
        elif version is not None:
            self._by_version[start.provider, version] = self._found[program]

    def _see(self, found: _Found) -> None:
        self._seen[found.program] = found
        self._programs.put_nowait(found)

    def _records_changed(self) -> None:
        """Look up all programs again: a person, or a check in the background, has saved outcomes."""
        for found in self._seen.values():
            self._programs.put_nowait(found)

    def _file_changed(self, start: _Start) -> None:
        if (before := self._delays.get(start.provider)) is not None:
            before.cancel()
        loop = asyncio.get_running_loop()
        self._delays[start.provider] = loop.call_later(_QUIET_S, self._starts.put_nowait, start)

    def _look(self, session: Session) -> None:
        program = self._program(session)
        if program is not None and program not in self._seen:
            self._see(_Found(session.provider, program))

    async def _look_up(self, found: _Found) -> None:
        """Find the outcomes of a program. Without any its check is due."""
        if await self._read_record(found) is not None or found.is_script or found.program in self._tried:
            return
        is_wanted = self._providers[found.provider].checks_programs
        if is_wanted and await asyncio.to_thread(os.path.isfile, found.program.path):
            self._tried.add(found.program)
            self._checking.add(found)
            self._due.put_nowait(found)

    async def _check(self, found: _Found) -> None:
        log.info("check whether sm and %s understand each other", found.program.path)
        try:
            await self._run_check(found.provider, found.program.path)
            await self._read_record(found)
        finally:
            self._checking.discard(found)

    async def _read_record(self, found: _Found) -> CheckRecord | None:
        """Read the outcomes of a program, and report them once."""
        provider, program, version = found.provider, found.program, found.version
        record = await asyncio.to_thread(self._records.find, provider, program.path, version)
        is_new = record != self._found.get(program)
        self._found[program] = record
        installed = self._installed.get(provider)
        if record is not None:
            version = record.program.version
        elif installed is not None and installed.program == program:
            version = installed.version
        if version is not None:
            self._by_version[provider, version] = record
        if record is not None and is_new:
            await self._report(provider, record)
        return record

    async def _report(self, provider: str, record: CheckRecord) -> None:
        """Log the outcomes of a program, and tell the operator once if contracts are broken."""
        if not record.broken:
            log.info("%s: all contracts hold", _state(provider, None, record).line)
            return
        text, occasion = _notice(provider, record), f"program/{provider}/{record.program.sha256[:16]}"
        log.warning("%s", text)
        async with self._telling:  # a script and the program that it starts have the same outcomes
            if not await self._store.was_told(occasion):
                await self._announce(occasion, text)

    @durable
    async def _announce(self, occasion: str, text: str) -> None:
        async with self._store.transaction() as tx:
            tx.put_told(occasion)
            await announce(tx, self._config, "program", text, occasion)

    # Answers

    def state_of(self, provider: str, version: str | None) -> ProgramState | None:
        """The outcomes of the contracts with a version. None if nothing is known of it, or if it is looked up."""
        if version is None or (provider, version) not in self._by_version:
            return None
        return _state(provider, version, self._by_version[provider, version])

    def state(self, session: Session) -> ProgramState | None:
        """The outcomes of the contracts with the program of an agent on this host. Returns None as `state_of`."""
        program = self._program(session)
        if program is not None and program in self._found:
            record = self._found[program]
            version = session.program_version if record is None else record.program.version
            return _state(session.provider, version, record)
        if session.effective_mode is not TrustLevel.DIRECT:
            return None
        return self.state_of(session.provider, session.program_version)

    def lines(self) -> list[str]:
        """Say of each program that agents start or run whether it was checked, and which agents run an earlier one."""
        return [state.line for state in self._states()] + self._replaced()

    def problems(self) -> list[str]:
        """Name the programs about which the operator can do something, and agents that run an earlier one."""
        lines = [
            f"{state.line} ({self._remedy(state)})" for state in self._states() if self._is_problem(state)
        ]
        return lines + self._replaced()

    def _remedy(self, state: ProgramState) -> str:
        is_tried = not state.is_checked and any(found.provider == state.provider for found in self._checking)
        return "sm tries its contracts now" if is_tried else f"sm check {state.provider}"

    def _is_problem(self, state: ProgramState) -> bool:
        is_missing = not state.is_checked and self._providers[state.provider].checks_programs
        return is_missing or bool(state.broken)

    def facts(self, session: Session) -> list[str]:
        """Say of the program of an agent which version it is, and whether its contracts were tried."""
        name, version, program = session.provider, session.program_version, self._program(session)
        label = f"its {name}" if version is None else f"its {name} {version}"
        if program is not None and program.path.endswith(_REMOVED):
            return [f"{label} was replaced or removed since its start{self._now_started(name, version)}"]
        if program is None and version is None:
            return []
        state = self.state(session)
        if state is None and program is not None:
            state = ProgramState(name, version)
        facts = [f"runs {name} {version}" if state is None else state.line]
        provider = self._providers.get(name)
        if provider is not None:
            facts += provider.program_notes(version, {} if state is None else state.outcomes)
        if self._is_replaced(session):
            facts.append(f"{label} was replaced since its start{self._now_started(name, version)}")
        return facts

    def _states(self) -> list[ProgramState]:
        """Of the programs that agents start, and of those that live agents run."""
        versions = {(name, found.version): None for name, found in self._installed.items()}
        for session in self._store.sessions.values():
            if is_live(session.status) and session.exit is None:
                versions[session.provider, session.program_version] = None
        return [state for key in versions if (state := self.state_of(*key)) is not None]

    def _replaced(self) -> list[str]:
        sessions = self._store.sessions.values()
        counts = Counter((s.provider, s.program_version) for s in sessions if self._is_replaced(s))
        return [
            f"{plural(count, 'agent')} {'runs' if count == 1 else 'run'} {name} {version}"
            f"{self._now_started(name, version)}"
            for (name, version), count in counts.items()
        ]

    def _is_replaced(self, session: Session) -> bool:
        """Return True for a live agent on this host that runs another version than new agents start."""
        if session.effective_mode is not TrustLevel.DIRECT or session.exit is not None:
            return False
        is_running = is_live(session.status) and session.process is not None
        return is_running and bool(self._now_started(session.provider, session.program_version))

    def _now_started(self, provider: str, version: str | None) -> str:
        """The version that new agents start, as the end of a sentence. Empty if it is this version, or unknown."""
        installed = self._installed.get(provider)
        if installed is None or None in (version, installed.version) or installed.version == version:
            return ""
        return f"; new agents start {installed.version}"

    def _program(self, session: Session) -> _Program | None:
        """Return the program that a live agent on this host runs, or None if it is not one of its provider."""
        provider = self._providers.get(session.provider)
        if provider is None or session.process is None or session.exit is not None:
            return None
        if session.effective_mode is not TrustLevel.DIRECT:
            return None
        path = program_of(session.process)
        return _identity(path) if path is not None and provider.is_own_program(path) else None


async def _work(queue: asyncio.Queue[T], act: Callable[[T], Awaitable[None]]) -> None:
    while True:
        item = await queue.get()
        try:
            await act(item)
        except Exception:
            log.exception("failed to look at a program of an agent")
        finally:
            queue.task_done()


def _identity(path: str) -> _Program:
    """Describe the file at a path, which an update may replace."""
    try:
        status = os.stat(path)
    except OSError:
        return _Program(path, 0, 0)
    return _Program(path, status.st_size, status.st_mtime_ns)


def _notice(provider: str, record: CheckRecord) -> str:
    """`claude 2.1.333: 12 of 14 contracts hold; plans must be approved at the terminal`."""
    count, held = len(record.outcomes), len(record.outcomes) - len(record.broken)
    do = "holds" if held == 1 else "hold"
    parts = [f"{provider} {record.program.version}: {held} of {plural(count, 'contract')} {do}"]
    parts += [outcome.instead or f"{outcome.name} is broken" for outcome in record.broken]
    return f"{'; '.join(parts)} (sm check {provider})"


def _state(provider: str, version: str | None, record: CheckRecord | None) -> ProgramState:
    if record is None:
        return ProgramState(provider, version)
    outcomes = {outcome.name: outcome.holds for outcome in record.outcomes}
    return ProgramState(provider, record.program.version, record.checked_at, outcomes)
