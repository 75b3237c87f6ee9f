"""Finds the programs of agent CLIs that agents on this machine start, for commands.

The copy of the client in a container has only a part of each provider, so all imports of them are inside the functions.
"""

from collections.abc import Iterable

import click

from sm.cli.instance import Instance
from sm.errors import UsageError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.providers.checks import ProgramCheck
    from sm.providers.kept_programs import KeptPrograms


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Iterable[str]:
    from sm.providers import checked_providers

    return [name for name in checked_providers() if name.startswith(incomplete)]


name_argument = click.argument("name", metavar="NAME", shell_complete=_complete)
"""The name of a provider with contracts."""


def check_of(name: str) -> "ProgramCheck":
    """Return the contracts of a provider. Raises UsageError for a provider without contracts."""
    from sm.providers import checked_providers, make_check

    if name not in (checks := checked_providers()):
        raise UsageError(f"there are no contracts with {name[:40]!r}", f"one of: {', '.join(checks)}")
    return make_check(name)


def kept_programs(instance: Instance, name: str) -> "KeptPrograms":
    """The versions of a provider's agent CLI that this instance keeps. Raises UsageError as `check_of`."""
    from sm.providers.kept_programs import KeptPrograms

    return KeptPrograms(check_of(name).package, instance.paths.programs, instance.paths.bin)


def configured_program(instance: Instance, name: str) -> str | None:
    """Return the path or the name of the program in the configuration, or None if it is another than the agent CLI.

    Raises ConfigError.
    """
    from sm.config import load
    from sm.providers import make_providers

    return make_providers(load(instance.paths.config).config)[name].program


def names_no_path(instance: Instance, name: str) -> bool:
    """Return whether the configuration only names the agent CLI, so that agents start the version that is kept."""
    return configured_program(instance, name) == check_of(name).package.command


def started_program(instance: Instance, name: str) -> str | None:
    """Return the path or the name of the program that new agents start, or None if it is another than the agent CLI."""
    program, kept = configured_program(instance, name), kept_programs(instance, name)
    version = kept.current() if program == check_of(name).package.command else None
    return program if version is None else kept.program(version)
