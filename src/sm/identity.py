"""Who is calling: the kernel's word on the peer of a connection, and marks that can only lower authority.

Design section 7. A peer is a session if any of these names one: its ancestry, `SM_SESSION_ID` in its
environment, a controlling terminal that is one of our panes, or any pane of a tmux session that carries our
id. Two different answers: refused. None: the operator.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping

from sm.errors import NotPermitted, TerminalError
from sm.hostos import Peer, ancestry, environ_value, identify, tty_of
from sm.models import OPERATOR, Caller, CallerKind, Session
from sm.terminals.base import Terminals

log = logging.getLogger(__name__)

_ASK_WITHIN_S = 2.0


class Identity:
    """Finds out who a peer is. `tty_owner` knows the panes that the daemon watches, without asking tmux."""

    def __init__(
        self, sessions: Mapping[str, Session], terminals: Terminals, tty_owner: Callable[[str], str | None]
    ) -> None:
        self._sessions = sessions
        self._terminals = terminals
        self._tty_owner = tty_owner

    async def caller(self, peer: Peer) -> Caller:
        """The caller behind `peer`, as it is now. Raises NotPermitted."""
        if peer.uid != os.geteuid():
            raise NotPermitted(
                f"this daemon belongs to user id {os.geteuid()}, not {peer.uid}", "run sm as its owner"
            )
        # A caller that sends and goes must not be taken for an operator because nothing is left to look at.
        process = identify(peer.pid)
        marks = {
            "its process ancestry": self._by_ancestry(peer.pid),
            "SM_SESSION_ID": self._by_environment(peer.pid),
            "its terminal": await self._by_terminal(peer.pid),
        }
        if process is None or identify(peer.pid) != process:
            raise NotPermitted("the calling process was gone before it was known who it is")
        named = {session_id for session_id in marks.values() if session_id is not None}
        if not named:
            return OPERATOR
        if len(named) > 1:
            told = ", ".join(f"{mark} says {session_id}" for mark, session_id in marks.items() if session_id)
            log.warning("refused a caller with two identities")
            raise NotPermitted(f"it is not clear which session is calling: {told}")
        session_id = named.pop()
        if session_id not in self._sessions:
            raise NotPermitted(
                f"session {session_id} is not known to this daemon",
                "unset SM_SESSION_ID, or set SM_SOCKET to its daemon",
            )
        return Caller(CallerKind.SESSION, session_id)

    def _by_ancestry(self, pid: int) -> str | None:
        agents = {
            s.process.pid: s for s in self._sessions.values() if s.process is not None and s.exit is None
        }
        for ancestor in ancestry(pid):
            session = agents.get(ancestor)
            if session is not None and identify(ancestor) == session.process:
                return session.id
        return None

    def _by_environment(self, pid: int) -> str | None:
        return environ_value(pid, "SM_SESSION_ID") or None

    async def _by_terminal(self, pid: int) -> str | None:
        tty = tty_of(pid)
        if tty is None:
            return None
        known = self._tty_owner(tty)
        if known is not None or not self._sessions:
            return known
        try:
            async with asyncio.timeout(_ASK_WITHIN_S):
                return await self._terminals.session_of_tty(tty)
        except (TerminalError, TimeoutError):
            # Without an answer the other marks decide: a person must be able to ask what is wrong with tmux.
            return None
