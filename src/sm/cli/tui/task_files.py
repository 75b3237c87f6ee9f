"""The field of the start sheet of `sm top` with the files of the task. Pure."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sm.board import InputField
from sm.board.spawn_action import SPAWN_ACTION
from sm.board.spawn_sheet import SheetField, SpawnSheet

FILES = InputField(
    "files", "Files", hint="paths of files for the agent, with commas between them", is_rare=True
)
"""Only here: a browser has files of another machine."""
FIELDS = (SPAWN_ACTION.fields[0], FILES, *SPAWN_ACTION.fields[1:])
"""The fields of the sheet."""


def paths_in(text: str) -> list[str]:
    """The paths in the field of files, as this process can open them."""
    return [os.path.expanduser(path) for path in filter(None, map(str.strip, text.split(",")))]


def with_files(sheet: SpawnSheet, known: Mapping[str, Any] | None, text: str) -> SpawnSheet:
    """The sheet with the field of files and its text, after the task. `known`: as for `spawn_sheet`."""
    paths, problem = paths_in(text), ""
    kinds = {kind["name"]: kind for kind in (known or {}).get("types", ())}
    kind = kinds.get(sheet.values.get("agent_type", ""))
    if paths and kind is not None and not kind.get("takes_files"):
        problem = f"agents of type {kind['name']} take no files, because they read messages line by line"
    elif paths and "prompt" not in sheet.values:
        problem = "files belong to a task: enter one"
    field = SheetField(FILES, text.strip(), FILES.hint, problem=problem)
    values = {**sheet.values, FILES.name: text} if paths else sheet.values
    options = "".join(f" --file {shlex.quote(path)}" for path in paths)
    command = sheet.command.replace("sm spawn", f"sm spawn{options}", 1)
    return replace(sheet, fields=(sheet.fields[0], field, *sheet.fields[1:]), values=values, command=command)
