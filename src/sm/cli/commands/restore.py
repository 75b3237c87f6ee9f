"""Start ended sessions again, where they left off.

Each gets a new process and goes on as the same session: id, names, terminal, directory, conversation; a program
is started as it was. What the old process has left running is ended. One that was archived is brought back into
sight. With --tree a parent comes before its children. With several IDs every one is tried. The JSON is the session,
its descendants in `restored_too`; with several IDs or --all an array of those that run again.

\b
Example:
  sm restore engineer-login
"""

from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import Failures
from sm.cli.display.output import print_json
from sm.cli.display.sessions import label
from sm.cli.display.text import JsonObject
from sm.cli.options import session_names
from sm.client.http import session_path
from sm.errors import SmError, UsageError, from_wire
from sm.wire import encode

# The daemon gives up a session that does not start after 20 s. All sessions start at the same time.
_START_S = 120.0


@click.command(help=__doc__)
@click.argument("sessions", metavar="[ID...]", nargs=-1, shell_complete=session_names)
@click.option(
    "--all", "every", is_flag=True, help="All that ran when the machine, or the tmux server, went down."
)
@click.option("--tree", is_flag=True, help="With all their ended descendants.")
@json_option
def command(sessions: tuple[str, ...], every: bool, tree: bool, call: Call) -> int:
    if bool(sessions) is every:
        raise UsageError("either ID or --all is needed", "sm restore --help")
    if every and tree:
        raise UsageError("--all takes the descendants that were lost anyway; --tree is for an ID")
    client = call.client
    answers: list[Any] = []
    failures = Failures()
    for session in [None] if every else sessions:
        try:
            path = "/v1/restore" if session is None else session_path(session, "/restore")
            answer = client.post(path, {} if every else {"tree": tree}, timeout_s=_START_S)
        except SmError as error:
            if len(sessions) <= 1:
                raise
            failures.add(error)
            continue
        answers += answer["restored"] if every else [answer]
        if not call.as_json:
            _print(answer, every=every)
        for failed in answer["failed"]:
            failures.add(from_wire(failed["code"], failed["message"], failed["hint"]))
    if call.as_json:
        print_json(encode(answers[0] if len(sessions) == 1 else answers))
    return failures.code


def _print(answer: JsonObject, *, every: bool) -> None:
    if every:
        restored = answer["restored"]
    else:
        first = [answer] if answer["session_id"] in answer["restored"] else []
        restored = [*first, *answer["restored_too"]]
    for session in restored:
        click.echo(f"Restored {label(session)}")
    if every and not restored and not answer["failed"]:
        click.echo("no session was lost")
