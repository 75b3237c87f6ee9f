"""Stores the reports of a session in the spool while the daemon is away, for `sm mcp`.

The daemon replays the spool at its start. A report has the same idempotency key there as in the call of the tool, so
that it counts once.
"""

import os
import time

from sm.cli.hook.spool import remove, write
from sm.cli.hook.transport import stamp
from sm.cli.instance import Instance
from sm.cli.mcp.answers import tool_result
from sm.errors import SmError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable

    from sm.cli.mcp.message import ClientMessage

_ACTIONS: "dict[str, tuple[str, str, dict[str, object]]]" = {
    "report_checkpoint": ("checkpoint", "message", {"metadata": {}}),
    "report_note": ("note", "text", {}),
    "complete_session": ("complete", "message", {"status": "completed"}),
}
"""The action of the spool for each tool, the text that its body has, and the defaults of other fields."""
_ENDINGS = ("completed", "error", "abandoned")


class SpooledReport:
    """A report in the spool."""

    def __init__(self, path: str, action: str, body: "dict[str, object]") -> None:
        self._path = path
        self._action = action
        self._body = body

    def answer(self, call: "ClientMessage", began: float) -> bytes:
        """The result of the tool for a report that stays in the spool. `began`: the time of the call."""
        value: dict[str, object] = {"timestamp": stamp(time.time_ns())}
        if self._action == "complete":
            value = {"status": self._body["status"]}
        value["warnings"] = ["recorded; the daemon is away, and gets the report at its start"]
        value["duration_ms"] = round(1000 * (time.monotonic() - began), 1)
        return tool_result(call.id, value, is_error=False)

    def remove(self) -> None:
        """Remove the report, which the daemon has answered."""
        remove(self._path)


def spool(call: "ClientMessage", log: "Callable[[str], None]") -> SpooledReport | None:
    """Store the report of a call; None if that is not possible, or if the daemon would refuse it."""
    action, text, defaults = _ACTIONS[call.params["name"]]
    arguments = call.params.get("arguments")
    if not isinstance(arguments, dict) or not set(arguments) <= {text, *defaults}:
        return None
    body: dict[str, object] = {text: None, **defaults, **arguments}
    if not isinstance(body[text], str) or not isinstance(body.get("metadata", {}), dict):
        return None
    if body.get("status", "error") not in _ENDINGS:
        return None
    instance = Instance(os.environ)
    if not (instance.has_default_socket or instance.is_contained):
        return None
    try:
        path = write(instance, action, body, call.key or "")
    except SmError as error:
        log(f"the report is not stored: {error.message}")
        return None
    return SpooledReport(path, action, body)
