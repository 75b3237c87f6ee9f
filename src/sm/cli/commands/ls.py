"""List agents: first those that need you.

An agent needs you if it waits for an answer, a permission or a dialog, or if it failed and you have not seen that. Then
come the completed agents that you have not seen, then those that work, then the idle ones. You have seen an ended agent
after an act on it, such as sm attach or sm output, or after sm seen. After unseen_days of the configuration it is only
counted. The members of a tree stay together, and a live agent's ended children are counted in its row. sm ps is the
same command. !direct marks an agent that should be sandboxed and runs directly on this host.

The last line counts the ended agents that are not in the list. If agents ended with the tmux server or the machine,
the first line is the command that restarts them. A line above the list names an agent CLI that was not checked or that
breaks a contract (sm check), and agents that still run a version that was replaced.

\b
Columns:
  AGE   how long the agent has had its status
  CTX   the used part of the model's context window
  TASK  the agent's question, wait, note, current tool or last words

With --all, processes that ended agents left behind follow the list. "sm kill --orphans" ends them. In the JSON they are
in "orphan_processes" of their session.

\b
Examples:
  sm ls --watch
  sm ls --all --limit all
  sm kill $(sm ls -q --workspace shop)
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from sm.cli.call import Call, json_option
from sm.cli.display.listing import UNSEEN, listing, ordered
from sm.cli.display.output import now, print_json, print_lines
from sm.cli.display.overview import orphan_lines
from sm.cli.display.text_table import Table, table_lines
from sm.cli.options import workspace_option
from sm.cli.pages import archived_option, limit_option, list_text, search_option
from sm.client.http import decode_answer
from sm.core.lines import JsonObject
from sm.errors import NotFound, UsageError
from sm.wire import encode

_INTERVAL_S = 2.0
# Fields that change while the agent does nothing.
_CLOCKS = frozenset({"last_activity_at"})


@click.command(help=__doc__)
@click.option("--all", "-a", "ended", is_flag=True, help="Include ended sessions; of old ones see --limit.")
@click.option("--watch", "-w", is_flag=True, help="Update every 2 seconds, until Ctrl-C.")
@click.option("--quiet", "-q", is_flag=True, help="Print only IDs, one on each line.")
@workspace_option
@search_option
@archived_option
@limit_option
@json_option
def command(
    ended: bool,
    watch: bool,
    quiet: bool,
    workspace: str | None,
    search: str | None,
    archived: bool,
    limit: int | None,
    call: Call,
) -> None:
    if quiet and (watch or call.as_json):
        raise UsageError(f"--quiet and {'--watch' if watch else '--json'} cannot be used together")
    if limit is not None and watch:
        raise UsageError("--limit and --watch cannot be used together")
    if limit is not None and not (ended or archived):
        raise UsageError("--limit needs --all", "sm ls --all --limit all")
    query = {"ended": ended, "workspace": workspace, "search": search, "archived": archived}
    empty = "no sessions" if ended else "no live sessions; to see ended ones: sm ls -a"

    def layout(sessions: Sequence[JsonObject]) -> Table:
        rest = _rest(call, query)
        if rest is not None and (ended or archived):
            rest = {"lost": rest["lost"], "programs": rest.get("programs", ())}
        return listing(sessions, now(), empty, rest)

    if watch:
        _watch(call, query, layout)
        return
    text = list_text(call.client, "/v1/overview", query, limit)
    if quiet:
        call.show(text, lambda sessions: _ids(sessions, with_unseen=ended or archived))
        return
    orphans = _orphans(call) if ended else []
    if orphans and call.as_json:
        print_json(encode(_with_orphans(decode_answer(text), orphans)))
        return
    call.show(text, layout)
    if orphans:
        print_lines(
            ["", "Orphan processes (sm kill --orphans):", *(f"  {text}" for text in orphan_lines(orphans))]
        )


def _ids(sessions: Sequence[JsonObject], *, with_unseen: bool) -> list[str]:
    """The IDs for other commands, such as sm kill."""
    listed = [session for _, _, session in ordered(sessions)]
    return [s["session_id"] for s in listed if with_unseen or s["attention"] not in UNSEEN]


def _rest(call: Call, query: Mapping[str, object]) -> JsonObject | None:
    """The sessions that the overview leaves out, in numbers."""
    try:
        found: JsonObject = call.client.get(
            "/v1/overview/rest", {"workspace": query["workspace"], "search": query["search"]}
        )
    except NotFound:  # an older daemon
        return None
    return found


def _orphans(call: Call) -> Sequence[JsonObject]:
    """The processes that ended sessions left behind."""
    try:
        found: Sequence[JsonObject] = call.client.get("/v1/orphans")
    except NotFound:  # an older daemon
        return []
    return found


def _with_orphans(sessions: Sequence[JsonObject], orphans: Sequence[JsonObject]) -> list[JsonObject]:
    left: dict[str, list[JsonObject]] = {}
    for orphan in orphans:
        left.setdefault(orphan["session_id"], []).append(orphan)
    return [
        {**session, "orphan_processes": left[session["session_id"]]}
        if session["session_id"] in left
        else session
        for session in sessions
    ]


def _watch(call: Call, query: Mapping[str, object], layout: Callable[[Sequence[JsonObject]], Table]) -> None:
    client, shown = call.client, None
    with _display(layout, as_json=call.as_json) as display:
        while True:
            sessions = client.get("/v1/overview", query)
            news = [{k: v for k, v in session.items() if k not in _CLOCKS} for session in sessions]
            if sys.stdout.isatty() or news != shown:
                display(sessions)
            shown = news
            time.sleep(_INTERVAL_S)


@contextmanager
def _display(
    layout: Callable[[Sequence[JsonObject]], Table], *, as_json: bool
) -> Iterator[Callable[[Sequence[JsonObject]], None]]:
    """Yield a function that prints sessions: redrawn in place on a terminal, else as lines or a JSON line."""
    if as_json:
        yield lambda sessions: print_json(encode(sessions))
    elif not sys.stdout.isatty():
        yield lambda sessions: print_lines([*table_lines(layout(sessions)), ""])
    else:
        from sm.cli.display.terminal import live_display

        with live_display() as show:
            yield lambda sessions: show(layout(sessions))
