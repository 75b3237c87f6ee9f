"""Reads one event from an agent's hook and sends it to the daemon, or to the spool while the daemon is away.

The agent stands still until this process has ended, at every use of every tool. So the process ends within `_ALL_S`,
prints nothing, leaves no descriptor open, and imports C modules only: `os` and `sm.client.http` would make it a third
slower. An agent does not stand still beside an open dialog: there `permission` waits for an answer.
"""

import _signal  # type: ignore[import-not-found]  # typeshed has no stub; `signal` itself costs 3 ms of enums
import posix
import select
import sys
import time

from sm.cli.hook.formats import FORMATS
from sm.cli.hook.transport import is_final, send, spool
from sm.client.connection import BadAnswer
from sm.wire import decode, encode

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_OURS = (b"SM_SESSION_ID", b"SM_SOCKET", b"SM_TOKEN_FILE")
"""The variables that the environment of each session has."""

_STDIN_S = 0.4
_LARGE_STDIN_S = 0.6
"""For an event that is larger than _WHOLE_MAX_BYTES."""
_ANSWER_S = 0.6
_ANSWER_MIN_S = 0.2
_ALL_S = 1.0
"""All but _ANSWER_MIN_S count from the start of this process. The time after _ANSWER_S is for the spool."""
_QUIET_S = 0.1
"""The longest pause after an event that looks complete: an agent CLI may leave stdin open."""

ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
"""The signals by which an agent says that it wants its hook to end."""

_READ_MAX_BYTES = 8 << 20
"""A larger event is dropped."""
_WHOLE_MAX_BYTES = 64 * 1024
"""A larger event is cut down, so that the daemon's loop never stands still over the output of a tool."""
_DEPTH_MAX = 90
"""The daemon would refuse an event that is nested deeper, so deeper members are left out."""
_PARSER_DEPTH_MAX = 6_000
"""Deeper than this an event is dropped. The parser takes about 150 bytes of stack for each level."""


def emit(provider: str, at_ns: int) -> None:
    """Send the event on stdin, which happened at `at_ns` (Unix time), to the daemon. May raise anything.

    With an event that opens a dialog, and while somebody reads stdout, return when the dialog needs no answer any more.
    """
    begin = time.monotonic()
    format = FORMATS.get(provider)
    if format is None or not all(posix.environ.get(name) for name in _OURS):
        return
    _protect()
    payload, cut = _payload(_stdin(begin), format.kept)
    if not payload:
        return
    emitted_at = stamp(at_ns)
    body: dict[str, object] = {"provider": provider, "emitted_at": emitted_at, "payload": payload}
    if cut:
        body["cut"] = True
    key = posix.urandom(16).hex()
    if payload.get(format.name_field) == format.opens_dialog and not unheard():
        from sm.cli.hook.permission import decide

        decide(body, key, emitted_at)
    elif not _is_taken(encode(body), key, max(begin + _ANSWER_S, time.monotonic() + _ANSWER_MIN_S)):
        spool(body, key, emitted_at)


def unheard(within_s: float = 0.0) -> bool:
    """Whether nobody reads what is printed; waits so long for that to happen."""
    poll = select.poll()
    poll.register(1, 0)  # POLLERR of a pipe, POLLHUP of a socket, POLLNVAL without a stdout
    return bool(poll.poll(1000 * within_s))


def stamp(at_ns: int) -> str:
    """A Unix time as the protocol has it, to the microsecond. `datetime` would cost 5 ms."""
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest_ns // 1000:06}Z"


def _protect() -> None:
    """Keep this process from harming the agent, and from being harmed by how the agent ends."""
    # A reader of a pipe that this process inherited would wait for this process to end.
    posix.closerange(3, 1 + max(map(int, posix.listdir("/dev/fd"))))
    # The last events of an agent that is being ended count too. A hook beside a dialog unblocks the signals later.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)
    # All waits are bounded; this is for those that cannot be, such as opening a file that turns out to be a pipe.
    _signal.signal(_signal.SIGALRM, lambda number, frame: posix._exit(0))
    _signal.setitimer(_signal.ITIMER_REAL, _ALL_S)


def _stdin(begin: float) -> bytes:
    """All of stdin that comes in time; of a larger event its first bytes.

    The rest of a larger event is read and thrown away: an agent whose write fails (EPIPE) shows an error, and old
    ones crashed.
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


def _payload(raw: bytes, kept: "Mapping[str, int]") -> "tuple[dict[str, Any], bool]":
    """The event, and whether something of it was left out. Empty when stdin holds no event."""
    text = raw.decode("utf-8", "replace")
    try:
        value = _parsed(text)
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
        # JavaScript cuts texts between the halves of a character and writes them as escapes; the daemon's
        # parser refuses half a character. Whole ones are not written so.
        whole_characters = _cut_texts(value, _READ_MAX_BYTES)
        return whole_characters, whole_characters != value
    return value, False


def _parsed(text: str) -> "Any":
    try:
        return decode(text)
    except RecursionError:
        sys.setrecursionlimit(_PARSER_DEPTH_MAX)
        return decode(text)


def _is_deep(value: "Any") -> bool:
    level = [value]
    for _ in range(_DEPTH_MAX):
        inner = [
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, (dict, list))
        ]
        level = [each for some in inner for each in some]
        if not level:
            return False
    return True


def _cut_down(payload: "dict[str, Any]", kept: "Mapping[str, int]") -> "dict[str, Any]":
    """The members in `kept`, each text of them cut to as many characters as `kept` says."""
    left = {}
    for name, most in kept.items():
        if name in payload:
            value = _cut_texts(payload[name], most)
            if isinstance(value, str) or len(encode(value)) <= _WHOLE_MAX_BYTES:
                left[name] = value
    return left


def _cut_texts(value: "Any", most: int) -> "Any":
    """`value` with all texts in it cut to `most` characters, and without halves of characters."""
    if isinstance(value, str):
        return value[:most].encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_cut_texts(name, most): _cut_texts(item, most) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut_texts(item, most) for item in value]
    return value


def _is_taken(event: str, key: str, deadline: float) -> bool:
    """Whether the daemon has answered, and would give the same answer to a repetition."""
    try:
        connection = send("/v1/hooks", event, key, deadline)
        if connection is None:
            return True  # there is no daemon that could want the event later
        with connection:
            return is_final(connection.head())
    except (OSError, BadAnswer):  # OSError: timeouts too
        return False
