"""The reports of an agent: milestones, a note, and the end of its work."""

import shlex

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import now
from sm.cli.options import TextCommand, WordChoice, key_value, number_option, session_argument
from sm.cli.report import send_report
from sm.client.http import session_path
from sm.core.lines import JsonObject, checkpoint_line
from sm.core.statuses import ENDED, Status
from sm.errors import UsageError
from sm.wire import decode

_MARKED: dict[str, str] = {
    Status.COMPLETED: "complete",
    Status.ERROR: "as error",
    Status.ABANDONED: "as abandoned",
}


@click.command(cls=TextCommand)
@click.argument("message")
@click.argument("more", metavar="", nargs=-1)
@click.option(
    "--metadata", metavar="KEY=VALUE ...", multiple=True, help="Values to store with the milestone."
)
def checkpoint_command(message: str, more: tuple[str, ...], metadata: tuple[str, ...]) -> None:
    """Report a milestone.

    Only agents can run this command. sm checkpoints lists the milestones. A count in the message, such as (3/5 tasks),
    sets the percentage that sm progress shows. The value of --metadata may also be a JSON object.

    \b
    Examples:
      sm checkpoint "Data model implemented (3/5 tasks)" --metadata coverage=81
    """
    facts = dict[str, object]()
    if more and not metadata:
        words = " ".join((message, *more))
        if any(" " in word for word in (message, *more)):
            quoted = f"sm checkpoint {shlex.quote(words)}"
            raise UsageError("the message must be one argument", f"quote the message: {quoted}")
        message, more = words, ()
    for pair in (*metadata, *more):
        example = 'sm checkpoint "..." --metadata coverage=81'
        facts |= _json_object(pair) or key_value("--metadata", [pair], example)
    made = send_report("checkpoint", "checkpoints", {"message": message, "metadata": facts})
    if made is not None:
        print_warnings(made.get("warnings") or [])
        click.echo("Checkpoint recorded")


def _json_object(text: str) -> dict[str, object] | None:
    """Read the facts in a text that is a JSON object. Returns None for another text."""
    try:
        value = decode(text) if text.startswith("{") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@click.command()
@session_argument
@number_option(
    "--limit", "-n", least=1, most=200, default=50, help="Maximum number of milestones, the newest ones."
)
@json_option
def checkpoints_command(session: str, limit: int, call: Call) -> None:
    """List the milestones that a session reported.

    \b
    Examples:
      sm checkpoints engineer-login
    """
    call.get(session_path(session, "/checkpoints"), _lines, {"limit": limit})


def _lines(checkpoints: list[JsonObject]) -> list[str]:
    if not checkpoints:
        click.echo("no checkpoints", err=True)
    return [checkpoint_line(checkpoint, now()) for checkpoint in checkpoints]


@click.command(cls=TextCommand)
@click.argument("text")
def note_command(text: str) -> None:
    """Set a one-line note about the current work.

    Only agents can run this command. Lists show the note next to the session until the next note.

    \b
    Examples:
      sm note "Writing the tests"
    """
    if (session := send_report("note", "note", {"text": text})) is not None:
        print_warnings(session.get("warnings") or [])
        click.echo("Note recorded")


@click.command(cls=TextCommand)
@click.argument("message", required=False)
@click.option(
    "--status",
    type=WordChoice([*map(str, _MARKED)]),
    default=str(Status.COMPLETED),
    show_default=True,
    metavar="STATUS",
    help="How the work ended: completed, error or abandoned.",
)
def complete_command(message: str | None, status: str) -> None:
    """Report that the work is done, or why it failed.

    Only agents can run this command. In supervised mode (child_agents.mode in the configuration) the command only
    proposes the completion. The session ends when the completion is approved (sm approve).

    \b
    Examples:
      sm complete "Feature X implemented, all 26 tests pass"
      sm complete "No API key here" --status error
    """
    session = send_report("complete", "complete", {"message": message, "status": status})
    if session is None:
        return
    print_warnings(session.get("warnings") or [])
    if session["status"] not in ENDED:
        click.echo("Completion proposed; waiting for approval.")
        return
    notifying = " Notifying parent." if session["parent_session_id"] else ""
    click.echo(f"Session marked {_MARKED[status]}.{notifying}")
