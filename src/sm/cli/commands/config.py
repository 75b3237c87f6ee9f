"""Show, check or edit the configuration.

Prints the configuration as YAML, including defaults, and the rules of rules.yaml as comments. The daemon applies a
change of the file within two seconds. A file with errors changes nothing. A few sections need sm daemon restart;
--check names those that changed.

\b
Exit codes:
  0  the file is valid, or there is none
  2  the file has errors; each is listed

\b
Examples:
  sm config --check
  sm config --example > config.yaml
  sm config edit
  sm config undo
"""

import os

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.group import CommandGroup
from sm.cli.instance import Instance
from sm.client.http import DaemonAway, new_key
from sm.core.lines import JsonObject, line, plain_line, plural
from sm.errors import NotPermitted, ProtocolMismatch, UsageError

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
    "remove": ("config undo",),
    "revert": ("config undo",),
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
    """Edit the configuration, and apply it.

    Opens a copy of the file in your editor (VISUAL or EDITOR). The copy replaces the file only if it has no mistakes;
    else the command shows them, and on a terminal you can edit again. Then a running daemon applies the change, and
    restarts if the change needs it. Agents keep running.

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
    from sm.cli.config_editor import edit

    instance = Instance(os.environ)
    if instance.session_id is not None:
        raise NotPermitted("only the operator may change the configuration")
    path = instance.paths.config
    if not edit(path):
        click.echo(f"no changes: {path}", err=True)
        return
    click.echo(f"saved {path}; {_apply(instance)}")


@command.command("undo")
@json_option
def undo_command(call: Call) -> None:
    """Remove the newest permission rule.

    Removes the last line of rules.yaml, beside config.yaml, which sm approve --always has written. A running daemon
    applies the change at once. Requests that the rule has answered stay answered.

    \b
    Exit codes:
      0  removed
      4  there are no rules, or rules.yaml was edited by hand
      5  an agent may not change the configuration

    \b
    Examples:
      sm config undo
    """
    if call.instance.session_id is not None:
        raise NotPermitted("only the operator may change the configuration")
    client = call.client
    rules = client.get("/v1/config")["rules"]
    seen = rules[-1]["line"] if rules else ""
    text = client.text("POST", "/v1/config/undo", body={"line": seen}, key=new_key())
    call.show(text, lambda rule: [f"Removed {line(rule['origin'], 4000)}: {line(rule['line'], 4000)}"])


def _apply(instance: Instance) -> str:
    """Let a running daemon apply the file, with a restart if necessary, and say what happened."""
    from sm.cli.commands.daemon import restart_running

    try:
        state = _state(instance)
    except ProtocolMismatch:  # a daemon of another version
        state = None
    if state is not None and not (state["mistakes"] or state["needs_restart"]):
        return "the daemon has applied it"
    pid = restart_running(instance)
    return "the daemon is not running" if pid is None else f"daemon restarted, pid {pid}"


def _state(instance: Instance) -> JsonObject | None:
    """Ask a running daemon for the state of the file. Returns None if no daemon runs."""
    try:
        state: JsonObject = instance.client(start=False).get("/v1/config")
    except DaemonAway:
        return None
    return state


def _show(*, path_only: bool, example: bool, check: bool) -> None:
    if path_only + example + check > 1:
        raise UsageError("--path, --example and --check cannot be used together")
    instance = Instance(os.environ)
    path = instance.paths.config
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
        if loaded.rules:
            click.echo(f"ok: {instance.paths.rules} ({plural(len(loaded.rules), 'rule')})")
        _show_pending(instance)
        return
    import yaml

    text = yaml.safe_dump(loaded.config.model_dump(mode="json"), sort_keys=False, allow_unicode=False)
    click.echo(f"# {plain_line(source)}\n{text}", nl=False)
    if loaded.rules:
        click.echo(f"# {plain_line(instance.paths.rules)}, in addition to auto_allow:")
    for rule in loaded.rules:
        click.echo(f"# {rule.line}: {plain_line(rule.text)}")


def _show_pending(instance: Instance) -> None:
    """Name the changes that a running daemon has not applied."""
    try:
        state = _state(instance)
    except (NotPermitted, ProtocolMismatch):  # a session, or a daemon of another version
        return
    if state is None:
        return
    for mistake in state["mistakes"]:
        click.echo(f"not applied: {line(mistake, 400)}")
    if state["needs_restart"]:
        click.echo(f"needs sm daemon restart: {', '.join(map(line, state['needs_restart']))}")
