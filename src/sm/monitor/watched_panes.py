"""The panes of the agents that are watched, and the sessions that own them."""

from sm.linux.processes import is_alive
from sm.linux.ttys import tty_of
from sm.store import Store
from sm.terminals.base import Pane


class WatchedPanes:
    """Knows the pane of the newest process of each watched session."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._panes: dict[str, Pane | None] = {}

    def put(self, session_id: str, pane: Pane | None) -> None:
        self._panes[session_id] = pane

    def remove(self, session_id: str) -> None:
        self._panes.pop(session_id, None)

    def tty_owner(self, tty: str) -> str | None:
        """The session that owns the pane of this terminal, without a query to tmux.

        The kernel reuses the numbers of closed terminals, so only a live process owns one. A `foreign` pane belongs to
        the person who runs the agent in a shell.
        """
        panes = self._panes.items()
        owners = (s for s, pane in panes if pane is not None and pane.tty == tty and not pane.foreign)
        return next((s for s in owners if self._lives_on(s, tty)), None)

    def _lives_on(self, session_id: str, tty: str) -> bool:
        session = self._store.sessions.get(session_id)
        process = None if session is None else session.process
        return process is not None and is_alive(process) and tty_of(process.pid) == tty
