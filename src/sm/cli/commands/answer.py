"""Answer a question that a session has asked.

REQUEST is one of `sm requests`, or a session with exactly one open question. TEXT is the number of an option, the
option itself, or other words; one for each question. Where several options may be chosen, numbers or options with
commas between them. TEXT - is read from stdin. Whoever sits at the agent's terminal may answer there; the first
answer wins.

\b
Example:
  sm answer r57 2
  sm answer r57 'neither: use a file'      other words
  sm answer r58 1,3                        several options
  sm answer r59 1 '1,3' 'on Friday'        three questions
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import request_argument
from sm.cli.stdin import message_text
from sm.cli.verdicts import send_verdict


@click.command(help=__doc__)
@request_argument
@click.argument("answers", metavar="TEXT...", nargs=-1, required=True)
@json_option
def command(request: str, answers: tuple[str, ...], call: Call) -> None:
    texts = [message_text(text) for text in answers]
    send_verdict(call, request, {"approved": True, "answers": texts}, "Answered")
