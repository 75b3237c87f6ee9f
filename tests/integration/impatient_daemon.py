"""A real daemon that waits a second where another one waits half a minute for those who send or read nothing.

On a busy machine it waits longer: those who do send and read must be in time.
"""

import sys
from dataclasses import replace

from sm.api.sockets import AGENT_SOCKET_LIMITS, SOCKET_LIMITS
from sm.daemon import main as daemon
from tests.load import scaled

_WITHIN_S = 1.0

if __name__ == "__main__":
    within_s = scaled(_WITHIN_S)
    sys.exit(
        daemon.main(
            bounds=replace(SOCKET_LIMITS, within_s=within_s),
            agent_bounds=replace(AGENT_SOCKET_LIMITS, within_s=within_s),
        )
    )
