"""`sm answer`: answer a question."""

import click

from sm.cli.answering import settle
from sm.cli.parameters import json_option
from sm.cli.sending import words


@click.command()
@click.argument("request", metavar="REQUEST|ID")
@click.argument("answers", metavar="TEXT...", nargs=-1, required=True)
@json_option
def command(request: str, answers: tuple[str, ...], as_json: bool) -> None:
    """Answer a question that a session has asked.

    REQUEST is one of `sm requests`, or a session with exactly one open question. TEXT is the number of an option, the
    option itself, or other words; one for each question. The first answer wins.

    \b
    Example:
      sm answer r57 2
    """
    texts = [words(text) for text in answers]
    settle(request, {"approved": True, "answers": texts}, "Answered", as_json=as_json)
