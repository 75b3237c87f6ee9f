"""The causes of the loss of a terminal."""

from enum import StrEnum
from typing import Final


class LossCause(StrEnum):
    """The cause of the loss of a terminal. The value is the source of the status."""

    TERMINAL = "terminal"
    """A person or a program closed the terminal."""
    SERVER = "tmux server"
    """The tmux server ended, and with it all terminals."""
    MACHINE = "machine"
    """The machine restarted."""
    ENGINE = "container engine"
    """The container engine closed the connection to a live agent, for example because it restarted."""
    CONTAINER = "container"
    """The container ended without an order of sm, and with it all its agents."""


LOST_TOGETHER: Final = frozenset({LossCause.SERVER, LossCause.MACHINE, LossCause.ENGINE, LossCause.CONTAINER})
"""The losses that end several sessions by one blow."""
TERMINAL_CLOSED = (LossCause.TERMINAL, "the terminal was closed")
CUT_OFF = (
    LossCause.ENGINE,
    "the container engine closed the connection to the agent's terminal, so sm ended the agent",
)
ENGINE_GONE = (LossCause.ENGINE, "the container engine ended or restarted, and the agent with it")
SERVER_GONE = (LossCause.SERVER, "the tmux server has ended")
CONTAINER_GONE = (LossCause.CONTAINER, "the container ended, and the agent with it")
