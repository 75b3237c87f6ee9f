"""Ends child processes whose parent dies. Imports little, because short-lived processes need it."""

import os
import signal
from collections.abc import Callable

from sm.linux.platform import libc

_PR_SET_PDEATHSIG = 1


def die_with_parent(how: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Make a `preexec_fn` with which the kernel signals the child when this process dies (PR_SET_PDEATHSIG, prctl(2)).

    The kernel watches the thread that forked, so fork in the main thread. The child's own children are not bound.
    """
    prctl = libc().prctl  # looked up here: between fork and exec as little code as possible should run
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(how))
        if os.getppid() != parent:  # it died before the kernel knew of the signal
            os.kill(os.getpid(), how)

    return bind
