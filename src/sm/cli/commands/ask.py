"""Ask the parent or the operator a question.

Only agents can run this command. The question goes to the agent's parent; an agent without a parent asks the
operator, the person who runs sm.

Without --wait the command returns immediately, and the answer arrives as a message. With --wait it prints the answer.
The JSON is the request.

\b
Exit codes with --wait:
  0   answered
  4   denied, expired or cancelled
  10  timed out; the answer will arrive as a message

\b
Examples:
  sm ask "Which database?" --option sqlite --option postgres --wait 600
"""

import sys
from contextlib import suppress

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json
from sm.cli.options import TextCommand, seconds_option
from sm.cli.outage import until_answered
from sm.cli.report import no_session
from sm.client.http import Client
from sm.core.lines import JsonObject, agent_line, line
from sm.core.states import RequestState
from sm.errors import DaemonUnavailable, IllegalState, NotFound, WaitTimeout
from sm.wire import encode


@click.command(help=__doc__, cls=TextCommand)
@click.argument("question", metavar="TEXT")
@click.option("--option", "options", multiple=True, metavar="TEXT", help="Answer to choose from. Repeatable.")
@seconds_option("--wait", help="Wait for the answer, at most this long, and print it.")
@seconds_option("--expires", least=1, help="Time after which the question expires.  [default: one day]")
@json_option
def command(
    question: str, options: tuple[str, ...], wait: float | None, expires: float | None, call: Call
) -> None:
    body = {"question": question, "options": list(options), "expires_s": expires}
    try:
        request: JsonObject = call.client.post("/v1/requests", body)
    except NotFound:
        if call.instance.session_id is not None:
            raise
        raise no_session("ask", "send an agent a message: sm send SESSION TEXT") from None
    name = request["request_id"]
    if wait is None:
        call.show_value(request, lambda _: [f"Asked ({name}). The answer will come as a message."])
        return

    def poll(client: Client, wait_s: float) -> JsonObject | None:
        current: JsonObject = client.get(f"/v1/requests/{name}", {"wait_s": max(1, round(wait_s))})
        return None if current["state"] == RequestState.OPEN else current

    closed = until_answered(call.instance, poll, wait)
    if closed is None:
        if call.as_json:
            print_json(encode(request))
        raise WaitTimeout(
            f"request {name} was not answered within {wait:g} s; the answer will arrive as a message",
            "sm inbox",
        )
    answer = closed["answer"]
    if call.as_json:
        print_json(encode(closed))
    elif answer is not None and answer["approved"]:
        click.echo("\n".join(map(agent_line, "\n".join(answer["answers"]).split("\n"))))
    sys.stdout.flush()  # Raises when the reader has closed stdout: the answer then comes as a message.
    if closed["state"] == RequestState.ANSWERED:
        with suppress(DaemonUnavailable):  # unconfirmed, the answer comes once more as a message
            call.client.post(f"/v1/requests/{name}/taken")
    if answer is None:
        raise IllegalState(f"request {name} is {line(closed['state'])}: {line(closed['reason'] or '-')}")
    if not answer["approved"]:
        raise IllegalState(f"request {name} was denied: {line(answer['message'] or '-')}")
