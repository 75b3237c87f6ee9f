"""Tells which open requests are equal, so that a person may answer them together. Pure.

Equal requests ask for the same use of the same tool in the same place (`place_of`). Only permissions can be equal:
every other request concerns the work, the answer or the start of one session.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sm.core.programs import is_plan, is_question, ruled_tools
from sm.core.states import RequestKind, RequestState
from sm.wire import encode

Data = Mapping[str, Any]
_IN_REPOSITORY = "/.sm/worktrees/"
"""The place of worktrees in their repository, unless the settings name another."""
_DEPTH_MAX = 50
"""Arguments that are nested deeper are never equal to others."""


def place_of(session: Data) -> str:
    """The place of a session's work: `workspace shop`, and outside of workspaces for example `directory /home/me/app`.

    The worktrees of one repository are one place if they lie in it, and so are copies of one directory. Elsewhere those
    of several repositories may lie beside each other. `session`: as in the answer of `/v1/sessions`.
    """
    if session["workspace"]:
        return f"workspace {session['workspace']}"
    directory, tree, origin = session["working_dir"], session["worktree"], session.get("copy_of")
    if not tree or not (origin or tree["branch"]):
        return f"directory {directory}"
    path: str = tree["path"]
    inside = directory.removeprefix(path).strip("/")
    more = f", {inside}" if inside else ""
    if origin:
        return f"copies of {origin}{more}"
    repository, lies_in_it, _ = path.rpartition(_IN_REPOSITORY)
    return f"worktrees of {repository}{more}" if lies_in_it else f"directory {directory}"


def likeness(request: Data, place: str) -> str | None:
    """The key under which open requests are equal, or None for a request that must be answered alone.

    `request`: as in the answer of `/v1/requests`. `place`: that of the session that asks.

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
        text = encode([tool, use, place])
    except (RecursionError, TypeError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def equal_requests(
    reference: Data, requests: Iterable[Data], request_place: Callable[[Data], str]
) -> list[Data]:
    """The requests that are equal to `reference`, in their order. Empty if it must be answered alone.

    `requests` may contain `reference`. `request_place`: gives the place of a request's session.
    """
    key = likeness(reference, request_place(reference))
    return [] if key is None else [r for r in requests if likeness(r, request_place(r)) == key]


def _ordered(value: Any, depth: int = 0) -> Any:
    """The value with the keys of its mappings in order. Raises RecursionError when it is nested too deeply."""
    if depth > _DEPTH_MAX:
        raise RecursionError
    if isinstance(value, Mapping):
        return {name: _ordered(value[name], depth + 1) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_ordered(item, depth + 1) for item in value]
    return value
