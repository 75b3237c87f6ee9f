"""The constants of docs/protocol.md, and JSON without the import of `json`.

Every `sm` command and hook loads this module, so it imports only C modules that Python has already loaded.
"""

PROTOCOL = 1
PROTOCOL_HEADER = "SM-Protocol"
KEY_HEADER = "Idempotency-Key"
KEY_MAX = 128
LOGIN_HEADER = "SM-Login"
"""The name of the login for which `sm web` acts. Only the operator may send it: it is written to the audit log."""
NEXT_HEADER = "SM-Next"
"""In the answer to a list: the parameter `before` of its next page. Absent if there is none."""
LEFT_HEADER = "SM-Left"
"""In the answer to a list: the number of sessions on later pages. Absent if there are none."""
CLIENT_HEADER = "Mcp-Client"
"""The id of the process of `sm mcp`, whose client cancels calls by their ids."""
REPORT_READ_HEADER = "Mcp-Report-Read"
"""In the answer to a message: `sm mcp` shall send the notification ANSWER_READ once its client has read the answer."""
ANSWER_READ = "notifications/sm/answer_read"
MCP_CALL_MAX_S = 3600
"""The longest time for which the daemon holds a call of a tool."""

HEARTBEAT_S = 15.0
"""Interval of heartbeats on an event stream. A stream that is silent for much longer is broken."""

BODY_MAX_BYTES = 4 * 1024 * 1024
"""Limit of the body of a request."""

SPOOL_MAX_BYTES = 1 << 20
"""Limit of a session's spool directory."""

TOKEN_MAX_BYTES = 4096
"""Limit of the file that SM_TOKEN_FILE names."""
AGENT_SOCKET_NAME = "/s"
"""Suffix of the path of an agent socket (`InstancePaths.agent_socket`), on which every caller needs a token."""
SANDBOX_STATE = "/.local/state/sm"
"""The state directory below the home directory of a container. It holds only the spool."""

TYPE_CHECKING = False  # `typing` would cost two milliseconds; type checkers know this name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    # `import json` compiles regular expressions: 5.8 ms if `re` is not loaded, 1.9 ms if it is. Importing the C
    # scanner alone takes 0.1 ms.
    from _json import encode_basestring_ascii as _quoted
    from _json import make_scanner as _make_scanner

    class _Rules:
        """The attributes that the scanner reads from a `json.JSONDecoder`."""

        strict = True
        object_hook = None
        object_pairs_hook = None
        array_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float

    _scan: "Callable[[str, int], tuple[Any, int]]" = _make_scanner(_Rules)  # type: ignore[arg-type]  # duck-typed
except (ImportError, AttributeError, TypeError):  # another Python implementation, or a later version
    import json

    _quoted = json.encoder.encode_basestring_ascii
    _scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # undocumented, exists since 2.6


def decode(text: str) -> "Any":
    """The value of one JSON document. Raises ValueError."""
    start = 0
    while text[start : start + 1] in (" ", "\t", "\r", "\n"):
        start += 1
    try:
        value, end = _scan(text, start)
    except (StopIteration, SystemError):
        # The scanner of Python 3.11 raises SystemError while `json.decoder`, which has its exception, is not imported.
        # Python 3.13 imports it.
        raise ValueError("not JSON") from None
    if text[end:].strip(" \t\r\n"):
        raise ValueError("more than one JSON document")
    return value


def encode(value: object) -> str:
    """Encode a dict with text keys, list, tuple, str, int, float, bool or None as ASCII JSON on one line."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(encode, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON form here")
