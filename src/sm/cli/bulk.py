"""Applies one action to several sessions, for `sm kill`, `archive`, `unarchive`, `rm` and `interrupt`."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import click

from sm.cli.display.errors import print_error
from sm.cli.display.output import print_json
from sm.cli.instance import Instance
from sm.client.http import TIMEOUT_S, new_key, session_path
from sm.errors import SmError


def act_on_each(
    sessions: Sequence[str],
    action: str,
    done: Callable[[str], str],
    *,
    as_json: bool,
    body: Mapping[str, object] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Do `action` to each session, say of each what `done` makes of the answer, and return the exit code.

    One that fails does not keep the others from being tried; the first failure gives the exit code.
    """
    client = Instance(os.environ).client()
    answers = []
    code = 0
    for session in sessions:
        try:
            path = session_path(session, f"/{action}")
            text = client.text("POST", path, body=body or {}, key=new_key(), timeout_s=timeout_s)
        except SmError as error:
            if len(sessions) == 1:
                raise
            failed = print_error(error, sys.argv)
            code = code or failed
            continue
        answers.append(text)
        said = done(text)
        if not as_json:
            click.echo(said)
    if as_json:
        print_json(answers[0] if len(sessions) == 1 else f"[{','.join(answers)}]")
    return code
