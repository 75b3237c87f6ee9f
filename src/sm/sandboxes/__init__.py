"""The registry of sandboxes, by the effective mode of a session."""

from collections.abc import Callable, Mapping

from sm.core.states import TrustLevel
from sm.paths import Places
from sm.sandboxes.base import Sandbox
from sm.sandboxes.host import HostSandbox

SANDBOXES: Mapping[TrustLevel, Callable[[Places], Sandbox]] = {TrustLevel.DIRECT: HostSandbox}
