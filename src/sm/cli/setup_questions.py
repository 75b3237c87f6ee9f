"""Asks the operator the questions that an agent CLI would ask in the terminal of an agent, and stores the answers."""

import os

import click

from sm.cli.instance import Instance
from sm.cli.selection import agrees
from sm.core.lines import line
from sm.errors import BypassNotAccepted, DirectoryNotTrusted, IllegalState, SetupRequired

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.providers.base import Setup

_EFFECTS_SHOWN = 30
_EFFECT_MAX = 1_000
"""Characters of one effect."""


def find_setup(instance: Instance) -> "tuple[str, Setup]":
    """Find the provider whose agents ask for trust. Raises ConfigError; IllegalState without such a provider."""
    from sm.config import load
    from sm.providers import make_providers

    config = load(instance.paths.config).config
    for name, provider in make_providers(config).items():
        if provider.setup is not None:
            return name, provider.setup
    raise IllegalState("no agent provider asks whether a directory is trusted")


def show_effects(provider: str, setup: "Setup", path: str) -> bool:
    """Show the programs and permissions of the project in `path` that the agent CLI uses once it trusts the project.

    False: there are none.
    """
    effects = list(setup.project_effects(path))
    if not effects:
        return False
    from sm.core.quotation import quotation

    click.echo(f"In {line(path, 4096)}, {provider} does this without a question:", err=True)
    for effect in effects[:_EFFECTS_SHOWN]:
        cut = "..." if len(effect) > _EFFECT_MAX else ""
        click.echo("\n".join(quotation(effect[:_EFFECT_MAX] + cut, 1, None)), err=True)
    if len(effects) > _EFFECTS_SHOWN:
        click.echo(f"  and {len(effects) - _EFFECTS_SHOWN:,} more", err=True)
    return True


def answer(required: SetupRequired) -> bool:
    """Ask on the terminal, and store a yes. False: the operator refused, or sm cannot answer this dialog.

    Raises SmError when the answer cannot be stored.
    """
    instance = Instance(os.environ)
    match required:
        case DirectoryNotTrusted(directory=directory) if directory:
            provider, setup = find_setup(instance)
            if not agrees(
                f"Trust {line(directory, 4096)} for {provider}? Its agents can run the files in it."
            ):
                return False
            setup.trust(os.environ, directory)
        case BypassNotAccepted():
            _, setup = find_setup(instance)
            if not agrees("Allow agents of this type to run every command without asking?"):
                return False
            setup.accept_bypass(os.environ)
        case _:
            return False
    return True
