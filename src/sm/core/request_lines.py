"""Formats requests in one line or in full. Pure.

A request quotes an agent, and the user decides by the quotation what to allow. In full, a bar precedes each quoted
line, and invisible characters are shown as code points.
"""

from collections.abc import Iterator
from datetime import datetime

from sm.core.lines import JsonObject, age, line
from sm.core.quotation import argument_lines, question_lines, quotation, wrapped_at_blanks
from sm.core.request_words import words_of_kind
from sm.core.session_lines import label, name_to_type
from sm.core.timestamps import span
from sm.wire import encode

_BY = {"rule": "by a rule", "terminal": "in the terminal"}
_DELETED = "its texts were deleted with its session"


def request_line(request: JsonObject) -> str:
    """Summarise a request: its subject, and the answer or the commands that answer it."""
    if _is_deleted(request):
        return _DELETED
    return f"{_subject(request)}{_shortened(request)} - {_answer_or_commands(request)}"


def request_block(request: JsonObject, at: datetime, width: int) -> list[str]:
    """Summarise a request in lines of `width` columns, with all arguments of an open permission as JSON."""
    if not _needs_answer(request):
        outcome = f"{_subject(request)} - {_answer_or_commands(request)}"
        words = _DELETED if _is_deleted(request) else outcome
        return [request_head(request, at), *_indented(words, width)]
    from sm.core.text import omission

    lines = [request_head(request, at), *_indented(_subject(request), width)]
    arguments = request["arguments"] if request["kind"] == "permission" else None
    if omission(request["tool"], arguments) and _plan(request) is None:
        lines += quotation(encode(arguments), 1, width)
    if request.get("cut"):
        lines += _indented(_shortened(request).strip(), width)
    return [*lines, *_indented(_answer_or_commands(request), width)]


def _indented(text: str, width: int) -> list[str]:
    return [f"  {piece}" for piece in wrapped_at_blanks(text, width - 2)]


def _is_deleted(request: JsonObject) -> bool:
    """True if `sm rm` has deleted the texts of the request."""
    texts = (request["questions"], request["answer"], request["reason"])
    return request["state"] != "open" and request["arguments"] is None and not any(texts)


def _needs_answer(request: JsonObject) -> bool:
    return request["state"] == "open" and request["answer"] is None


def _answer_or_commands(request: JsonObject) -> str:
    if _needs_answer(request):
        return ", or: ".join(_answer_commands(request))
    is_open = request["state"] == "open"
    return f"{_result(request)}{', not yet received by the agent' if is_open else ''}"


def _subject(request: JsonObject) -> str:
    # `quoted` marks the end of an agent's words, because a command to type follows.
    from sm.core.text import TOOL_USE_MAX, quoted, tool_use

    if request["kind"] == "question":
        subject = " / ".join(map(_question, request["questions"]))
    elif request["kind"] in ("setup", "dialog"):
        subject = quoted(request["questions"][0]["question"])  # an agent may have named the directory
    elif (kind_words := words_of_kind(request["kind"])) is not None:
        subject = line(kind_words.asks(request["arguments"]))
    elif request["kind"] == "completion":
        words = " ".join(question["question"] for question in request["questions"])
        subject = f"done: {quoted(words)}" if words else "done"
    elif (plan := _plan(request)) is not None:
        subject = f"plan: {quoted(plan)}"
    else:
        subject = quoted(tool_use(request["tool"], request["arguments"]), TOOL_USE_MAX)
    return subject


def _shortened(request: JsonObject) -> str:
    """The command that shows what `_subject` leaves out, or empty if it is complete."""
    from sm.core.text import is_cut, omission

    if request.get("cut"):
        return f" (shortened, see: sm attach {name_to_type(request)})"
    if request["kind"] != "permission":
        return ""
    if (plan := _plan(request)) is not None:
        omitted = "shortened" if is_cut(plan) else ""
    else:
        omitted = omission(request["tool"], request["arguments"])
    return f" ({omitted}, see: sm requests {request['request_id']})" if omitted else ""


def _question(question: JsonObject) -> str:
    from sm.core.text import quoted

    options = ", ".join(f"{n}: {quoted(option, 40)}" for n, option in enumerate(question["options"], 1))
    if not options:
        return quoted(question["question"])
    return f"{quoted(question['question'])} [{'any of ' if question.get('multiple') else ''}{options}]"


def _plan(request: JsonObject) -> str | None:
    plan = (request["arguments"] or {}).get("plan")
    if not (isinstance(plan, str) and plan.strip()):
        return None
    from sm.core.programs import is_plan  # its classes would make every command of requests slower

    return plan if is_plan(request["tool"]) else None


def _answer_commands(request: JsonObject) -> list[str]:
    name = request["request_id"]
    if request["kind"] == "dialog":
        return [f"only at its terminal: sm attach {name_to_type(request)}"]
    if request["reason"] and _needs_answer(request):  # the agent ignored an answer, and its hook has ended
        return [f"sm attach {name_to_type(request)}"]
    if request["kind"] == "completion":
        return [f"sm approve {name}", f"sm deny {name} 'WHY'"]
    if request["kind"] == "setup":
        return [f"sm approve {name}", f"sm deny {name}"]
    if (words := words_of_kind(request["kind"])) is not None and words.amounts(request["arguments"]):
        amounts = words.amounts(request["arguments"])
        return [f"sm approve {name}", f"sm approve {name} '{amounts}'", f"sm deny {name}"]
    if request["kind"] != "question":
        chosen = [f"sm answer {name} NUMBER"] if request["options"] else []
        return [f"sm approve {name}", f"sm deny {name} 'WHY'", *chosen]
    if request.get("cut"):
        return [f"sm attach {name_to_type(request)}", f"sm deny {name} 'WHY'"]
    return [f"sm answer {name}{' TEXT' * len(request['questions'])}"]


def _result(request: JsonObject) -> str:
    """Describe the decision and who made it, or why there is none. Quotes the answer."""
    from sm.core.text import quoted

    answer = request["answer"]
    if answer is None:
        return _without_answer(request, "-")
    text = " / ".join(answer["answers"]) or answer["message"]
    parts = ["" if answer["answers"] else _decision(request), quoted(text) if text else ""]
    rule = line(request["reason"] or "") if request["answered_by"] == "rule" else ""
    return f"{': '.join(filter(None, parts))} {_by(request)}{f' ({rule})' if rule else ''}{_remark(request)}"


def explanation(request: JsonObject) -> str:
    """Explain the state of a request, for `sm why`: the decision first."""
    if request["answer"] is None and request["state"] == "open":
        return f"not answered yet (to answer: sm requests {request['request_id']})"
    if request["state"] == "open":
        return f"{verdict(request)}; the dialog has not accepted the answer yet"
    is_confirmed = request["state"] != "answered" or request.get("confirmed", True)
    return verdict(request) + ("" if is_confirmed else "; the agent has not confirmed the answer yet")


def verdict(request: JsonObject) -> str:
    answer = request["answer"]
    if answer is None:
        return _without_answer(request, "no reason was given")
    is_rule = request["answered_by"] == "rule"
    text = line((request["reason"] if is_rule else " / ".join(answer["answers"]) or answer["message"]) or "")
    return f"{_decision(request)} {_by(request)}{f': {text}' if text else ''}{_remark(request)}"


def _decision(request: JsonObject) -> str:
    if not request["answer"]["approved"]:
        return "denied"
    return "answered" if request["kind"] == "question" else "approved"


def _without_answer(request: JsonObject, unexplained: str) -> str:
    if request["answered_by"] == "terminal":
        return f"answered {_by(request)}{_remark(request)}"
    return line(request["reason"] or "") or unexplained


def _by(request: JsonObject) -> str:
    by = request["answered_by"] or "-"
    return _BY.get(by, f"by {line(request.get('answered_by_label') or by)}")


def _remark(request: JsonObject) -> str:
    """Quote the reason if `sm interrupt` denied the request, or another answer came too late; empty otherwise."""
    reason = line(request["reason"] or "")
    tells = "interrupted" in reason or "came too late" in reason
    return f" ({reason})" if request["answered_by"] == "terminal" and tells else ""


def request_head(request: JsonObject, at: datetime) -> str:
    return (
        f"{request['request_id']} | {line(request['kind'])} of {label(request)} | {line(request['state'])} | "
        f"{age(request['created_at'], at)}"
    )


def expires(request: JsonObject, at: datetime) -> str:
    return f"in {span(max(0.0, (datetime.fromisoformat(request['expires_at']) - at).total_seconds()))}"


# -------------------------------------------------------------------------------------------------------- in full


def request_details(
    request: JsonObject, at: datetime, width: int | None = None, changes: str | None = None
) -> list[str]:
    """Format a request in full, with all commands that answer it. Wraps quotations at `width` unless None.

    `changes`: what the session has changed, for a request of kind completion.
    """
    lines = [request_head(request, at), *request_body(request, width, changes=changes)]
    if _needs_answer(request) and request["expires_at"]:
        lines.append(f"Expires:   {expires(request, at)}")
    return lines


def request_body(
    request: JsonObject, width: int | None = None, *, commands: bool = True, changes: str | None = None
) -> list[str]:
    """The lines of `request_details` that do not depend on the time. `commands`: with those that answer the request."""
    lines = list[str]()
    if _is_deleted(request):
        return [_DELETED]
    if request.get("agent"):
        lines.append(f"Asked by:  sub-agent {line(request['agent'])}")
    if (words := words_of_kind(request["kind"])) is not None:
        lines += words.facts(request["arguments"])
    elif request["kind"] == "permission":
        lines.append(f"Tool:      {line(request['tool'] or 'unknown')}")
        plan = _plan(request)
        if plan is not None:
            lines += ["Plan:", *quotation(plan, 1, width)]
        arguments = request["arguments"] or {}
        lines += argument_lines({k: v for k, v in arguments.items() if plan is None or k != "plan"}, 1, width)
        for number, decision in enumerate(request["options"], 1):
            lines.append(f"{'' if number > 1 else 'Decisions:':<10} {number}: {line(decision)}")
    else:
        for number, question in enumerate(request["questions"], 1):
            lines += _question_block(request, number, question, width)
    if changes:
        lines.append(f"Changes:   {changes}")
    if request.get("cut"):
        lines.append(f"Shortened: sm attach {name_to_type(request)} shows the whole dialog")
    if request["reason"] and _needs_answer(request):
        lines.append(f"Because:   {line(request['reason'])}")
    if not _needs_answer(request):
        return [*lines, f"Because:   {explanation(request)}"]
    if commands:
        is_question = request["kind"] == "question" and not request["reason"]
        known = _question_commands(request) if is_question else _answer_commands(request)
        if changes:
            known.append(f"sm deny {request['request_id']} --review")
        lines += [f"{'' if number else 'Answer:':<10} {text}" for number, text in enumerate(known)]
    if request["kind"] == "setup":
        lines.append("Effect:    sm approve lets the agent start, sm deny ends it")
    return lines


def _question_commands(request: JsonObject) -> list[str]:
    if request.get("cut"):
        return _answer_commands(request)
    name, questions = request["request_id"], request["questions"]
    words = " ".join(
        "'TEXT'" if not question["options"] else "NUMBER,NUMBER" if question.get("multiple") else "NUMBER"
        for question in questions
    )
    free_text = [f"sm answer {name} 'TEXT'"] if len(questions) == 1 and questions[0]["options"] else []
    return [f"sm answer {name} {words}", *free_text, f"sm deny {name} 'WHY'"]


def _question_block(
    request: JsonObject, number: int, question: JsonObject, width: int | None
) -> Iterator[str]:
    if request["kind"] == "completion":
        yield "Result:"
    elif request["kind"] == "dialog":
        yield "Dialog:"
    else:
        title = "Question:" if len(request["questions"]) == 1 else f"Question {number}:"
        several = " choose one or more options, for example '1,2'" if question.get("multiple") else ""
        yield f"{title:<10}{several}".rstrip()
    yield from question_lines(
        question["question"], question["options"], request["arguments"], number - 1, width
    )
