"""Mark a directory as trusted for claude.

claude asks before it works in a new directory, and an agent cannot start until the question is answered. This command
answers it in advance, for PATH and everything below, in the .claude.json that agents use. If an agent already waits
at the question, answer it in the agent's terminal (sm attach), or start the agent again.

In a trusted directory, claude runs programs and applies permissions from the files of the project without a question.
The command shows those of PATH. On a terminal it asks before it trusts them. It does not show those of directories
below PATH, and claude asks about none that you clone there later. So trust single projects.

Agents cannot run this command. The JSON is {"directory", "trusted_by", "changed", "file"}.

\b
Exit codes:
  0  trusted
  4  you did not agree, or claude undid the change

\b
Examples:
  sm trust ~/projects/shop
"""

import os

import click

from sm.cli.agreements import agree, is_interactive, pending
from sm.cli.call import Call, json_option
from sm.cli.display.text import line
from sm.client.http import workspace_path
from sm.errors import IllegalState, InvalidPath, NotPermitted, SmError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.cli.instance import Instance
    from sm.providers.base import Setup

_EFFECTS_SHOWN = 30
_EFFECT_MAX = 1_000
"""Characters of one effect."""


@click.command(help=__doc__)
@click.argument("directory", metavar="PATH")
@click.option("--yes", is_flag=True, help="Trust without a question.")
@json_option
def command(directory: str, yes: bool, call: Call) -> None:
    if os.environ.get("SM_SESSION_ID"):
        raise NotPermitted("only the operator may trust a directory", "ask for permission: sm ask QUESTION")
    path = _directory(directory)
    provider, setup = _setup(call.instance)
    effects = list(setup.project_effects(path))
    _show_effects(provider, path, effects)
    if effects and not yes and is_interactive() and not click.confirm(f"Trust {line(path, 4096)}?", err=True):
        raise IllegalState(f"{path} is not trusted: you did not agree")
    result = setup.trust(os.environ, path)
    shown, file = line(path, 4096), line(result.file, 4096)
    if result.changed:
        pids = ", ".join(map(str, result.running[:5]))
        stands = f"; {provider} is running (pid {pids}) and has not overwritten the entry" if pids else ""
        text = f"{provider} trusts {shown} and all directories below it (written to {file}){stands}"
    else:
        by = "" if result.by == path else f", because it trusts {line(result.by, 4096)}"
        text = f"{provider} already trusts {shown}{by} (in {file})"
    answer = {"directory": path, "trusted_by": result.by, "changed": result.changed, "file": result.file}
    call.show_value(answer, lambda _: [text])
    if is_interactive() and not call.as_json:
        _ask_for_agreement(call.instance, path)


def _show_effects(provider: str, path: str, effects: list[str]) -> None:
    if not effects:
        return
    from sm.cli.display.requests import quotation

    click.echo(f"In {line(path, 4096)}, {provider} does this without a question:", err=True)
    for effect in effects[:_EFFECTS_SHOWN]:
        cut = "..." if len(effect) > _EFFECT_MAX else ""
        click.echo("\n".join(quotation(effect[:_EFFECT_MAX] + cut, 1, None)), err=True)
    if len(effects) > _EFFECTS_SHOWN:
        click.echo(f"  and {len(effects) - _EFFECTS_SHOWN:,} more", err=True)


def _ask_for_agreement(instance: "Instance", path: str) -> None:
    """Ask for the agreement to the files of the workspace in this directory, if the daemon knows one."""
    try:
        client = instance.client(start=False)
        slugs = [w["slug"] for w in client.get("/v1/workspaces") if w["working_dir"] == path]
        workspaces = [client.get(workspace_path(slug)) for slug in slugs]
    except SmError:
        return  # `sm workspace agree` reports the error
    for workspace in workspaces:
        if items := pending(workspace):
            agree(client, workspace, items, yes=False)


def _setup(instance: "Instance") -> "tuple[str, Setup]":
    """Find the provider whose agents ask for trust. Raises ConfigError; IllegalState without such a provider."""
    from sm.config import load
    from sm.providers import PROVIDERS

    config = load(instance.paths.config).config
    for name, make in PROVIDERS.items():
        setup = make(config).setup
        if setup is not None:
            return name, setup
    raise IllegalState("no agent provider asks whether a directory is trusted")


def _directory(text: str) -> str:
    """Resolve a directory to its real path, as agent CLIs do. Raises InvalidPath."""
    path = os.path.realpath(os.path.expanduser(text))
    if not os.path.isdir(path):
        what = "is not a directory" if os.path.exists(path) else "does not exist"
        raise InvalidPath(f"{line(path, 4096)} {what}")
    return path
