"""A real daemon that reports the progress of a held call at once, and not after 20 seconds."""

import sys

from sm.daemon import main as daemon
from sm.services import waits

if __name__ == "__main__":
    waits.REPORT_EVERY_S = 0.0
    sys.exit(daemon.main())
