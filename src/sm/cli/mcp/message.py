"""One message of an MCP client, on its way to the daemon. Imports only constants, to start fast."""

from sm.registry import tool_use_names

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import Any

    from sm.client.connection import HttpConnection

_TOOL_USE_MAX = 100
_ID_MAX = 1_000


class ClientMessage:
    """A request, a notification or a response of the client."""

    __slots__ = ("cancels", "connection", "id", "is_cancelled", "key", "line", "method", "params")

    def __init__(self, line: bytes, message: "dict[str, Any]", key: str) -> None:
        """`key`: the idempotency key for a call of a tool to which the client gave no id of its own."""
        self.line = line
        self.method: str | None = message["method"] if isinstance(message.get("method"), str) else None
        params = message.get("params")
        self.params: dict[str, Any] = params if isinstance(params, dict) else {}
        self.id: str | int | None = valid_id(message.get("id"))
        """None if the message is no request or its id is not valid."""
        self.key = _tool_use(self.params) or key if self.is_tool_call else None
        self.cancels: ClientMessage | None = None
        """The call that this notification cancels."""
        self.is_cancelled = False
        self.connection: HttpConnection | None = None

    @property
    def is_tool_call(self) -> bool:
        return self.method == "tools/call"

    def abort(self) -> None:
        """End the exchange of a cancelled call, also when the daemon got the cancellation first."""
        connection = self.connection
        if connection is not None:
            connection.abort()


def valid_id(value: object) -> str | int | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return value if len(str(value)) <= _ID_MAX else None


def _tool_use(params: "dict[str, Any]") -> str | None:
    """The client's id of a tool use, which it keeps when it calls again: one use is carried out once."""
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        return None
    use = next((meta[name] for name in tool_use_names() if name in meta), None)
    if isinstance(use, str) and 0 < len(use) <= _TOOL_USE_MAX and use.isascii() and use.isprintable():
        return f"mcp-{use}"
    return None
