"""Remembers the processes that were seen in the process trees of sessions, for those that leave their tree later.

Needed where no cgroup holds the processes of a session. A process is remembered until it has ended, by its pid and its
start, so that another process with the same pid is never taken for it. One that leaves the tree between two looks,
right after its start, is not seen.

The file keeps what was seen at two looks, for the next daemon. A loss of the file loses no more than that.
"""

import json
import logging
from collections.abc import Mapping

from sm.core.models import Process
from sm.linux.files import read_or_empty, replace_private
from sm.linux.processes import is_alive, process_table, process_tree

log = logging.getLogger(__name__)

MAX_PER_SESSION = 256
_FILE_MAX = 4 << 20

_Seen = Mapping[str, Mapping[Process, None]]


class SeenProcesses:
    """The seen processes by the id of their session. Every method blocks; one thread at a time may call `look`."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._kept = _read(file)
        self._seen: _Seen = self._kept
        self._is_failing = False

    def look(self, agents: Mapping[str, Process]) -> None:
        """Look at the trees of these agents, by the ids of their sessions, and at what left such a tree before."""
        if not agents and not self._seen:
            return
        table = process_table()
        seen: dict[str, Mapping[Process, None]] = {}
        for session_id in {**self._seen, **agents}:
            left = [process for process in self._seen.get(session_id, ()) if process.pid in table]
            agent = agents.get(session_id)
            roots = left if agent is None else [*left, agent]
            # The earlier ones first: they may be outside of the tree now, and a look at the tree does not find them.
            found = [process for process in process_tree(*roots, table=table) if process != agent]
            present = set(found)
            earlier = [process for process in left if process in present]
            if found:
                seen[session_id] = dict.fromkeys([*dict.fromkeys(earlier + found)][:MAX_PER_SESSION])
        kept = {
            session_id: both
            for session_id, some in seen.items()
            if (both := {process: None for process in some if process in self._seen.get(session_id, ())})
        }
        self._seen = seen
        if kept != self._kept:
            self._write(kept)

    def _write(self, kept: _Seen) -> None:
        text = {
            session_id: [[process.pid, process.started] for process in some]
            for session_id, some in kept.items()
        }
        try:
            replace_private(self._file, json.dumps(text).encode())
        except OSError as error:
            if not self._is_failing:
                log.warning("could not write %s: %s", self._file, error)
            self._is_failing = True
            return
        self._kept, self._is_failing = kept, False

    def of(self, session_id: str) -> list[Process]:
        """The live processes that were seen in the tree of a session, and are perhaps still in it."""
        return [process for process in self._seen.get(session_id, ()) if is_alive(process)]

    def all(self) -> dict[str, list[Process]]:
        """The live processes of all sessions that had one at the last look."""
        return {session_id: self.of(session_id) for session_id in self._seen}


def _read(file: str) -> _Seen:
    try:
        content = json.loads(read_or_empty(file, _FILE_MAX) or b"{}")
        return {
            str(session_id): {Process(int(pid), str(started)): None for pid, started in some}
            for session_id, some in content.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("could not read %s: %s", file, error)
        return {}
