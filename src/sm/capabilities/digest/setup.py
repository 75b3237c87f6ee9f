"""Builds the digest, and registers its parts at the kernel."""

from sm.capabilities.digest import operations
from sm.capabilities.digest.digests import Digests, DigestTimer
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    digests = Digests(
        kernel.config,
        kernel.store,
        kernel.authorizer,
        kernel.providers,
        kernel.workspaces,
        kernel.requests,
        kernel.monitor,
        kernel.fields,
    )
    kernel.timers[DigestTimer.DAY] = digests.send
    kernel.tasks["digest"] = digests.run
    kernel.on_config.append(digests.reconfigure)
    kernel.use_cases[operations.SHOW] = digests.show
