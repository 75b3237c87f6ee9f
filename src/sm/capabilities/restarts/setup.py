"""Builds restarts, and registers their parts at the kernel."""

from sm.capabilities.restarts.listeners import CrashRule, PlannedRestarts
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    kernel.spawn_parts.append(PlannedRestarts())
    kernel.endings.rules.append(CrashRule())
