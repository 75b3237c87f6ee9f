"""Mark a directory as trusted for claude.

claude asks before it works in a new directory, and an agent cannot start until the question is answered. This command
answers it in advance, for PATH and everything below, in the .claude.json that agents use. If an agent already waits
at the question, answer it in the agent's terminal (sm attach), or start the agent again.

In a trusted directory, claude runs programs and applies permissions from the files of the project without a question.
The command shows those of PATH. On a terminal it asks before it trusts them. It does not show those of directories
below PATH, and claude asks about none that you clone there later. So trust single projects.

With --bypass, the command accepts claude's warning about agents that bypass permissions, in claude's settings.json.
Without PATH, it does only that.

Agents cannot run this command. The JSON is {"directory", "trusted_by", "changed", "file"}; after --bypass without
PATH, the first two are null.

\b
Exit codes:
  0  trusted
  4  you did not agree, or claude undid the change

\b
Examples:
  sm trust ~/projects/shop
  sm trust --bypass
"""

import os

import click

from sm.cli.agreements import agree, is_interactive, pending
from sm.cli.call import Call, json_option
from sm.cli.display.text import line
from sm.cli.setup_questions import find_setup, show_effects
from sm.client.http import workspace_path
from sm.errors import IllegalState, InvalidPath, NotPermitted, SmError, UsageError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.cli.instance import Instance
    from sm.providers.base import TrustEntry


@click.command(help=__doc__)
@click.argument("directory", metavar="[PATH]", required=False)
@click.option("--bypass", is_flag=True, help="Accept the warning about agents that bypass permissions.")
@click.option("--yes", is_flag=True, help="Trust without a question.")
@json_option
def command(directory: str | None, bypass: bool, yes: bool, call: Call) -> None:
    if os.environ.get("SM_SESSION_ID"):
        raise NotPermitted("only the operator may trust a directory", "ask for permission: sm ask QUESTION")
    if directory is None and not bypass:
        raise UsageError("PATH is missing", "trust the current directory: sm trust .")
    path = None if directory is None else _directory(directory)
    provider, setup = find_setup(call.instance)
    lines = []
    if bypass:
        result = setup.accept_bypass(os.environ)
        verb = "may now" if result.changed else "may already"
        lines.append(f"agents of {provider} {verb} bypass permissions (in {line(result.file, 4096)})")
    if path is not None:
        effects = show_effects(provider, setup, path)
        if (
            effects
            and not yes
            and is_interactive()
            and not click.confirm(f"Trust {line(path, 4096)}?", err=True)
        ):
            raise IllegalState(f"{path} is not trusted: you did not agree")
        result = setup.trust(os.environ, path)
        lines.append(_trusted(provider, path, result))
    answer = {
        "directory": path,
        "trusted_by": result.by or None,
        "changed": result.changed,
        "file": result.file,
    }
    call.show_value(answer, lambda _: lines)
    if path is not None and is_interactive() and not call.as_json:
        _ask_for_agreement(call.instance, path)


def _trusted(provider: str, path: str, result: "TrustEntry") -> str:
    shown, file = line(path, 4096), line(result.file, 4096)
    if not result.changed:
        by = "" if result.by == path else f", because it trusts {line(result.by, 4096)}"
        return f"{provider} already trusts {shown}{by} (in {file})"
    pids = ", ".join(map(str, result.running[:5]))
    stands = f"; {provider} is running (pid {pids}) and has not overwritten the entry" if pids else ""
    return f"{provider} trusts {shown} and all directories below it (written to {file}){stands}"


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


def _directory(text: str) -> str:
    """Resolve a directory to its real path, as agent CLIs do. Raises InvalidPath."""
    path = os.path.realpath(os.path.expanduser(text))
    if not os.path.isdir(path):
        what = "is not a directory" if os.path.exists(path) else "does not exist"
        raise InvalidPath(f"{line(path, 4096)} {what}")
    return path
