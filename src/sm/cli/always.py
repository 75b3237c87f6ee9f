"""Shows the rule that always allows what a request asks for, and writes it when a person agrees."""

import sys

import click

from sm.cli.call import Call
from sm.cli.display.errors import Failures
from sm.cli.display.output import print_json
from sm.cli.selection import agrees
from sm.client.http import Client, decode_answer, new_key
from sm.core.lines import JsonObject, line
from sm.errors import IllegalState, NotPermitted

_LINE_MAX = 4000


def answer_always(call: Call, request: JsonObject, *, yes: bool) -> int:
    """Let a person agree to the rule, write it, and return the exit code. `yes`: the person has agreed before.

    Raises NotPermitted for an agent, and IllegalState if the person does not agree, or there is no terminal to ask at.
    """
    if call.instance.session_id is not None:
        raise NotPermitted(
            "only the operator may write permission rules",
            f"approve only this request: sm approve {request['request_id']}",
        )
    client, name = call.client, request["request_id"]
    shown = client.get(f"/v1/requests/{name}/rule")
    for text in _preview(shown):
        click.echo(text, err=True)
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise IllegalState(
                "nothing was written: there is no terminal to ask at", f"sm approve {name} --always --yes"
            )
        if not agrees("Write this rule?"):
            raise IllegalState("cancelled")
    return _write(call, client, name, shown["rule"]["line"])


def _preview(shown: JsonObject) -> list[str]:
    rule = shown["rule"]
    answers = ", ".join(shown["answers"])
    return [
        f"{line(shown['sentence'], _LINE_MAX)} without a question.",
        f"This line is added to {line(rule['origin'], _LINE_MAX)}:",
        f"  {line(rule['line'], _LINE_MAX)}",
        *([f"It answers at once: {answers}"] if answers else []),
    ]


def _write(call: Call, client: Client, name: str, seen: str) -> int:
    text = client.text("POST", f"/v1/requests/{name}/rule", body={"line": seen}, key=new_key())
    written, failures = decode_answer(text), Failures()
    if call.as_json:
        print_json(text)
    else:
        rule = written["rule"]
        click.echo(f"{line(written['sentence'], _LINE_MAX)} ({line(rule['origin'], _LINE_MAX)})")
        if written["answers"]:
            click.echo(f"Approved by the rule: {', '.join(written['answers'])}")
        click.echo("To remove the rule: sm config undo")
    if name not in written["answers"]:
        failures.add(
            IllegalState(f"the agent did not take the answer to {name}", f"see it: sm requests {name}")
        )
    return failures.code
