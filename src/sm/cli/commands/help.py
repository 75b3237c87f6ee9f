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

from sm.cli.group import COMMAND_HELP, write_commands
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
