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


def find_setups(instance: Instance, agent_type: str | None = None) -> "dict[str, Setup]":
    """Find the providers whose agents ask for trust; with `agent_type` only that which starts it, if one is known.

    Raises ConfigError; IllegalState without such a provider.
    """
    from sm.config import load
    from sm.providers import make_providers

    config = load(instance.paths.config).config
    providers = make_providers(config)
    found = {name: provider.setup for name, provider in providers.items() if provider.setup is not None}
    if not found:
        raise IllegalState("no agent provider asks whether a directory is trusted")
    starting = (name for name in found if agent_type in providers[name].agent_types)
    name = None if agent_type is None else next(starting, next(iter(found)))
    return found if name is None else {name: found[name]}


def show_effects(provider: str, setup: "Setup", path: str) -> bool:
    """Show the programs and permissions of the project in `path` that the agent CLI uses once it trusts the project.

    Returns False if there are none.
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


def answer(required: SetupRequired, agent_type: str) -> bool:
    """Ask on the terminal, and store a yes. Returns False if the operator refused or sm cannot answer this dialog.

    Raises SmError when the answer cannot be stored.
    """
    instance = Instance(os.environ)
    match required:
        case DirectoryNotTrusted(directory=directory) if directory:
            ((provider, setup),) = find_setups(instance, agent_type).items()
            if not agrees(
                f"Trust {line(directory, 4096)} for {provider}? Its agents can run the files in it."
            ):
                return False
            setup.trust(os.environ, directory)
        case BypassNotAccepted():
            (setup,) = find_setups(instance, agent_type).values()
            if not agrees("Allow agents of this type to run every command without asking?"):
                return False
            setup.accept_bypass(os.environ)
        case _:
            return False
    return True
