"""The sandboxed team of tests/team.py on a played stage."""

from typing import Self

from sm.api.auth import Containment
from tests.sim.daemon import DaemonOptions
from tests.sim.stage import Instance
from tests.team import CONFIG, SandboxedTeam

_EVERYWHERE = Containment(lambda pid, workspace: True, lambda workspace: None)


class PlayedTeam(SandboxedTeam):
    """Its daemon takes every played process for one in a container."""

    instance: Instance

    def __init__(self) -> None:
        super().__init__()
        self.instance = Instance(CONFIG, options=DaemonOptions(containment=_EVERYWHERE))
        self.connect = self.instance.connected
        try:
            self.instance.start_daemon()
            self.begin()
        except BaseException:
            self.instance.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the world, and find errors in the daemon's log."""
        try:
            self.check_log()
        finally:
            self.end()

    def start(self) -> None:
        self.instance.start_daemon()
