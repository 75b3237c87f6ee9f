"""Has the contracts of an agent CLI tried when an agent runs a program that was not checked (`sm check`)."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from sm.core.lines import plural
from sm.core.models import Session
from sm.core.observation import Source
from sm.core.states import TrustLevel
from sm.linux.processes import program_of
from sm.monitor.listeners import AgentListener
from sm.providers.base import Provider
from sm.providers.checks import CheckRecord, CheckRecords
from sm.providers.readers import AcceptedInput
from sm.store import Store

log = logging.getLogger(__name__)

_REMOVED = " (deleted)"
"""The end of the path of a program whose file is gone (proc(5), /proc/pid/exe)."""

RunCheck = Callable[[str, str], Awaitable[None]]
"""Check the program at a path for a provider, and keep the outcome. May take minutes."""


class _Program(NamedTuple):
    path: str
    size: int
    mtime_ns: int


class ProgramChecks(AgentListener):
    """Looks at the program of each agent on this host when the agent works.

    The agent and its spawn never wait for a check. A program is checked once for each start of the daemon if its check
    gives no outcome.
    """

    def __init__(
        self,
        store: Store,
        records: CheckRecords,
        providers: Mapping[str, Provider],
        run_check: RunCheck,
    ) -> None:
        self._store = store
        self._records = records
        self._providers = providers
        self._run_check = run_check
        self._found: dict[_Program, CheckRecord | None] = {}
        """The outcomes of each program, without any for one that was not checked."""
        self._due: asyncio.Queue[tuple[str, _Program]] = asyncio.Queue()

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        session = self._store.sessions.get(session_id)
        if session is not None:
            self._look(session)

    async def run(self) -> None:
        """Run until cancelled."""
        for session in list(self._store.sessions.values()):
            self._look(session)
        while True:
            provider, program = await self._due.get()
            try:
                await self._settle(provider, program)
            except Exception:
                log.exception("failed to check the program %s", program.path)
            finally:
                self._due.task_done()

    async def join(self) -> None:
        """Wait until every program that was found so far is settled."""
        await self._due.join()

    def trouble(self) -> list[str]:
        """Name each program of a live agent that breaks a contract."""
        lines = []
        for session in self._store.sessions.values():
            program = self._program(session)
            record = None if program is None else self._found.get(program)
            if record is not None and record.broken:
                lines.append(_broken_line(session.provider, record))
        return list(dict.fromkeys(lines))

    def facts(self, session: Session) -> list[str]:
        """Say of the program of an agent which version it is, and whether its contracts were tried."""
        program = self._program(session)
        if program is None and session.program_version is None:
            return []
        if program is None:
            return [f"runs {session.provider} {session.program_version}"]
        if program.path.endswith(_REMOVED):
            return [f"its {session.provider} was replaced or removed since its start"]
        record = self._found.get(program)
        if record is None:
            return [f"it is not checked whether sm and this {session.provider} understand each other"]
        if record.broken:
            return [_broken_line(session.provider, record)]
        what = f"{session.provider} {record.program.version}"
        return [f"{what}: checked on {record.checked_at[:10]}, all contracts hold"]

    def _program(self, session: Session) -> _Program | None:
        """Return the program that a live agent on this host runs, or None if it is not one of its provider."""
        provider = self._providers.get(session.provider)
        if provider is None or session.process is None or session.exit is not None:
            return None
        if session.effective_mode is not TrustLevel.DIRECT:
            return None
        path = program_of(session.process)
        return _identity(path) if path is not None and provider.is_own_program(path) else None

    def _look(self, session: Session) -> None:
        program = self._program(session)
        if program is not None and program not in self._found:
            self._found[program] = None
            self._due.put_nowait((session.provider, program))

    async def _settle(self, provider: str, program: _Program) -> None:
        """Find the outcomes of a program, and have it checked if there are none."""
        path = program.path
        record = await asyncio.to_thread(self._records.find, provider, path)
        is_wanted = self._providers[provider].checks_programs and await asyncio.to_thread(
            os.path.isfile, path
        )
        if record is None and is_wanted:
            log.info("check whether sm and %s understand each other", path)
            await self._run_check(provider, path)
            record = await asyncio.to_thread(self._records.find, provider, path)
        self._found[program] = record
        if record is None:
            return
        if record.broken:
            log.warning("%s", _broken_line(provider, record))
        else:
            log.info("%s %s: all contracts hold", provider, record.program.version)


def _identity(path: str) -> _Program:
    """Describe the file at a path, which an update may replace."""
    try:
        status = os.stat(path)
    except OSError:
        return _Program(path, 0, 0)
    return _Program(path, status.st_size, status.st_mtime_ns)


def _broken_line(provider: str, record: CheckRecord) -> str:
    names = ", ".join(outcome.name for outcome in record.broken)
    count = plural(len(record.outcomes), "contract")
    return (
        f"{provider} {record.program.version}, checked on {record.checked_at[:10]}: {len(record.broken)} of {count} "
        f"{'does' if len(record.broken) == 1 else 'do'} not hold: {names}"
    )
