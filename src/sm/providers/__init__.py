"""Every kind of agent CLI that `sm` can start, by name.

Providers are imported on construction, so that commands that need only names start fast.
"""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sm.config import Config
    from sm.providers.base import Provider

__all__ = ["LOCATION_VARIABLES", "PROVIDERS"]

LOCATION_VARIABLES = ("HOME", "CLAUDE_CONFIG_DIR")
"""Environment variables that locate the user files of agent CLIs."""


def _claude(config: "Config") -> "Provider":
    from sm.providers.claude import make_provider

    return make_provider(config)


def _command(config: "Config") -> "Provider":
    from sm.providers.command import CommandProvider

    return CommandProvider(config.commands)


PROVIDERS: "Mapping[str, Callable[[Config], Provider]]" = {"claude": _claude, "command": _command}
"""Constructors by name. Each may raise ConfigError for files named in the configuration."""
