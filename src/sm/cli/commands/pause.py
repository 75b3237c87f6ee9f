"""Pause agents: no new turn, and messages wait.

Stops the turn that is under way and the agent's background agents; with --soft, the turn may end. A turn that begins
later is interrupted too. A paused session starts no agent, gets no reminder, and is not completed by sm. Its requests
stay open, and its end is reported as usual.

"Paused" is said when sm has seen that nothing spends any more: the agent reports that nothing runs and no usage came
for 5 s, or its processes are frozen or gone. The command waits 10 s for that, then says what still spends. With --wait
it waits longer, and exits with 10 if something still spends then. What goes on for 6 s is frozen; where that is not
possible, sm ends the process, keeps its conversation, and "sm resume" starts it again.

An agent type that runs a command has no turns: sm freezes its processes or, where that is not possible, stops those
that its program started (SIGSTOP), and in a container also the program. With --soft, sm stops none of them.

"sm resume" ends the pause, delivers the messages, and tells an agent whose turn was interrupted to go on. Pausing a
paused session changes the end and the reason of its pause. Agents can pause only their descendants.

With --all: every live session; from an agent, only its descendants. With --account, pause an account in place of
sessions: its live sessions are paused with it, and new agents stay in the status spawned. With --soft, only the account
is paused: turns and background agents that are under way go on. "sm resume --account" ends both.

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
from sm.cli.display.output import print_json
from sm.cli.options import (
    account_option,
    paused_sessions,
    running_sessions,
    sessions_argument,
    workspace_option,
)
from sm.cli.selection import check, running_trees, seconds_of
from sm.client.http import TIMEOUT_S, account_path
from sm.core.lines import JsonObject, clock, line, plural
from sm.core.pause_states import Held, PauseState, spending_words
from sm.core.session_lines import label
from sm.errors import UsageError, WaitTimeout
from sm.wire import encode

_WAIT_MAX_S = 3600


@click.command(help=__doc__)
@sessions_argument(running_sessions, required=False)
@click.option(
    "--all", "every", is_flag=True, help="Pause all live sessions, with --workspace those of one workspace."
)
@click.option("--tree", is_flag=True, help="Pause all descendants too.")
@click.option("--soft", is_flag=True, help="Let the turn that is under way end.")
@click.option("--for", "duration", metavar="TIME", help="Resume after this time, such as 30m, 2h or 1d.")
@click.option("--until", metavar="TIME", help="Resume at this local time, such as 06:00 or 2026-11-27T06:00.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.FloatRange(0, _WAIT_MAX_S),
    help="Wait so long until nothing spends any more; exit code 10 if something does.",
)
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
    wait: float | None,
    reason: str | None,
    workspace: str | None,
    account: str | None,
    call: Call,
) -> int:
    if wait is not None and soft:
        raise UsageError("--soft lets the turn end: there is nothing to wait for", "sm wait SESSION")
    if account is not None:
        if sessions or every or tree or duration or until or reason or workspace:
            raise UsageError(
                "--account takes no sessions, and of the options only --soft and --wait",
                f"sm pause --account {account}",
            )
        return _pause_account(call, account, soft=soft, wait=wait)
    check(sessions, "--all", every=every, workspace=workspace)
    body: dict[str, object] = {"tree": tree or every, "soft": soft, "reason": reason, **_end(duration, until)}
    if every:
        trees = running_trees(call.client, workspace, call.instance.session_id)
        if not trees and not call.as_json:
            click.echo("no sessions to pause", err=True)
            return 0
        sessions = tuple(session["session_id"] for session in trees)
    if wait is not None:
        body["wait_s"] = wait
    unsettled: list[str] = []

    def done(answer: JsonObject) -> str:
        unsettled.extend(answer["working"])
        return _paused(answer)

    timeout_s = TIMEOUT_S + (wait or 0.0)
    code = act_on_each(call, sessions, "pause", done, body, timeout_s=timeout_s, chosen=every)
    return WaitTimeout.exit_code if code == 0 and wait is not None and unsettled else code


def _pause_account(call: Call, account: str, *, soft: bool, wait: float | None) -> int:
    body = {"soft": soft} if wait is None else {"wait_s": wait}
    path, timeout_s = account_path(account, "/pause"), TIMEOUT_S + (wait or 0.0)
    paused: list[JsonObject] = call.client.post(path, body, timeout_s=timeout_s)
    shown = next(one for one in paused if one["name"] == account)
    if call.as_json:
        print_json(encode(paused))
    else:
        click.echo("\n".join(_account_lines(shown)))
    return WaitTimeout.exit_code if wait is not None and shown.get("spends") else 0


def _account_lines(account: JsonObject) -> list[str]:
    name, count, spends = line(account["name"]), account.get("paused"), account.get("spends")
    if spends:
        return [f"Pausing account {name}:", *(f"  {line(words)}" for words in spends)]
    sessions = f", {plural(count, 'session')} paused" if count else ""  # an older daemon pauses none
    return [f"Paused account {name}: it starts no new turn{sessions}"]


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
        lines.append(f"{_state(session, answer)} {label(session)}{until}{_note(pause)}")
    return "\n".join(lines)


def _state(session: JsonObject, answer: JsonObject) -> str:
    return "Pausing" if session["session_id"] in answer["working"] else "Paused"


def _note(pause: JsonObject | None) -> str:
    """The activity that still spends, or the fate of the process."""
    if not pause or "state" not in pause:  # an older daemon
        return ""
    if pause["held"] == Held.ENDED:
        return ": its process was ended and its conversation is kept; sm resume starts it again"
    if pause["state"] == PauseState.PAUSED:
        return ""
    return f": {line(spending_words(pause['spends']))}"


@click.command()
@sessions_argument(paused_sessions, required=False)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Resume all paused sessions, with --workspace those of one workspace.",
)
@click.option("--tree", is_flag=True, help="Resume all descendants too.")
@workspace_option
@account_option
@json_option
def resume_command(
    sessions: tuple[str, ...], every: bool, tree: bool, workspace: str | None, account: str | None, call: Call
) -> int:
    """End the pause of agents, or an account's limit.

    Held messages are delivered. An agent whose turn the pause interrupted gets a message to go on. A session that a
    spent budget has paused goes on when the budget is raised: sm budget SESSION --add, or sm approve.

    With --all: every paused session; from an agent, only its descendants. With --account, end the pause or the usage
    limit of an account in place of sessions: agents whose turn a limit cut off get a message to go on, one agent after
    the other. If the limit is not over, the next turn parks the account again. Sessions that were paused with the
    account go on too.

    \b
    Examples:
      sm resume engineer-login
      sm resume --all
      sm resume --account claude-1a2b3c4d
    """
    if account is not None:
        if sessions or every or tree or workspace:
            raise UsageError(
                "--account takes no sessions and no other options", f"sm resume --account {account}"
            )

        def layout(answer: JsonObject) -> list[str]:
            name = line(account)
            return [f"Resumed account {name}" if answer["resumed"] else f"Account {name} is not parked"]

        call.show(call.client.text("POST", account_path(account, "/resume"), body={}), layout)
        return 0
    check(sessions, "--all", every=every, workspace=workspace)
    if every:
        trees = running_trees(call.client, workspace, call.instance.session_id)
        sessions = tuple(session["session_id"] for session in trees)
        if not sessions and not call.as_json:
            click.echo("no sessions to resume", err=True)
            return 0
    return act_on_each(call, sessions, "resume", _resumed, {"tree": tree or every}, chosen=every)


def _resumed(answer: JsonObject) -> str:
    own = [answer] if answer["session_id"] in answer["sessions"] else []
    return "\n".join(f"Resumed {label(session)}" for session in (*own, *answer["too"]))
