"""Builds worktrees, and registers their parts at the kernel."""

from sm.capabilities.worktrees.listeners import SpawnWorktrees, WorktreeUses
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    kernel.spawn_parts.append(SpawnWorktrees())
    kernel.keepers.each.append(WorktreeUses(kernel.store, kernel.writable))
