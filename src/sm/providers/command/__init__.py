"""The provider for any program: the agent types under `commands:` in the configuration."""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.config import Config
    from sm.providers.base import Provider


def make_provider(config: "Config") -> "Provider":
    """Make the provider for this configuration."""
    from sm.providers.command.provider import CommandProvider

    return CommandProvider(config.commands)
