"""Finds the terminals of this instance by their options, never by a name: hooks and people change names.

    session  @sm_terminal     INSTANCE ID NAME: the session was made for it (set first)
    pane     @sm_agent        INSTANCE ID NAME: this pane runs, or ran, the agent
    session  @sm_instance     INSTANCE (the keeper of `server` carries this one alone)
    session  @sm_session_id   ID: the agent was started (set last)

A pane that was adopted carries others: see `adopt`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sm.errors import NoTerminal
from sm.terminals.base import Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Refused
from sm.terminals.tmux.server import TmuxServer


class Finder:
    """The terminals of one instance by name, and what each was last seen as."""

    def __init__(self, server: TmuxServer) -> None:
        self._server = server
        self._seen: dict[str, tuple[str, str | None]] = {}

    async def snapshot(self) -> Mapping[str, Pane]:
        (lines,) = await self._server.ask(panes.panes(f"#{{m:{self._server.instance} *,#{{@sm_agent}}}}"))
        rows = panes.rows(lines)
        self._seen.clear()
        return {row.pane.session_id: self.seen(row) for row in rows}

    async def pane(self, name: str) -> Pane:
        """Raises NoTerminal, and as `TmuxServer.ask` does."""
        mine = f"#{{m:{self._server.instance} * {panes.word(name)},#{{@sm_agent}}}}"
        (lines,) = await self._server.ask(panes.panes(mine))
        for row in panes.rows(lines):
            return self.seen(row)
        raise not_there(name)

    async def living(self, name: str) -> Pane:
        """As `pane`; NoTerminal too when its process has ended."""
        pane = await self.pane(name)
        if pane.dead:
            raise NoTerminal(f"the process in terminal {name} has ended")
        return pane

    def seen(self, row: panes.Row) -> Pane:
        """Keep what its session is called now, and the pane of one that was adopted."""
        self._seen[row.pane.name] = row.session_name, row.pane.pane_id if row.adopted else None
        return row.pane

    def last_seen(self, name: str) -> tuple[str, str | None]:
        """What its session was called when it was last seen, and the pane when it was adopted."""
        return self._seen.get(name, (name, None))

    def released(self, name: str) -> None:
        """It stands no longer in a pane that was adopted."""
        self._seen[name] = self.last_seen(name)[0], None

    def closed(self, name: str) -> None:
        self._seen.pop(name, None)


@contextmanager
def expected(name: str) -> Iterator[None]:
    """Raise NoTerminal where tmux refuses a command about the pane of terminal `name`."""
    try:
        yield
    except Refused:
        raise not_there(name) from None


def not_there(name: str) -> NoTerminal:
    return NoTerminal(f"terminal {name} is not there")
