"""Show or change the budget of a session and those below it.

The units are usd (US dollars), tokens (input and output, without the cache) and minutes (of work, summed over the
sessions; idle, waiting and paused sessions do not count). A number may end in k or M.

With --set, the named limits change and the others stay; usd=none removes a limit, and none ends the budget. With
--add, the limits grow. A budget that is spent already binds at once. An agent may lower its own budget, and give a
descendant at most the amount that is left above.

At 80% (budgets.soft_percent), the agent, its parent and you are told. When a budget is spent, its agents report what
they have, then sm pauses them, and a request asks you for more: sm approve r57, or sm approve r57 'usd=2'.

SESSION may be "daily": the budget of the whole instance for this local day (budgets.daily_usd), in usd only. A change
of it lasts until midnight. Agents may not see it. Without SESSION: the session that runs this command.

\b
Examples:
  sm budget engineer-login
  sm budget engineer-login --set usd=5,minutes=90
  sm budget engineer-login --add usd=2
  sm budget daily
"""

import shlex

import click

from sm.capabilities.budgets.text import amounts_text, spent_words
from sm.cli.call import Call, json_option
from sm.cli.options import running_sessions
from sm.client.http import session_path
from sm.core.lines import JsonObject, line
from sm.errors import UsageError

_STATES = {
    "ok": "ok",
    "soft": "most of it is spent",
    "grace": "spent: agents report what they have",
    "stopped": "spent: its sessions are stopped",
    "told": "spent, but it stops nobody",
}


@click.command(help=__doc__)
@click.argument("session", required=False, shell_complete=running_sessions)
@click.argument("typed", metavar="", nargs=-1)
@click.option(
    "--set", "limits", metavar="LIMITS", help="Limits to set, such as usd=5,tokens=2M,minutes=90, or none."
)
@click.option("--add", "more", metavar="AMOUNTS", help="Amounts to add to the limits, such as usd=2.")
@json_option
def command(
    session: str | None, typed: tuple[str, ...], limits: str | None, more: str | None, call: Call
) -> None:
    if typed:
        wanted = shlex.join([session or "SESSION", "--set", ",".join(typed)])
        raise UsageError("to change a budget, use --set or --add", f"sm budget {wanted}")
    if limits is not None and more is not None:
        raise UsageError("use either --set or --add", f"sm budget {session or 'SESSION'} --add usd=2")
    if session is None:
        if call.instance.session_id is None:
            raise UsageError("give a SESSION, or daily", "list sessions: sm ls -a")
        session = "me"
    path = "/v1/budget" if session == "daily" else session_path(session, "/budget")
    if limits is None and more is None:
        document = call.client.text("GET", path)
        call.show_with_warnings(document, _lines)
    else:
        call.post(path, _lines, {"set": limits, "add": more})


def _state(budget: JsonObject) -> str:
    unstopped = budget.get("unstopped", 0)  # an older daemon says nothing of it
    if budget["state"] == "stopped" and unstopped:
        return f"spent: its sessions are being stopped, {unstopped} may still spend"
    return _STATES.get(budget["state"], line(budget["state"]))


def _lines(report: JsonObject) -> list[str]:
    name, budget = line(report["label"]), report["budget"]
    lines = [f"{name}: no budget" if budget is None else f"{name}: {amounts_text(budget['limits'])}"]
    if budget is not None:
        lines.append(f"Spent:     {spent_words(budget['limits'], budget['spent'])} ({budget['percent']}%)")
        request = f" (sm requests {budget['request_id']})" if budget["request_id"] else ""
        lines.append(f"State:     {_state(budget)}{request}")
    above = (f"Above:     {line(b['label'])} has {amounts_text(b['left'])} left" for b in report["above"])
    return [*lines, *above]
