"""`python -m bench [NAMES] [--json]`: measures the speed of sm, and prints each number next to its floor."""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench import (
    agents,
    archives,
    auto,
    budgets,
    changes,
    commands,
    completion,
    disk,
    endings,
    first_requests,
    growth,
    history,
    link,
    listing,
    mail,
    mcp,
    messages,
    permissions,
    restart,
    sandbox,
    screens,
    starts,
    states,
    storm,
    sums,
    telegram,
    tokens,
    top,
    transcripts,
    views,
    warnings,
    watching,
    web,
    worktrees,
)
from bench.instance import SM
from bench.row import Effort, Row, table

GROUPS: Mapping[str, Callable[[Effort], Iterator[Row]]] = {
    "commands": commands.measure,
    "listing": listing.measure,
    "sums": sums.measure,
    "agents": agents.measure,
    "mail": mail.measure,
    "budgets": budgets.measure,
    "archives": archives.measure,
    "mcp": mcp.measure,
    "classifier": completion.measure,
    "warnings": warnings.measure,
    "watching": watching.measure,
    "views": views.measure,
    "top": top.measure,
    "web": web.measure,
    "changes": changes.measure,
    "restart": restart.measure,
    "endings": endings.measure,
    "growth": growth.measure,
    "history": history.measure,
    "disk": disk.measure,
    "transcripts": transcripts.measure,
    "sandbox": sandbox.measure,
    "telegram": telegram.measure,
    "worktrees": worktrees.measure,
}

ON_REQUEST = frozenset(
    {
        "changes",
        "endings",
        "growth",
        "history",
        "disk",
        "transcripts",
        "sandbox",
        "telegram",
        "web",
        "worktrees",
    }
)
"""Benchmarks that take minutes, or that need a Docker engine or a browser: they run only if they are named."""

JUDGING: Mapping[str, Callable[[Sequence[str]], int]] = {
    "auto": auto.main,
    "completion": completion.main,
    "first-requests": first_requests.main,
    "link": link.main,
    "messages": messages.main,
    "permissions": permissions.main,
    "screens": screens.main,
    "states": states.main,
    "starts": starts.main,
    "storm": storm.main,
    "tokens": tokens.main,
}
"""Benchmarks with their own options and output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every gate holds, else 1."""
    # On SIGTERM end all started processes too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given and given[0] in JUDGING:
        return JUDGING[given[0]](given[1:])
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure how fast sm is.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAMES",
        help=f"benchmarks to run: {' '.join(GROUPS)} (default: all but {' '.join(sorted(ON_REQUEST))})",
    )
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    options = parser.parse_args(given)
    unknown = [name for name in options.names if name not in GROUPS]
    if unknown:
        parser.error(f"unknown benchmark: {' '.join(unknown)}; known: {' '.join(GROUPS)}")
    if not os.access(SM, os.X_OK):
        parser.error(f"{SM} does not exist: install sm for this Python with pip install -e .")
    rows: list[Row] = []
    for name in options.names or [name for name in GROUPS if name not in ON_REQUEST]:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += GROUPS[name](Effort())
    if options.json:
        print(json.dumps([row.as_json() for row in rows], indent=2))
    else:
        print("\n".join([_machine(), "", *table(rows)]))
    return int(any(row.holds(row.gate) is False for row in rows))


def _machine() -> str:
    """The system, the load and the versions behind the numbers."""
    tmux = subprocess.run(("tmux", "-V"), capture_output=True, text=True, check=True).stdout.strip()
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores (load {load:.1f}), "
        f"Python {platform.python_version()}, {tmux}"
    )


if __name__ == "__main__":
    sys.exit(main())
