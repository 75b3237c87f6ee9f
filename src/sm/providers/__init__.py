"""Every kind of agent CLI that `sm` can start, by name.

Providers are imported on construction, so that commands that need only names start fast.
"""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sm.config import Config
    from sm.providers.base import Provider
    from sm.providers.checks import ProgramCheck

__all__ = ["CHECKS", "LOCATION_VARIABLES", "PROVIDERS"]

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


def _claude_check() -> "ProgramCheck":
    from sm.providers.claude.check.contracts import ClaudeCheck

    return ClaudeCheck()


CHECKS: "Mapping[str, Callable[[], ProgramCheck]]" = {"claude": _claude_check}
"""Constructors of the contracts of providers, by the name of the provider."""
