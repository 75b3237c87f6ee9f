"""Finds every process that was started for a session, also one that left the tree of its agent.

A process belongs to a session by evidence only: it is in the cgroup of the session, or it started after the agent with
the session's `SM_SESSION_ID` and token file in its environment, or, for an agent without a cgroup, it was seen in the
process tree of the agent.

The cgroup of a session in a container is below that of the container: the limits of the container hold, and `docker
pause` and `docker rm` reach it. The processes of a container cannot change their cgroup.
"""

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from sm.core.models import Process
from sm.linux import process_endings, processes
from sm.linux.cgroups import cgroup_of, container_in, container_of
from sm.linux.platform import boot_id
from sm.linux.session_cgroups import (
    Freeze,
    Probe,
    SessionCgroup,
    SessionCgroups,
    cgroups_in_container,
    is_session_id,
    leave_session_cgroup,
    probe,
    session_of,
)
from sm.paths import INSIDE_LAUNCH
from sm.sandboxes.seen_processes import SeenProcesses

log = logging.getLogger(__name__)

_NOBODY = Process(0, "gone/0")
_EVERY_PID = range(1 << 31)
_SESSION, _TOKEN = b"SM_SESSION_ID=", b"SM_TOKEN_FILE="


class SessionProcesses:
    """The processes of the sessions of one instance. Every method blocks, so call it in a thread.

    `launch`: the directory of the instance's launch files. `agents`: the agents of all sessions that may live, by the
    id of the session; None for one that has no process now. `in_container`: whether a process is in a container of
    this instance. `containers`: the first processes of the containers of this instance that run.
    `seen`: what was seen in the process trees of agents.
    """

    def __init__(
        self,
        instance: str,
        launch: str,
        agents: Callable[[], Mapping[str, Process | None]],
        in_container: Callable[[int], bool] = lambda pid: False,
        containers: Callable[[], Iterable[Process]] = tuple,
        *,
        seen: SeenProcesses,
    ) -> None:
        self._instance = instance
        self._launch = launch
        self._agents = agents
        self._in_container = in_container
        self._seen = seen
        self._opened: set[str] = set()
        """The sessions whose cgroup waits for their agent."""
        self._containers = containers

    def enter_all(self) -> None:
        """Move every live agent that an earlier daemon did not move into its cgroup."""
        for session_id, agent in self._agents().items():
            if agent is not None and self._is_marked(session_id, agent.pid):
                self.enter(session_id, agent)

    def look(self) -> None:
        """Remember the processes that are in the trees of the agents which have no cgroup on this host."""
        agents = {
            session_id: agent
            for session_id, agent in self._agents().items()
            if agent is not None
            and self.session_of(agent.pid) != session_id
            and not self._in_container(agent.pid)
        }
        self._seen.look(agents)

    def _is_marked(self, session_id: str, pid: int) -> bool:
        """False for an adopted agent, which stays where its person started it."""
        return self._has_token(session_id, pid, processes.environ_entries(pid))

    def _has_token(self, session_id: str, pid: int, environment: Collection[bytes]) -> bool:
        if self._token(session_id) in environment:
            return True
        inside = _TOKEN + f"{INSIDE_LAUNCH}/{session_id}.token".encode()
        return inside in environment and self._in_container(pid)

    @cached_property
    def probed(self) -> Probe:
        """The place of the cgroups of sessions, found at the first use."""
        found = probe(self._instance)
        if found.cgroups is not None:
            leave_session_cgroup(found.cgroups)
        return found

    @property
    def cgroups(self) -> SessionCgroups | None:
        return self.probed.cgroups

    @property
    def enters_at_once(self) -> bool:
        """True if it is known that `open` and the entry of an agent do not wait for the kernel."""
        return "probed" in self.__dict__ and (self.cgroups is None or self.cgroups.version == 1)

    def close(self) -> None:
        """Remove what was made for cgroups, as far as no session needs it. Agents keep running."""
        if "probed" in self.__dict__ and self.cgroups is not None:
            self.cgroups.close()

    def cgroup(self, session_id: str) -> SessionCgroup | None:
        """The cgroup of a session on this host; None where no cgroups can be made. It need not exist."""
        if self.cgroups is None:
            return None
        found = self.cgroups.of(session_id)
        if container_in(f"0::{found.path}") == container_in(f"0::{self.cgroups.base}"):
            return found
        return SessionCgroup(f"{self.cgroups.base}/{session_id}", self.cgroups.version)

    def session_of(self, pid: int) -> str | None:
        """The session of this instance in whose cgroup a process is, also one that has ended."""
        return session_of(pid, self._instance)

    def open(self, session_id: str) -> tuple[str, ...]:
        """Make the cgroup of a session; return the lines of a script that move its shell there, none if it cannot be.

        Processes can run in it, whatever was ordered for an earlier agent.
        """
        cgroup = self.cgroup(session_id)
        if cgroup is None:
            return ()
        self._opened.add(session_id)
        try:
            cgroup.create()
        except OSError as error:
            _warn(session_id, error)
            return ()
        self.thaw(session_id)
        return (cgroup.entry(),)

    def forget(self, session_id: str) -> None:
        """Remove what `open` made for a session that did not start."""
        cgroup = self.cgroup(session_id) if session_id in self._opened else None
        self._opened.discard(session_id)
        if cgroup is not None:
            cgroup.remove()

    def _all_cgroups(self) -> Iterator[SessionCgroups]:
        """The place of cgroups on this host, and those in the containers that run."""
        if self.cgroups is not None:
            yield self.cgroups
        for init in self._containers():
            if (inside := cgroups_in_container(init.pid, self._instance)) is not None:
                yield inside

    def _cgroups_of(self, session_id: str) -> list[SessionCgroup]:
        """The existing cgroups of a session."""
        found = dict.fromkeys(cgroups.of(session_id) for cgroups in self._all_cgroups())
        return [cgroup for cgroup in found if cgroup.exists()]

    def warm_up(self) -> None:
        """Prepare an entry that follows within milliseconds."""
        if self.cgroups is not None:
            self.cgroups.warm_up()

    def enter(self, session_id: str, agent: Process) -> bool:
        """Move an agent and all processes of its session into the cgroup of the session, if it did not enter by itself.

        Idempotent. False when the agent is gone, there are no cgroups, or the kernel does not permit it.
        """
        self._opened.discard(session_id)
        inside = container_of(agent.pid) is not None and self._in_container(agent.pid)
        cgroups = cgroups_in_container(agent.pid, self._instance) if inside else self.cgroups
        if cgroups is None or not processes.is_alive(agent):
            return False
        cgroup = cgroups.of(session_id)
        try:
            if not cgroup.has(agent.pid):
                cgroup.create()
                cgroup.enter(agent.pid)
                self._enter_started_before(cgroup, session_id, agent, inside=inside)
        except OSError as error:
            if error.errno != errno.ESRCH:  # it ended meanwhile
                _warn(session_id, error)
            return False
        return True

    def _enter_started_before(
        self, cgroup: SessionCgroup, session_id: str, agent: Process, *, inside: bool
    ) -> None:
        """Move what the agent started before it entered its cgroup. What starts from now on follows by itself."""
        moved, found = {agent}, [agent]
        while found:
            for process in found:
                if not cgroup.has(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        cgroup.enter(process.pid)
            moved.update(found)
            roots = [agent, *(self._unclaimed(session_id, agent) if inside else ())]
            all = (*processes.process_tree(*roots), *self._marked(session_id, agent))
            found = [process for process in all if process not in moved]

    def _unclaimed(self, session_id: str, agent: Process) -> list[Process]:
        """The orphans of the agent's container that no other session can have started.

        A container has no processes but its first one, that one's command, those of sessions, and those that a person
        starts with `docker exec`, which are no orphans. Empty while another session starts: its first processes are in
        no cgroup yet.
        """
        container, began = container_of(agent.pid), processes.read_stat(agent.pid)
        init = next((init for init in self._containers() if container_of(init.pid) == container), None)
        place = None if init is None else cgroups_in_container(init.pid, self._instance)
        inside = None if init is None else cgroup_of(init.pid)
        if init is None or place is None or inside is None or began is None:
            return []
        claimed = {pid for cgroup in place.all().values() for pid in cgroup.members()}
        orphans = [
            stat.process
            for stat in map(processes.read_stat, inside.members())
            if stat is not None
            and not stat.gone
            and stat.parent == init.pid
            and stat.start >= began.start
            and stat.process.pid not in claimed
        ]
        for other, process in self._agents().items():  # after the look: these sessions started the processes
            if other == session_id:
                continue
            if process is None or (container_of(process.pid) == container and process.pid not in claimed):
                return []
        return orphans

    def of(self, session_id: str, agent: Process) -> list[Process]:
        """The live processes that belong to the session by evidence, perhaps with some of its agent's own tree.

        `agent`: the newest process of the session, which may be gone.
        """
        members = [process for cgroup in self._cgroups_of(session_id) for process in cgroup.processes()]
        found = dict.fromkeys((*members, *self._marked(session_id, agent), *self._seen.of(session_id)))
        if not found:
            return []
        spared = self._spared(session_id, [process.pid for process in found])
        return [process for process in found if process.pid not in spared]

    def thaw(self, session_id: str) -> None:
        """Let the processes of a session run, so that they handle signals. Idempotent."""
        for cgroup in self._cgroups_of(session_id):
            with contextlib.suppress(OSError):
                if cgroup.state() not in (None, Freeze.THAWED):
                    cgroup.thaw()

    def left_behind(self) -> dict[str, list[Process]]:
        """The live processes of sessions that have ended, by the id of the session. Removes empty cgroups of these."""
        cgroups = [found for place in self._all_cgroups() for found in place.all().items()]
        marked, seen = self._all_marked(), self._seen.all()
        living = (
            self._agents().keys()
        )  # after the looks: what was found of a session that starts meanwhile is its own
        found: dict[str, dict[Process, None]] = {}
        for session_id, cgroup in cgroups:
            if session_id not in living:
                members = cgroup.processes()
                found.setdefault(session_id, {}).update(dict.fromkeys(members))
                if not members and session_id not in self._opened:
                    cgroup.remove()
        for session_id, process in marked:
            if session_id not in living:
                found.setdefault(session_id, {})[process] = None
        for session_id, some in seen.items():
            if session_id not in living:
                found.setdefault(session_id, {}).update(dict.fromkeys(some))
        spared = self._spared("", [process.pid for some in found.values() for process in some])
        left = {
            name: [process for process in some if process.pid not in spared] for name, some in found.items()
        }
        return {session_id: some for session_id, some in left.items() if some}

    def _all_marked(self) -> list[tuple[str, Process]]:
        found = []
        for pid in processes.other_pids():
            entries = processes.environ_entries(pid)
            session_id = next(
                (e.removeprefix(_SESSION) for e in entries if e.startswith(_SESSION)), b""
            ).decode("ascii", "replace")
            if not is_session_id(session_id):
                continue
            is_ours = self._has_token(session_id, pid, entries)
            if is_ours and (process := processes.identify(pid)) is not None:
                found.append((session_id, process))
        return found

    def _token(self, session_id: str) -> bytes:
        return _TOKEN + f"{self._launch}/{session_id}.token".encode()

    async def end_left_behind(self, session_id: str, grace_s: float, *, force: bool) -> list[Process]:
        """End what an ended session left behind; return what is left of it. Does not block."""

        def others() -> list[Process]:
            return self.left_behind().get(session_id, [])

        await asyncio.to_thread(self.thaw, session_id)
        left = await process_endings.end_tree(_NOBODY, grace_s, force=force, others=others)
        if session_id not in self._agents():
            left += await self.kill_cgroup(session_id, ended=True)
        return left

    async def kill_cgroup(self, session_id: str, *, ended: bool = False) -> list[Process]:
        """End what is left in the cgroups of a session with SIGKILL, and remove them; as `SessionCgroup.kill`.

        `ended`: only while the session has ended. It may be restored meanwhile, and its new process enters the same
        cgroup. Does not block.
        """
        all_left: list[Process] = []
        for cgroup in await asyncio.to_thread(self._cgroups_of, session_id):

            def spared(cgroup: SessionCgroup = cgroup) -> Collection[int]:
                members = cgroup.members()
                if ended and session_id in self._agents():
                    return _EVERY_PID  # also those that start after this look
                return self._spared(session_id, members)

            left = await cgroup.kill(spared)
            all_left += left
            if not (left or (ended and session_id in self._agents())):
                cgroup.remove()
        return all_left

    def _marked(self, session_id: str, agent: Process) -> list[Process]:
        """The processes that started after the agent with the mark of the session in their environment."""
        boot, _, began = agent.started.partition("/")
        if boot != boot_id():
            return []
        mark = _SESSION + session_id.encode()
        found = []
        for pid in processes.other_pids():
            entries = processes.environ_entries(pid)
            if mark in entries and self._has_token(session_id, pid, entries):
                stat = processes.read_stat(pid)
                if stat is not None and not stat.gone and stat.start >= int(began):
                    found.append(stat.process)
        return found

    def _spared(self, session_id: str, pids: Sequence[int]) -> Collection[int]:
        """The processes that must not end with the session: this daemon, and those on which other agents depend.

        An agent may have started the terminal server in which other agents live. Then it, and everything below it,
        stays.
        """
        agents = self._agents().items()
        others = [agent.pid for other, agent in agents if agent is not None and other != session_id]
        needed = {ancestor for pid in (os.getpid(), *others) for ancestor in processes.ancestry(pid)}
        inside = needed.intersection(pids)
        return needed | processes.descendants(inside) if inside else needed


def _warn(session_id: str, error: OSError) -> None:
    log.warning("could not move an agent to its cgroup: %s", error, extra={"sm_session": session_id})
