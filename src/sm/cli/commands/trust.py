"""Mark a directory as trusted for claude.

claude asks before it works in a new directory, and an agent cannot start until the question is answered. This command
answers it in advance, for PATH and everything below, in the .claude.json that agents use. If an agent already waits
at the question, answer it in the agent's terminal (sm attach), or start the agent again.

Agents cannot run this command. The JSON is {"directory", "trusted_by", "changed", "file"}.

\b
Examples:
  sm trust ~/projects
"""

import os

import click

from sm.cli.call import Call, json_option
from sm.cli.display.text import line
from sm.errors import IllegalState, InvalidPath, NotPermitted

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.cli.instance import Instance
    from sm.providers.base import Setup


@click.command(help=__doc__)
@click.argument("directory", metavar="PATH")
@json_option
def command(directory: str, call: Call) -> None:
    if os.environ.get("SM_SESSION_ID"):
        raise NotPermitted("only the operator may trust a directory", "ask for permission: sm ask QUESTION")
    path = _directory(directory)
    provider, setup = _setup(call.instance)
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
