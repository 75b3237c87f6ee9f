"""Runs the daemon: `python -m sm.daemon`."""

import gc
import os
import sys

_CERTIFICATES = "SSL_CERT_FILE"
"""The variable of OpenSSL with the file of the certificates of the system."""


def _run() -> int:
    gc.disable()  # until the daemon serves: collecting would cost a tenth of the start
    # aiohttp reads these certificates twice when it is imported, in 30 ms and 2 MB. Only webhooks need them, and read
    # them at their first POST.
    given = os.environ.get(_CERTIFICATES)
    os.environ[_CERTIFICATES] = os.devnull
    from sm.daemon.main import main

    del os.environ[_CERTIFICATES]
    if given is not None:
        os.environ[_CERTIFICATES] = given
    return main()


sys.exit(_run())
