"""The parts that all others stand on: the configuration, the clocks, providers, sandboxes and permissions."""

import time
from collections.abc import Callable

from sm.api.auth import Containment
from sm.config import Config, LoadedConfig
from sm.core.dataclass import dataclass
from sm.core.timestamps import iso
from sm.daemon.check_runner import run_check
from sm.daemon.sandboxing import SandboxParts
from sm.linux.file_threads import FileThreads
from sm.monitor.program_checks import ProgramChecks, RunCheck
from sm.notifiers import NOTIFIERS
from sm.paths import InstancePaths
from sm.providers import make_providers
from sm.providers.checks import CheckRecords
from sm.sandboxes.home import homes
from sm.sessions.authorizer import Authorizer
from sm.sessions.keepers import Keepers
from sm.sessions.process_ends import ProcessEnds
from sm.state.endings import Endings
from sm.state.faults import Faults
from sm.state.notices import Notices
from sm.state.quota import Quota
from sm.store import Store
from sm.store.audit import Audit
from sm.terminals.base import Terminals


@dataclass(frozen=True, slots=True)
class HostParts:
    """The parts of this host that a simulation replaces.

    `containment` identifies the callers of agent sockets, or is None to use the containers of this daemon.
    `sandboxing`: the parts of both sandboxes, or None for those of this host. `wall` and `steady`: the clocks of
    everything that is due at a time. `check_program`: tries the contracts of a program.
    """

    containment: Containment | None = None
    sandboxing: SandboxParts | None = None
    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    check_program: RunCheck = run_check


class Foundation:
    """The configuration with what is made from it, the records, and the parts that decide who may do what."""

    def __init__(
        self,
        paths: InstancePaths,
        loaded: LoadedConfig,
        store: Store,
        terminals: Terminals,
        host: HostParts,
    ) -> None:
        self.paths, self.loaded, self.store, self.terminals = paths, loaded, store, terminals
        self.config: Config = loaded.config
        self.wall, self.steady = host.wall, host.steady
        self.providers = make_providers(self.config)
        self.notifiers = {kind: make(self.config) for kind, make in NOTIFIERS.items()}
        self.audit = Audit(paths.audit, self.now)
        self.sandboxing = host.sandboxing or SandboxParts(self.config, paths, store)
        self.sandbox = self.sandboxing.sandboxes
        self.containment = host.containment or self.sandboxing.containment
        self.authorizer = Authorizer(store, self.audit.record)
        self.notices = Notices(self.config)
        self.endings = Endings(self.config, self.notices, self.providers)
        self.faults = Faults(self.config, self.notices, self.providers)
        self.quota = Quota(self.config.limits)
        self.ends = ProcessEnds(store, self.endings)
        self.home_of = homes(paths)
        self.keepers = Keepers()
        self.file_threads = FileThreads()
        self.program_checks = ProgramChecks(
            self.config, store, CheckRecords(paths.checks), self.providers, host.check_program
        )

    def now(self) -> str:
        """The current time in the format of every stored time."""
        return iso(self.wall())
