"""Print a shell completion script.

It completes commands, options, and the names of sessions, requests, agent types and workspaces. A command gets only
the sessions to which it applies; zsh and fish show their status.

\b
Examples:
  eval "$(sm completion bash)"  # in ~/.bashrc
"""

import click

from sm.cli.group import COMPLETE, sm


@click.command(help=__doc__)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None  # click has these three
    source = completion(sm, {}, "sm", COMPLETE).source()
    # click's script for fish cuts a description at its first comma.
    click.echo(source.replace('string split ","', 'string split --max 1 ","'))
