"""Finds the terminals of this instance by their options and not by name: hooks and people change names.

    session  @sm_terminal     INSTANCE ID NAME: the session was made for this terminal (set first)
    pane     @sm_agent        INSTANCE ID NAME: this pane runs, or ran, the agent
    session  @sm_instance     INSTANCE (the only option on the keeper of `server`)
    session  @sm_session_id   ID: the agent was started (set last)

For the options of adopted panes see `adopt`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from sm.errors import NoTerminal
from sm.terminals.base import Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Refused
from sm.terminals.tmux.tmux_server import TmuxServer


class Finder:
    """Finds terminals by name, and keeps the last known tmux session of each."""

    def __init__(self, server: TmuxServer) -> None:
        self._server = server
        self._seen: dict[str, panes.Row] = {}

    async def snapshot(self) -> Mapping[str, Pane]:
        (lines,) = await self._server.ask(panes.panes(f"#{{m:{self._server.instance} *,#{{@sm_agent}}}}"))
        rows = panes.rows(lines)
        self._seen.clear()
        return {row.pane.session_id: self.remember(row) for row in rows}

    async def pane(self, name: str) -> Pane:
        """Raises NoTerminal, and as `TmuxServer.ask`.

        Ask for the last known pane first: tmux takes 10 us for each pane of a list, and a pane keeps its id.
        """
        seen = self._seen.get(name)
        if seen is not None:
            ((line,),) = await self._server.ask(panes.pane(seen.pane.pane_id))
            row = panes.row_of(line, panes.tag(self._server.instance, seen.pane.session_id, name))
            if row is not None:
                return self.remember(row)
        mine = f"#{{m:{self._server.instance} * {panes.word(name)},#{{@sm_agent}}}}"
        (lines,) = await self._server.ask(panes.panes(mine))
        for row in panes.rows(lines):
            return self.remember(row)
        raise no_terminal(name)

    async def find_running(self, name: str) -> Pane:
        """As `pane`. Raises NoTerminal also when the process has ended."""
        pane = await self.pane(name)
        if pane.dead:
            raise process_ended(name)
        return pane

    def remember(self, row: panes.Row) -> Pane:
        self._seen[row.pane.name] = row
        return row.pane

    def last_seen(self, name: str) -> tuple[str, str | None]:
        """The last known name of the tmux session, and the pane when it was adopted."""
        row = self._seen.get(name)
        if row is None:
            return name, None
        return row.session_name, row.pane.pane_id if row.adopted else None

    def forget_pane(self, name: str) -> None:
        """Forget the adopted pane of a terminal."""
        row = self._seen.get(name)
        if row is not None:
            self._seen[name] = replace(row, adopted=False)

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)


@contextmanager
def translate_refusal(name: str) -> Iterator[None]:
    """Raise NoTerminal when tmux refuses a command about the pane of terminal `name`."""
    try:
        yield
    except Refused:
        raise no_terminal(name) from None


def no_terminal(name: str) -> NoTerminal:
    return NoTerminal(f"terminal {name} does not exist")


def process_ended(name: str) -> NoTerminal:
    return NoTerminal(f"the process in terminal {name} has ended")
