"""Tells which open requests are equal, so that a person may answer them together. Pure.

Equal requests ask for the same use of the same tool in the same workspace. Only permissions can be equal: every other
request concerns the work, the answer or the start of one session.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sm.core.programs import is_plan, is_question, ruled_tools
from sm.core.states import RequestKind, RequestState
from sm.wire import encode

Data = Mapping[str, Any]
_DEPTH_MAX = 50
"""Arguments that are nested deeper are never equal to others."""


def likeness(request: Data, workspace: str | None) -> str | None:
    """The key under which open requests are equal, or None for a request that must be answered alone.

    `request`: as in the answer of `/v1/requests`. `workspace`: the slug of the workspace of the session that asks, or
    None outside of workspaces.

    None for everything but permissions, for plans, for arguments that are cut, and once there is an answer.
    """
    tool, arguments = request["tool"], request["arguments"]
    is_open = request["state"] == RequestState.OPEN and request["answer"] is None
    if not is_open or request["kind"] != RequestKind.PERMISSION or request.get("cut"):
        return None
    if not tool or not isinstance(arguments, Mapping) or request["questions"]:
        return None
    if is_plan(tool) or is_question(tool):
        return None
    ruled = ruled_tools().get(tool)
    remark = None if ruled is None else ruled.remark
    try:
        use = _ordered({name: value for name, value in arguments.items() if name != remark})
        text = encode([tool, use, workspace])
    except (RecursionError, TypeError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def equal_requests(
    reference: Data, requests: Iterable[Data], workspace_of: Callable[[Data], str | None]
) -> list[Data]:
    """The requests that are equal to `reference`, in their order. Empty if it must be answered alone.

    `requests` may contain `reference`. `workspace_of`: gives the slug of the workspace of a request's session.
    """
    key = likeness(reference, workspace_of(reference))
    return [] if key is None else [r for r in requests if likeness(r, workspace_of(r)) == key]


def _ordered(value: Any, depth: int = 0) -> Any:
    """The value with the keys of its mappings in order. Raises RecursionError when it is nested too deeply."""
    if depth > _DEPTH_MAX:
        raise RecursionError
    if isinstance(value, Mapping):
        return {name: _ordered(value[name], depth + 1) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_ordered(item, depth + 1) for item in value]
    return value
