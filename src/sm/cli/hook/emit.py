"""Reads one event from an agent's hook and sends it to the daemon, or to the spool while the daemon is away.

The agent blocks until this process ends, at every tool use. So the process ends within `_ALL_S`, prints nothing, leaves
no descriptor open, and imports C modules only: `os` and `sm.client.http` would make it a third slower. An open dialog
does not block the agent: there `permission` waits for an answer.
"""

import _signal  # type: ignore[import-not-found]  # typeshed has no stub; `signal` itself costs 3 ms of enums
import posix
import select
import sys
import time

from sm.cli.hook.transport import ENDING, is_final, send, stamp, stdout_closed
from sm.client.connection import BadAnswer
from sm.registry import hook_format
from sm.wire import decode, encode

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SESSION_VARIABLES = (b"SM_SESSION_ID", b"SM_SOCKET", b"SM_TOKEN_FILE")

_STDIN_S = 0.4
_LARGE_STDIN_S = 0.6
"""For an event larger than _WHOLE_MAX_BYTES."""
_ANSWER_S = 0.6
_ANSWER_MIN_S = 0.2
_ALL_S = 1.0
"""These limits, except _ANSWER_MIN_S, count from the start of the process. After _ANSWER_S the event is spooled."""
_QUIET_S = 0.1
"""The longest pause after an event that looks complete: an agent CLI may leave stdin open."""

_READ_MAX_BYTES = 8 << 20
"""A larger event is dropped."""
_WHOLE_MAX_BYTES = 64 * 1024
"""A larger event is cut down, so that the output of a tool never blocks the daemon's event loop."""
_DEPTH_MAX = 90
"""Members nested deeper are omitted, because the daemon would refuse the event."""
_PARSER_DEPTH_MAX = 6_000
"""A deeper event is dropped. The parser takes about 150 bytes of stack for each level."""


def emit(provider: str, at_ns: int, *, awaits_tools: bool = False) -> None:
    """Send the event on stdin, which happened at `at_ns` (Unix time), to the daemon. May raise anything.

    `awaits_tools`: returns when the agent has the tools of sm, or after a limit of the daemon.
    After an event that opens a dialog, returns when the dialog is over or the agent closes stdout.
    """
    begin = time.monotonic()
    format = hook_format(provider)
    if format is None or not all(posix.environ.get(name) for name in _SESSION_VARIABLES):
        return
    _isolate()
    payload, cut = _parse_event(_read_stdin(begin), format.kept)
    if not payload:
        return
    emitted_at = stamp(at_ns)
    body: dict[str, object] = {"provider": provider, "emitted_at": emitted_at, "payload": payload}
    if cut:
        body["cut"] = True
    if awaits_tools:
        body["awaits_tools"] = True
    key = posix.urandom(16).hex()
    if payload.get(format.name_field) == format.opens_dialog and not stdout_closed():
        from sm.cli.hook.permission import decide

        decide(body, key, emitted_at)
    elif not _deliver(encode(body), key, max(begin + _ANSWER_S, time.monotonic() + _ANSWER_MIN_S)):
        from sm.cli.hook.spool import write_event

        write_event(body, key, emitted_at)
    elif awaits_tools:
        from sm.cli.hook.tools import await_tools

        await_tools(emitted_at, key)


def _isolate() -> None:
    """Close inherited descriptors, block the agent's signals, and limit the time of this process."""
    # The reader of an inherited pipe would wait for this process to end.
    posix.closerange(3, 1 + max(map(int, posix.listdir("/dev/fd"))))
    # The last events of an agent that is being ended count too. A hook of a dialog unblocks the signals later.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)
    # For blocking calls without a timeout, such as opening a file that is a FIFO.
    _signal.signal(_signal.SIGALRM, lambda number, frame: posix._exit(0))
    _signal.setitimer(_signal.ITIMER_REAL, _ALL_S)


def _read_stdin(begin: float) -> bytes:
    """Read stdin until its end or the time limit, and keep at most _READ_MAX_BYTES.

    The rest is read and discarded: an agent shows an error when its write fails with EPIPE, and old versions crashed.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    kept = bytearray()
    while True:
        left = begin + (_LARGE_STDIN_S if len(kept) > _WHOLE_MAX_BYTES else _STDIN_S) - time.monotonic()
        if left <= 0:
            break
        looks_whole = kept[-2:].rstrip().endswith(b"}")
        if not poll.poll(1000 * (min(left, _QUIET_S) if looks_whole else left)):
            break
        piece = posix.read(0, 65536)
        if not piece:
            break
        kept += piece[: _READ_MAX_BYTES - len(kept)]
    return bytes(kept)


def _parse_event(raw: bytes, kept: "Mapping[str, int]") -> "tuple[dict[str, Any], bool]":
    """Return the event, empty when `raw` holds none, and True when a part of it was cut."""
    text = raw.decode("utf-8", "replace")
    try:
        value = _parse_json(text)
    except (ValueError, RecursionError):
        return {}, False
    if not isinstance(value, dict):
        return {}, False
    cut = False
    if text.count("{") + text.count("[") > _DEPTH_MAX:
        shallow = {name: member for name, member in value.items() if not _is_deep(member)}
        value, cut = shallow, len(shallow) < len(value)
    if cut or len(raw) > _WHOLE_MAX_BYTES:
        return _cut_down(value, kept), True
    if "\\u" in text:
        # JavaScript may cut a text inside a surrogate pair and writes the lone surrogate as an escape, which the
        # daemon's parser refuses.
        repaired = _cut_texts(value, _READ_MAX_BYTES)
        return repaired, repaired != value
    return value, False


def _parse_json(text: str) -> "Any":
    try:
        return decode(text)
    except RecursionError:
        sys.setrecursionlimit(_PARSER_DEPTH_MAX)
        return decode(text)


def _is_deep(value: "Any") -> bool:
    level = [value]
    for _ in range(_DEPTH_MAX):
        containers = [
            item.values() if isinstance(item, dict) else item
            for item in level
            if isinstance(item, (dict, list))
        ]
        level = [item for container in containers for item in container]
        if not level:
            return False
    return True


def _cut_down(payload: "dict[str, Any]", kept: "Mapping[str, int]") -> "dict[str, Any]":
    """Keep the members that `kept` names, with each text cut to the number of characters in `kept`."""
    result = {}
    for name, limit in kept.items():
        if name in payload:
            value = _cut_texts(payload[name], limit)
            if isinstance(value, str) or len(encode(value)) <= _WHOLE_MAX_BYTES:
                result[name] = value
    return result


def _cut_texts(value: "Any", limit: int) -> "Any":
    """Cut all texts in `value` to `limit` characters, and replace lone surrogates."""
    if isinstance(value, str):
        return value[:limit].encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_cut_texts(name, limit): _cut_texts(item, limit) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut_texts(item, limit) for item in value]
    return value


def _deliver(event: str, key: str, deadline: float) -> bool:
    """Post the event. True when the daemon gave a final answer, so that no retry is needed."""
    try:
        connection = send("/v1/hooks", event, key, deadline)
        if connection is None:
            return True  # no daemon of this user could take the event later
        with connection:
            return is_final(connection.head())
    except (OSError, BadAnswer):  # OSError: timeouts too
        return False
