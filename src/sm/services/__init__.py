"""The use cases that every front door offers: HTTP, MCP and Telegram, later the web.

A front door identifies its caller, calls only these facades and renders the result.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from sm.config.changes import ConfigState
from sm.core.dataclass import dataclass
from sm.core.session_index import KnownSessions
from sm.messaging.inbox import Inbox
from sm.messaging.messages import Messages
from sm.monitor.first_turns import FirstTurns
from sm.monitor.live_screens import LiveScreens
from sm.monitor.monitor import Monitor
from sm.monitor.program_checks import ProgramChecks
from sm.operations.arguments import PAGE, ListPage, SessionFilter
from sm.requests.answers import Requests
from sm.requests.dialogs import Dialogs
from sm.requests.rule_writer import RuleWriter
from sm.services.live import Live, LiveNews
from sm.services.sessions import Listed, Sessions
from sm.services.telegram_status import Telegram, TelegramLink
from sm.services.waits import LongPoll, TeamWaitResult, WaitEnd, WaitResult, Waits
from sm.sessions.adopt import Adoptions
from sm.sessions.archive import Records
from sm.sessions.attachments import Attachers
from sm.sessions.authorizer import Authorizer
from sm.sessions.chat_users import ChatUsers
from sm.sessions.fork import Forks
from sm.sessions.interrupt import Interrupts
from sm.sessions.leftovers import Leftover, Leftovers
from sm.sessions.reports import Reports
from sm.sessions.restore import Restorer
from sm.sessions.sandboxing import Sandboxing
from sm.sessions.seen import SeenSessions
from sm.sessions.session_fields import SessionFields, SessionSums, StatusFields
from sm.sessions.spawn_choices import SpawnChoices
from sm.sessions.spawn_types import SpawnTypes
from sm.sessions.workspaces import Workspaces
from sm.sessions.writable_paths import WritablePaths
from sm.store import Store

__all__ = [
    "PAGE",
    "Adoptions",
    "Attachers",
    "Authorizer",
    "ChatUsers",
    "DaemonInfo",
    "Dialogs",
    "FirstTurns",
    "Forks",
    "Inbox",
    "Interrupts",
    "Leftover",
    "Leftovers",
    "ListPage",
    "Listed",
    "Live",
    "LiveNews",
    "LiveScreens",
    "LongPoll",
    "Messages",
    "Monitor",
    "ProgramChecks",
    "Reads",
    "Records",
    "Reports",
    "Requests",
    "Restorer",
    "RuleWriter",
    "Sandboxing",
    "SeenSessions",
    "SessionFields",
    "SessionFilter",
    "SessionSums",
    "Sessions",
    "SpawnChoices",
    "SpawnTypes",
    "StatusFields",
    "TeamWaitResult",
    "Telegram",
    "TelegramLink",
    "WaitEnd",
    "WaitResult",
    "Waits",
    "Workspaces",
    "WritablePaths",
]


class Reads:
    """The part of the store that front doors read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.wait_until = store.wait_until
        self.events = store.events
        self.status_events = store.status_events
        self.checkpoints = store.checkpoints
        self.spawn_prompts = store.spawn_prompts
        self.dead_letters = store.dead_letters
        self.follow_leaving = store.memory.follow_leaving

    @property
    def sessions(self) -> KnownSessions:
        return self._store.sessions

    @property
    def last_seq(self) -> int:
        return self._store.last_seq


class ConfigFollower(Protocol):
    """Applies the changes of config.yaml."""

    @property
    def state(self) -> ConfigState:
        """The state of the file at the last look."""

    async def read_now(self) -> ConfigState:
        """Apply a change now, and return the state of the file."""


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """The state of the daemon, and the event that stops it."""

    socket: str
    started_s: float
    """time.monotonic() at the start."""
    trouble: Callable[[], Sequence[str]]
    lost_sockets: Callable[[], Sequence[str]]
    """As `trouble`, of containers whose agents cannot reach the daemon. For the operator only."""
    """The current failures of the daemon's functions."""
    stopping: asyncio.Event
    """Set to stop the daemon."""
    terminal_server: Callable[[], int | None]
    """The pid of the terminal server, if it is known."""
    config: ConfigFollower
