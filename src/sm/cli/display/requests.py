"""Lays out requests for a person, in a line and in full. Pure.

A request quotes an agent, and a person decides by the quotation what to allow. In full, each quoted line stands behind
a bar as it is, with invisible characters made visible.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime

from sm.cli.display.text import Shown, age, columns, line, span
from sm.wire import encode

_BY = {"rule": "by a rule", "terminal": "at its terminal"}
_DEPTH_MAX = 5
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,29}", re.ASCII)
_PLAN = "ExitPlanMode"


def asked_line(request: Shown) -> str:
    """What is asked, how to answer while that helps, and what was answered."""
    if request["state"] != "open":
        then = became(request)
    elif request["answer"] is not None:
        then = f"{became(request)}, being handed over"
    else:
        then = ", or: ".join(_to_type(request))
    return f"{_what(request)} - {then}"


def _what(request: Shown) -> str:
    from sm.core.text import quoted  # an agent's words must end where they end: what to type follows them

    if request["kind"] == "question":
        what = " / ".join(_question(each) for each in request["questions"])
    elif request["kind"] == "completion":
        words = " ".join(each["question"] for each in request["questions"])
        what = f"done: {quoted(words)}" if words else "done"
    elif _plan(request) is not None:
        what = f"plan: {quoted(_plan(request) or '')}"
    else:
        arguments = encode(request["arguments"]) if request["arguments"] else ""
        what = quoted(f"{request['tool'] or 'a tool'} {arguments}".rstrip())
    return f"{what} (cut: sm attach {request['session_id']})" if request.get("cut") else what


def _question(question: Shown) -> str:
    from sm.core.text import quoted

    options = ", ".join(f"{n}: {quoted(option, 40)}" for n, option in enumerate(question["options"], 1))
    if not options:
        return quoted(question["question"])
    return f"{quoted(question['question'])} [{'several of ' if question.get('multiple') else ''}{options}]"


def _plan(request: Shown) -> str | None:
    plan = (request["arguments"] or {}).get("plan") if request["tool"] == _PLAN else None
    return plan if isinstance(plan, str) and plan.strip() else None


def _to_type(request: Shown) -> list[str]:
    """The commands that answer an open request."""
    name = request["request_id"]
    if request["kind"] == "completion":
        return [f"sm approve {name}", f"sm reject {name} 'WHY'"]
    if request["kind"] != "question":
        return [f"sm approve {name}", f"sm deny {name} 'WHY'"]
    if request.get("cut"):
        return [f"sm attach {request['session_id']}", f"sm deny {name} 'WHY'"]
    return [f"sm answer {name}{' TEXT' * len(request['questions'])}"]


def became(request: Shown) -> str:
    """What was decided and by whom, or why nothing was."""
    from sm.core.text import quoted

    answer = request["answer"]
    if answer is None:
        return _without_answer(request, "-")
    said = " / ".join(answer["answers"]) or answer["message"]
    parts = ["" if answer["answers"] else _decided(request), quoted(said) if said else ""]
    rule = line(request["reason"] or "") if request["answered_by"] == "rule" else ""
    return f"{': '.join(filter(None, parts))} {_whose(request)}{f' ({rule})' if rule else ''}{_interrupted(request)}"


def because(request: Shown) -> str:
    """How a request stands, for those who ask why: first who has decided."""
    if request["answer"] is None and request["state"] == "open":
        return f"nobody has answered yet (sm requests {request['request_id']} shows what to type)"
    return verdict(request) + ("; its dialog has not taken it yet" if request["state"] == "open" else "")


def verdict(request: Shown) -> str:
    answer = request["answer"]
    if answer is None:
        return _without_answer(request, "nobody has said why")
    is_rule = request["answered_by"] == "rule"
    said = line((request["reason"] if is_rule else " / ".join(answer["answers"]) or answer["message"]) or "")
    return f"{_decided(request)} {_whose(request)}{f': {said}' if said else ''}{_interrupted(request)}"


def _decided(request: Shown) -> str:
    if not request["answer"]["approved"]:
        return "declined"
    return "answered" if request["kind"] == "question" else "approved"


def _without_answer(request: Shown, unexplained: str) -> str:
    if request["answered_by"] == "terminal":
        return f"answered {_whose(request)}{_interrupted(request)}"
    return line(request["reason"] or "") or unexplained


def _whose(request: Shown) -> str:
    by = request["answered_by"] or "-"
    return _BY.get(by, f"by {line(by)}")


def _interrupted(request: Shown) -> str:
    """`sm interrupt` presses the key that declines a dialog: nobody sat there."""
    reason = line(request["reason"] or "")
    return f" ({reason})" if request["answered_by"] == "terminal" and "interrupted" in reason else ""


def request_head(request: Shown, at: datetime) -> str:
    whose = f"{line(request['name'] or '-')} ({request['session_id']})"
    return (
        f"{request['request_id']} | {line(request['kind'])} of {whose} | {line(request['state'])} | "
        f"{age(request['created_at'], at)}"
    )


def expires(request: Shown, at: datetime) -> str:
    """`in 5min`."""
    return f"in {span(max(0.0, (datetime.fromisoformat(request['expires_at']) - at).total_seconds()))}"


# -------------------------------------------------------------------------------------------------------- in full


def asked_block(request: Shown, at: datetime, width: int | None = None) -> list[str]:
    """Everything that is asked, and every way to answer it; lines of a `width`, None: as long as they are."""
    lines = [request_head(request, at)]
    if request.get("agent"):
        lines.append(f"Asks:      its sub-agent {line(request['agent'])}")
    if request["kind"] == "permission":
        lines.append(f"Tool:      {line(request['tool'] or 'unknown')}")
        plan = _plan(request)
        if plan is not None:
            lines += ["Plan:", *_theirs(plan, 1, width)]
        arguments = request["arguments"] or {}
        lines += _named({k: v for k, v in arguments.items() if plan is None or k != "plan"}, 1, width)
    else:
        for number, question in enumerate(request["questions"], 1):
            lines += _question_block(request, number, question, width)
    if request.get("cut"):
        lines.append(f"Cut:       this is not all of it; sm attach {request['session_id']} shows the dialog")
    if request["state"] != "open" or request["answer"] is not None:
        return [*lines, f"Because:   {because(request)}"]
    typed = _answers(request) if request["kind"] == "question" else _to_type(request)
    lines += [f"{'' if number else 'Type:':<10} {each}" for number, each in enumerate(typed)]
    if request["expires_at"]:
        lines.append(f"Expires:   {expires(request, at)}")
    return lines


def _answers(request: Shown) -> list[str]:
    """What to type for each question; other words than those of an option are an answer, too."""
    if request.get("cut"):
        return _to_type(request)
    name, questions = request["request_id"], request["questions"]
    words = " ".join(
        "'TEXT'" if not each["options"] else "NUMBER,NUMBER" if each.get("multiple") else "NUMBER"
        for each in questions
    )
    own = [f"sm answer {name} 'TEXT'"] if len(questions) == 1 and questions[0]["options"] else []
    return [f"sm answer {name} {words}", *own, f"sm deny {name} 'WHY'"]


def _question_block(request: Shown, number: int, question: Shown, width: int | None) -> Iterator[str]:
    if request["kind"] == "completion":
        yield "Result:"
    else:
        title = "Question:" if len(request["questions"]) == 1 else f"Question {number}:"
        several = " several options may be chosen, as in '1,2'" if question.get("multiple") else ""
        yield f"{title:<10}{several}".rstrip()
    yield from _theirs(question["question"], 1, width)
    for index, option in enumerate(question["options"]):
        words = _description(request, number - 1, index)
        yield from _theirs(f"{option}: {words}" if words else option, 1, width, f"{index + 1}: ")


def _description(request: Shown, question: int, option: int) -> str:
    """What the agent says of an option, where it does."""
    found: object = request["arguments"]
    for step in ("questions", question, "options", option, "description"):
        if isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(found, list) and isinstance(step, int) and step < len(found):
            found = found[step]
        else:
            return ""
    return found if isinstance(found, str) else ""


def _named(arguments: Mapping[str, object], depth: int, width: int | None) -> Iterator[str]:
    for name, value in arguments.items():
        if _PLAIN_NAME.fullmatch(name):
            yield f"{'  ' * (depth - 1)}{name}:"
        else:  # it comes from the agent as well
            yield from _theirs(f"{name}:", depth - 1, width)
        yield from _value(value, depth, width)


def _value(value: object, depth: int, width: int | None) -> Iterator[str]:
    if isinstance(value, str):
        yield from _theirs(value, depth, width)
    elif isinstance(value, Mapping) and value and depth < _DEPTH_MAX:
        yield from _named(value, depth + 1, width)
    elif isinstance(value, list) and value and depth < _DEPTH_MAX:
        for number, each in enumerate(value, 1):
            yield f"{'  ' * depth}{number}:"
            yield from _value(each, depth + 1, width)
    else:
        yield from _theirs(encode(value), depth, width)


def _theirs(text: str, depth: int, width: int | None, first: str = "") -> Iterator[str]:
    """An agent's text behind a bar, so that no line of it, nor what a terminal wraps, passes for one of ours."""
    start = f"{'  ' * depth}| {first}"
    left = None if width is None else max(20, width - len(start))
    for each in text.split("\n"):
        for piece in _wrapped(visible(each), left):
            yield f"{start}{piece}" if piece else start.rstrip(" ")
            start = f"{'  ' * depth}| {' ' * len(first)}"


def _wrapped(text: str, width: int | None) -> Iterator[str]:
    if width is None or (text.isascii() and len(text) <= width):
        yield text
        return
    piece, used = "", 0
    for character in text:
        takes = columns(character)
        if used + takes > width:
            yield piece
            piece, used = "", 0
        piece, used = piece + character, used + takes
    yield piece


def visible(text: str) -> str:
    """The text, with whatever cannot be seen, or looks like a blank and is none, as `<U+200B>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each == " " or unicodedata.category(each)[0] not in "CZ" else f"<U+{ord(each):04X}>"
        for each in text
    )
