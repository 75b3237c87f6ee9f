"""Makes the record of a new session: its ids, its names and its token. Does not store it."""

import secrets
from collections.abc import Callable
from typing import Any

from sm.config import Config
from sm.core.dataclass import dataclass
from sm.core.models import Caller, Session, digest
from sm.core.names import friendly_name
from sm.core.statuses import Status
from sm.policy.relations import paired_user
from sm.providers.base import Provider


@dataclass(frozen=True, slots=True, eq=False)
class NewSessions:
    _config: Config
    _now: Callable[[], str]

    def make(
        self,
        caller: Caller,
        agent_type: str,
        provider: Provider,
        name: str | None,
        parent: Session | None,
        **facts: Any,
    ) -> tuple[Session, str]:
        """A session and its token. Raises UsageError for an invalid name."""
        at = self._now()
        session_id, token = secrets.token_hex(4), secrets.token_hex(32)
        kind = agent_type.lower()
        naming = self._config.sessions.naming
        session = Session(
            id=session_id,
            name=naming.fallback.format(agent_type=kind, short_id=session_id).lower(),
            friendly_name=None if name is None else friendly_name(naming.pattern, kind, name),
            agent_type=agent_type,
            provider=provider.name,
            status=Status.SPAWNED,
            status_source="manager",
            status_at=at,
            created_by=str(caller),
            parent_id=None if parent is None else parent.id,
            paired_user=paired_user(caller, parent),
            terminal=f"{provider.name}-{session_id}",
            created_at=at,
            token_hash=digest(token),
            **facts,
        )
        return session, token
