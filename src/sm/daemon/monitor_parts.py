"""The parts that observe agents: their processes, their terminals, their usage, and who looks at them."""

from collections.abc import Sequence

from sm.api.auth import Identity
from sm.daemon.foundation import Foundation
from sm.daemon.session_parts import SessionParts
from sm.monitor import Monitor, Observer, Summary, UsageMeter, Watcher
from sm.monitor.processes import WatchedPanes
from sm.monitor.recorder import Recorder, TurnRule
from sm.monitor.retries import Retries
from sm.monitor.terminal_use import TerminalLooks
from sm.monitor.unread_transcripts import UnreadTranscripts
from sm.providers.base import Summarizer
from sm.sessions.attached import AttachedOperator
from sm.sessions.session_fields import SessionSums


class MonitorParts:
    def __init__(self, base: Foundation, sessions: SessionParts) -> None:
        store, terminals, config, providers = base.store, base.terminals, base.config, base.providers
        processes = base.sandboxing.session_processes
        panes = WatchedPanes(store)
        self.identity = Identity(store.index, terminals, panes.tty_owner, processes.session_of)
        self.attached = AttachedOperator(store, sessions.seen, terminals, self.identity.is_operator)
        self.usage = UsageMeter(store, config, base.now, base.home_of, threads=base.file_threads)
        self.turn_rules: list[TurnRule] = []
        self.observer = _observer(base, self.turn_rules, self.usage, self.attached)
        self.watcher = Watcher(store, providers, base.ends, terminals, self.observer, base.sandbox, panes)
        self.use_of_terminal = TerminalLooks(terminals, providers).use_of
        self.retries = Retries(store, self.use_of_terminal)
        self.unread_transcripts = UnreadTranscripts(store, base.endings, self.observer, base.steady)
        self.sums: list[SessionSums] = []
        self.monitor = Monitor(
            config,
            store,
            providers,
            self.observer,
            self.watcher,
            self.usage,
            sessions.waiting,
            _summary(base),
            terminals,
            base.keepers,
            self.sums,
        )


def _observer(
    base: Foundation, rules: Sequence[TurnRule], usage: UsageMeter, attached: AttachedOperator
) -> Observer:
    progress = base.config.child_agents.progress
    return Observer(
        base.store,
        Recorder(base.store, base.notices, base.faults, base.providers, usage, rules),
        base.providers,
        base.terminals,
        usage,
        transcripts_every_s=lambda: progress.snapshot_interval,
        off=base.config.daemon.ignore_evidence,
        home_of=base.home_of,
        clock=base.wall,
        is_attended=attached.shows,
        threads=base.file_threads,
    )


def _summary(base: Foundation) -> Summary:
    def summarizer() -> Summarizer | None:
        return next(filter(None, (provider.summarizer for provider in base.providers.values())), None)

    return Summary(summarizer, f"{base.paths.state}/what")
