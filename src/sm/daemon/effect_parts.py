"""Builds the outbox with the handlers of all effects."""

from sm.api.agent_sockets import AgentSockets
from sm.core.effects import EffectKind
from sm.daemon.effect_record import EffectRecord
from sm.daemon.end_effects import EndEffects
from sm.daemon.foundation import Foundation
from sm.daemon.interrupt_effects import InterruptEffects
from sm.daemon.message_parts import MessageParts
from sm.daemon.monitor_parts import MonitorParts
from sm.daemon.notify_effects import NotifyEffects
from sm.daemon.outbox import Outbox
from sm.daemon.session_parts import SessionParts
from sm.daemon.start_effects import StartEffects
from sm.kernel import Kernel
from sm.messaging import LimitDialogs
from sm.sessions.end_inspection import EndInspection
from sm.sessions.home_files import HomeFiles


def make_outbox(
    base: Foundation,
    sessions: SessionParts,
    watch: MonitorParts,
    messages: MessageParts,
    kernel: Kernel,
    agent_sockets: AgentSockets,
) -> Outbox:
    store, providers, terminals, sandbox = base.store, base.providers, base.terminals, base.sandbox
    effects = EffectRecord(store)
    home_files = HomeFiles(
        base.home_of,
        base.containment.user,
        lambda session, launch: providers[session.provider].home_files(launch.environment),
    )
    cleanup = base.config.child_agents.cleanup
    end = EndEffects(store, base.ends, terminals, sandbox, base.keepers, cleanup)
    start = StartEffects(
        store,
        providers,
        effects,
        sessions.starts,
        terminals,
        sandbox,
        watch.watcher,
        sessions.restorer,
        agent_sockets,
        home_files,
        end,
    )
    notify = NotifyEffects(effects, base.notifiers).notify
    handlers = {
        EffectKind.TYPE: start.type_prompt,
        EffectKind.KILL: end.kill,
        EffectKind.INTERRUPT: InterruptEffects(
            store, effects, providers, terminals, messages.composer, watch.observer.links.find
        ).interrupt,
        EffectKind.CLOSE_DIALOG: LimitDialogs(store, providers, terminals, messages.composer).close,
        EffectKind.INSPECT: EndInspection(store, sandbox, sessions.leftovers).inspect,
        EffectKind.ARCHIVE: end.archive,
        EffectKind.CLOSE: end.close,
        EffectKind.RELEASE: end.release,
        EffectKind.REMOVE: end.remove,
        EffectKind.COMMAND: notify,
        EffectKind.WEBHOOK: notify,
        **kernel.effects,
    }
    return Outbox(store, effects, start, handlers)
