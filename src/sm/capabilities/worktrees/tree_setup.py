"""Chooses the commands that set up a new worktree, and runs them in the terminal and the sandbox of its session."""

import os
from collections.abc import Callable, Sequence

from sm.capabilities.worktrees.model import PlannedTree, TreeCommands
from sm.capabilities.worktrees.project_commands import commands_of, read_project_commands
from sm.capabilities.worktrees.settings import WorktreeSettings
from sm.capabilities.worktrees.tables import TreeRow
from sm.core.items import ItemState
from sm.core.labels import name_to_type
from sm.core.models import Exit, Session
from sm.core.text import folded
from sm.equipment.project_items import ProjectItems
from sm.errors import AgentStartFailed
from sm.operations.agent_operations import READ_OUTPUT
from sm.operations.hints import Hint, Use
from sm.sessions.place_commands import CommandsEnd, PlaceCommands
from sm.store import Store

SET_UP = "being set up"
"""The step of a worktree for callers who may not read the output of its set-up."""
_LINES_SHOWN = 5
_LINE_MAX = 200


class TreeSetup:
    def __init__(
        self,
        store: Store,
        settings: Callable[[], WorktreeSettings],
        commands: PlaceCommands,
        items: ProjectItems,
    ) -> None:
        self._store = store
        self._settings = settings
        self._commands = commands
        self._items = items

    async def choose(self, session: Session, plan: PlannedTree) -> tuple[TreeCommands, Sequence[str]]:
        """The commands for the worktree: those of the configuration, and those of its project if the operator agreed.

        Returns notes for people too.
        """
        settings = self._settings()
        setup, teardown = settings.setup, settings.teardown
        project, notes = await self._of_project(session, plan)
        setup, teardown = (*setup, *project.setup), (*project.teardown, *teardown)
        return TreeCommands(setup, teardown, settings.teardown_timeout_s), notes

    async def _of_project(self, session: Session, plan: PlannedTree) -> tuple[TreeCommands, Sequence[str]]:
        listing = await self._items.read_by(read_project_commands, plan.repository)
        if not listing.items:
            return TreeCommands(), listing.warnings
        ((item, state),) = listing.items
        left_out = f"the commands of {folded(item.file, 400)} are left out"
        workspace = self._store.workspaces.get(session.workspace or "")
        if workspace is None or workspace.directory != plan.repository:
            return TreeCommands(), [f"{left_out}: they are used in a workspace with this directory"]
        if state is not ItemState.AGREED:
            agree = f"sm workspace agree {workspace.slug}"
            return TreeCommands(), [f"{left_out} until the operator agrees to them ({state}): {agree}"]
        return commands_of(item), ()

    async def run(self, row: TreeRow) -> None:
        """Run the set-up of a worktree that was made. Raises as `PlaceCommands.run`, AgentStartFailed if it fails."""
        launch = await self._store.launch(row.session_id)
        top = _top(row.plan, launch.working_dir)
        within_s = self._settings().setup_timeout_s
        end = await self._commands.run(row.session_id, row.plan.commands.setup, top, within_s)
        if end.exit != Exit(0):
            session = self._store.sessions[row.session_id]
            raise AgentStartFailed(
                f"the set-up of the worktree {_how_ended(end, within_s)}: {_last_lines(end)}",
                Hint("read its last output: ", Use(READ_OUTPUT, name_to_type(session))),
            )

    async def stop(self, row: TreeRow) -> None:
        """End the set-up, if it runs. Raises ExternalError and TerminalUnreachable."""
        await self._commands.stop(row.session_id)

    async def close(self, row: TreeRow) -> None:
        """Close the terminal of a set-up that has ended, for that of the agent. Its output stays in the archive."""
        session = self._store.sessions.get(row.session_id)
        if row.plan.commands.setup and session is not None and session.process is None:
            await self._commands.close(row.session_id)


def _top(plan: PlannedTree, working_dir: str) -> str:
    """The directory of the worktree as its agent sees it, which works in `working_dir`: in a container, another one."""
    return os.path.normpath(os.path.join(working_dir, os.path.relpath(plan.path, plan.directory)))


def _how_ended(end: CommandsEnd, within_s: float) -> str:
    return f"did not end within {within_s:g} s" if end.exit is None else f"ended with {end.exit}"


def _last_lines(end: CommandsEnd) -> str:
    lines = [folded(line, _LINE_MAX) for line in end.lines if line.strip()][-_LINES_SHOWN:]
    return " | ".join(lines) or "it printed nothing"


def shown_commands(commands: TreeCommands) -> str:
    """The set-up as a step for people."""
    return f"running {folded(' && '.join(commands.setup), _LINE_MAX)}"
