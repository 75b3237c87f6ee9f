"""config.yaml: its model, its defaults, and every mistake in it at once with line and column.

Only the daemon and the commands that show or check the configuration import this: pydantic takes 100 ms.
"""

from sm.config.example import example
from sm.config.model import Command, Config, Webhook
from sm.config.reading import Loaded, load

__all__ = ["Command", "Config", "Loaded", "Webhook", "example", "load"]
