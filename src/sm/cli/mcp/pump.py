"""Reads the messages of an MCP client from stdin, and prints the daemon's answers on stdout, for `sm mcp`.

Every message is a request of its own to the daemon, in a thread of its own. What an agent has in flight is bounded: the
pump refuses requests beyond a number, and reads no further while nobody reads stdout. It ends with stdin.

Every agent has this process for as long as it lives, so the module imports C modules only.
"""

import _thread
import posix
import select
import time

from sm.cli.mcp.answers import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, UNAVAILABLE, rpc_error
from sm.cli.mcp.link import Link
from sm.cli.mcp.message import ClientMessage, valid_id
from sm.wire import BODY_MAX_BYTES, decode

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS_MAX = 64
"""Requests in flight."""
_CALLS_MAX_BYTES = 16 << 20
_THREADS_MAX = 2 * CALLS_MAX
"""Messages and refusals in flight. With more, the pump stops reading stdin."""
_PIECE_BYTES = 64 * 1024
_WRITE_BYTES = 64 * 1024
_ENDS_BYTES = 16 * 1024
"""The beginning and the end of a line that is too long, in which its id is searched."""
_GRACE_S = 0.8
"""How long requests in flight may take after the end of stdin."""
_FULL_PAUSE_S = 0.05
_NO_JSON = "the line is not JSON"


class LongLine:
    """A line longer than `BODY_MAX_BYTES`, of which only both ends are kept."""

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.tail = b""

    def add(self, piece: bytes) -> None:
        self.tail = (self.tail + piece)[-_ENDS_BYTES:]


class LineBuffer:
    """Splits the bytes of stdin into lines. Keeps at most one line of `BODY_MAX_BYTES`."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._long: LongLine | None = None

    def lines(self, piece: bytes) -> "Iterator[bytes | LongLine]":
        """Yield the lines that `piece` completes."""
        begin = 0
        while (end := piece.find(b"\n", begin)) >= 0:
            self._add(piece[begin:end])
            yield self._long or b"".join(self._pieces)
            self._pieces, self._size, self._long = [], 0, None
            begin = end + 1
        self._add(piece[begin:])

    def _add(self, part: bytes) -> None:
        if self._long is not None:
            self._long.add(part)
            return
        self._pieces.append(part)
        self._size += len(part)
        if self._size > BODY_MAX_BYTES:
            line = b"".join(self._pieces)
            self._long = LongLine(line[:_ENDS_BYTES])
            self._long.add(line[-_ENDS_BYTES:])
            self._pieces = []


class Pump:
    """Carries messages over `link` until stdin ends."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._calls: list[ClientMessage] = []
        self._calls_bytes = 0
        self._threads = 0
        self._numbers = 0
        self._name = posix.urandom(8).hex()
        self._lock = _thread.allocate_lock()
        """Guards the counts."""
        self._output = _thread.allocate_lock()

    def run(self) -> None:
        """Return when stdin has ended, and the requests in flight are answered or have had `_GRACE_S`."""
        buffer = LineBuffer()
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while True:
            poll.poll()
            try:
                piece = posix.read(0, _PIECE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                break
            if not piece:
                break
            for line in buffer.lines(piece):
                if not self._wait_for_room():
                    return
                self._take(line)
        deadline = time.monotonic() + _GRACE_S
        while self._threads and time.monotonic() < deadline:
            time.sleep(0.005)

    def _wait_for_room(self) -> bool:
        """Return True when another thread may start, and False when stdin has ended before."""
        if self._threads < _THREADS_MAX:
            return True
        poll = select.poll()
        poll.register(0, select.POLLRDHUP)
        ended_at: float | None = None
        while self._threads >= _THREADS_MAX:
            if ended_at is None and poll.poll(0):
                ended_at = time.monotonic()
            if ended_at is not None and time.monotonic() > ended_at + _GRACE_S:
                return False
            time.sleep(_FULL_PAUSE_S)
        return True

    def _take(self, line: bytes | LongLine) -> None:
        """Start what the line asks for."""
        if isinstance(line, LongLine):
            from sm.cli.mcp.long_line import find_id

            said = f"the message is larger than {BODY_MAX_BYTES:,} bytes"
            self._answer(rpc_error(find_id(line.head, line.tail), INVALID_REQUEST, said))
            return
        if not line.strip():
            return
        try:
            message = decode(line.decode())
        except (ValueError, RecursionError):
            self._answer(rpc_error(None, PARSE_ERROR, _NO_JSON))
            return
        if not isinstance(message, dict):
            self._answer(
                rpc_error(None, INVALID_REQUEST, "the message must be one JSON-RPC object, no batch")
            )
            return
        self._numbers += 1
        call = ClientMessage(line.strip(), message, f"mcp-{self._name}-{self._numbers}")
        if call.method == "notifications/cancelled":
            self._cancel(call)
        elif call.id is not None and not self._enter(call):
            said = f"{len(self._calls)} requests are in flight: wait for their answers"
            self._answer(rpc_error(call.id, UNAVAILABLE, said))
            return
        self._start(call)

    def _enter(self, call: ClientMessage) -> bool:
        """Count a request; False at the limit."""
        with self._lock:
            size = self._calls_bytes + len(call.line)
            if len(self._calls) >= CALLS_MAX or (self._calls and size > _CALLS_MAX_BYTES):
                return False
            self._calls.append(call)
            self._calls_bytes = size
            return True

    def _cancel(self, call: ClientMessage) -> None:
        named = valid_id(call.params.get("requestId"))
        with self._lock:
            found = [other for other in self._calls if other.id == named and type(other.id) is type(named)]
        for other in found:
            other.is_cancelled = True
            call.cancels = other

    def _answer(self, message: bytes) -> None:
        """Print an answer of the pump, in a thread: only threads wait for the reader of stdout."""
        self._begin(lambda: self._print(message))

    def _start(self, call: ClientMessage) -> None:
        self._begin(lambda: self._carry(call))

    def _begin(self, work: "Callable[[], None]") -> None:
        with self._lock:
            self._threads += 1

        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._threads -= 1

        try:
            _thread.start_new_thread(run, ())
        except RuntimeError:  # the container has no process left
            run()

    def _carry(self, call: ClientMessage) -> None:
        try:
            self._link.carry(call, self._print)
        except Exception as error:  # noqa: BLE001  the client waits for an answer
            if call.id is not None:
                self._print(rpc_error(call.id, INTERNAL_ERROR, f"{type(error).__name__} in sm mcp"))
        finally:
            if call.cancels is not None:
                call.cancels.abort()
            with self._lock:
                if call in self._calls:
                    self._calls.remove(call)
                    self._calls_bytes -= len(call.line)

    def _print(self, message: bytes) -> None:
        """Write one line. Blocks while nobody reads stdout, and ends the process when its reader is gone."""
        rest = memoryview(message.replace(b"\n", b" ") + b"\n")
        poll = select.poll()
        poll.register(1, select.POLLOUT)
        with self._output:
            while rest:
                try:
                    rest = rest[posix.write(1, rest[:_WRITE_BYTES]) :]
                except BlockingIOError:
                    poll.poll()
                except OSError:
                    posix._exit(0)


def serve(socket_path: bytes, token_file: bytes | None, *, verbose: bool) -> None:
    """Run the pump until stdin ends. `token_file`: the file with the token of the calling session."""
    link = Link(socket_path, token_file, _log if verbose else _ignore)
    Pump(link).run()


def _log(text: str) -> None:
    try:  # noqa: SIM105  contextlib would cost 2 ms
        posix.write(2, f"sm mcp: {text}\n".encode("utf-8", "replace"))
    except OSError:
        pass


def _ignore(text: str) -> None:
    pass
