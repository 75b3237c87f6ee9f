"""The settings of restarts: keys of agent types, of commands and of definition files."""

from typing import Literal

from pydantic import Field

from sm.section import Section

Policy = Literal["never", "on-failure"]
"""As `rules.RestartPolicy`."""


class DefinedRestart(Section):
    """The keys that restarts add to definition files of agents."""

    restart: Policy = "never"
    """on-failure: start the agent again when its process crashes, in its conversation. never: a crash ends the
    session."""


class AgentRestart(DefinedRestart):
    """The keys that restarts add to agent types."""

    restart_max: int = Field(default=3, ge=1, le=20)
    """Maximum number of restarts in 15 minutes. After the next crash, sm gives up."""


class CommandRestart(AgentRestart):
    """The keys that restarts add to commands."""

    restart: Policy = "never"
    """on-failure: start the program again when it crashes, after 5 s, 10 s and so on. never: a crash ends the
    session."""


AGENT, COMMAND, DEFINITION = AgentRestart, CommandRestart, DefinedRestart
