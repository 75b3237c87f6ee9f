"""Additions of capabilities to a new session: their rows, warnings for the caller, lines of its briefing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from sm.config import AgentConfig
from sm.core.dataclass import dataclass
from sm.core.models import Caller, Launch, Session, SpawnRequest
from sm.providers.base import Provider
from sm.sandboxes.home import ContainerHome
from sm.store import Transaction


class SpawnAddition:
    """The addition of one capability to one new session: nothing."""

    needs_caller: ClassVar[bool] = False
    """The session is not made for a caller who has gone while it was planned."""

    @property
    def briefing(self) -> str:
        """A line of the agent's briefing, or empty for none."""
        return ""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings for the caller."""
        return ()

    async def complete(
        self, session: Session, provider: Provider, launch: Launch, home: ContainerHome | None
    ) -> Session:
        """The session with what its process tells, or what is decided of it. A fork has the values of its original.

        `home`: the home directory of its container, or None if it starts on this host.
        """
        return session

    def planned_warnings(self, session: Session, provider: Provider) -> Sequence[str]:
        """Warnings that need the model of the session. A fork has none."""
        return ()

    async def insert(self, tx: Transaction, session: Session) -> None:
        """Store the rows of the session, which the transaction has inserted. Raises UsageError."""


@dataclass(frozen=True, slots=True)
class PreparedPlace:
    """A working directory that a capability makes before the session starts. It does not exist yet."""

    working_dir: str
    addition: SpawnAddition


class SpawnPart:
    """Plans the additions of one capability."""

    async def prepare(
        self,
        request: SpawnRequest,
        parent: Session | None,
        working_dir: str,
        environment: Mapping[str, str],
        process_limits: Mapping[str, int],
    ) -> PreparedPlace | None:
        """Plan a directory in place of `working_dir`, or return None if the session works there. Changes nothing.

        `environment`, `process_limits`: what the session inherits. Raises UsageError and NotPermitted.
        """
        return None

    def plan(
        self, session: Session, request: SpawnRequest | None, agent: AgentConfig | None
    ) -> SpawnAddition:
        """Plan the addition to a session that is not stored yet. Raises UsageError.

        `request`: None for a fork. `agent`: the settings of its agent type, or None if the type no longer exists.
        """
        return SpawnAddition()

    def place(self, request: SpawnRequest, working_dir: str) -> str:
        """The directory by which the workspace of the session is found. Raises UsageError and InvalidPath."""
        return working_dir

    def project_of(self, directory: str) -> str:
        """The project that a person trusts in place of a directory in it."""
        return directory

    def check_caller(self, tx: Transaction, caller: Caller) -> None:
        """Raise NotPermitted if the caller has lost the right to start sessions since the call began."""

    def restore_warnings(self, session: Session) -> Sequence[str]:
        """Warnings about an ended session that is started again."""
        return ()

    def briefing(self, session: Session) -> str:
        """The line of the briefing of a stored session, or empty for none."""
        return ""


async def prepared_place(
    parts: Iterable[SpawnPart],
    request: SpawnRequest,
    parent: Session | None,
    working_dir: str,
    environment: Mapping[str, str],
    process_limits: Mapping[str, int],
) -> PreparedPlace | None:
    """As `SpawnPart.prepare`, of the first capability that plans a directory."""
    for part in parts:
        place = await part.prepare(request, parent, working_dir, environment, process_limits)
        if place is not None:
            return place
    return None


def place_of(parts: Iterable[SpawnPart], request: SpawnRequest, working_dir: str) -> str:
    """The working directory after each capability has placed the session, one after the other."""
    for part in parts:
        working_dir = part.place(request, working_dir)
    return working_dir


def project_of(parts: Iterable[SpawnPart], directory: str) -> str:
    """As `SpawnPart.project_of`, of all capabilities."""
    for part in parts:
        directory = part.project_of(directory)
    return directory
