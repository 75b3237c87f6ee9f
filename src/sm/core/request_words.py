"""The words of kinds of requests that ask for no tool, plan or text of an agent."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sm.core.capability_parts import capability_parts


class RequestWords(NamedTuple):
    """How every view words the requests of one kind. The functions take the arguments of a request."""

    verb: str
    """The predicate of a sentence about the session that asks."""
    asks: Callable[[object], str]
    """The whole predicate, with what it asks for."""
    facts: Callable[[object], Sequence[str]]
    """The facts of the request, one in each line."""
    notice: Callable[[str, str, object], str]
    """An entry of a notice, from the session's label, the request's name and the arguments. Ends with a command."""
    amounts: Callable[[object], str] = lambda arguments: ""
    """The text to type for another amount, with marks for the numbers, or empty if there is none."""


def words_of_kind(kind: str) -> RequestWords | None:
    """The words of a kind of requests, or None if its requests have a text or ask for a tool."""
    found = (part.REQUESTS.get(kind) for part in capability_parts("text") if hasattr(part, "REQUESTS"))
    return next(filter(None, found), None)


def plan_words(arguments: Mapping[str, Any]) -> str:
    """A plan on one line, without its marks: `Retry payments: Keep the answer · Store the key`. Not folded."""
    lines = [
        re.sub(r"^\s*(?:#+|[-*]|\d+[.)])\s+", "", part).strip()
        for part in str(arguments.get("plan") or "").splitlines()
    ]
    title, *steps = [part for part in lines if part] or ["a plan"]
    return f"{title}: {' · '.join(steps)}" if steps else title
