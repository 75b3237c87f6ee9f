"""Answers several requests with one command: those that are named, or all that are equal to one."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import click

from sm.cli.call import Call
from sm.cli.display.errors import Failures
from sm.cli.display.output import print_json
from sm.cli.options import REQUEST_NAME
from sm.cli.selection import ask
from sm.client.http import Client, decode_answer, new_key, percent_encode
from sm.client.pages import whole_list
from sm.core.lines import JsonObject, age, line, plural
from sm.core.reference import request_number
from sm.core.session_lines import label
from sm.errors import IllegalState, SmError, UsageError

Done = Callable[[JsonObject], str]
"""Turns an answered request into the printed line."""
_AMOUNT = re.compile(r"\s*[a-z]+\s*=", re.IGNORECASE)


def names_request(word: str) -> bool:
    """True for the id of a request, such as `r57`."""
    return REQUEST_NAME.fullmatch(word) is not None and request_number(word) is not None


def split_words(words: Sequence[str]) -> tuple[list[str], str | None]:
    """The requests and the message in the words after the first one.

    The message is the last word, if it names no request. Raises click.UsageError for another word.
    """
    count = next((index for index, word in enumerate(words) if not names_request(word)), len(words))
    extra = words[count + 1 :]
    if extra:
        raise click.UsageError(f"Got unexpected extra argument{'s'[: len(extra) > 1]} ({' '.join(extra)})")
    return list(words[:count]), words[count] if count < len(words) else None


def answer_each(call: Call, references: Sequence[str], verdict: Mapping[str, object], done: Done) -> int:
    """Answer each request as it is now, also after a failure, and return the exit code.

    Reads all of them before the first answer. `references`: ids of requests, the first may be a session with one open
    request. With --json prints an array of those that were answered.
    """
    client, failures = call.client, Failures()
    found: dict[str, JsonObject] = {}
    for reference in references:
        try:
            request = request_of(client, reference)
        except SmError as error:
            failures.add(error)
            continue
        found.setdefault(request["request_id"], request)
    _check_message(list(found.values()), verdict)
    return _answer(call, client, list(found.values()), verdict, done, failures)


def answer_equal(
    call: Call, reference: str, verdict: Mapping[str, object], done: Done, at: datetime, *, yes: bool
) -> int:
    """Answer the request and all open ones that are equal, and return the exit code.

    Lists them before, and asks a person at a terminal. Answers no other request than those that were listed. `at`: the
    time of the list. Raises IllegalState for a request that must be answered alone.
    """
    from sm.core.likeness import equal_requests, place_of  # its classes would make every answer slower

    client = call.client
    request = request_of(client, reference)
    requests: list[JsonObject] = client.get("/v1/requests")
    listed = whole_list(client, "/v1/sessions", {"archived": True})
    places = {session["session_id"]: place_of(session) for session in listed}

    def request_place(one: JsonObject) -> str:
        # A session that the list does not have, such as a new one, is equal to no other.
        return places.get(one["session_id"], f"session {one['session_id']}")

    equal = equal_requests(request, requests, request_place)
    if not equal:
        name = request["request_id"]
        is_open = any(one["request_id"] == name for one in requests)
        why = "only permissions with all their arguments can be equal" if is_open else "it is not open"
        raise IllegalState(f"no requests are equal to {name}: {why}", f"see it: sm requests {name}")
    for text in _listed(equal, len(requests), request_place(request), at):
        click.echo(text, err=True)
    ask(f"{_VERBS[bool(verdict['approved'])]} {plural(len(equal), 'request')}?", yes=yes)
    return _answer(call, client, equal, verdict, done, Failures())


_VERBS = {True: "Approve", False: "Deny"}


def _listed(equal: Sequence[JsonObject], count: int, place: str, at: datetime) -> list[str]:
    from sm.core.text import TOOL_USE_MAX, quoted, tool_use

    first = equal[0]
    use = quoted(tool_use(first["tool"], first["arguments"]), TOOL_USE_MAX)
    head = f"{len(equal)} of {plural(count, 'open request')}, all in {line(place, 4096)}: {use}"
    return [
        head,
        *(f"  {r['request_id']}  {label(r)}{_by_sub_agent(r)}  {age(r['created_at'], at)}" for r in equal),
    ]


def _by_sub_agent(request: JsonObject) -> str:
    return f" (sub-agent {line(request['agent'])})" if request["agent"] else ""


def request_of(client: Client, reference: str) -> JsonObject:
    """The request that `reference` names: its id, or a session with exactly one open request. Raises SmError."""
    if request_number(reference) is not None:
        request: JsonObject = client.get(f"/v1/requests/{percent_encode(reference)}")
        return request
    requests: list[JsonObject] = client.get("/v1/requests", {"session": reference})
    if len(requests) != 1:
        names = ", ".join(r["request_id"] for r in requests)
        raise IllegalState(
            f"session {line(reference)} has {len(requests) or 'no'} open requests{f': {names}' if names else ''}",
            f"choose one, such as {requests[0]['request_id']}" if requests else "list requests: sm requests",
        )
    return requests[0]


def _check_message(requests: Sequence[JsonObject], verdict: Mapping[str, object]) -> None:
    """Raise UsageError for a message that does not fit all requests."""
    message = verdict.get("message")
    if not isinstance(message, str):
        return
    kinds = list(dict.fromkeys(line(request["kind"]) for request in requests))
    if len(kinds) > 1:
        raise UsageError(
            f"one message does not fit requests of several kinds: {', '.join(kinds)}",
            "answer each kind with a command of its own",
        )
    if kinds == ["budget"] or _AMOUNT.match(message):
        raise UsageError("amounts are for one request only", "answer each request with a command of its own")


def _answer(
    call: Call,
    client: Client,
    requests: Sequence[JsonObject],
    verdict: Mapping[str, object],
    done: Done,
    failures: Failures,
) -> int:
    answers = []
    for request in requests:
        path = f"/v1/requests/{request['request_id']}/answer"
        try:
            text = client.text("POST", path, body={**verdict, "shown": request["digest"]}, key=new_key())
        except SmError as error:
            failures.add(error)
            continue
        answers.append(text)
        if not call.as_json:
            click.echo(done(decode_answer(text)))
    if call.as_json:
        print_json(f"[{','.join(answers)}]")
    return failures.code
