"""A real daemon that waits a second where another one waits half a minute for those who send or read nothing."""

import sys
from dataclasses import replace

from sm.api.sockets import AGENT_BOUNDS, BOUNDS
from sm.daemon import main as daemon

WITHIN_S = 1.0

if __name__ == "__main__":
    sys.exit(
        daemon.main(
            bounds=replace(BOUNDS, within_s=WITHIN_S), agent_bounds=replace(AGENT_BOUNDS, within_s=WITHIN_S)
        )
    )
