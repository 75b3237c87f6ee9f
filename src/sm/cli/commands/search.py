"""Search prompts, messages, answers and output of agents.

Finds the texts that contain all of the words: prompts, messages, notes, checkpoints, results, requests, the texts and
tool uses of agents with a transcript, and the terminal output of ended sessions. Upper and lower case and accents are
the same, and word* finds all words that begin with it. Chinese and Japanese characters without a space or punctuation
between them count as one word. An agent finds its own texts and those of its descendants.

The best matches come first. At most 20 words count. The JSON is an array.

\b
Examples:
  sm search migration failed
  sm search --type checkpoint --since 8h 'index*'
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.display.text_table import Table
from sm.cli.options import number_option
from sm.core.lines import JsonObject, clock, line
from sm.core.session_lines import label
from sm.wire_types.search import SearchType


@click.command(help=__doc__)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--type",
    "kind",
    type=click.Choice([*map(str, SearchType)]),
    metavar="TYPE",
    help=f"Only texts of this type: {', '.join(SearchType)}.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Only texts from this time on: a date, yesterday, 22:00 or an age such as 8h.",
)
@number_option("--limit", "-n", least=1, most=1_000, default=20, help="Maximum number of texts.")
@json_option
def command(words: tuple[str, ...], kind: str | None, since: str | None, limit: int, call: Call) -> None:
    query: dict[str, object] = {"words": " ".join(words), "type": kind, "limit": limit}
    if since is not None:
        from sm.cli.times import since_time

        query["since"] = since_time(since, call.client)
    call.get("/v1/search", _table, query)


def _table(found: list[JsonObject]) -> Table:
    rows = [(clock(f["at"], now()), label(f), line(f["type"]), line(f["excerpt"], 200)) for f in found]
    return Table(rows, aligned=3, empty="nothing found", is_cut=False)
