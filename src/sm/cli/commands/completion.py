"""`sm completion`: the completion script for a shell."""

import click

from sm.cli.group import COMPLETE, sm


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options and the names of sessions, requests, agent types and workspaces.

    \b
    Example:
      eval "$(sm completion bash)"        # in ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click has these three
    click.echo(found(sm, {}, "sm", COMPLETE).source())
