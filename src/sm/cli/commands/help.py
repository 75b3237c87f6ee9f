"""Show help for a command, or list all commands.

Without COMMAND, shows the common commands.

\b
Examples:
  sm help spawn
  sm help workspace create
  sm help --all
"""

from collections.abc import Sequence

import click

from sm import __version__
from sm.cli.group import COMMAND_HELP, COMPLETE, sm, write_commands
from sm.errors import UsageError


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    target = _resolve(context.find_root(), context.params.get(parameter.name or "") or ())
    names = target.command.list_commands(target) if isinstance(target.command, click.Group) else []
    return [name for name in names if name.startswith(incomplete)]


@click.command(help=__doc__)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=_complete)
@click.option("--all", "everything", is_flag=True, help="List all commands.")
@click.pass_context
def command(context: click.Context, words: Sequence[str], everything: bool) -> None:
    root = context.find_root()
    if not everything:
        click.echo(_resolve(root, words).get_help())
        return
    if words:
        raise UsageError("--all and COMMAND cannot be used together", "sm help --all")
    formatter = root.make_formatter()
    write_commands(formatter)
    formatter.write(f"\n{COMMAND_HELP}\n")
    click.echo(formatter.getvalue(), nl=False)


def _resolve(root: click.Context, words: Sequence[str]) -> click.Context:
    """The context of the command that `words` name. Raises click.UsageError."""
    context = root
    for word in words:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{context.command_path} has no subcommands", context)
        name, command, _ = group.resolve_command(context, [word])
        assert command is not None  # resolve_command raises for an unknown name
        context = click.Context(command, parent=context, info_name=name, **command.context_settings)
    return context


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a shell completion script.

    It completes commands, options, and the names of sessions, requests, agent types and workspaces. A command gets only
    the sessions to which it applies; zsh and fish show their status.

    \b
    Examples:
      eval "$(sm completion bash)"  # in ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None  # click has these three
    source = completion(sm, {}, "sm", COMPLETE).source()
    # click's script for fish cuts a description at its first comma.
    click.echo(source.replace('string split ","', 'string split --max 1 ","'))


@click.command()
def version_command() -> None:
    """Show the version.

    \b
    Examples:
      sm version
    """
    click.echo(f"sm {__version__}")
