"""A tmux client of a person in the played world."""

from sm.core.models import Exit
from tests.played_agent import Agent
from tests.sim.stage import Stage

REPORTED_S = 2.0
"""More than tmux needs to report a change of its clients."""


class TmuxClient:
    """A tmux client that shows the terminal of an agent: of the operator's shell, or of another agent."""

    def __init__(self, stage: Stage, agent: Agent, *, started_by: Agent | None = None) -> None:
        self._kernel = stage.world.kernel
        shell = (
            stage.world.shell if started_by is None else stage.world.programs.running[started_by.id].process
        )
        environ = stage.env if started_by is None else {}
        self._process = self._kernel.start(
            ("tmux", "attach-session"), environ, "/", parent=shell.pid, tty=self._kernel.new_tty()
        )
        server = stage.world.server
        server.attach(server.panes[stage.session(agent.id)["tmux_session"]], self._process)
        stage.settle()
        stage.wait(REPORTED_S)

    def detach(self) -> None:
        self._kernel.end(self._process, Exit(0))
