"""Finds the programs of agent CLIs that agents on this machine start, for commands."""

from sm.cli.instance import Instance
from sm.providers import CHECKS, PROVIDERS
from sm.providers.kept_programs import KeptPrograms


def kept_programs(instance: Instance, name: str) -> KeptPrograms:
    """The versions of a provider's agent CLI that this instance keeps."""
    return KeptPrograms(CHECKS[name]().package, instance.paths.programs, instance.paths.bin)


def configured_program(instance: Instance, name: str) -> str | None:
    """The path or the name of the program in the configuration; None: it is another one than the agent CLI.

    Raises ConfigError.
    """
    from sm.config import load

    return PROVIDERS[name](load(instance.paths.config).config).program


def names_no_path(instance: Instance, name: str) -> bool:
    """Return whether the configuration only names the agent CLI, so that agents start the version that is kept."""
    return configured_program(instance, name) == CHECKS[name]().package.command


def started_program(instance: Instance, name: str) -> str | None:
    """The path or the name of the program that new agents start; None: the configuration starts another program."""
    program, kept = configured_program(instance, name), kept_programs(instance, name)
    version = kept.current() if program == CHECKS[name]().package.command else None
    return program if version is None else kept.program(version)
