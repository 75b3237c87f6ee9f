"""Wait until sessions have ended, or have come to another status.

Exit code 0: they have; 4: it can be no more; 10: not in time. An ending that this command has told comes in no
message any more. The JSON is an array of all the sessions named.

\b
Example:
  sm wait engineer-login engineer-api --any --timeout 600
"""

import sys
from contextlib import suppress

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now, print_json, print_table
from sm.cli.display.sessions import flat, session_table
from sm.cli.display.text import JsonObject, plural
from sm.cli.options import session_arguments
from sm.cli.outage import until_answered
from sm.client.http import Client
from sm.core.statuses import ENDED, ENDED_OF_ANY_KIND, Status
from sm.errors import DaemonUnavailable, IllegalState, WaitTimeout
from sm.wire import encode


@click.command(help=__doc__)
@session_arguments
@click.option("--any", "any_of", is_flag=True, help="Until the first of them has.")
@click.option("--all", "all_of", is_flag=True, help="Until all of them have (so it is without an option).")
@click.option("--until", type=click.Choice([ENDED_OF_ANY_KIND, *map(str, Status)]), default=ENDED_OF_ANY_KIND,
              show_default=True, metavar="STATUS",
              help="Which status; ended is any of completed, error, abandoned, killed.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0, max=86_400 * 7), metavar="SECONDS", help="No longer.")
@json_option
def command(
    sessions: tuple[str, ...], any_of: bool, all_of: bool, until: str, timeout: float | None, call: Call
) -> None:
    if any_of and all_of:
        raise click.UsageError("--any and --all exclude each other")
    refs = list(dict.fromkeys(sessions))
    current: list[JsonObject] = []

    def ask(client: Client, wait_s: float) -> bool | None:
        nonlocal refs, current
        answer = client.post("/v1/wait", {"sessions": refs, "until": until, "any": any_of, "wait_s": wait_s})
        current = answer["sessions"]
        if len(current) == len(refs):  # ids from now on: another session may take over a name
            refs = [session["session_id"] for session in current]
        reached: bool | None = answer["reached"]
        return reached

    reached = until_answered(call.instance, ask, timeout)
    if call.as_json:
        print_json(encode(current))
    elif current or reached is not None:
        print_table(session_table(flat(current), now(), "no such sessions any more"))
    sys.stdout.flush()
    ended = [session["session_id"] for session in current if session["status"] in ENDED]
    if ended:
        with suppress(DaemonUnavailable):  # unconfirmed endings come once more as messages
            call.instance.client(start=False).post("/v1/wait/heard", {"sessions": ended})
    if reached is None:
        raise WaitTimeout(f"{plural(len(refs), 'session')} did not come to {until} within {timeout:g} s")
    if not reached:
        raise IllegalState(f"it cannot come to {until} any more")
