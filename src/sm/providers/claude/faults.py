"""Reads the reason for which a turn of claude failed. Pure.

Source: the error texts of claude 2.1.197, from the program itself; the common ones were also measured. claude reports a
failed turn twice, with the same kind and text: in its StopFailure hook, and in a synthetic line of its transcript. Pass
only these fields: the text of an answer may quote anything.
"""

import re
from collections.abc import Sequence

from sm.core.faults import Fault, FaultKind
from sm.core.text import folded
from sm.providers.claude import values
from sm.providers.claude.reset_time import read_reset

_TEXT_MAX = 300
_READ_MAX = 1_000
"""Characters of a text that are read."""

_LIMIT = re.compile(r"You've (?:hit|reached) your (?P<name>[^·.]{0,60}?\blimit)\b", re.IGNORECASE)
_CREDITS = re.compile(r"You're out of (?P<name>usage credits)", re.IGNORECASE)
_FAMILY = re.compile(r"\b(opus|sonnet|haiku|fable)\b", re.IGNORECASE)
_SELECTED = re.compile(
    r"(?:selected model \(|The model |API Error \()(?P<model>[A-Za-z0-9._:@/\[\]-]{1,100})\)?"
)

_TEXTS: Sequence[tuple[re.Pattern[str], FaultKind]] = (
    (re.compile(r"Prompt is too long"), FaultKind.CONTEXT_FULL),
    (re.compile(r"Credit balance is too low"), FaultKind.BILLING),
    (
        re.compile(
            r"Your org is out of usage|Your seat type doesn't include usage|This service is disabled for your org"
            r"|Your usage allocation has been disabled|Your group's usage limit is set to"
        ),
        FaultKind.BILLING,
    ),
    (re.compile(r"API Error: Usage credits required for|Fable 5 requires usage credits"), FaultKind.MODEL),
    (re.compile(r"Your ANTHROPIC_API_KEY belongs to a disabled organization"), FaultKind.LOGIN),
    (
        re.compile(r"Your organization has disabled (API key authentication|Claude subscription)"),
        FaultKind.LOGIN,
    ),
    (re.compile(r"Not logged in|Invalid API key|Please run /login|Failed to authenticate"), FaultKind.LOGIN),
    (re.compile(r"Claude \w+ is not available with the Claude \w+ plan"), FaultKind.MODEL),
    (
        re.compile(r"There's an issue with the selected model|The model \S+ is not available on"),
        FaultKind.MODEL,
    ),
    (re.compile(r"(Opus|Fable) is experiencing high load"), FaultKind.OVERLOADED),
    (re.compile(r"API Error: (Repeated )?529\b"), FaultKind.OVERLOADED),
    (re.compile(r"API Error: (Connection to the API was lost|Unable to connect to API)"), FaultKind.NETWORK),
    (re.compile(r"(API Error: )?(Request timed out|Connection error)"), FaultKind.NETWORK),
)
"""Beginnings of texts that tell more than claude's own kind of the error."""

_ERRORS = {
    "authentication_failed": FaultKind.LOGIN,
    "oauth_org_not_allowed": FaultKind.LOGIN,
    # The next three are read in the program of 2.1.332.
    "account_on_hold": FaultKind.BILLING,
    "verification_required": FaultKind.LOGIN,
    "cloud_credential_error": FaultKind.LOGIN,
    "billing_error": FaultKind.BILLING,
    "rate_limit": FaultKind.THROTTLED,
    "overloaded": FaultKind.OVERLOADED,
    "invalid_request": FaultKind.REQUEST,
    "model_not_found": FaultKind.MODEL,
    "server_error": FaultKind.SERVER,
    "max_output_tokens": FaultKind.OUTPUT_LIMIT,
}
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
    if kind == "rate_limit" and (found := _LIMIT.match(words) or _CREDITS.match(words)):
        return _quota(found["name"], words, shown, at)
    known = next((fault for beginning, fault in _TEXTS if beginning.match(words)), None)
    fault = known or _ERRORS.get(kind) or FaultKind.UNKNOWN
    # The status of an HTTP error is more exact than `server_error` and `unknown`.
    if known is None and fault in (FaultKind.SERVER, FaultKind.UNKNOWN):
        fault = _by_status(status) or fault
    model = _model(words) if fault is FaultKind.MODEL else ""
    return Fault(fault, shown, _NAMES[fault], model=model, hint=_HINTS.get(fault, ""))


def _quota(name: str, words: str, shown: str, at: float) -> Fault:
    name = folded(name, 60)
    family = _FAMILY.search(name) or (_FAMILY.search(words) if "/model to switch" in words else None)
    return Fault(
        FaultKind.QUOTA, shown, name, read_reset(words, at), family[1].lower() if family is not None else ""
    )


def _model(words: str) -> str:
    found = _SELECTED.search(words)
    if found is not None:
        return found["model"].lower()
    family = _FAMILY.search(words)
    return "" if family is None else family[1].lower()


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
