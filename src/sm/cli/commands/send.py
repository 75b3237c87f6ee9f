"""Send a message to agents.

If TEXT is -, it is read from stdin. The command waits up to 5 seconds for the message to arrive, then prints its
state. With --wait, a message has arrived when the agent's conversation or queue has it: a prompt hook of yours may
still refuse what the agent's own hook has reported.

If the agent has exactly one open question, TEXT from you or from the agent's parent answers it. On a terminal the
command asks before; --answer and --message decide without it. While a dialog is
open in the agent's terminal, or somebody types there, the message is held. sm answer, sm approve and sm deny close
the dialog.

A message to an archived session whose process lives unarchives it, and the output says so.

A TEXT that is exactly /compact [INSTRUCTIONS], /clear or /context is a command to claude itself. It is typed without
a header once the agent is idle. Agents may only send /compact, and only to their own children. Any other text that
begins with / arrives as text: for commands with a dialog, use sm attach.

--file attaches a file, such as a screenshot: at most 10 files of 10 MiB. The agent gets a copy, which is deleted with
the session, and a line at the end of the text says where it is. A text with files is a message: it answers no
question.

From a session, the name operator stands for you: the message waits in your inbox (sm inbox), and sm top, the web page
and Telegram show it. An agent may send limits.operator_messages_per_minute of them.

The JSON is the message; with several sessions, an array. If one of several sessions does not exist, nothing is sent.

\b
Exit codes:
  0   the message arrived; without --wait, also if it is still queued
  4   the message failed or expired; with --wait, also if it is unconfirmed;
      with --answer, no question is open
  10  only with --wait: timed out, or the message is held until somebody
      decides; the message stays queued

\b
Examples:
  sm send engineer-login "Add error handling for network failures"
  sm send engineer-login --message "The tests are green again"
  git diff | sm send reviewer-1 reviewer-2 -
  sm send engineer-login "/compact keep the names of the failing tests"
  sm send engineer-login "The page looks like this now" --file page.png
"""

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from sm.cli.attached_files import file_option, read_files
from sm.cli.call import Call, json_option
from sm.cli.delivery import DeliveryOptions, deliver, delivery_options
from sm.cli.options import TextCommand, running_sessions
from sm.cli.stdin import message_text
from sm.client.http import session_path
from sm.core.states import CallerKind, TextUse
from sm.errors import NotFound, NotPermitted, UsageError


@click.command(help=__doc__, cls=TextCommand)
@click.argument(
    "sessions", metavar="SESSION... TEXT", nargs=-1, required=True, shell_complete=running_sessions
)
@click.option("--answer", is_flag=True, help="Answer the agent's open question.")
@click.option("--message", is_flag=True, help="Send a message, and leave the agent's question open.")
@file_option("File for the agent. May be given several times. Agents may not use this option.")
@delivery_options
@json_option
def command(
    sessions: tuple[str, ...],
    answer: bool,
    message: bool,
    files: tuple[str, ...],
    call: Call,
    **options: Any,
) -> int:
    *named, text = sessions
    if answer and message:
        raise UsageError("--answer and --message cannot be used together")
    if answer and files:
        raise UsageError(
            "--answer and --file cannot be used together", "send the files as a message: --message"
        )
    if not named:
        raise UsageError("SESSION and TEXT are required", "sm send SESSION TEXT")
    recipients = list(dict.fromkeys(named))
    several = len(named) > 1
    if several:
        _require_known(call, sessions)
    use = TextUse.ANSWER if answer else TextUse.MESSAGE if message else _default_use(call)
    return deliver(
        call,
        recipients,
        message_text(text),
        DeliveryOptions(**options),
        several=several,
        use=use,
        files=read_files(files),
    )


def _require_known(call: Call, words: Sequence[str]) -> None:
    """Raise NotFound before anything is sent if a word is no session: it is probably of a text without quotes."""
    *named, text = words
    for place, name in enumerate(named):
        if name == CallerKind.OPERATOR and call.instance.session_id is not None:
            continue
        try:
            call.client.get(session_path(name))
        except NotFound as error:
            if place == 0:
                raise
            quoted = shlex.join(["sm", "send", *named[:place], " ".join((*named[place:], text))])
            raise NotFound(f"{error.message}; nothing was sent", f"quote the text: {quoted}") from None
        except NotPermitted:
            continue  # it may be sent to all the same


def _default_use(call: Call) -> TextUse | None:
    """Ask a person at a terminal. An agent, whose terminal nobody may watch, answers as a script does."""
    is_person = call.instance.session_id is None and sys.stdin.isatty() and sys.stderr.isatty()
    return TextUse.ASK if is_person else None
