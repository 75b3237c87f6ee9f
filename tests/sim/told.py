"""The record of a storm apart from the daemon: confirmed acts, heard texts, and how processes ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.sim.claude import Journal
from tests.sim.processes import PlayedProcess


class Cause(StrEnum):
    """The cause of the end of a process."""

    ITSELF = "itself"
    FAULT = "fault"
    SERVER = "server"
    """The end of its terminal."""
    DAEMON = "daemon"


@dataclass(slots=True)
class Run:
    """One process of a session."""

    process: PlayedProcess
    kind: str
    ended_after: int | None = None
    """The number of the last event that was recorded before its end, or None if it runs."""
    cause: Cause = Cause.DAEMON
    was_ordered: bool = False
    """Somebody had ordered its end before."""


@dataclass(slots=True)
class Told:
    """The acts that the daemon has confirmed, and the texts that agents got."""

    spawned: list[str] = field(default_factory=list)
    """Session ids."""
    refused_spawns: int = 0
    removed: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    """Texts of messages, each of which is unique."""
    refused_sends: set[str] = field(default_factory=set)
    phoned: dict[str, int] = field(default_factory=dict)
    """The texts that the owner wrote in Telegram, with the ids of the messages there."""
    heard: dict[str, list[str]] = field(default_factory=dict)
    """The texts that the agent of each session got."""
    overstepped: list[str] = field(default_factory=list)
    """Orders beyond the authority of their callers that were carried out."""
    killed: set[str] = field(default_factory=set)
    """Sessions whose end somebody has ordered, confirmed or not."""
    runs: dict[str, list[Run]] = field(default_factory=dict)
    """The processes of each session, in order."""
    servers_lost: int = 0
    """Terminal servers and engines that ended."""
    journal: Journal = field(default_factory=Journal)
    waited: list[str] = field(default_factory=list)
    """Answers of waits that are not true."""

    def begin_run(
        self, session_id: str, process: PlayedProcess, kind: str, last_event: Callable[[], int]
    ) -> Run:
        run = Run(process, kind)
        self.runs.setdefault(session_id, []).append(run)

        def note_end() -> None:
            run.ended_after = last_event()
            run.was_ordered = session_id in self.killed

        process.on_end.append(note_end)
        return run

    def run_of(self, session_id: str) -> Run | None:
        """The newest process of a session, if it runs."""
        runs = self.runs.get(session_id)
        return runs[-1] if runs and runs[-1].process.exit is None else None
