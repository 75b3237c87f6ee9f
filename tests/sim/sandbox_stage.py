"""A played instance with a container engine: `open_instance` of tests/integration/test_sandbox.py without Docker."""

import os
from collections.abc import Sequence

from sm.linux.processes import pids_with_variable
from tests.sim.containers import PlayedContainer
from tests.sim.engine import IMAGE, PlayedEngine
from tests.sim.stage import Instance

OWNER = 1234
CONFIG = """
sandbox: {{engine: "{engine}", image: "{image}", network: none{more}}}
commands:
  Sh: {{command: [sh, -c]}}
  Sleeper: {{command: [sleep, "1000"], prompt: file}}
"""


class SandboxInstance(Instance):
    """An instance with the workspace `shop`. Its engine runs, unless `has_engine` is False."""

    def __init__(self, more: str = "", *, image: str = IMAGE, has_engine: bool = True) -> None:
        config = CONFIG.format(engine="unix:///played/docker.sock", image=image, more=more)
        super().__init__(config=config, in_memory=False)
        if os.geteuid() == 0:  # no container runs as root
            os.chown(self.work, OWNER, OWNER)
        self.home.chmod(0o755)
        if has_engine:
            self.engine.start()
        self.sm("workspace", "create", "shop", "--working-dir", str(self.work))

    @property
    def engine(self) -> PlayedEngine:
        return self.world.engine

    @property
    def containers(self) -> Sequence[PlayedContainer]:
        """The containers of the instance, running or not."""
        return [c for c in self.engine.containers.values() if c.labels.get("app") == "sm"]


def processes_of(session_id: str) -> list[int]:
    """The pids of all processes that carry the mark of the session."""
    return pids_with_variable("SM_SESSION_ID", session_id)


def open_instance(more: str = "", *, image: str = IMAGE, has_engine: bool = True) -> SandboxInstance:
    """`more`: further settings of the section `sandbox:`."""
    return SandboxInstance(more, image=image, has_engine=has_engine)
