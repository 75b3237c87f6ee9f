"""Wait until sessions complete or reach a status.

Waits for all the sessions unless --any is given. Without --until, a session that fails, is killed or is abandoned ends
the wait with exit code 4, so that sm wait SESSION && deploy does not deploy after a failure. If this command reports
the end of a session, sm sends no message about it, not even while an agent waits for other sessions. On a terminal, the
command names sessions that wait for input.

The JSON is an array of the sessions.

\b
Exit codes:
  0   reached
  4   can no longer be reached, for example because a session failed
  10  timed out

\b
Examples:
  sm wait engineer-login
  sm wait engineer-login engineer-api --until ended --timeout 600
"""

import sys
import time
from collections.abc import Iterable, Sequence

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now, print_json, print_table
from sm.cli.display.sessions import flat_rows, session_table
from sm.cli.instance import Instance
from sm.cli.options import WordChoice, running_sessions, seconds_option, sessions_argument
from sm.cli.outage import until_answered
from sm.client.http import Client
from sm.core.backoff import Backoff
from sm.core.lines import JsonObject, line, plural
from sm.core.session_lines import label
from sm.core.statuses import ENDED, ENDED_OF_ANY_KIND, Status
from sm.errors import DaemonUnavailable, IllegalState, WaitTimeout
from sm.wire import encode

_CONFIRM_WITHIN_S = 5.0
"""Shorter than a restarted daemon holds the notices of endings."""
_LOOK_EVERY_S = 5.0
"""How often a wait on a terminal looks whether a session needs the person."""


@click.command(help=__doc__)
@sessions_argument(running_sessions)
@click.option("--any", "any_of", is_flag=True, help="Wait for the first of the sessions.")
@click.option("--all", "all_of", is_flag=True, help="Wait for all of the sessions (default).")
@click.option("--until", type=WordChoice([ENDED_OF_ANY_KIND, *map(str, Status)]), default=str(Status.COMPLETED),
              show_default=True, metavar="STATUS",
              help=f"Status to wait for: {', '.join(Status)}, or ended for any of the last four.")  # fmt: skip
@seconds_option("--timeout", most=86_400 * 7, help="Longest wait.  [default: no limit]")
@json_option
def command(
    sessions: tuple[str, ...], any_of: bool, all_of: bool, until: str, timeout: float | None, call: Call
) -> None:
    if any_of and all_of:
        raise click.UsageError("--any and --all cannot be used together")
    refs = list(dict.fromkeys(sessions))
    current: list[JsonObject] = []
    is_watched = call.instance.session_id is None and sys.stderr.isatty()
    blocked = _BlockedNotices() if is_watched else None

    def ask(client: Client, wait_s: float) -> bool | None:
        nonlocal refs, current
        if blocked is not None:
            wait_s = min(wait_s, _LOOK_EVERY_S)
        answer = client.post("/v1/wait", {"sessions": refs, "until": until, "any": any_of, "wait_s": wait_s})
        current = answer["sessions"]
        if len(current) == len(refs):  # ids from now on: another session may take over a name
            refs = [session["session_id"] for session in current]
        reached: bool | None = answer["reached"]
        if blocked is not None and reached is None:
            blocked.print(current)
        return reached

    reached = until_answered(call.instance, ask, timeout)
    if call.as_json:
        print_json(encode(current))
    elif current or reached is not None:
        print_table(session_table(flat_rows(current), now(), "the sessions no longer exist", named=label))
    sys.stdout.flush()
    ended = [session["session_id"] for session in current if session["status"] in ENDED]
    if ended:
        _confirm(call.instance, ended)
    if reached is None:
        raise WaitTimeout(f"{plural(len(refs), 'session')} did not reach status {until} within {timeout:g} s")
    if not reached:
        others = [s for s in current if s["status"] in ENDED and s["status"] != until]
        failed, reasons = len(others) + len(refs) - len(current), "".join(map(_reason, others))
        raise IllegalState(f"{plural(failed, 'session')} can no longer reach status {until}{reasons}")


def _confirm(instance: Instance, ended: Sequence[str]) -> None:
    """Confirm that the endings were printed: unconfirmed ones come once more as messages.

    The daemon may have been killed after its answer. A restarted daemon holds the messages for a while.
    """
    until_s, backoff = time.monotonic() + _CONFIRM_WITHIN_S, Backoff(0.05, 0.5)
    while True:
        try:
            instance.client(start=False).post("/v1/wait/heard", {"sessions": list(ended)})
            return
        except DaemonUnavailable:
            if instance.was_stopped or time.monotonic() >= until_s:
                return
            time.sleep(backoff.next_s())


class _BlockedNotices:
    """Tells a person once of each wait of a session for input, which may last until the person acts."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def print(self, sessions: Iterable[JsonObject]) -> None:
        waiting = [s for s in sessions if s["status"] == Status.WAITING_INPUT]
        for session in waiting:
            if (session["session_id"], session["status_at"]) not in self._told:
                reason = line(session["status_reason"] or "-")
                click.echo(f"{label(session)} waits for input: {reason}  (sm requests)", err=True)
        self._told = {(session["session_id"], session["status_at"]) for session in waiting}


def _reason(session: JsonObject) -> str:
    """A line of an error message about a session that has ended in another way."""
    return f"\n{label(session)}: {line(session['status'])}, {line(session['status_reason'] or '-')}"
