"""Answers that `sm mcp` gives in place of the daemon: JSON-RPC errors, and errors of tools in their results."""

from sm.wire import decode, encode

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.cli.mcp.message import ClientMessage

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
UNAVAILABLE = -32000


def rpc_error(request_id: object, code: int, message: str, data: object = None) -> bytes:
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error}).encode("ascii")


def tool_result(request_id: object, value: "dict[str, object]", *, is_error: bool) -> bytes:
    """The result of a tool, as the daemon shapes it: the same object as text and as structured content."""
    result = {
        "content": [{"type": "text", "text": encode(value)}],
        "structuredContent": value,
        "isError": is_error,
    }
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result}).encode("ascii")


def refusal(
    call: "ClientMessage", code: str, message: str, hint: str | None = None, more: object = None
) -> bytes:
    """An error with a code of errors.py. `more`: retry_after_s."""
    error: dict[str, object] = {"code": code, "message": message}
    if hint is not None:
        error["hint"] = hint
    if more is not None:
        error["retry_after_s"] = more
    if call.is_tool_call:
        return tool_result(call.id, {"error": error}, is_error=True)
    return rpc_error(call.id, UNAVAILABLE, message, error)


def refusal_of(call: "ClientMessage", status: int, body: bytes) -> bytes:
    """The daemon's own refusal of an HTTP request."""
    try:
        error = decode(body.decode())["error"]
        hint, more = error.get("hint"), error.get("retry_after_s")
        shown = str(error["code"]), str(error["message"]), None if hint is None else str(hint)
    except (ValueError, TypeError, KeyError, AttributeError):
        return refusal(call, "error", f"the daemon answered with HTTP status {status}", "sm daemon logs")
    return refusal(call, *shown, more if isinstance(more, int | float) else None)


def away(call: "ClientMessage") -> bytes:
    message, hint = "the daemon is away; outcome unknown", "look with list_workspace_sessions"
    return refusal(call, "daemon_unavailable", message, hint)
