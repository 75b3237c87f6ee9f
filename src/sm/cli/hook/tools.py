"""Holds the first turn of an agent until it has the tools of sm.

The daemon decides how long. Imports C modules only, as `sm.cli.hook.emit` does.
"""

import _signal  # type: ignore[import-not-found]  # as in emit.py
import time

from sm.cli.hook.transport import ENDING, is_final, send, stdout_closed
from sm.client.connection import BadAnswer
from sm.wire import encode

_ALL_S = 9.0
"""No hook waits longer. The daemon answers after 8 seconds at the latest."""
_AWAY_S = 2.0
"""The limit while the daemon is away, as during its restart."""
_PAUSE_S = 0.1


def await_tools(emitted_at: str, key: str) -> None:
    """Return when the daemon says that the turn may begin, when the agent is gone, or at the limit.

    `emitted_at`: the time of the prompt. One of ENDING ends the process.
    """
    _signal.setitimer(_signal.ITIMER_REAL, _ALL_S)
    for number in ENDING:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, ENDING)
    begin = time.monotonic()
    body = encode({"emitted_at": emitted_at})
    while True:
        try:
            connection = send("/v1/hooks/tools", body, key, begin + _ALL_S)
            if connection is None:
                return
            connection.reader_fd = 1
            with connection:
                if is_final(connection.head()):
                    return
        except BrokenPipeError:
            return  # the agent no longer waits
        except (OSError, BadAnswer):
            pass
        if time.monotonic() - begin > _AWAY_S or stdout_closed(_PAUSE_S):
            return
