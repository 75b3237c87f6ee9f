"""What `sm hook` does: one event of an agent's own hooks goes to the daemon, or to the spool while it is away.

The agent stands still until this process has ended, at every use of every tool. So it ends within `_ALL_S`, says
nothing to the agent, leaves nothing open, and imports C modules only: with `os` and `sm.client.http` it would take a
third longer. Only beside an open dialog the agent does not stand still: there `permission` waits for an answer.
"""

import _signal  # type: ignore[import-not-found]  # typeshed has no stub; `signal` itself costs 3 ms of enums
import _socket
import posix
import select
import sys
import time

from sm.wire import (
    AGENT_SOCKET_NAME,
    KEY_HEADER,
    PROTOCOL,
    PROTOCOL_HEADER,
    TOKEN_MAX_BYTES,
    decode,
    encode,
)

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import Any

PROVIDERS = ("claude",)
_OPENS_DIALOG = "PermissionRequest"
_OURS = (b"SM_SESSION_ID", b"SM_SOCKET", b"SM_TOKEN_FILE")
"""What the environment of every session of ours has."""

_STDIN_S = 0.4
_ANSWER_S = 0.6
_ALL_S = 1.0
"""All three count from the start of this process. The rest after the second is for the spool."""
_QUIET_S = 0.1
"""How long the end of an event that looks whole is waited for: claude leaves stdin open at times (its issue 79508)."""

ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
"""The signals by which an agent says that it wants its hook to end."""

_READ_MAX_BYTES = 1 << 20
_WHOLE_MAX_BYTES = 64 * 1024
"""A larger event is cut down, so that the daemon's loop never stands still over the output of a tool."""
_DEPTH_MAX = 90
"""What is nested deeper is left out: the daemon would refuse all of it."""
_KEPT = dict.fromkeys(
    (
        "session_id", "transcript_path", "cwd", "prompt_id", "hook_event_name", "permission_mode", "agent_id",
        "agent_type", "source", "model", "reason", "tool_name", "tool_use_id", "notification_type", "message",
        "error", "background_tasks", "trigger", "stop_hook_active",
    ),
    4096,  # the longest path
) | {"prompt": 60_000, "last_assistant_message": 4000, "tool_input": 2000}  # fmt: skip
"""What is kept of a large event: how many characters of each text in it."""


def emit(provider: str, at_ns: int) -> None:
    """Tell the daemon the event on stdin, which happened at `at_ns` (Unix time). May raise anything.

    When a dialog opens with it, and while somebody reads stdout, this returns when that needs no answer any more.
    """
    begin = time.monotonic()
    if provider not in PROVIDERS or not all(posix.environ.get(name) for name in _OURS):
        return
    _protect()
    raw, whole = _stdin(begin + _STDIN_S)
    payload, cut = _payload(raw, whole)
    if not payload:
        return
    emitted_at = stamp(at_ns)
    body: dict[str, object] = {"provider": provider, "emitted_at": emitted_at, "payload": payload}
    if cut:
        body["cut"] = True
    key = posix.urandom(16).hex()
    if payload.get("hook_event_name") == _OPENS_DIALOG and not unheard():
        from sm.cli.hook.permission import decide

        decide(body, key, emitted_at)
    elif not _taken(encode(body), key, begin + _ANSWER_S):
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
    """Keep this process from harming the agent, and being harmed by how it ends."""
    # Whoever waits for the end of a pipe that we inherited would wait for us.
    posix.closerange(3, 1 + max(map(int, posix.listdir("/dev/fd"))))
    # The last events of an agent that is being ended count too. Whoever waits longer hears of it later (`deciding`).
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)
    # All waits are bounded; this is for those that cannot be, such as opening a file that turns out to be a pipe.
    _signal.signal(_signal.SIGALRM, lambda number, frame: posix._exit(0))
    _signal.setitimer(_signal.ITIMER_REAL, _ALL_S)


def _stdin(deadline: float) -> tuple[bytes, bool]:
    """The first bytes of stdin, and whether they are all. More is read and thrown away, as far as time allows.

    An agent whose write fails (EPIPE) shows an error, and old ones crashed.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    kept = bytearray()
    whole = True
    while (left := deadline - time.monotonic()) > 0:
        looks_whole = kept[-2:].rstrip().endswith(b"}")
        if not poll.poll(1000 * (min(left, _QUIET_S) if looks_whole else left)):
            return bytes(kept), False
        piece = posix.read(0, 65536)
        if not piece:
            return bytes(kept), whole
        room = _READ_MAX_BYTES - len(kept)
        kept += piece[:room]
        whole = whole and len(piece) <= room
    return bytes(kept), False


def _payload(raw: bytes, whole: bool) -> "tuple[dict[str, Any], bool]":
    """The event, and whether it is not what the agent sent: something of it was left out. Empty when there is none."""
    text = raw.decode("utf-8", "replace")
    cut = False
    try:
        value = decode(text)
    except ValueError:
        if whole:
            return {}, False
        value, cut = _beginning(text), True
    except RecursionError:
        value, cut = _beginning(text), True
    if not isinstance(value, dict):
        return {}, False
    if text.count("{") + text.count("[") > _DEPTH_MAX:
        shallow = {name: member for name, member in value.items() if not _is_deep(member)}
        value, cut = shallow, cut or len(shallow) < len(value)
    if cut or len(raw) > _WHOLE_MAX_BYTES:
        return _cut_down(value), True
    if "\\u" in text:
        # JavaScript cuts texts between the halves of a character and writes them as escapes; the daemon's
        # parser refuses half a character. Whole ones are not written so.
        whole_characters = _cut_texts(value, _READ_MAX_BYTES)
        return whole_characters, whole_characters != value
    return value, False


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


def _cut_down(payload: "dict[str, Any]") -> "dict[str, Any]":
    kept = {}
    for name, most in _KEPT.items():
        if name in payload:
            value = _cut_texts(payload[name], most)
            if isinstance(value, str) or len(encode(value)) <= _WHOLE_MAX_BYTES:
                kept[name] = value
    return kept


def _cut_texts(value: "Any", most: int) -> "Any":
    """`value` with all texts in it cut to `most` characters, and without halves of characters."""
    if isinstance(value, str):
        return value[:most].encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_cut_texts(name, most): _cut_texts(item, most) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut_texts(item, most) for item in value]
    return value


def _beginning(text: str) -> "dict[str, Any]":
    """The members of an object of which only the beginning is there. Its last one may be half a text."""
    from json import JSONDecoder

    scan = JSONDecoder().raw_decode
    found: dict[str, Any] = {}
    name, at = "", text.find("{") + 1
    try:
        while True:
            name, at = scan(text, _past(text, at, ","))
            at = _past(text, at, ":")
            found[name], at = scan(text, at)
    except (ValueError, RecursionError):
        if text[at : at + 1] == '"' and name in _KEPT and name not in found:
            found[name] = _half(
                text[at : at + 1 + 6 * _KEPT[name]]
            )  # a character is at most six long: \u1234
        return found


def _past(text: str, at: int, mark: str) -> int:
    """Where the next value begins."""
    while text[at : at + 1] in (" ", "\t", "\r", "\n", mark):
        at += 1
    return at


def _half(text: str) -> str:
    """The text that a JSON string begins with whose end is not there."""
    for less in range(6):  # the last escape may be cut through
        try:
            half = decode(text[: len(text) - less] + '"')
        except ValueError:
            continue
        assert isinstance(half, str)
        return half
    return ""


def _taken(event: str, key: str, deadline: float) -> bool:
    """Whether the daemon has answered, and would answer the same to a repetition."""
    try:
        connection = posted("/v1/hooks", event, key, deadline)
        if connection is None:
            return True  # no daemon of ours will ever want it
        said = b""
        while b"\r\n" not in said:
            bound(connection, deadline)
            piece = connection.recv(4096)
            if not piece:
                return False
            said += piece
        connection.close()
    except OSError:  # time-outs too
        return False
    return is_final(said)


def is_final(said: bytes) -> bool:
    """Whether the answer that begins so would be the same to a repetition."""
    version, _, status = said.partition(b" ")
    return (
        version.startswith(b"HTTP/1.") and status[:1] in (b"2", b"4") and status[:3] not in (b"408", b"429")
    )


def posted(route: str, body: str, key: str, deadline: float) -> "_socket.socket | None":
    """A connection on which the daemon was asked this; None: somebody else listens there, and was told nothing.

    As `sm.client.http` asks, without what a person would want to be told. Raises OSError.
    """
    path = posix.environ[b"SM_SOCKET"]
    token = _token() if path.endswith(AGENT_SOCKET_NAME.encode()) else ""
    head = (
        f"POST {route} HTTP/1.1\r\nHost: sm\r\nConnection: close\r\n{token}"
        f"{PROTOCOL_HEADER}: {PROTOCOL}\r\n{KEY_HEADER}: {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        bound(connection, deadline)
        _connect(connection, path, deadline)
        # The file says who made it; only the kernel says who listens now (struct ucred of unix(7)).
        credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) != posix.geteuid():
            connection.close()
            return None
        connection.sendall((head + body).encode("ascii"))
    except OSError:
        connection.close()
        raise
    return connection


def _token() -> str:
    """The header for an agent socket; without the file the daemon refuses the event, which nobody could repeat."""
    try:
        file = posix.open(
            posix.environ[b"SM_TOKEN_FILE"], posix.O_RDONLY | posix.O_NONBLOCK
        )  # it may be a pipe
        token = posix.read(file, TOKEN_MAX_BYTES).strip().decode("ascii", "replace")
        posix.close(file)
    except OSError:
        return ""
    return f"Authorization: Bearer {token}\r\n" if token.isalnum() else ""


def _connect(connection: _socket.socket, path: bytes, deadline: float) -> None:
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            # A full backlog is not waited for on a Unix socket with a time-out (connect(2), EAGAIN).
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def bound(connection: _socket.socket, deadline: float) -> None:
    connection.settimeout(max(0.001, deadline - time.monotonic()))


def spool(body: "dict[str, object]", key: str, emitted_at: str) -> None:
    """Leave the event for the daemon; on an agent socket there is no way to do so."""
    import os

    from sm.cli.hook.spool import HOOKS_MAX_BYTES, write
    from sm.cli.instance import Instance

    instance = Instance(os.environ)
    if instance.own_socket:
        write(instance, "hook", body, key, emitted_at=emitted_at, most=HOOKS_MAX_BYTES, durable=False)
