"""Builds and connects the parts of the daemon. No other package does this."""

from dataclasses import replace

from sm.api.sockets import SocketLimits
from sm.config import ConfigChanges, LoadedConfig, take_over
from sm.core.timers import TimerKind
from sm.daemon.config_file import ConfigFile
from sm.daemon.due_timers import DueTimers
from sm.daemon.effect_parts import make_outbox
from sm.daemon.foundation import Foundation, HostParts
from sm.daemon.front_doors import DaemonLife, FrontDoors
from sm.daemon.log import set_log_level
from sm.daemon.message_parts import MessageParts
from sm.daemon.monitor_parts import MonitorParts
from sm.daemon.session_parts import SessionParts
from sm.kernel import Kernel, set_up_capabilities
from sm.notifiers import NOTIFIERS
from sm.paths import InstancePaths
from sm.providers import make_providers
from sm.sessions.cleanup import Reaper
from sm.store import Store
from sm.terminals.base import Terminals


class DaemonParts:
    """Every part of the daemon, built and connected.

    The constructor starts nothing and touches no file, process or terminal.
    """

    def __init__(
        self,
        paths: InstancePaths,
        loaded: LoadedConfig,
        store: Store,
        terminals: Terminals,
        life: DaemonLife,
        agent_bounds: SocketLimits,
        host: HostParts,
    ) -> None:
        self.base = base = Foundation(paths, loaded, store, terminals, host)
        self.sessions = sessions = SessionParts(base)
        self.watch = watch = MonitorParts(base, sessions)
        self.messages = messages = MessageParts(base, sessions, watch)
        self.kernel = kernel = _kernel(base, sessions, watch, messages)
        set_up_capabilities(kernel)
        # Last, since it waits for room on a full disk when a turn has failed.
        watch.observer.register(watch.retries)
        watch.observer.register(base.program_checks)
        self.config_file = ConfigFile(paths.config, loaded, self._apply)
        self.doors = doors = FrontDoors(
            base, sessions, watch, messages, kernel, self.config_file, life, agent_bounds
        )
        self.due_timers = _due_timers(base, sessions, watch, kernel)
        self.outbox = make_outbox(base, sessions, watch, messages, kernel, doors.agent_sockets)

    async def _apply(self, loaded: LoadedConfig) -> ConfigChanges:
        """Apply a changed configuration to the running parts.

        Raises ConfigError before the first change, and StorageFull if a repetition must complete the change.
        """
        base = self.base
        providers = make_providers(loaded.config)
        notifiers = {kind: make(loaded.config) for kind, make in NOTIFIERS.items()}
        changes = take_over(base.config, loaded.config)
        if self.messages.always.rules != loaded.rules:
            self.messages.always.rules = loaded.rules
            changes = replace(changes, taken=(*changes.taken, "rules.yaml"))
        base.providers.update(providers)
        base.notifiers.update(notifiers)
        set_log_level(base.config.daemon.log_level)
        await base.store.memory.keep_unseen(base.config.unseen_days * 86_400.0)
        for follow in self.kernel.on_config:
            await follow()
        return changes


def _kernel(base: Foundation, sessions: SessionParts, watch: MonitorParts, messages: MessageParts) -> Kernel:
    return Kernel(
        config=base.config,
        store=base.store,
        authorizer=base.authorizer,
        notices=base.notices,
        endings=base.endings,
        faults=base.faults,
        providers=base.providers,
        spawn_parts=sessions.plans.spawn_parts,
        attachers=sessions.plans.attachers,
        usage=watch.usage,
        observer=watch.observer,
        turn_rules=watch.turn_rules,
        watcher=watch.watcher,
        reports=sessions.reports,
        requests=messages.requests,
        messages=messages.messages,
        workspaces=sessions.workspaces,
        monitor=watch.monitor,
        keepers=base.keepers,
        writable=base.sandboxing.writable,
        screen=base.terminals,
        place_commands=sessions.place_commands,
        project_items=sessions.project_items,
        use_of_terminal=watch.use_of_terminal,
        program_state=base.program_checks.state,
        threads=base.file_threads,
        paths=base.paths,
        users=sessions.users,
        audit=base.audit.record,
        timers={},
        cgroup_of=base.sandboxing.session_processes.cgroup,
        sums=watch.sums,
        steady=base.steady,
    )


def _due_timers(base: Foundation, sessions: SessionParts, watch: MonitorParts, kernel: Kernel) -> DueTimers:
    retries = watch.retries
    handlers = {
        TimerKind.RETRY: retries.send,
        TimerKind.RETRIED: retries.forget,
        TimerKind.COMPACTED: retries.forget,
        TimerKind.RESTART: sessions.restarter.restart,
        TimerKind.CUT_OFF: sessions.cut_off.forget,
        TimerKind.REAP: Reaper(base.store).reap,
        **kernel.timers,
    }
    return DueTimers(base.store, handlers, base.wall, base.steady)
