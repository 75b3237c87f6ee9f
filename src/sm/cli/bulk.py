"""Applies one action to several sessions, for `sm kill`, `archive`, `unarchive`, `rm` and `interrupt`."""

from collections.abc import Callable, Mapping, Sequence

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import Failures, print_warnings
from sm.cli.display.output import print_json
from sm.cli.options import Completion, sessions_argument
from sm.client.http import TIMEOUT_S, decode_answer, new_key, session_path
from sm.core.lines import JsonObject
from sm.errors import IllegalState, NotPermitted, SmError


def bulk_command(
    help: str | None, action: str, done: Callable[[JsonObject], str], complete: Completion
) -> click.Command:
    """Build a command that only takes sessions and applies `action` to each session.

    `complete`: the shell completion of the sessions to which `action` applies.
    """

    @click.command(help=help)
    @sessions_argument(complete)
    @json_option
    def command(sessions: tuple[str, ...], call: Call) -> int:
        return act_on_each(call, sessions, action, done)

    return command


def act_on_each(
    call: Call,
    sessions: Sequence[str],
    action: str,
    done: Callable[[JsonObject], str],
    body: Mapping[str, object] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    chosen: bool = False,
    key_of: Callable[[str], str] = lambda _: new_key(),
) -> int:
    """Apply `action` to each session, also after a failure, and return the exit code.

    `done` turns the daemon's answer into the printed text. It is called with --json too.

    `chosen`: the command chose the sessions, not the user. A session that does not allow the action is then skipped
    with a warning, and the JSON is always an array. `key_of`: gives the Idempotency-Key for a session, just before its
    request.
    """
    client = call.client
    failures = Failures()
    answers = []
    for session in sessions:
        try:
            path = session_path(session, f"/{action}")
            text = client.text("POST", path, body=body or {}, key=key_of(session), timeout_s=timeout_s)
        except SmError as error:
            if chosen and isinstance(error, IllegalState | NotPermitted):
                print_warnings([f"skipped: {error.message}"])
                continue
            if len(sessions) == 1:
                raise
            failures.add(error)
            continue
        answers.append(text)
        answer = decode_answer(text)
        report = done(answer)
        if not call.as_json:
            click.echo(report)
            if answer.get("warnings"):  # the formatter of warnings takes time to load
                print_warnings(answer["warnings"])
    if call.as_json:
        print_json(answers[0] if len(sessions) == 1 and not chosen else f"[{','.join(answers)}]")
    return failures.code
