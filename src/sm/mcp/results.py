"""The results of tools as agents get them: compact, with texts of other sessions folded and marked."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.core.text import QUOTE_MAX, quoted
from sm.errors import RateLimited, SmError
from sm.operations.hints import Argument, Use, parts_of

LISTED_MAX = 100


def compact(value: Any) -> Any:
    """`value` without members that are null, at any depth."""
    if isinstance(value, Mapping):
        return {name: compact(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [compact(item) for item in value]
    return value


def omitted(items: Sequence[Any]) -> int | None:
    """How many items a list of the first `LISTED_MAX` leaves out, or None."""
    return len(items) - LISTED_MAX if len(items) > LISTED_MAX else None


def words(text: str | None, session: Session | None, limit: int = QUOTE_MAX) -> str | None:
    """A text that `session` wrote, quoted on one line, and marked if the session is sandboxed."""
    if not text:
        return None
    return quoted(text, limit, untrusted=is_untrusted(session))


def is_untrusted(session: Session | None) -> bool:
    return session is not None and session.effective_mode is TrustLevel.SANDBOXED


def refusal(error: SmError, tools: Collection[str]) -> dict[str, Any]:
    """The result of a call that failed. `tools`: the names of the tools that the caller has."""
    retry_after_s = round(error.retry_after_s, 3) if isinstance(error, RateLimited) else None
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": None if error.hint is None else with_tools(error.hint, tools),
            "retry_after_s": retry_after_s,
        }
    }


def with_tools(hint: str, tools: Collection[str]) -> str:
    """The hint, followed by the tools that do the same as its commands, because some agents have no shell.

    `tools`: the names of the tools that the caller has.
    """
    named = []
    for part in parts_of(hint):
        if isinstance(part, Use):
            operation = part.operation
            if operation.tool in tools:
                action = f", action {operation.tool_action}" if operation.tool_action else ""
                named.append(f"tool {operation.tool}{action}")
        elif isinstance(part, Argument):
            named.append(f"argument {part.name}")
    return f"{hint} [{'; '.join(dict.fromkeys(named))}]" if named else hint
