"""Runs the daemon: `python -m sm.daemon`."""

import gc
import sys


def _run() -> int:
    gc.disable()  # The imports leave no garbage: collecting would cost a tenth of the start.
    from sm.daemon.main import main

    gc.freeze()
    gc.enable()
    return main()


sys.exit(_run())
