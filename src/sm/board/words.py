"""The words, signs and numbers of live views. Pure.

An agent's texts pass through `shown`: control, bidirectional and other invisible characters become code points.
"""

import re
from collections.abc import Mapping
from typing import Any

from sm.board.edit_counts import edit_counts
from sm.core.programs import is_plan, ruled_tools
from sm.core.quotation import visible
from sm.core.request_words import plan_words, words_of_kind
from sm.core.statuses import Status
from sm.core.text import tool_use

SIGNS: Mapping[str, str] = {
    Status.SPAWNED: "·",
    Status.STARTING: "·",
    Status.RUNNING: "●",
    Status.IDLE: "○",
    Status.WAITING_INPUT: "!",
    Status.COMPLETED: "✓",
    Status.ERROR: "✗",
    Status.ABANDONED: "✗",
    Status.KILLED: "✗",
}
"""A sign for each status, so that the colour is never the only difference."""
_WORDS: Mapping[str, str] = {Status.WAITING_INPUT: "waiting"}
_SUBJECT = re.compile(r"(?:Session|Child) \S+?(?: \([0-9a-f]{8}\))?:? ")
_TEXT_MAX = 500
_WHOLE_MAX = 450
"""Leaves room for sm's own words before the text of an agent."""
_BAR_CELLS = 5


def shown(text: object, limit: int = _TEXT_MAX) -> str:
    """An agent's text on one line, with a sign for each newline and code points for invisible characters."""
    words = str(text)
    return visible(words[:limit].replace("\n", "⏎")) + ("…" if len(words) > limit else "")


def without_subject(event: str) -> str:
    """The text of an event without the session that it begins with: `crashed (signal 9)`."""
    return event[found.end() :] if (found := _SUBJECT.match(event)) else event


def status_word(status: str, *, stale: bool) -> str:
    return _WORDS.get(status, shown(status, 20)) + ("?" if stale else "")


def sign_of(status: str, *, stale: bool, waits: bool) -> str:
    """`waits`: the session has an open request."""
    return SIGNS[Status.WAITING_INPUT] if waits else "?" if stale else SIGNS.get(status, "·")


def context_bar(percent: int | None) -> str:
    """The used part of the context window: `▰▰▱▱▱ 40%`."""
    if percent is None:
        return "-"
    filled = min(_BAR_CELLS, max(0, round(percent * _BAR_CELLS / 100)))
    return f"{'▰' * filled}{'▱' * (_BAR_CELLS - filled)} {percent}%"


def request_words(request: Mapping[str, Any]) -> str:
    """The subject of a request on one line."""
    texts = " / ".join(question["question"] for question in request["questions"])
    match request["kind"]:
        case "question":
            return shown(texts)
        case "completion":
            return f"proposes its completion: {shown(texts)}" if texts else "proposes its completion"
        case "setup" | "dialog":
            return shown(texts)
        case kind if (words := words_of_kind(kind)) is not None:
            return shown(words.asks(request["arguments"]))
        case _ if is_plan(request["tool"]):
            return shown(plan_words(request["arguments"] or {}))
        case _:
            return _tool_words(request["tool"], request["arguments"])


def request_kind(request: Mapping[str, Any]) -> str:
    """The kind of a request for people: `plan` for the permission to carry out a plan."""
    return "plan" if is_plan(request["tool"]) else shown(request["kind"], 20)


def _tool_words(tool: str | None, arguments: Mapping[str, Any] | None) -> str:
    """`Bash: npm install` or `Edit: src/login.py +2 -1`. A long path leaves the numbers in sight."""
    counts = edit_counts(arguments)
    if counts is not None:
        return f"{shown(tool_use(tool, {'path': counts.path}))} {counts.words}"
    return shown(tool_use(tool, _decisive(tool, arguments)))


def _decisive(tool: str | None, arguments: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The arguments without the one that says what a command is for: it changes nothing that the command does."""
    ruled = ruled_tools().get(tool or "")
    return {name: value for name, value in (arguments or {}).items() if ruled is None or name != ruled.remark}


def says_all(request: Mapping[str, Any]) -> bool:
    """True if `request_words` leaves out nothing that a person decides by."""
    if request.get("cut") or request["reason"] or words_of_kind(request["kind"]) is not None:
        return False
    if request["kind"] == "permission":
        values = list(_decisive(request["tool"], request["arguments"]).values())
        texts = [request["tool"] or "", *(value if isinstance(value, str) else "\n" for value in values)]
        is_one = len(values) == 1
    else:
        texts = [question["question"] for question in request["questions"]]
        is_one = len(texts) <= 1
    return is_one and not any("\n" in text for text in texts) and sum(map(len, texts)) <= _WHOLE_MAX
