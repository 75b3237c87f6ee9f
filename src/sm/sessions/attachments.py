"""Attaches files of the operator to messages and tasks. A capability keeps the files."""

from collections.abc import Mapping, Sequence

from sm.core.models import Caller, Session
from sm.errors import UsageError
from sm.operations.session_operations import ATTACH_FILES
from sm.providers.base import InputMethod, Provider
from sm.sessions.authorizer import Authorizer
from sm.store import Transaction

FILES_MAX = 10
"""The limit of files with one message or task."""


class Attachment:
    """The files of one message or task: none."""

    lines: Sequence[str] = ()
    """The lines at the end of the text, which name the files."""

    async def place(self) -> None:
        """Put the files where the agent of the session can read them. Call it before the transaction.

        Raises StorageFull, and UsageError for a file that is gone.
        """

    async def use(self, tx: Transaction, message_id: int | None = None) -> None:
        """Store that the session has the files. `message_id`: None for a task. Raises UsageError for a used file."""

    async def finish(self) -> None:
        """Remove the copies that are not needed, after the transaction, also if it failed."""


NO_FILES = Attachment()


class Attacher:
    """Finds the files of attachments."""

    def attach(self, session: Session, ids: Sequence[str]) -> Attachment:
        """The files with these ids, for a session that may not be stored yet. Raises UsageError for an unknown id."""
        raise NotImplementedError


class Attachers:
    """The attachers of capabilities, which add theirs to `each`. The first one keeps the files."""

    def __init__(self, authorizer: Authorizer, providers: Mapping[str, Provider]) -> None:
        self._authorizer = authorizer
        self._providers = providers
        self.each: list[Attacher] = []

    def takes_files(self, provider: str, agent_type: str) -> bool:
        """True if agents of this type can be told where a file is."""
        known = self._providers.get(provider)
        is_told = known is not None and known.input_of(agent_type) is not InputMethod.TTY
        return is_told and bool(self.each)

    def attach(self, caller: Caller, session: Session, ids: Sequence[str]) -> Attachment:
        """The files for a message or the task of the session. Raises NotPermitted and UsageError."""
        if not ids:
            return NO_FILES
        self._authorizer.require(caller, ATTACH_FILES, session.id)
        if len(ids) > FILES_MAX:
            raise UsageError(f"files: {len(ids)} files, at most {FILES_MAX} are allowed with one message")
        if not self.each:
            raise UsageError("files: this daemon keeps no files")
        if not self.takes_files(session.provider, session.agent_type):
            raise UsageError(
                f"files: agents of type {session.agent_type} take no files, because they read messages line by line",
                "copy the file into the working directory of the agent, and name it in the text",
            )
        return self.each[0].attach(session, list(dict.fromkeys(ids)))
