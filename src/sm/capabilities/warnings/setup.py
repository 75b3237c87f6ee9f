"""Builds warnings, and registers their parts at the kernel."""

from sm.capabilities.warnings.listeners import ExchangeTimers, WarningsField
from sm.capabilities.warnings.listeners.detector import Detector
from sm.capabilities.warnings.listeners.links import AgentLinks
from sm.capabilities.warnings.model import WarningTimer
from sm.capabilities.warnings.settings import WarningsSection
from sm.capabilities.warnings.state.exchanges import Exchanges
from sm.capabilities.warnings.state.opening import Warnings
from sm.capabilities.warnings.tables import PART
from sm.core.states import RequestKind
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    settings = kernel.config.section(WarningsSection)
    store, observer = kernel.store, kernel.observer
    facts_of = kernel.usage.known_facts
    warnings = Warnings(settings, kernel.notices, kernel.providers)
    exchanges = Exchanges(settings.ping_pong, kernel.notices)
    exchange_timers = ExchangeTimers(store, exchanges)
    activity_s = kernel.watcher.activity.get
    detector = Detector(
        settings, store, kernel.providers, warnings, observer.ledger, activity_s, facts_of, kernel.steady
    )
    links = AgentLinks(store, warnings, observer.running_agent, facts_of, observer.now)
    store.followers += warnings, exchanges
    kernel.usage.followers.append(detector)
    observer.register(links)
    kernel.requests.answerers[RequestKind.EXCHANGE] = exchanges.answer
    kernel.fields.append(WarningsField(store.part(PART)))
    kernel.timers[WarningTimer.WATCH] = detector.look
    kernel.timers[WarningTimer.UNANSWERED] = detector.report_unanswered
    kernel.timers[WarningTimer.HELD_MESSAGE] = exchange_timers.release
    kernel.timers[WarningTimer.EXCHANGE] = exchange_timers.look
    kernel.timers[WarningTimer.LINKS] = links.look
