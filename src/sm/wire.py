"""The constants of docs/protocol.md, and its JSON for those who cannot afford to import `json`.

Imported by every `sm` command and hook: nothing here may import more than C modules that are there anyway.
"""

PROTOCOL = 1
PROTOCOL_HEADER = "SM-Protocol"
KEY_HEADER = "Idempotency-Key"
KEY_MAX = 128

HEARTBEAT_S = 15.0
"""An event stream that stays silent for much longer than this is broken."""

SPOOL_MAX_BYTES = 1 << 20
"""What one session's spool directory may hold."""

TOKEN_MAX_BYTES = 4096
"""How much of the file that SM_TOKEN_FILE names is read."""
AGENT_SOCKET_NAME = "/s"
"""How the path of an agent socket ends (`Places.agent_socket`): who asks there shows a token."""

TYPE_CHECKING = False  # `typing` would cost two milliseconds; type checkers know this name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    # `import json` compiles regular expressions and costs as much as starting Python (measured: 5.8 ms without
    # `re` loaded, 1.9 ms with it); the scanner in C that it wraps costs 0.1 ms.
    from _json import encode_basestring_ascii as _quoted
    from _json import make_scanner as _make_scanner

    class _Rules:
        """What `json.JSONDecoder` would tell the scanner."""

        strict = True
        object_hook = None
        object_pairs_hook = None
        array_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float

    _scan: "Callable[[str, int], tuple[Any, int]]" = _make_scanner(_Rules)  # type: ignore[arg-type]  # duck-typed
except (ImportError, AttributeError, TypeError):  # another Python, or a later one that changed its insides
    import json

    _quoted = json.encoder.encode_basestring_ascii
    _scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # undocumented, and there since 2.6


def decode(text: str) -> "Any":
    """The value of one JSON document. Raises ValueError."""
    start = 0
    while text[start : start + 1] in (" ", "\t", "\r", "\n"):
        start += 1
    try:
        value, end = _scan(text, start)
    except (StopIteration, SystemError):
        # The scanner takes its exception from `json.decoder`, and fails without one while that is not imported.
        raise ValueError("not JSON") from None
    if text[end:].strip(" \t\r\n"):
        raise ValueError("more than one JSON document")
    return value


def encode(value: object) -> str:
    """`value` (dict with text keys, list, tuple, str, int, float, bool, None) as JSON in ASCII on one line."""
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
