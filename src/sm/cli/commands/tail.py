"""Show the last things one session did.

What it was told (>), what it said (in quotes), its tools, its own checkpoints, notes and moves (*), newest
last. `sm events ID` has its children's too, `sm output ID` what stands in its terminal. The JSON is an array; with
--follow one object per line.

\b
Example:
  sm tail engineer-login --follow
"""

import select
import sys
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import width
from sm.cli.display.text import Shown, cut, line
from sm.cli.options import session_argument
from sm.cli.outage import until_answered
from sm.client.http import Client, session_path
from sm.core.statuses import ENDED

_LINES_MAX = 10_000
_EVERY_S = 1.0
_READ = 500
"""How many a follower asks for at once."""
_LATE_S = 60.0
"""How late an action may come to be known: an agent CLI writes what it said when the whole message is done."""


@click.command(help=__doc__)
@session_argument
@click.option("--lines", "-n", type=click.IntRange(0, _LINES_MAX), default=10, show_default=True)
@click.option("--follow", "-f", "following", is_flag=True, help="Go on until it has ended, or Ctrl-C.")
@json_option
def command(session: str, lines: int, following: bool, call: Call) -> None:
    if following:
        _follow(call, session, lines)
    else:
        call.get(session_path(session, "/actions"), _layout, {"lines": lines})


def _layout(actions: Iterable[Shown]) -> list[str]:
    return [action_line(action, None, width()) for action in actions]


def _follow(call: Call, session: str, lines: int) -> None:
    shown: Cursor | None = None
    ends = False
    session_id = ""

    def ask(client: Client, wait_s: float) -> bool | None:
        nonlocal shown, ends, session_id
        if shown is None:
            # By its id from here on: a name may pass to another meanwhile.
            session_id = client.get(session_path(session))["session_id"]
        else:
            _pause(min(_EVERY_S, wait_s))
        last = ends
        ends = client.get(session_path(session_id))["status"] in ENDED
        path = session_path(session_id, "/actions")
        if shown is None:
            most = min(_LINES_MAX, max(lines, _READ))
            found = client.get(path, {"lines": most})
            shown = Cursor(found, whole=len(found) < most)
            news = found[max(0, len(found) - lines) :]
        else:
            news = shown.news(client.get(path, {"lines": _READ, "after": shown.after}))
        for action in news:
            call.show_value(action, lambda action: _layout([action]))
        return True if last and ends else None  # once more, for what it wrote while it ended

    until_answered(call.instance, ask, None)


def _pause(seconds: float) -> None:
    """Wait. Raises BrokenPipeError at once when nobody reads stdout any more: the next action may be hours away."""
    try:
        reader = sys.stdout.fileno()
    except OSError:  # no file at all
        time.sleep(seconds)
        return
    poll = select.poll()
    poll.register(reader, 0)  # POLLERR and POLLHUP are always told (poll(2))
    if poll.poll(seconds * 1000):
        raise BrokenPipeError


class Cursor:
    """Which actions have been shown. They do not come in their order: an older one may be known later."""

    def __init__(self, found: Iterable[Shown], *, whole: bool) -> None:
        """`found` are the newest there are; `whole`: all there are."""
        actions = list(found)
        self._newest = max(map(_when, actions), default=None)
        self._floor = None if whole else min(map(_when, actions), default=None)
        self._seen = Counter(map(_identity, actions))

    @property
    def after(self) -> str | None:
        """From when on the daemon is to be asked."""
        if self._newest is None:
            return None
        after = (self._newest - timedelta(seconds=_LATE_S)).astimezone(UTC)
        return after.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def news(self, found: Iterable[Shown]) -> list[Shown]:
        """Those of all actions since `after` that were not there before."""
        counted: Counter[tuple[str, str, str]] = Counter()
        news = []
        for action in found:
            when, identity = _when(action), _identity(action)
            counted[identity] += 1
            if counted[identity] > self._seen[identity] and (self._floor is None or when > self._floor):
                news.append(action)
            self._newest = when if self._newest is None else max(self._newest, when)
        self._seen = counted
        return news


def _when(action: Shown) -> datetime:
    return datetime.fromisoformat(action["timestamp"])


def _identity(action: Shown) -> tuple[str, str, str]:
    return action["timestamp"], action["kind"], action["text"]


def action_line(action: Shown, zone: tzinfo | None, columns: int | None) -> str:
    """`[15:10:02] Bash: npm test`, cut to so many columns."""
    text, kind = line(action["text"], 2000), action["kind"]
    known = {"tool": text, "prompt": f"> {text}", "text": f'"{text}"', "event": f"* {text}"}
    at = _when(action).astimezone(zone).strftime("%H:%M:%S")
    return cut(f"[{at}] {known.get(kind, f'{line(kind)}: {text}')}", columns)
