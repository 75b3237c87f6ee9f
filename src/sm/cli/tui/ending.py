"""Ends `sm top` when a signal asks for it or its terminal goes, although textual may wait for the terminal."""

import asyncio
import os
import signal
import sys
from types import FrameType
from typing import Any

from textual.app import App

_END_WITHIN_S = 3
"""To restore the terminal takes a few milliseconds."""
_LOOK_EVERY_S = 1.0


def end_with_terminal(app: App[Any]) -> None:
    """End the app on SIGHUP, on SIGTERM, and when its terminal is gone: then textual would use a whole core.

    The exit code is the one that a shell gives a signal: 128 and its number.
    """
    loop = asyncio.get_running_loop()

    def end(number: int, frame: FrameType | None) -> None:
        end_at_last(128 + number)
        if not loop.is_closed():
            loop.call_soon_threadsafe(app.exit, None, 128 + number)

    def look() -> None:
        if not sys.stdin.isatty():
            looks.stop()  # a second call would begin the time of the first one again
            end(signal.SIGHUP, None)

    # Not `add_signal_handler`: its handlers wait for the loop. When the terminal is gone, or nobody reads it, the
    # thread that writes to it ends or waits, and then the loop waits for room in the queue of that thread.
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, end)
    looks = app.set_interval(_LOOK_EVERY_S, look, pause=not sys.stdin.isatty())


def end_at_last(exit_code: int) -> None:
    """End this process soon, although a thread that reads or writes the terminal may never end."""
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(exit_code))
    signal.alarm(_END_WITHIN_S)
