"""Mark a directory as trusted for claude.

claude asks before it works in a new directory, and an agent cannot start until the question is answered. This command
answers it in advance, for PATH and everything below, in the .claude.json that agents use. Agents that already wait at
the question go on.

In a trusted directory, claude runs programs and applies permissions from the files of the project without a question.
The command shows those of PATH. On a terminal it asks before it trusts them. It does not show those of directories
below PATH, and claude asks about none that you clone there later. So trust single projects.

With --bypass, the command accepts claude's warning about agents that bypass permissions, in claude's settings.json.
Agents that wait at the warning go on. Without PATH, it does only that.

Agents cannot run this command. The JSON is {"directory", "trusted_by", "changed", "file", "answered"}; after --bypass
without PATH, the first two are null. "answered" lists the requests (sm requests) of agents that go on.

\b
Exit codes:
  0  trusted
  4  you did not agree, or claude undid the change

\b
Examples:
  sm trust ~/projects/shop
  sm trust --bypass
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping

import click

from sm.cli.agreements import agree, is_interactive, pending
from sm.cli.call import Call, json_option
from sm.cli.selection import agrees
from sm.cli.setup_questions import find_setups, show_effects
from sm.client.http import Client, session_path, workspace_path
from sm.core.lines import JsonObject, line
from sm.errors import IllegalState, InvalidPath, NotPermitted, ProgramMissing, SmError, UsageError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.cli.instance import Instance
    from sm.providers.base import Setup, TrustEntry

_NEXT_DIALOG_WITHIN_S = 25.0
"""How long to wait for the dialog after an answered one. The daemon reads the screen of a starting agent every 15 s."""
_LOOK_EVERY_S = 0.5


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
    setups = find_setups(call.instance)
    lines: list[str] = []
    if bypass:
        results = _of_installed(setups, lambda setup: setup.accept_bypass(os.environ))
        lines += itertools.starmap(_accepted, results.items())
    if path is not None:
        effects = [show_effects(provider, setup, path) for provider, setup in setups.items()]
        if any(effects) and not yes and is_interactive() and not agrees(f"Trust {line(path, 4096)}?"):
            raise IllegalState(f"{path} is not trusted: you did not agree")
        results = _of_installed(setups, lambda setup: setup.trust(os.environ, path))
        lines += (_trusted(provider, path, result) for provider, result in results.items())
    result = max(results.values(), key=lambda result: result.changed)
    answered = _answer_waiting(call.instance, path, bypass=bypass)
    lines += [f"{line(r['name'] or '-')} ({r['session_id']}) goes on ({r['request_id']})" for r in answered]
    answer = {
        "directory": path,
        "trusted_by": result.by or None,
        "changed": result.changed,
        "file": result.file,
        "answered": [r["request_id"] for r in answered],
    }
    call.show_value(answer, lambda _: lines)
    if path is not None and is_interactive() and not call.as_json:
        _ask_for_agreement(call.instance, path)


def _answer_waiting(instance: "Instance", path: str | None, *, bypass: bool) -> list[JsonObject]:
    """Approve the first-start dialogs in which agents wait, as `sm approve` does, and return their requests.

    `path`: the directory that is trusted now; `bypass`: the warning about bypassed permissions is accepted.
    """
    try:
        client = instance.client(start=False)
        answered = list(_approve_all(client, path, bypass=bypass))
        if bypass and path is not None:
            # The warning opens after the dialog about trust.
            deadline = time.monotonic() + _NEXT_DIALOG_WITHIN_S
            while _are_starting(client, answered) and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
                answered += _approve_all(client, path, bypass=bypass)
    except SmError:
        return []  # without a daemon, no agent can be found
    return answered


def _approve_all(client: Client, path: str | None, *, bypass: bool) -> Iterator[JsonObject]:
    for request in client.get("/v1/requests"):
        if request["kind"] != "setup" or request["answer"] is not None or not _covers(request, path, bypass):
            continue
        try:
            yield client.post(f"/v1/requests/{request['request_id']}/answer", {"approved": True})
        except SmError as error:
            session = f"{line(request['name'] or '-')} ({request['session_id']})"
            click.echo(f"warning: {session} still waits ({request['request_id']}): {error.message}", err=True)


def _are_starting(client: Client, answered: list[JsonObject]) -> bool:
    ids = {request["session_id"] for request in answered}
    return any(client.get(session_path(i))["status"] in ("starting", "waiting_input") for i in ids)


def _covers(request: JsonObject, path: str | None, bypass: bool) -> bool:
    directory = request["arguments"]["directory"]
    match request["arguments"]["dialog"]:
        case "trust":
            return path is not None and os.path.commonpath((path, directory)) == path
        case "bypass":
            return bypass
        case _:
            return False


def _of_installed(
    setups: "Mapping[str, Setup]", act: "Callable[[Setup], TrustEntry]"
) -> "dict[str, TrustEntry]":
    """Act for every agent CLI. Raises ProgramMissing if none is installed."""
    results: dict[str, TrustEntry] = {}
    missing = None
    for provider, setup in setups.items():
        try:
            results[provider] = act(setup)
        except ProgramMissing as error:
            missing = missing or error
    if missing is not None and not results:
        raise missing
    return results


def _accepted(provider: str, result: "TrustEntry") -> str:
    verb = "may now" if result.changed else "may already"
    return f"agents of {provider} {verb} bypass permissions (in {line(result.file, 4096)})"


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
