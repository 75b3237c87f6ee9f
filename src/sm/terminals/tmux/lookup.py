"""Finds the terminals of this instance by their options, never by a name: hooks and people change names.

    session  @sm_terminal     INSTANCE ID NAME: the session was made for it (set first)
    pane     @sm_agent        INSTANCE ID NAME: this pane runs, or ran, the agent
    session  @sm_instance     INSTANCE (the keeper of `server` carries this one alone)
    session  @sm_session_id   ID: the agent was started (set last)

A pane that was adopted carries others: see `adopt`.
"""

from collections.abc import Mapping

from sm.errors import NoTerminal
from sm.terminals.base import Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.server import TmuxServer


class Finder:
    """The terminals of one instance by name, and what each was last seen as."""

    def __init__(self, instance: str, server: TmuxServer) -> None:
        self._instance = instance
        self._server = server
        self._session_names: dict[str, str] = {}
        self._adopted: dict[str, str] = {}
        """The pane of each terminal that was adopted."""

    async def snapshot(self) -> Mapping[str, Pane]:
        (lines,) = await self._server.ask(panes.panes(f"#{{m:{self._instance} *,#{{@sm_agent}}}}"))
        rows = panes.rows(lines)
        self._session_names = {row.pane.name: row.session_name for row in rows}
        self._adopted = {row.pane.name: row.pane.pane_id for row in rows if row.adopted}
        return {row.pane.session_id: row.pane for row in rows}

    async def pane(self, name: str) -> Pane:
        """Raises NoTerminal, and as `TmuxServer.ask` does."""
        (lines,) = await self._server.ask(
            panes.panes(f"#{{m:{self._instance} * {panes.word(name)},#{{@sm_agent}}}}")
        )
        for row in panes.rows(lines):
            self.seen(name, row.session_name, row.pane.pane_id if row.adopted else None)
            return row.pane
        raise not_there(name)

    async def living(self, name: str) -> Pane:
        """As `pane`; NoTerminal too when its process has ended."""
        pane = await self.pane(name)
        if pane.dead:
            raise NoTerminal(f"the process in terminal {name} has ended")
        return pane

    def seen(self, name: str, session_name: str, adopted: str | None = None) -> None:
        """Keep what its session is called now, and the pane of one that was adopted."""
        self._session_names[name] = session_name
        if adopted is not None:
            self._adopted[name] = adopted

    def last_seen(self, name: str) -> tuple[str, str | None]:
        """What its session was called when it was last seen, and the pane when it was adopted."""
        return self._session_names.get(name, name), self._adopted.get(name)

    def released(self, name: str) -> None:
        """It stands no longer in a pane that was adopted."""
        self._adopted.pop(name, None)

    def closed(self, name: str) -> None:
        self._session_names.pop(name, None)
        self._adopted.pop(name, None)


def not_there(name: str) -> NoTerminal:
    return NoTerminal(f"terminal {name} is not there")
