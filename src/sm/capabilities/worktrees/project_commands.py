"""Reads the commands for new worktrees that a project has in `.sm/project.yaml`, to which the operator must agree."""

import json
from collections.abc import Sequence

from sm.capabilities.worktrees.model import TreeCommands
from sm.capabilities.worktrees.settings import ProjectSection
from sm.config.project_file import PROJECT_FILE, read_project_file, unusable
from sm.core.items import CONTENT_MAX, ItemKind, ProjectItem

NAME = "worktrees"


def read_project_commands(directory: str) -> Sequence[ProjectItem]:
    """Read one item with all commands of the project in this directory, or none. An `ItemReader`.

    Raises UsageError as `read_project_file`, and for commands that are too long to be shown as a whole.
    """
    read = read_project_file(directory, ProjectSection)
    if read is None or not (read.worktrees.setup or read.worktrees.teardown):
        return ()
    commands = {"setup": read.worktrees.setup, "teardown": read.worktrees.teardown}
    data = json.dumps(commands, indent=2, ensure_ascii=False).encode("utf-8", "surrogateescape")
    item = ProjectItem(ItemKind.COMMANDS, NAME, f"{directory.rstrip('/')}/{PROJECT_FILE}", data)
    if item.is_cut:  # nobody can agree to commands at its end, which are not shown
        raise unusable(item.file, f"its commands have more than {CONTENT_MAX:,} characters together")
    return (item,)


def commands_of(item: ProjectItem) -> TreeCommands:
    """The commands in an item: those that the operator has seen, whatever the file has by now."""
    commands = json.loads(item.data)
    return TreeCommands(commands["setup"], commands["teardown"])
