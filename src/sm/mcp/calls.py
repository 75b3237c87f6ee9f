"""Calls of tools: the check of the arguments, the audit log, and errors as results of the tool."""

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any

from sm.core.models import Caller
from sm.errors import InternalError, SmError, UsageError
from sm.mcp.exchange import Exchange
from sm.mcp.resources import RESOURCES, find
from sm.mcp.results import compact, refusal
from sm.mcp.schemas import ArgumentCheck, ArgumentError
from sm.mcp.tool import Progress, Tool, ToolCall
from sm.mcp.tools import TOOLS
from sm.registry import tool_use_names
from sm.services.parts import DoorParts
from sm.store.audit import ALLOWED, REFUSED, Record

log = logging.getLogger(__name__)


class Calls:
    """Carries out calls of tools. `allowed`: the names of the tools of the configuration, or `all`."""

    def __init__(self, parts: DoorParts, record: Record, allowed: str | tuple[str, ...]) -> None:
        self._record = record
        self._tools = {
            name: tool for name, tool in TOOLS.items() if isinstance(allowed, str) or name in allowed
        }
        handlers = (*(t.handler for t in self._tools.values()), *(r.handler for r in RESOURCES))
        self._bound = {handler: parts.bound(handler) for handler in handlers}
        self._checks: dict[str, ArgumentCheck] = {}

    def prepare(self) -> None:
        """Compile the schemas. Slow at the first call, so not for the event loop."""
        self._checks = {name: ArgumentCheck(tool.input) for name, tool in self._tools.items()}

    def tools(self, caller: Caller) -> list[Tool]:
        """The tools that the caller has."""
        is_session = caller.session_id is not None
        return [tool for tool in self._tools.values() if is_session or not tool.in_session]

    async def read(self, exchange: Exchange, uri: str) -> dict[str, Any]:
        """The content of a resource. Raises SmError, ConnectionError."""
        resource, values = find(uri)
        call = ToolCall(resource.name, exchange, values, _no_progress, (), waits_long=False)
        shown: dict[str, Any] = compact(await self._bound[resource.handler](call))
        return shown

    async def call(
        self,
        exchange: Exchange,
        name: str,
        values: Mapping[str, Any],
        meta: Mapping[str, Any],
        progress: Progress,
    ) -> tuple[dict[str, Any], bool]:
        """The result of a call, and True if it is an error, as of wrong arguments: a model can correct them.

        Raises ArgumentError for an unknown tool, and ConnectionError when the caller has gone.
        """
        tool = self._tools.get(name)
        known = [tool.name for tool in self.tools(exchange.caller)]
        if tool is None or name not in known:
            raise ArgumentError("unknown tool", {"path": "name", "value": name[:100], "allowed": known})
        try:
            checked, warnings = self._checks[name].check(values)
        except ArgumentError as wrong:
            return {"error": {"code": UsageError.code, "message": wrong.message, **wrong.data}}, True
        call = ToolCall(
            name,
            exchange,
            checked,
            progress,
            known,
            waits_long=any(name in meta for name in tool_use_names()),
        )
        started_s = time.monotonic()
        error: SmError | None = None
        try:
            shown = compact(await self._bound[tool.handler](call))
            if warnings:
                shown["warnings"] = [*warnings, *shown.get("warnings", ())]
        except SmError as refused:
            error = refused
        except ConnectionError:
            raise
        except Exception:
            bug = secrets.token_hex(4)
            log.exception("failed with bug %s", bug, extra={"sm_bug": bug})
            error = InternalError(f"internal error {bug}", f"tell the operator: sm daemon logs shows {bug}")
        if not tool.reads:
            self._audit(call, error)
        if error is not None:
            shown = compact(refusal(error, known))
        shown["duration_ms"] = round((time.monotonic() - started_s) * 1000, 1)
        return shown, error is not None

    def _audit(self, call: ToolCall, error: SmError | None) -> None:
        target = call.values.get("session_id") or call.values.get("request_id")
        decision, reason = (ALLOWED, None) if error is None else (REFUSED, error.code)
        self._record(str(call.caller), call.tool, target, decision, reason)


async def _no_progress(message: str) -> None:
    """A resource is read at once."""
