"""Builds completion, and registers its parts at the kernel."""

from sm.capabilities.completion.listeners import Completions, TurnReader
from sm.capabilities.completion.model import CompletionTimer
from sm.capabilities.completion.settings import CompletionKeys
from sm.capabilities.completion.state import TurnFollower
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    settings = kernel.config.child_agents.with_keys(CompletionKeys).auto_complete
    store, notices = kernel.store, kernel.notices
    completions = Completions(settings, store, notices, kernel.reports, kernel.use_of_terminal)
    store.followers.append(TurnFollower(notices))
    kernel.turn_rules.append(TurnReader(settings, store, kernel.program_state))
    kernel.timers[CompletionTimer.COMPLETION] = completions.complete
    kernel.timers[CompletionTimer.UNCLEAR] = completions.report_unclear
    kernel.timers[CompletionTimer.REMINDER] = completions.remind
    kernel.timers[CompletionTimer.MISSING_REPORT] = completions.warn_of_missing_report
