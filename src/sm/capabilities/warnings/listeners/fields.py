"""The open warnings in the JSON of a session."""

from typing import Any

from sm.capabilities.warnings.tables import WarningReads
from sm.sessions.session_fields import SessionField
from sm.wire_types.warning import WarningView


class WarningsField(SessionField):
    """The open warnings of a session, oldest first."""

    name = "warnings"
    is_public = True

    def __init__(self, reads: WarningReads) -> None:
        self._reads = reads

    def is_set(self, session_id: str) -> bool:
        return session_id in self._reads.known()

    def value(self, session_id: str) -> Any:
        return [
            WarningView(w.kind.value, w.opened_at, w.value, w.limit, w.evidence)
            for w in self._reads.all_of(session_id)
        ]

    def signs(self, session_id: str) -> int:
        return len(self._reads.all_of(session_id))
