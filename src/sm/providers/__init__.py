"""Every kind of agent CLI that sm can start."""

from collections.abc import Callable, Mapping

from sm.config import Config
from sm.providers.base import Provider
from sm.providers.command import CommandProvider

PROVIDERS: Mapping[str, Callable[[Config], Provider]] = {
    "command": lambda config: CommandProvider(config.commands),
}
