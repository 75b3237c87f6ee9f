"""config.yaml: its model, its defaults, and every mistake in it at once with line and column.

Only the daemon and the commands that show or check the configuration import this: pydantic takes 100 ms.
"""

from sm.config.example import example
from sm.config.model import AgentConfig, Claude, Command, Config, ModelArgs, Webhook
from sm.config.reading import Loaded, load, read_briefing

__all__ = [
    "AgentConfig",
    "Claude",
    "Command",
    "Config",
    "Loaded",
    "ModelArgs",
    "Webhook",
    "example",
    "load",
    "read_briefing",
]
