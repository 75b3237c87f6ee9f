"""Every kind of agent CLI that `sm` can start, by name.

Providers are imported on construction, so that commands that need only names start fast.
"""

from sm import registry

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.config import Config
    from sm.providers.base import Provider
    from sm.providers.checks import ProgramCheck

__all__ = ["checked_providers", "make_check", "make_providers"]


def make_providers(config: "Config") -> "dict[str, Provider]":
    """Make every provider by its name. Raises ConfigError for files named in the configuration."""
    packages = {name: registry.load(package) for name, package in registry.PROVIDERS.items()}
    return {
        name: package.make_provider(config)
        for name, package in packages.items()
        if hasattr(package, "make_provider")
    }


def checked_providers() -> list[str]:
    """The names of the providers that have contracts with their agent CLI."""
    return [
        name for name, package in registry.PROVIDERS.items() if hasattr(registry.load(package), "make_check")
    ]


def make_check(name: str) -> "ProgramCheck":
    """Make the contracts of one of `checked_providers`."""
    check: ProgramCheck = registry.load(registry.PROVIDERS[name]).make_check()
    return check
