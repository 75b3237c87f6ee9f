"""A real daemon that closes slow connections after three seconds instead of half a minute."""

import sys
from dataclasses import replace

from sm.api.auth import Containment
from sm.api.sockets import AGENT_SOCKET_LIMITS, SOCKET_LIMITS
from sm.daemon import main as daemon

_WITHIN_S = 3.0

if __name__ == "__main__":
    sys.exit(
        daemon.main(
            bounds=replace(SOCKET_LIMITS, within_s=_WITHIN_S),
            agent_bounds=replace(AGENT_SOCKET_LIMITS, within_s=_WITHIN_S),
            containment=Containment(lambda pid, workspace: True, lambda workspace: None),
        )
    )
