"""Functions that end agents and read how they ended."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from tests.instance import Instance
from tests.instance import until as wait_until

T = TypeVar("T")

ENDED = ("completed", "error", "abandoned", "killed")


class AnyInstance(Protocol):
    """A real or a played instance."""

    @property
    def state(self) -> Path: ...

    @property
    def until(self) -> "Until": ...

    def ended(self, session_id: str) -> dict[str, Any]: ...
    def events(self, *arguments: str) -> list[dict[str, Any]]: ...
    def sm(self, *arguments: str, **options: Any) -> str: ...


class Until(Protocol):
    """Waits until the result of `found` is true, and returns it."""

    def __call__(self, found: Callable[[], T | Literal[False] | None], what: str) -> T: ...


def end_process(instance: AnyInstance, session: dict[str, Any]) -> dict[str, Any]:
    """End the process of a session without `sm kill`."""
    os.kill(session["pid"], signal.SIGKILL)
    return instance.ended(session["session_id"])


def wait_outbox(instance: AnyInstance) -> None:
    """Wait until each effect in the outbox is done or dead."""
    query = "SELECT count(*) FROM outbox WHERE state IN ('pending', 'taken')"
    instance.until(lambda: rows(instance, query) == [(0,)], "the outbox is empty")


def outcome(session: dict[str, Any]) -> tuple[str, int | None, int | None]:
    return session["status"], session["exit_code"], session["exit_signal"]


def gone(pid: int) -> bool:
    """True if the process has ended. A zombie counts as ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def wait_line(path: Path, until: Until = wait_until) -> str:
    """Wait until the agent has written a line to this file, and return the text."""
    return until(
        lambda: path.exists() and path.read_text().endswith("\n") and path.read_text(), f"{path.name}"
    )


def tmux_server(instance: Instance) -> int:
    return int(instance.tmux("display-message", "-p", "#{pid}"))


def rows(instance: AnyInstance, query: str) -> list[Any]:
    """Query the database while the daemon has it open."""
    with closing(sqlite3.connect(f"file:{instance.state}/sm.db?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def end_events(instance: AnyInstance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id) if e["type"] in ENDED]
