"""The causes of the loss of a terminal."""

from enum import StrEnum


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


TERMINAL_CLOSED = (LossCause.TERMINAL, "the terminal was closed")
CUT_OFF = (
    LossCause.ENGINE,
    "the container engine closed the connection to the agent's terminal, so sm ended the agent",
)
ENGINE_GONE = (LossCause.ENGINE, "the container engine ended or restarted, and the agent with it")
SERVER_GONE = (LossCause.SERVER, "the tmux server has ended")
