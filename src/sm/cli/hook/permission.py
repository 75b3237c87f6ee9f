"""Waits beside an open dialog of an agent for an answer that is given elsewhere, and prints the answer for the agent.

The agent does not wait for this process, and a person may answer at the terminal meanwhile. The wait may take days: the
process sleeps in poll(2), holds little memory, and ends as soon as nobody would read its answer: the agent is gone, has
sent one of ENDING, or the daemon says that the dialog is over. While the daemon is away it keeps asking.
"""

import _signal  # type: ignore[import-not-found]  # as in emit.py, like all other imports here
import posix
import time

from sm.cli.hook.emit import ENDING, unheard
from sm.cli.hook.transport import is_final, send, spool
from sm.client.connection import HttpConnection
from sm.wire import decode, encode

_DIALOG = "/v1/hooks/dialog"
_TAKEN = "/v1/hooks/dialog/taken"

_WAIT_S = 20
"""How long the daemon holds one exchange."""
_SPARE_S = 5.0
_POST_S = 1.0
"""A daemon that stands still takes as much as fits into its socket at once."""
_TAKEN_S = 1.0
_SPOOL_S = 5.0
_PAUSES_S = (0.5, 1.0, 2.0)
"""Between two tries; the last one again and again."""
_ANSWER_MAX_BYTES = 4 << 20


def decide(body: "dict[str, object]", key: str, emitted_at: str) -> None:
    """Ask for the answer to the dialog that opens with the event `body`, print it and say that it was taken.

    Returns when nothing is to be said any more, with or without an answer; one of ENDING ends the process. The daemon
    is asked under one `key` as often as needed. Where it cannot be asked at first, the event is left for it.
    """
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    event = encode({**body, "wait_s": _WAIT_S})
    known, failed = False, 0
    while True:
        begin = time.monotonic()
        try:
            connection = send(_DIALOG, event, key, begin + _POST_S)
        except OSError:  # time-outs too
            state, output = "away", ""
        else:
            _heed()
            state, output = _answer(connection, begin + _WAIT_S + _SPARE_S)
        if state == "decided":
            _print(output)
            _say_taken(key)
            return
        if state == "over":
            return
        if state == "away" and not known:
            _spool_apart(body, key, emitted_at)
        known = True
        _heed()
        if state == "open" and time.monotonic() - begin > _PAUSES_S[0]:
            failed = 0
        elif unheard(_PAUSES_S[min(failed, len(_PAUSES_S) - 1)]):
            return
        else:
            failed += 1


def _heed() -> None:
    """End by the signals that an agent sends: from here on the daemon knows of the event, or will."""
    for number in ENDING:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, ENDING)


def _answer(connection: "HttpConnection | None", deadline: float) -> tuple[str, str]:
    """`open`, `over`, `away`, or `decided` with the text to print. None: no daemon could be asked.

    Raises BrokenPipeError as soon as nobody reads stdout any more.
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
    except (OSError, ValueError):  # OSError: timeouts too; ValueError: BadAnswer, no UTF-8, no JSON
        return "away", ""
    state = value.get("state") if isinstance(value, dict) else None
    if state == "decided" and isinstance(value.get("output"), str):
        return "decided", value["output"]
    return (state if state in ("open", "over") else "away"), ""


def _print(output: str) -> None:
    left = output.encode("utf-8", "replace")
    while left:
        left = left[posix.write(1, left) :]


def _say_taken(key: str) -> None:
    """The agent reads what was printed when this process ends: not heard by the daemon, it finds out by itself."""
    deadline = time.monotonic() + _TAKEN_S
    connection = send(_TAKEN, "{}", key, deadline)
    if connection is not None:
        connection.head()


def _spool_apart(body: "dict[str, object]", key: str, emitted_at: str) -> None:
    """Spool the event in a process of its own: what that imports is not to be held for days."""
    child = posix.fork()
    if child == 0:
        try:
            _signal.setitimer(_signal.ITIMER_REAL, _SPOOL_S)
            spool(body, key, emitted_at)
        finally:
            posix._exit(0)
    posix.waitpid(child, 0)
