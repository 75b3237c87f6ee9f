"""`sm ask`: an agent asks its parent, or the operator."""

import os
import sys
from contextlib import suppress

import click

from sm.cli.display.text import Shown, json_text, line, their_line
from sm.cli.instance import Instance
from sm.cli.long_poll import until_answered
from sm.cli.options import json_option
from sm.client.http import Client, new_key
from sm.core.states import RequestState
from sm.errors import DaemonUnavailable, IllegalState, WaitTimeout
from sm.wire import encode


@click.command()
@click.argument("question")
@click.option(
    "--option", "options", multiple=True, metavar="TEXT", help="An answer to choose from; may be repeated."
)
@click.option("--wait", type=click.FloatRange(min=0, max=86_400), metavar="SECONDS",
              help="Wait for the answer and print it; exit 10 when none came.")  # fmt: skip
@click.option("--expires", type=click.FloatRange(min=1, max=86_400), metavar="SECONDS",
              help="Ask no longer than this; a day.")  # fmt: skip
@json_option
def command(
    question: str, options: tuple[str, ...], wait: float | None, expires: float | None, as_json: bool
) -> int:
    """Ask the parent, or the operator, a question.

    Without --wait the answer comes as a message. With it the answer is what is printed: exit code 4 when it was
    declined or has expired. The JSON is the request.

    \b
    Example:
      sm ask "Which database?" --option sqlite --option postgres --wait 600
    """
    instance = Instance(os.environ)
    body = {"question": question, "options": list(options), "expires_s": expires}
    asked: Shown = instance.client().post("/v1/requests", body, key=new_key())
    name = asked["request_id"]
    if wait is None:
        click.echo(
            json_text(encode(asked)) if as_json else f"Asked ({name}). The answer will come as a message."
        )
        return 0

    def ask(client: Client, wait_s: float) -> Shown | None:
        found: Shown = client.get(f"/v1/requests/{name}", {"wait_s": max(1, round(wait_s))})
        return None if found["state"] == "open" else found

    settled = until_answered(instance, ask, wait)
    if settled is None:
        if as_json:
            click.echo(json_text(encode(asked)))
        raise WaitTimeout(
            f"{name} was not answered within {wait:g} s; the answer will come as a message", "sm inbox"
        )
    answer = settled["answer"]
    if as_json:
        click.echo(json_text(encode(settled)))
    elif answer is not None and answer["approved"]:
        text = "\n".join(answer["answers"])
        click.echo("\n".join(their_line(each) for each in text.split("\n")))
    sys.stdout.flush()  # whose reader may have gone: the answer then comes as a message
    if settled["state"] == RequestState.ANSWERED:
        with suppress(DaemonUnavailable):  # it then comes once more, as a message
            instance.client().post(f"/v1/requests/{name}/taken")
    if answer is None:
        raise IllegalState(f"{name} is {line(settled['state'])}: {line(settled['reason'] or '-')}")
    if not answer["approved"]:
        raise IllegalState(f"{name} was declined: {line(answer['message'] or '-')}")
    return 0
