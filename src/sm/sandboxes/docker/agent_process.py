"""Finds the processes of sessions among the processes of a container, as the host sees them.

The engine starts the agent of a terminal from outside: its parent is a process of the engine, and no process of the
container can make itself such a child. Its environment names the session, or it still runs the launch script. The last
arguments of that shell are the script and the pid of the terminal's process.
"""

from typing import TYPE_CHECKING

from sm.core.models import Process
from sm.linux import processes
from sm.linux.cgroups import Cgroup, cgroup_of, container_of

if TYPE_CHECKING:
    from docker import DockerClient

_MARK = "SM_SESSION_ID"


def cgroup_of_container(init: Process) -> Cgroup | None:
    """The cgroup of the container with this first process; None when that process is gone."""
    if container_of(init.pid) is None:
        return None
    found = cgroup_of(init.pid)
    return found if processes.is_alive(init) else None


def marked(cgroup: Cgroup, session_id: str) -> list[Process]:
    """The live processes of a container that were started for the session, whoever their parent is now."""
    found = (
        processes.identify(pid)
        for pid in cgroup.members()
        if processes.environ_value(pid, _MARK) == session_id
    )
    return [process for process in found if process is not None]


def exec_pid(client: "DockerClient", container_id: str, last_arguments: tuple[str, ...]) -> int | None:
    """The pid on the host of the process that the engine started with these last arguments; None without one."""
    for exec_id in client.api.inspect_container(container_id)["ExecIDs"] or ():
        found = client.api.exec_inspect(exec_id)
        arguments = found["ProcessConfig"]["arguments"] or ()
        if found["Running"] and tuple(arguments[-len(last_arguments) :]) == last_arguments:
            return int(found["Pid"])
    return None


class AgentSearch:
    """Looks for the process of an agent that starts. `script`: the path of its launch script inside.

    `terminal`: the pid of the terminal's process.
    """

    def __init__(self, cgroup: Cgroup, session_id: str, script: str, terminal: int) -> None:
        self._cgroup = cgroup
        self._session_id = session_id
        self._last_arguments = (script, str(terminal))
        stat = processes.read_stat(terminal)
        # An agent is younger than its terminal. So no older process can pass for it by changing its own memory.
        self._since = 0 if stat is None else stat.start
        self._inner: set[int] = set()
        self._known: Process | None = None

    def know(self, process: Process) -> None:
        """Search no longer: this is the process that the engine started for the terminal."""
        self._known = process

    def look(self) -> tuple[Process | None, bool]:
        """The process, if there is one, and whether it has left the launch script."""
        known = self._known
        if known is None or not processes.is_alive(known):
            self._known = known = self._find()
        if known is None:
            return None, False
        argv = processes.command_line(known.pid)  # empty in the middle of an execve
        # Before the launch script, the process is the runtime's own `runc init`.
        runtime = argv[1:] == ("init",) and processes.environ_value(known.pid, _MARK) is None
        return known, bool(argv) and argv[-2:] != self._last_arguments and not runtime

    def _find(self) -> Process | None:
        members = set(self._cgroup.members())
        self._inner &= members
        found = [
            stat
            for pid in members - self._inner
            if (stat := self._started_from_outside(pid, members)) is not None
        ]
        return min(found, key=lambda stat: stat.start).process if found else None

    def _started_from_outside(self, pid: int, members: set[int]) -> processes.ProcessStat | None:
        stat = processes.read_stat(pid)
        if stat is None or stat.gone:
            return None
        if stat.parent in members or stat.start < self._since:
            self._inner.add(pid)
            return None
        if processes.command_line(pid)[-2:] == self._last_arguments:
            return stat
        return stat if processes.environ_value(pid, _MARK) == self._session_id else None
