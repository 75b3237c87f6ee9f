"""Approve a permission, plan, completion or more budget.

REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
open request. To see exactly what the agent asks for, run sm requests r57. You can approve several requests at once.
Then one MESSAGE goes to all of them, if all are of one kind, and amounts are not possible.

With --same, all open permissions for the same tool with the same arguments in the same workspace are approved, or
outside of workspaces in the same directory. They are listed before, and on a terminal you are asked.

With --always, sm writes a rule into rules.yaml beside config.yaml: all sessions of the same agent type may then use
exactly this command, file, URL or MCP tool without a question. The rule is shown before, and you are asked. It also
answers the open requests that it matches. auto_deny in config.yaml overrides it, and sm config undo removes it. Only
you can write rules, never an agent, and there is none for what a rule cannot say exactly.

If you approve a permission or a plan, the agent continues and gets MESSAGE. If you approve a completion, the
session ends. If you approve more budget, as much again is added, or the amounts in MESSAGE, and its sessions go on.
If you approve a dialog of an agent's start (kind setup), sm stores your answer for claude and presses the keys in
the dialog, and the agent starts. The first answer wins.

If one of several requests fails, the others are answered too, and the first failure sets the exit code.

\b
Exit codes:
  0  answered
  2  the words do not fit together, or no rule can say exactly this
  3  no such request or session
  4  the request is already closed, or the session has none, or several;
     or the agent did not act on the answer; or no requests are equal to
     it, or you did not agree
  5  an agent may not answer a dialog of an agent's start, or write a rule

\b
Examples:
  sm approve r57
  sm approve engineer-login 'but keep the old API'
  sm approve r58 usd=2,minutes=30
  sm approve r57 r59 r60
  sm approve --same r57
  sm approve r57 --always
"""

from collections.abc import Mapping, Sequence

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.options import further_requests, request_argument
from sm.cli.stdin import message_text
from sm.client.http import percent_encode
from sm.core.lines import JsonObject
from sm.core.session_lines import label
from sm.errors import NotFound, UsageError

_review_option = click.option(
    "--review", is_flag=True, help="Comment on the changes in your editor, and deny a completion with that."
)
_same_option = click.option(
    "--same",
    is_flag=True,
    help="Also answer all open requests for the same in the same workspace or directory.",
)
_always_option = click.option(
    "--always", is_flag=True, help="Write a rule that allows the same to this agent type from now on."
)
_yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def verdict_command(help: str | None, *, approved: bool, done: str) -> click.Command:
    """Build a command that approves or denies requests. `done` begins its output."""

    @click.command(help=help)
    @request_argument
    @click.argument("words", metavar="[REQUEST]... [MESSAGE]", nargs=-1, shell_complete=further_requests)
    @_same_option
    @_yes_option
    @json_option
    def command(
        request: str,
        words: tuple[str, ...],
        call: Call,
        same: bool,
        yes: bool,
        review: bool = False,
        always: bool = False,
    ) -> int:
        from sm.cli.several_requests import answer_each, answer_equal, request_of, split_words

        more, message = split_words(words)
        if review and message is not None:
            raise UsageError(
                "give either MESSAGE or --review", "with --review, write the message above all files"
            )
        if always and (more or message is not None):
            raise UsageError("--always takes one request and no message")
        own = {"--always": always} if approved else {"--review": review}
        _check_options(more, {"--same": same, **own}, yes=yes)
        _check_reference(request)
        verdict = {"approved": approved, "message": message}
        if review:
            from sm.cli.denial import deny_with_review  # which reads patches

            deny_with_review(call, request, yes=yes)
            return 0
        if always:
            from sm.cli.always import answer_always

            return answer_always(call, request_of(call.client, request), yes=yes)
        if same:
            return answer_equal(call, request, verdict, lambda r: _answered(r, done), now(), yes=yes)
        if more:
            return answer_each(call, (request, *more), verdict, lambda r: _answered(r, done))
        send_verdict(call, request, verdict, done)
        return 0

    return _always_option(command) if approved else _review_option(command)


def _check_options(more: Sequence[str], options: Mapping[str, bool], *, yes: bool) -> None:
    """Raise UsageError for options that do not fit together."""
    given = [name for name, is_given in options.items() if is_given]
    if yes and not given:
        raise UsageError(f"--yes needs {' or '.join(options)}")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be used together")
    if more and given:
        raise UsageError(f"{given[0]} takes one request only")


def send_verdict(call: Call, reference: str, verdict: Mapping[str, object], done: str) -> None:
    """Answer a request and print the result. `reference` is its id, or a session with exactly one open request."""
    _check_reference(reference)
    path = f"/v1/requests/{percent_encode(reference)}/answer"
    call.post(path, lambda r: [_answered(r, done)], verdict)


def _answered(request: JsonObject, done: str) -> str:
    """The line about an answer that was given. `done` begins it."""
    return f"{done} {request['request_id']} of {label(request)}{_open_end(request)}"


def _check_reference(reference: str) -> None:
    if reference in ("", ".", ".."):
        raise NotFound(f"no such request: {reference!r}", "list requests: sm requests")


def _open_end(request: JsonObject) -> str:
    """The effect on an agent in a first-start dialog; the warning after a refusal that the agent has not confirmed."""
    answer = request["answer"]
    if request["kind"] == "setup" and answer is not None:
        return (
            ": its dialog is answered, the agent starts"
            if answer["approved"]
            else ": the agent has been ended"
        )
    if (
        request["state"] != "answered"
        or answer is None
        or answer["approved"]
        or request.get("confirmed", True)
    ):
        return ""
    return f", not confirmed by the agent yet (sm why {request['request_id']})"


command = verdict_command(__doc__, approved=True, done="Approved")


@click.command()
@request_argument
@click.argument("answers", metavar="TEXT...", nargs=-1, required=True)
@json_option
def answer_command(request: str, answers: tuple[str, ...], call: Call) -> None:
    """Answer an agent's question.

    REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
    open question.

    TEXT is the number of an option, the option itself, or any other text. Give one TEXT for each question. If a
    question accepts several options, separate them with commas. If a TEXT is -, it is read from stdin.

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
    texts = [message_text(text) for text in answers]
    send_verdict(call, request, {"approved": True, "answers": texts}, "Answered")


deny_command = verdict_command(
    """Deny a permission, plan, question, completion or budget.

    REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
    open request.

    MESSAGE tells the agent why, and what to do instead. The first answer wins. sm reject does the same. Several
    requests and --same work as for sm approve.

    With --review, a completion is denied with comments about the changes: they open in your editor as for sm review,
    with your drafts in their places. The agent gets the denial and all comments in one message, which is a round of
    sm review. Without a comment, nothing is denied. If somebody else was faster, the comments stay drafts. The JSON
    has the request, the round, or null if none was sent, and the drafts that are left.

    If you deny more budget, its sessions stay paused. If you deny a dialog of an agent's start (kind setup), the agent
    is ended.

    If a person allowed a tool in the terminal just before, the tool runs. Then the command fails, or you get a notice
    later.

    \b
    Exit codes:
      0  answered; or with --review, there was no comment, or you did not agree
      3  no such request or session
      4  the request is already closed, or the session has none, or several;
         or the agent did not act on the answer; or with --review, there was
         no terminal to ask at, or a draft has changed

    \b
    Examples:
      sm deny r57 'not in this directory: use /srv/shop/build'
      sm deny r58 --review
      sm deny r57 r59 'wait for the review'
    """,
    approved=False,
    done="Denied",
)


reject_command = verdict_command(
    """Deny a request; the same as sm deny.

    REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
    open request.

    MESSAGE tells the agent why, and what to do instead. The first answer wins. With --review, comments about the
    changes do, as for sm deny.

    \b
    Exit codes:
      0  answered
      3  no such request or session
      4  the request is already closed, or the session has none, or several

    \b
    Examples:
      sm reject r57 'the tests fail on main'
    """,
    approved=False,
    done="Denied",
)
