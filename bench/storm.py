"""`python -m bench storm`: sends a storm of messages to real claudes, and accounts for every one of them.

Messages of every kind go to a handful of agents in random order, among interrupts, permission dialogs and the ends of
turns, while the daemon is killed and started again. The truth is in the requests that the scripted API got.
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

from sm.errors import SmError
from tests.claude_cli import BINARY
from tests.claude_instance import ClaudeInstance
from tests.claude_storm import (
    OPEN,
    Mix,
    Storm,
    faults,
    kill_daemon_during,
    run_storm,
    start_sessions,
    summary,
)
from tests.integration.special_texts import LONG, special_texts
from tests.scripted_api import ScriptedApi
from tests.waits import failure_checks, waits

_AGENTS = 3
_KILLS = 3
_STALLED_S = 300
"""After so long without a request, a message or a change the storm hangs."""
_SETTLE_S = 90
"""How long the messages may take to reach their last status after the storm."""


def mix(sends: int) -> Mix:
    """Kinds of messages for so many sends: a third while claude is idle, a third while it is busy."""
    groups = max(1, sends // 40)
    rest = sends - 4 * groups - 4 * groups - 5 * groups  # each group begins with one message more
    odd = [text for text in special_texts() if text[0] not in LONG]
    odd = (
        [*islice(cycle(odd), rest // 4)] if rest // 4 > len(odd) else odd[:: max(1, len(odd) // (rest // 4))]
    )
    rest -= len(odd)
    busy = rest // 2
    return Mix(rest - busy - busy // 10, busy, groups, groups, odd, groups)


class Stalled:
    """A check for waits: the reason to give up once nothing has happened for a long time."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self._seen: tuple[int, int] = (0, 0)
        self._at = time.monotonic()

    def __call__(self) -> str | None:
        seen = (len(self._storm.sent), len(self._storm.api.requests))
        if seen != self._seen:
            self._seen, self._at = seen, time.monotonic()
        over = time.monotonic() - self._at > _STALLED_S
        return f"nothing has happened for {_STALLED_S} s; waiting for {waits()}" if over else None


@contextmanager
def _watched(storm: Storm) -> Any:
    check = Stalled(storm)
    failure_checks.append(check)
    try:
        yield
    finally:
        failure_checks.remove(check)


def _settle(storm: Storm, sessions: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Wait until no message is on its way and every agent is idle, or until that takes too long."""
    deadline_s = time.monotonic() + _SETTLE_S
    while True:
        try:
            messages = storm.messages()
            idle = all(storm.claudes.session(each)["status"] == "idle" for each in sessions)
        except SmError:  # the daemon is being started
            messages, idle = {}, False
        final = messages and all(each["status"] not in (*OPEN, "submitted") for each in messages.values())
        if (final and idle) or time.monotonic() > deadline_s:
            return messages
        time.sleep(0.2)


def run(claude: str, seed: int, sends: int) -> tuple[Counter[str], list[str]]:
    """One storm: the numbers of messages by their last status, and all faults."""
    with ScriptedApi() as api, ClaudeInstance(api, program=claude) as claudes:
        (claudes.work / "README.md").write_text("read me\n")
        storm = Storm(claudes, api, seed)
        found = []
        pids = start_sessions(storm, _AGENTS)
        began = time.monotonic()
        try:
            with _watched(storm), kill_daemon_during(storm, sends, _KILLS):
                run_storm(storm, [*pids], mix(sends))
        except (AssertionError, SmError) as error:
            found.append(f"the storm did not end: {error}")
        messages = _settle(storm, [*pids])
        seconds = time.monotonic() - began
        found += faults(storm, messages)
        for session_id, pid in pids.items():
            session = claudes.session(session_id)
            if session["pid"] != pid:
                found.append(f"agent {session_id} is {session['status']}: {session['status_reason']}")
        ran = {path.name for path in claudes.work.iterdir()} - {"README.md"}
        if ran != storm.approved:
            found.append(f"approved tools {sorted(storm.approved)}, but {sorted(ran)} ran")
        print(f"seed {seed}, {seconds:.0f} s:{summary(storm, messages)}", file=sys.stderr, flush=True)
    return Counter(message["status"] for message in messages.values()), found


def main(arguments: Sequence[str]) -> int:
    """Print the sums of each storm and all faults. Return 0 when there is no fault."""
    parser = argparse.ArgumentParser(
        prog="python -m bench storm", description="Send a storm of messages to real claudes."
    )
    parser.add_argument("--claude", default=str(BINARY), metavar="PATH", help="the program to test")
    parser.add_argument("--seeds", type=int, default=3, help="storms to run (default: 3)")
    parser.add_argument("--first-seed", type=int, default=1, metavar="SEED", help="of the first (default: 1)")
    parser.add_argument("--sends", type=int, default=200, help="messages of each storm (default: 200)")
    given = parser.parse_args(arguments)
    version = subprocess.run([given.claude, "--version"], capture_output=True, text=True, check=True)
    print(f"claude {version.stdout.strip()}: {_AGENTS} agents, {_KILLS} kills of the daemon in each storm")
    print(f"{'seed':>6}{'messages':>10}{'acknowledged':>14}{'unconfirmed':>13}{'expired':>9}{'faults':>8}")
    all_faults = 0
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        states, found = run(given.claude, seed, given.sends)
        columns = [states[status] for status in ("acknowledged", "unconfirmed", "expired")]
        print(
            f"{seed:>6}{states.total():>10}{columns[0]:>14}{columns[1]:>13}{columns[2]:>9}{len(found):>8}",
            *(f"    {each}" for each in found),
            sep="\n",
            flush=True,
        )
        all_faults += len(found)
    return int(all_faults > 0)
