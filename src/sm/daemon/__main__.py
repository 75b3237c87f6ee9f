"""Runs the daemon: `python -m sm.daemon`."""

import gc
import sys


def _run() -> int:
    gc.disable()  # until the daemon serves: collecting would cost a tenth of the start
    from sm.daemon.main import main

    return main()


sys.exit(_run())
