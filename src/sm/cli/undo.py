"""Waits for the key that undoes the last action, on a terminal only."""

import select
import sys

WITHIN_S = 5.0


def on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def wants_undo(within_s: float = WITHIN_S) -> bool:
    """True if the next key within the time is `u`. Any other key ends the wait."""
    import os
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)  # a quick `u` came before this
        ready, _, _ = select.select([descriptor], [], [], within_s)
        return bool(ready) and os.read(descriptor, 1) in (b"u", b"U")
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
