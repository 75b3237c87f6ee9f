"""Waits for the answer to an agent's open dialog, and prints the answer for the agent.

The agent does not block on this process: a user may also answer at the terminal. The wait may take days, so the process
sleeps in poll(2) and holds little memory. It ends when the agent is gone or sends one of ENDING, or when the daemon
reports that the dialog is over. It retries while the daemon is away.
"""

import _signal  # type: ignore[import-not-found]  # as in emit.py, like all other imports here
import posix
import time

from sm.cli.hook.transport import ENDING, is_final, send, stdout_closed
from sm.client.connection import HttpConnection
from sm.wire import decode, encode

_DIALOG = "/v1/hooks/dialog"
_TAKEN = "/v1/hooks/dialog/taken"

_WAIT_S = 20
"""The daemon's long-poll time for one exchange."""
_SPARE_S = 5.0
_POST_S = 1.0
"""Short, because the kernel buffers a request even while the daemon is blocked."""
_TAKEN_S = 1.0
_SPOOL_S = 5.0
_PAUSES_S = (0.5, 1.0, 2.0)
"""The pauses between tries; the last one repeats."""
_ANSWER_MAX_BYTES = 4 << 20


def decide(body: "dict[str, object]", key: str, emitted_at: str) -> None:
    """Wait for the answer to the dialog of the event `body`, print the answer and confirm it.

    Returns when the dialog is over, answered or not; one of ENDING ends the process. All tries carry one `key`. When
    the first try cannot reach the daemon, the event is spooled.
    """
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    event = encode({**body, "wait_s": _WAIT_S})
    reported, failures = False, 0
    while True:
        begin = time.monotonic()
        try:
            connection = send(_DIALOG, event, key, begin + _POST_S)
        except OSError:  # timeouts too
            state, output = "away", ""
        else:
            _unblock_signals()
            state, output = _answer(connection, begin + _WAIT_S + _SPARE_S)
        if state == "decided":
            _print(output)
            _confirm(key)
            return
        if state == "over":
            return
        if state == "away" and not reported:
            _spool_in_child(body, key, emitted_at)
        reported = True
        _unblock_signals()
        if state == "open" and time.monotonic() - begin > _PAUSES_S[0]:
            failures = 0
        elif stdout_closed(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)]):
            return
        else:
            failures += 1


def _unblock_signals() -> None:
    """Let the agent's signals end this process, as soon as the event is sent or spooled."""
    for number in ENDING:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, ENDING)


def _answer(connection: "HttpConnection | None", deadline: float) -> tuple[str, str]:
    """Return (`open`, `over` or `away`, empty), or (`decided`, the text to print).

    `connection` is None when a process of another user listens on the socket. Raises BrokenPipeError as soon as the
    agent closes stdout.
    """
    if connection is None:
        return "over", ""
    connection.deadline = deadline
    connection.reader_fd = 1
    try:
        with connection:
            status = connection.head()
            if not is_final(status):
                return "away", ""
            if status >= 400:
                return "over", ""
            value = decode(connection.body(_ANSWER_MAX_BYTES).decode())
    except BrokenPipeError:
        raise
    except (OSError, ValueError):  # OSError: timeouts too; ValueError: BadAnswer, invalid UTF-8 or JSON
        return "away", ""
    state = value.get("state") if isinstance(value, dict) else None
    if state == "decided" and isinstance(value.get("output"), str):
        return "decided", value["output"]
    return (state if state in ("open", "over") else "away"), ""


def _print(output: str) -> None:
    left = output.encode("utf-8", "replace")
    while left:
        left = left[posix.write(1, left) :]


def _confirm(key: str) -> None:
    """Tell the daemon that the answer is printed. When this fails, the daemon notices the closed dialog later."""
    connection = send(_TAKEN, "{}", key, time.monotonic() + _TAKEN_S)
    if connection is not None:
        connection.head()


def _spool_in_child(body: "dict[str, object]", key: str, emitted_at: str) -> None:
    """Spool the event in a child process, so that this one does not hold the imports in memory for days."""
    child = posix.fork()
    if child == 0:
        try:
            _signal.setitimer(_signal.ITIMER_REAL, _SPOOL_S)
            from sm.cli.hook.spool import write_event

            write_event(body, key, emitted_at)
        finally:
            posix._exit(0)
    posix.waitpid(child, 0)
