"""Answer an agent's question.

REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
open question.

TEXT is the number of an option, the option itself, or any other text. Give one TEXT for each question. If a question
accepts several options, separate them with commas. If a TEXT is -, it is read from stdin.

The first answer wins: the question can also be answered in the agent's terminal.

\b
Exit codes:
  0  answered
  3  no such request or session
  4  the question is already closed, or the session has none, or several;
     or the agent did not act on the answer

\b
Examples:
  sm answer r57 2                      # the second option
  sm answer r57 'neither: use a file'  # another answer
  sm answer r58 1,3                    # two options
  sm answer r59 1 '1,3' 'on Friday'    # three questions
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
