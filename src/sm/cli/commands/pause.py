"""Pause agents: no new turn, and messages wait.

Interrupts the turn that is under way; with --soft, the turn may end. A turn that begins later is interrupted too. A
paused session starts no agent, gets no reminder, and is not completed by sm. Its requests stay open, and its end is
reported as usual.

An agent type that runs a command has no turns: sm stops the processes that its program started (SIGSTOP), and in a
container also the program. With --soft, sm stops none of them.

"sm resume" ends the pause, delivers the messages, and tells an agent whose turn was interrupted to go on. Pausing a
paused session changes the end and the reason of its pause. Agents can pause only their descendants.

With --all: every live session; from an agent, only its descendants. With --account, pause an account in place of
sessions: its agents start no turn, and new agents stay in the status spawned. A turn that is under way goes on.

\b
Examples:
  sm pause engineer-login
  sm pause engineer-login --tree --until 06:00
  sm pause --all --soft
  sm pause --account claude-1a2b3c4d
"""

from datetime import UTC, datetime

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.options import account_option, running_sessions, sessions_argument, workspace_option
from sm.cli.selection import check, running_trees, seconds_of
from sm.client.http import account_path
from sm.core.lines import JsonObject, clock, line
from sm.core.session_lines import label
from sm.errors import UsageError


@click.command(help=__doc__)
@sessions_argument(running_sessions, required=False)
@click.option(
    "--all", "every", is_flag=True, help="Pause all live sessions, with --workspace those of one workspace."
)
@click.option("--tree", is_flag=True, help="Pause all descendants too.")
@click.option("--soft", is_flag=True, help="Let the turn that is under way end.")
@click.option("--for", "duration", metavar="TIME", help="Resume after this time, such as 30m, 2h or 1d.")
@click.option("--until", metavar="TIME", help="Resume at this local time, such as 06:00 or 2026-11-27T06:00.")
@click.option("--reason", metavar="TEXT", help="The reason that lists show.")
@workspace_option
@account_option
@json_option
def command(
    sessions: tuple[str, ...],
    every: bool,
    tree: bool,
    soft: bool,
    duration: str | None,
    until: str | None,
    reason: str | None,
    workspace: str | None,
    account: str | None,
    call: Call,
) -> int:
    if account is not None:
        if sessions or every or tree or soft or duration or until or reason or workspace:
            raise UsageError(
                "--account takes no sessions and no other options", f"sm pause --account {account}"
            )
        document = call.client.text("POST", account_path(account, "/pause"), body={})
        call.show(document, lambda _: [f"Paused account {line(account)}"])
        return 0
    check(sessions, "--all", every=every, workspace=workspace)
    body = {"tree": tree or every, "soft": soft, "reason": reason, **_end(duration, until)}
    if every:
        trees = running_trees(call.client, workspace, call.instance.session_id)
        if not trees and not call.as_json:
            click.echo("no sessions to pause", err=True)
            return 0
        sessions = tuple(session["session_id"] for session in trees)
    return act_on_each(call, sessions, "pause", _paused, body, chosen=every)


def _end(duration: str | None, until: str | None) -> dict[str, object]:
    if duration is not None and until is not None:
        raise UsageError("use either --for or --until", "sm pause SESSION --for 30m")
    if duration is not None:
        return {"for_s": seconds_of(duration, "duration")}
    if until is not None:
        from sm.cli.times import next_time

        return {"until": next_time(until, datetime.now(UTC)).isoformat()}
    return {}


def _paused(answer: JsonObject) -> str:
    own = [answer] if answer["session_id"] in answer["sessions"] else []
    lines = []
    for session in (*own, *answer["too"]):
        pause = session["paused"]
        until = f" until {clock(pause['until'], datetime.now(UTC))}" if pause and pause["until"] else ""
        works = "; its turn has not ended yet" if session["session_id"] in answer["working"] else ""
        lines.append(f"Paused {label(session)}{until}{works}")
    return "\n".join(lines)
