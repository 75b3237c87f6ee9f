"""Builds worktrees, and registers their parts at the kernel."""

from sm.capabilities.worktrees import operations
from sm.capabilities.worktrees.building import TreeBuilder
from sm.capabilities.worktrees.kept_trees import KeptTrees
from sm.capabilities.worktrees.listeners import CopyField, SpawnWorktrees, WorktreeUses
from sm.capabilities.worktrees.listing import TreeList
from sm.capabilities.worktrees.maker import TreeMaker
from sm.capabilities.worktrees.project_commands import read_project_commands
from sm.capabilities.worktrees.settings import WorktreesSection
from sm.capabilities.worktrees.tree_setup import TreeSetup
from sm.core.effects import EffectKind
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    section = kernel.config.with_keys(WorktreesSection)
    maker = TreeMaker(
        lambda: section.worktrees, kernel.writable, f"{kernel.paths.state}/worktrees", kernel.store.now
    )
    kernel.spawn_parts.append(SpawnWorktrees(kernel.store, maker))
    kept = KeptTrees(maker)
    kernel.store.followers.append(kept)
    kernel.effects[EffectKind.FORGET_REVIEWS] = kept.forget
    kernel.fields.append(CopyField(kernel.store))
    kernel.keepers.each.append(WorktreeUses(kernel.store, kernel.writable))
    kernel.project_items.readers.append(read_project_commands)
    setup_commands = TreeSetup(
        kernel.store, lambda: section.worktrees, kernel.place_commands, kernel.project_items
    )
    builder = TreeBuilder(kernel.store, kernel.endings, maker, setup_commands, kernel.steady)
    kernel.effects[EffectKind.WORKTREE] = builder.build
    kernel.use_cases[operations.LIST] = TreeList(kernel.store, kernel.authorizer, builder.steps).show
