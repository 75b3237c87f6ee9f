"""The kinds of places that an agent's process can run in: the effective mode of a session names one."""

from collections.abc import Callable, Mapping

from sm.core.states import TrustLevel
from sm.paths import Places
from sm.sandboxes.base import Sandbox
from sm.sandboxes.host import HostSandbox

SANDBOXES: Mapping[TrustLevel, Callable[[Places], Sandbox]] = {TrustLevel.DIRECT: HostSandbox}
