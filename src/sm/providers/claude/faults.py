"""Reads the reason for which a turn of claude failed. Pure.

Source: the error texts of claude 2.1.197, from the program itself; the common ones were also measured. claude reports a
failed turn twice, with the same kind and text: in its StopFailure hook, and in a synthetic line of its transcript. Pass
only these fields: the text of an answer may quote anything.
"""

import re

from sm.core.faults import Fault, FaultKind
from sm.core.text import folded
from sm.providers import values
from sm.providers.claude.dialect import current
from sm.providers.claude.reset_time import read_reset

_TEXT_MAX = 300
_READ_MAX = 1_000
"""Characters of a text that are read."""

_NAME_MAX = 60
_MODEL_NAME = re.compile(r"[A-Za-z0-9._:@/\[\]-]{1,100}")

_STATUSES = {
    401: FaultKind.LOGIN,
    402: FaultKind.BILLING,
    429: FaultKind.THROTTLED,
    529: FaultKind.OVERLOADED,
}


def read_fault(error: object, text: object, at: float, status: object = None) -> Fault:
    """The fault of a turn that failed at `at` (seconds since the epoch). Never raises.

    `error`: claude's kind of the error; `text`: claude's message; `status`: the HTTP status, if the transcript has it.
    """
    words = values.string(text)[:_READ_MAX].replace("\u2019", "'")
    shown = folded(words, _TEXT_MAX)
    kind = values.name(error)
    dialect = current()
    if kind == "rate_limit" and (name := _limit(words)):
        return _quota(name, words, shown, at)
    texts = dialect.group("error.text")
    known = next((FaultKind(name) for name, phrases in texts if phrases.fit(words) is not None), None)
    fault = known or FaultKind(dialect.table("error.kinds").get(kind, FaultKind.UNKNOWN))
    # The status of an HTTP error is more exact than `server_error` and `unknown`.
    if known is None and fault in (FaultKind.SERVER, FaultKind.UNKNOWN):
        fault = _by_status(status) or fault
    model = _model(words) if fault is FaultKind.MODEL else ""
    return Fault(fault, shown, _NAMES[fault], model=model, hint=_HINTS.get(fault, ""))


def _limit(words: str) -> str:
    """The name of the account's limit that a text says was met, or empty for another text."""
    sentence = re.split("[·.]", words, maxsplit=1)[0]
    for phrases, noun in ((("error.limit"), "limit"), ("error.credits", "credits")):
        kept = current().phrases(phrases).fit(sentence)
        name = kept.get("name", "") if kept is not None else ""
        if kept is not None and len(name) <= _NAME_MAX:
            return f"{name} {noun}".strip()
    return ""


def _quota(name: str, words: str, shown: str, at: float) -> Fault:
    name = folded(name, 60)
    is_of_family = any(part in words for part in current().texts("error.other_models"))
    family = _family(name) or (_family(words) if is_of_family else "")
    return Fault(FaultKind.QUOTA, shown, name, read_reset(words, at), family)


def _model(words: str) -> str:
    kept = current().phrases("error.selected_model").fit(words)
    found = None if kept is None else _MODEL_NAME.match(kept.get("model", ""))
    return _family(words) if found is None else found[0].lower()


def _family(words: str) -> str:
    """The first family of models that a text names, or empty for none."""
    families = {family.lower() for family in current().texts("error.families")}
    return next((word for word in re.findall(r"\w+", words.lower()) if word in families), "")


def _by_status(status: object) -> FaultKind | None:
    if type(status) is not int:
        return None
    if status in _STATUSES:
        return _STATUSES[status]
    return FaultKind.SERVER if 500 <= status <= 599 else FaultKind.REQUEST if 400 <= status <= 499 else None


_NAMES = {
    FaultKind.QUOTA: "usage limit",
    FaultKind.THROTTLED: "requests are throttled",
    FaultKind.OVERLOADED: "the API is overloaded",
    FaultKind.SERVER: "the API failed",
    FaultKind.NETWORK: "no connection to the API",
    FaultKind.LOGIN: "not logged in",
    FaultKind.BILLING: "billing",
    FaultKind.MODEL: "the model is not available",
    FaultKind.REQUEST: "the API rejects the request",
    FaultKind.OUTPUT_LIMIT: "the answer is too long",
    FaultKind.CONTEXT_FULL: "the context is full",
    FaultKind.UNKNOWN: "unknown error",
}
_HINTS = {
    FaultKind.LOGIN: "run claude in a terminal and type /login",
    FaultKind.BILLING: "add credit to the account, or raise its limit",
    FaultKind.MODEL: "choose another model: sm attach NAME, then type /model",
    FaultKind.CONTEXT_FULL: "sm send NAME /compact",
}
