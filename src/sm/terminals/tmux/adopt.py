"""Adopts an agent that runs in the pane of a person: marks the pane as the terminal of a session.

The person's other panes may be in the same tmux session, so only the pane names the session of `sm`. The tmux session
gets one option, which `subscription` needs to find activity:

    pane     @sm_agent        INSTANCE ID NAME, as in `lookup` (set last)
    pane     @sm_session_id   ID
    pane     @sm_adopted      own, when the agent is the pane's first process; foreign, when a shell is
    pane     @sm_agent_pid    PID of the agent
    session  @sm_hosts        INSTANCE
"""

import contextlib

from sm.errors import NoServer, NoTerminal
from sm.terminals.base import ForeignPane, Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Command, Refused
from sm.terminals.tmux.lookup import Finder
from sm.terminals.tmux.tmux_server import TmuxServer


class PaneAdopter:
    """Marks and unmarks panes. `look`, `adopt` and `release` are as in `Terminals`."""

    def __init__(self, server: TmuxServer, finder: Finder) -> None:
        self._server = server
        self._finder = finder

    async def look(self, target: str) -> ForeignPane:
        if not target or not target.isprintable() or target.startswith("-"):
            raise NoTerminal("invalid pane name")
        fields = "#{pane_id} #{pane_pid} x#{pane_dead} x#{@sm_instance} #{@sm_agent}"
        try:
            ((line,),) = await self._server.ask(("display-message", "-p", "-t", target, fields))
            # For a missing pane display-message prints empty fields and no error.
            pane_id, pid, dead, owner, agent = line.split(" ", 4)
            instance, _, rest = agent.partition(" ")
            taken = owner != "x" or instance not in ("", self._server.instance)
            pane = ForeignPane(pane_id, int(pid), rest.split(" ")[0] or None, taken)
        except Refused as refused:
            raise NoTerminal(refused.text) from None
        except ValueError:
            raise NoTerminal("tmux cannot find the pane") from None
        if dead == "x1":
            raise NoTerminal("the process has ended")
        return pane

    async def adopt(
        self, session_id: str, name: str, pane: ForeignPane, *, foreign: bool, agent_pid: int | None = None
    ) -> Pane:
        tag = panes.tag(self._server.instance, session_id, name)
        to = ("-t", pane.pane_id)
        show: Command = ("display-message", "-p", *to, f"{tag} {panes.ROW}")
        kept = panes.FOREIGN if foreign else panes.OWN
        # A shell's pane closes with its shell, as before. An agent's dead pane stays: it holds the exit status.
        stay = panes.keep_on_exit(pane.pane_id)
        try:
            ((line,),) = await self._server.ask(show)
            if f" {pane.pane_id} {pane.pid} " not in line:
                raise NoTerminal(f"pane {pane.pane_id} no longer exists")
            *_, (line,) = await self._server.ask(
                ("set-option", "-p", *to, "@sm_adopted", kept),
                ("set-option", "-p", *to, "@sm_session_id", session_id),
                *(() if agent_pid is None else (("set-option", "-p", *to, "@sm_agent_pid", str(agent_pid)),)),
                ("set-option", *to, "@sm_hosts", self._server.instance),
                *(() if foreign else stay),
                ("set-option", "-p", *to, "@sm_agent", tag),
                show,
            )
        except Refused:
            raise NoTerminal(f"pane {pane.pane_id} no longer exists") from None
        return self._finder.remember(panes.row(line))

    async def release(self, name: str) -> None:
        with contextlib.suppress(NoServer, NoTerminal):
            pane = await self._finder.pane(name)
            if pane.foreign:
                await self.unmark(pane.pane_id)
                self._finder.forget_pane(name)

    async def unmark(self, pane_id: str) -> None:
        marks = ("@sm_agent", "@sm_session_id", "@sm_adopted", "@sm_agent_pid")
        with contextlib.suppress(Refused):  # tmux refuses an id only when the pane is gone
            await self._server.ask(*(("set-option", "-p", "-u", "-t", pane_id, mark) for mark in marks))
