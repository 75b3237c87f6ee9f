"""A real daemon that closes slow connections after one second instead of half a minute.

The limit is longer on a busy machine, so that normal clients stay within it.
"""

import sys
from dataclasses import replace

from sm.api.auth import Containment
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
            containment=Containment(lambda pid, workspace: True, lambda workspace: None),
        )
    )
