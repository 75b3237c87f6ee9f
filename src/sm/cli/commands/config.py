"""Show, check or edit the configuration.

Prints the configuration as YAML, including defaults. The daemon reads the file only when it starts; to apply a
change, run sm daemon restart. sm config edit does both.

\b
Exit codes:
  0  the file is valid, or there is none
  2  the file has errors; each is listed

\b
Examples:
  sm config --check
  sm config --example > config.yaml
  sm config edit
"""

import os

import click

from sm.cli.display.errors import print_warnings
from sm.cli.group import CommandGroup
from sm.cli.instance import Instance
from sm.core.lines import plain_line
from sm.errors import NotPermitted, UsageError

_SUGGESTIONS = {
    "set": ("config edit",),
    "add": ("config edit",),
    "unset": ("config edit",),
    "get": ("config",),
    "show": ("config",),
    "print": ("config",),
    "list": ("config",),
    "check": ("config --check",),
    "validate": ("config --check",),
    "path": ("config --path",),
    "example": ("config --example",),
    "init": (
        "config --example",
        "config edit",
    ),
}


@click.group(cls=CommandGroup, suggestions=_SUGGESTIONS, help=__doc__, invoke_without_command=True)
@click.option("--path", "path_only", is_flag=True, help="Print only the path of the file.")
@click.option(
    "--example", is_flag=True, help="Print an example file: every key with its meaning and default."
)
@click.option("--check", is_flag=True, help="Check the file without printing it.")
@click.pass_context
def command(context: click.Context, path_only: bool, example: bool, check: bool) -> None:
    if context.invoked_subcommand is None:
        _show(path_only=path_only, example=example, check=check)
    elif path_only or example or check:
        raise UsageError(f"sm config {context.invoked_subcommand} has no options")


@command.command("edit")
def edit_command() -> None:
    """Edit the configuration, and restart the daemon.

    Opens a copy of the file in your editor (VISUAL or EDITOR). The copy replaces the file only if it has no mistakes;
    else the command shows them, and on a terminal you can edit again. Then it restarts the daemon if it runs. Agents
    keep running.

    \b
    Exit codes:
      0  the file is saved, or unchanged
      2  the text has mistakes; the file is unchanged
      4  another program changed the file meanwhile
      9  the editor failed

    \b
    Examples:
      EDITOR=nano sm config edit
    """
    from sm.cli.commands.daemon import restart_running
    from sm.cli.config_editor import edit

    instance = Instance(os.environ)
    if instance.session_id is not None:
        raise NotPermitted("only the operator may change the configuration")
    path = instance.paths.config
    if not edit(path):
        click.echo(f"no changes: {path}", err=True)
        return
    pid = restart_running(instance)
    click.echo(
        f"saved {path}; {'the daemon is not running' if pid is None else f'daemon restarted, pid {pid}'}"
    )


def _show(*, path_only: bool, example: bool, check: bool) -> None:
    if path_only + example + check > 1:
        raise UsageError("--path, --example and --check cannot be used together")
    path = Instance(os.environ).paths.config
    if path_only:
        click.echo(path)
        return
    import sm.config as config

    if example:
        click.echo(config.example(), nl=False)
        return
    loaded = config.load(path)
    print_warnings(loaded.warnings)
    source = path if os.path.lexists(path) else f"defaults ({path} does not exist)"
    if check:
        click.echo(f"ok: {source}")
        return
    import yaml

    text = yaml.safe_dump(loaded.config.model_dump(mode="json"), sort_keys=False, allow_unicode=False)
    click.echo(f"# {plain_line(source)}\n{text}", nl=False)
