"""Looks whether a person uses the terminal of an agent."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from sm.core.models import Session
from sm.policy.unfinished import TerminalUse
from sm.providers.base import Provider
from sm.terminals.base import Keyboard, Screen

UseOfTerminal = Callable[[Session], Awaitable[TerminalUse]]
"""Looks at the terminal of a session. Raises TerminalError if the terminal cannot be seen."""


class LookedAtTerminals(Screen, Keyboard, Protocol):
    """The part of the terminals that a look needs."""


class TerminalLooks:
    """Looks at the terminals of agents with an input box. Types nothing."""

    def __init__(self, terminals: LookedAtTerminals, providers: Mapping[str, Provider]) -> None:
        self._terminals = terminals
        self._providers = providers

    async def use_of(self, session: Session) -> TerminalUse:
        """The use of the session's terminal now. Raises TerminalError if the terminal cannot be seen."""
        reader = self._providers[session.provider].box_reader
        typed_s = await self._terminals.key_pause_s(session.terminal)
        if reader is None:
            return TerminalUse(typed_s=typed_s)
        box = reader.box(await self._terminals.capture_styled(session.terminal))
        return TerminalUse(bool(box.draft), box.stashed, box.closed, typed_s)
