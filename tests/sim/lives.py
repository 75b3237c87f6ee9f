"""The lives of played processes: the loop carries out nothing more for a life that was dropped."""

import asyncio
import ctypes
import sqlite3
from contextvars import Context, ContextVar, copy_context
from typing import Any

_LIFE: ContextVar["Life | None"] = ContextVar("life", default=None)
_graveyard: list[object] = []
"""The tasks of dropped lives, which never end: an end would run the `finally` of each, as no killed process does."""


class Life:
    """One process of the simulation, such as the daemon between a start and an end.

    Everything that begins in `context` belongs to the life, with all tasks and callbacks that follow from it.
    """

    def __init__(self, name: str, pid: int = 0) -> None:
        self.name = name
        self.pid = pid
        self.is_dropped = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.connections: list[sqlite3.Connection] = []
        """The open connections to databases."""
        self.context: Context = copy_context()
        self.context.run(_LIFE.set, self)

    def begin(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def bury(self) -> None:
        """Keep what the life was doing for ever, so that no part of it ends."""
        for task in self.tasks:
            asyncio.tasks._unregister_task(task)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))  # also at the end of the interpreter
        _graveyard.extend(self.tasks)


def buried() -> int:
    """The number of tasks that are kept for ever."""
    return len(_graveyard)


def life_in(context: Context | None) -> Life | None:
    """The life to which `context` belongs, or the current context if None."""
    return _LIFE.get() if context is None else context.get(_LIFE)
