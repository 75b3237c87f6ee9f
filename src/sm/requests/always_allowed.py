"""The rules that a person has allowed for ever, as they apply to a session now."""

from collections.abc import Awaitable, Callable, Sequence

from sm.core.models import Session
from sm.core.permission_facts import CurrentMode
from sm.core.programs import is_bypass
from sm.core.states import TrustLevel
from sm.policy.written_rules import WrittenRule, allowed

ModeOf = Callable[[Session], Awaitable[CurrentMode | None]]
"""Gives the permission mode in which the agent of a session runs now, or None if it is unknown."""


class AlwaysAllowed:
    """The rules of rules.yaml. A change of the file replaces `rules`."""

    def __init__(self, rules: Sequence[WrittenRule], mode_of: ModeOf) -> None:
        self.rules = tuple(rules)
        self._mode_of = mode_of

    async def of(self, session: Session) -> tuple[str, ...]:
        """The rules for the session, in addition to `auto_allow`. None while its agent bypasses permissions."""
        is_sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        found = allowed(self.rules, session.agent_type, sandboxed=is_sandboxed)
        return () if found and await self.bypasses(session) else found

    async def bypasses(self, session: Session) -> bool:
        """Return whether the agent of the session asks for no permissions."""
        mode = await self._mode_of(session)
        return mode is not None and is_bypass(mode.mode)
