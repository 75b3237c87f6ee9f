"""Show an agent's last actions, or follow new ones.

Shows, newest last: prompts (>), the agent's answers (in quotes), tools, and events of the session (*). sm events also
shows events of its children, and sm output shows its terminal.

The JSON is an array; with --follow, one object per line.

\b
Examples:
  sm tail engineer-login --follow
"""

import select
import sys
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import click

from sm.cli.call import Call, json_option
from sm.cli.display.evidence import action_line
from sm.cli.display.output import now, width
from sm.cli.options import number_option, session_argument
from sm.cli.outage import until_answered
from sm.client.http import Client, session_path
from sm.core.lines import JsonObject
from sm.core.statuses import ENDED

_LINES_MAX = 10_000
_INTERVAL_S = 1.0
_BATCH = 500
"""The number of actions in one request while following."""
_LATE_S = 60.0
"""The longest delay of an action: an agent CLI writes a text only when the whole message is complete."""


@click.command(help=__doc__)
@session_argument
@number_option("--lines", "-n", most=_LINES_MAX, default=10, help="Number of past actions.")
@click.option(
    "--follow",
    "-f",
    "following",
    is_flag=True,
    help="Print new actions as they come, until the session ends or Ctrl-C.",
)
@json_option
def command(session: str, lines: int, following: bool, call: Call) -> None:
    if following:
        _follow(call, session, lines)
    else:
        call.get(session_path(session, "/actions"), _layout, {"lines": lines, **call.seen})


def _layout(actions: Iterable[JsonObject]) -> list[str]:
    return [action_line(action, now(), width()) for action in actions]


def _follow(call: Call, session: str, lines: int) -> None:
    cursor: Cursor | None = None
    has_ended = False
    session_id = ""

    def ask(client: Client, wait_s: float) -> bool | None:
        nonlocal cursor, has_ended, session_id
        if cursor is None:
            # Another session may take over the name while this command runs.
            session_id = client.get(session_path(session))["session_id"]
        else:
            _pause(min(_INTERVAL_S, wait_s))
        had_ended = has_ended
        has_ended = client.get(session_path(session_id))["status"] in ENDED
        path = session_path(session_id, "/actions")
        if cursor is None:
            limit = min(_LINES_MAX, max(lines, _BATCH))
            actions = client.get(path, {"lines": limit, **call.seen})
            cursor = Cursor(actions, whole=len(actions) < limit)
            news = actions[max(0, len(actions) - lines) :]
        else:
            news = cursor.new_actions(client.get(path, {"lines": _BATCH, "after": cursor.after}))
        for action in news:
            call.show_value(action, lambda action: _layout([action]))
        return True if had_ended and has_ended else None  # one read after the end, for its last actions

    until_answered(call.instance, ask, None)


def _pause(seconds: float) -> None:
    """Wait. Raises BrokenPipeError as soon as the reader closes stdout: the next action may be hours away."""
    try:
        reader = sys.stdout.fileno()
    except OSError:  # stdout is not a file
        time.sleep(seconds)
        return
    poll = select.poll()
    poll.register(reader, 0)  # poll(2) always reports POLLERR and POLLHUP
    if poll.poll(seconds * 1000):
        raise BrokenPipeError


class Cursor:
    """Remembers the printed actions. An older action may arrive after a newer one."""

    def __init__(self, latest: Iterable[JsonObject], *, whole: bool) -> None:
        """`latest` are the newest actions, and with `whole` all actions."""
        actions = list(latest)
        self._newest = max(map(_when, actions), default=None)
        self._floor = None if whole else min(map(_when, actions), default=None)
        self._seen = Counter(map(_identity, actions))

    @property
    def after(self) -> str | None:
        """The timestamp after which to ask for actions; None for all."""
        if self._newest is None:
            return None
        after = (self._newest - timedelta(seconds=_LATE_S)).astimezone(UTC)
        return after.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def new_actions(self, actions: Iterable[JsonObject]) -> list[JsonObject]:
        """Select the new actions. `actions` are all actions since `after`."""
        counted: Counter[tuple[str, str, str]] = Counter()
        news = []
        for action in actions:
            when, identity = _when(action), _identity(action)
            counted[identity] += 1
            if counted[identity] > self._seen[identity] and (self._floor is None or when > self._floor):
                news.append(action)
            self._newest = when if self._newest is None else max(self._newest, when)
        self._seen = counted
        return news


def _when(action: JsonObject) -> datetime:
    return datetime.fromisoformat(action["timestamp"])


def _identity(action: JsonObject) -> tuple[str, str, str]:
    return action["timestamp"], action["kind"], action["text"]
