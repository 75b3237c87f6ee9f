"""Builds pauses, and registers their parts at the kernel."""

from sm.capabilities.pauses import operations
from sm.capabilities.pauses.freezer import Freezer, Suspension
from sm.capabilities.pauses.listeners import AgentSight, OrderedEnds, PauseTimers
from sm.capabilities.pauses.pausing import Pausing
from sm.capabilities.pauses.rules import PauseTimer
from sm.capabilities.pauses.state import Pauses
from sm.core.effects import EffectKind
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    store = kernel.store
    pauses, freezer = Pauses(kernel.notices, kernel.providers), Freezer(kernel.cgroup_of)
    suspension, pausing = Suspension(store, pauses, freezer), Pausing(store, kernel.authorizer)
    timers = PauseTimers(store, pauses, kernel.providers, AgentSight(freezer, kernel.observer))
    store.followers.append(pauses)
    kernel.usage.followers.insert(0, pauses)  # before those who charge it, and pause the session
    kernel.endings.rules.append(OrderedEnds())
    kernel.timers[PauseTimer.RESUME] = timers.resume_due
    kernel.timers[PauseTimer.PAUSE] = timers.look_again
    kernel.effects[EffectKind.SUSPEND] = suspension.suspend
    kernel.effects[EffectKind.CONTINUE] = suspension.go_on
    kernel.use_cases[operations.PAUSE] = pausing.pause
    kernel.use_cases[operations.RESUME] = pausing.resume
    kernel.at_start.append(timers.begin)
