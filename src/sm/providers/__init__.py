"""Every kind of agent CLI that `sm` can start, by name.

Each is imported when it is made, so that commands which need only names stay light.
"""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sm.config import Config
    from sm.providers.base import Provider

__all__ = ["LOCATION_VARIABLES", "PROVIDERS"]

LOCATION_VARIABLES = ("HOME", "CLAUDE_CONFIG_DIR")
"""The variables of a person's shell that say where agent CLIs keep the files of their user."""


def _claude(config: "Config") -> "Provider":
    from sm.providers.claude import configured

    return configured(config)


def _command(config: "Config") -> "Provider":
    from sm.providers.command import CommandProvider

    return CommandProvider(config.commands)


PROVIDERS: "Mapping[str, Callable[[Config], Provider]]" = {"claude": _claude, "command": _command}
"""Each may raise ConfigError, for files that the configuration names."""
