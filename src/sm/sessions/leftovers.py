"""Lists and ends the processes that ended sessions left behind.

No list is stored: each is made from the cgroups and the environments of the processes that run now, and from those
that were seen in the process trees of agents without a cgroup.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence

from sm.core.dataclass import dataclass
from sm.core.models import Caller, Process
from sm.core.text import folded
from sm.linux import processes
from sm.linux.process_usage import read_usage
from sm.operations.session_operations import KILL
from sm.policy.relations import is_unrestricted, may, visible
from sm.sandboxes.session_processes import SessionProcesses
from sm.sessions.authorizer import Authorizer
from sm.store import Store

_GRACE_S = 5.0
_COMMAND_MAX = 200


@dataclass(frozen=True, slots=True)
class Leftover:
    """A live process of a session that has ended."""

    session_id: str
    process: Process
    command: str
    age_s: float
    memory_bytes: int
    """Resident memory; memory that processes share counts for each of them."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The processes that were ended, and those that are left."""

    ended: Sequence[Leftover]
    left: Sequence[Leftover]


class Leftovers:
    """The processes that ended sessions left behind, within the permissions of the caller."""

    def __init__(self, store: Store, authorizer: Authorizer, session_processes: SessionProcesses) -> None:
        self._store = store
        self._authorizer = authorizer
        self._processes = session_processes
        self._looking = asyncio.Lock()
        self._asked = self._answered = 0
        self._found: Mapping[str, list[Leftover]] = {}

    async def visible(self, caller: Caller) -> list[Leftover]:
        """Return the leftovers that the caller may see; those of a removed session only for the operator."""
        principal = self._authorizer.principal(caller)
        found = await self.of_all()
        return [
            leftover
            for session_id, some in found.items()
            for leftover in some
            if (
                visible(principal, session)
                if (session := self._store.sessions.get(session_id)) is not None
                else is_unrestricted(caller)
            )
        ]

    async def cgroups(self) -> tuple[bool, str]:
        """The availability of cgroups, and their place or the reason why there are none."""
        found = await asyncio.to_thread(lambda: self._processes.probed)
        return found.cgroups is not None, found.reason

    async def of_all(self) -> Mapping[str, list[Leftover]]:
        """All of them, by the id of their session. A look that begins after the call; calls that wait share one."""
        self._asked += 1
        asked = self._asked
        async with self._looking:
            if self._answered < asked:
                self._answered = self._asked
                self._found = await asyncio.to_thread(self._look)
            return self._found

    async def of(self, session_ids: Collection[str]) -> list[Leftover]:
        found = await self.of_all()
        return [leftover for session_id in session_ids for leftover in found.get(session_id, ())]

    async def end(self, caller: Caller, *, force: bool, only: Collection[str] | None = None) -> Ended:
        """End those of the sessions that the caller may kill, and look again; `only` of these sessions.

        SIGTERM, and SIGKILL after 5 seconds; `force`: SIGKILL at once.
        """
        before = [
            leftover
            for leftover in await self.visible(caller)
            if (only is None or leftover.session_id in only) and self._may_end(caller, leftover.session_id)
        ]
        ids = list(dict.fromkeys(leftover.session_id for leftover in before))
        ends = (self._processes.end_left_behind(i, _GRACE_S, force=force) for i in ids)
        await asyncio.gather(*ends)
        killed = [session for i in ids if (session := self._store.sessions.get(i)) is not None]
        self._authorizer.record_allowed(caller, KILL.audience, killed)
        left = await self.of(ids)
        remaining = {leftover.process for leftover in left}
        return Ended([leftover for leftover in before if leftover.process not in remaining], left)

    def _may_end(self, caller: Caller, session_id: str) -> bool:
        session = self._store.sessions.get(session_id)
        principal = self._authorizer.principal(caller)
        if session is None:
            return is_unrestricted(caller)
        return may(self._authorizer.tree.relation(principal, session), KILL.audience)

    def _look(self) -> dict[str, list[Leftover]]:
        up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return {
            session_id: [_described(session_id, process, up_s) for process in found]
            for session_id, found in self._processes.left_behind().items()
        }


def _described(session_id: str, process: Process, up_s: float) -> Leftover:
    usage = read_usage(process.pid)
    command = " ".join(processes.command_line(process.pid)) or processes.program_name(process.pid)
    return Leftover(
        session_id=session_id,
        process=process,
        command=folded(command, _COMMAND_MAX),
        age_s=0.0 if usage is None else max(0.0, up_s - usage.start / processes.TICKS_PER_S),
        memory_bytes=0 if usage is None else usage.rss,
    )


def words_of_leftovers(left: Sequence[Leftover]) -> str:
    """The words of a warning about the processes that one session left behind."""
    count = "1 process" if len(left) == 1 else f"{len(left)} processes"
    return f"the agent left {count} behind: {listed(left)}; to end them: sm kill --orphans"


def listed(left: Sequence[Leftover]) -> str:
    """`4711 (node server.js), 4712 (sleep 60)`, at most five."""
    shown = ", ".join(f"{leftover.process.pid} ({folded(leftover.command, 60)})" for leftover in left[:5])
    return f"{shown} and {len(left) - 5} more" if len(left) > 5 else shown
