"""Reads the reason for which a turn of codex failed. Pure.

Source: `CodexErrorInfo` in the schema of 0.171.0. The failures 400, 401, 429, 500 and a broken stream were measured.
"""

from collections.abc import Mapping

from sm.core.faults import Fault, FaultKind
from sm.core.text import folded
from sm.providers import values

_TEXT_MAX = 300

_KINDS: Mapping[str, tuple[FaultKind, str]] = {
    "contextWindowExceeded": (FaultKind.CONTEXT_FULL, "the context is full"),
    "usageLimitExceeded": (FaultKind.QUOTA, "usage limit"),
    "sessionBudgetExceeded": (FaultKind.BILLING, "billing"),
    "rateLimitExceeded": (FaultKind.THROTTLED, "requests are throttled"),
    "flexUnavailable": (FaultKind.OVERLOADED, "the API is overloaded"),
    "serverOverloaded": (FaultKind.OVERLOADED, "the API is overloaded"),
    "policyCapacityUnavailable": (FaultKind.OVERLOADED, "the API is overloaded"),
    "modelNotFound": (FaultKind.MODEL, "the model is not available"),
    "internalServerError": (FaultKind.SERVER, "the API failed"),
    "unauthorized": (FaultKind.LOGIN, "not logged in"),
    "badRequest": (FaultKind.REQUEST, "the API rejects the request"),
    "cyberPolicy": (FaultKind.REQUEST, "the API rejects the request"),
    "bioPolicy": (FaultKind.REQUEST, "the API rejects the request"),
    "misalignmentPolicyViolation": (FaultKind.REQUEST, "the API rejects the request"),
}
_STATUSES: Mapping[int, str] = {
    400: "badRequest",
    401: "unauthorized",
    403: "unauthorized",
    404: "modelNotFound",
    429: "rateLimitExceeded",
    503: "serverOverloaded",
}
_CONNECTION = frozenset(
    {
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    }
)
_NETWORK = (FaultKind.NETWORK, "no connection to the API")
_UNKNOWN = (FaultKind.UNKNOWN, "unknown error")
_BROKEN_STREAM = "stream disconnected"
"""A cut stream has the kind `other`: only its text names it."""


def read_fault(error: object) -> Fault:
    """The fault of a `TurnError`. Never raises: an unknown kind is an unknown fault with the program's own words."""
    given = values.mapping(error)
    text = folded(values.string(given.get("message"))[: _TEXT_MAX * 2], _TEXT_MAX)
    kind, name = _kind(given.get("codexErrorInfo"), text)
    hint = "run codex login" if kind is FaultKind.LOGIN else ""
    return Fault(kind, values.replace_surrogates(text), name, hint=hint)


def _kind(info: object, text: str) -> tuple[FaultKind, str]:
    if isinstance(info, str):
        known = _KINDS.get(info, _UNKNOWN)
        return _NETWORK if known is _UNKNOWN and text.startswith(_BROKEN_STREAM) else known
    for name, detail in values.mapping(info).items():
        if name in _CONNECTION:
            status = values.mapping(detail).get("httpStatusCode")
            if type(status) is not int:
                return _NETWORK
            return _KINDS[_STATUSES.get(status, "internalServerError" if status >= 500 else "badRequest")]
    return _UNKNOWN
