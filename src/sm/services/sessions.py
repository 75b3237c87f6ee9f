"""Finds, lists, starts and kills sessions."""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from sm.core.lifecycle import is_ended, is_live
from sm.core.models import OPERATOR, Caller, RequestKey, Session, SpawnRequest
from sm.errors import TerminalError
from sm.messaging.timers import MailTimers
from sm.policy.access import Action, Principal, is_unrestricted, visible
from sm.sessions.kill import Kills
from sm.sessions.manager import Manager, SessionResult
from sm.sessions.spawn import START_WAIT_S, Spawner
from sm.sessions.tree import matches
from sm.sessions.workspaces import Workspaces
from sm.store import Store
from sm.terminals.base import Lifecycle


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Narrows a list of sessions."""

    status: str = "all"
    search: str = ""
    workspace: str | None = None
    """A slug; `-`: sessions without a workspace; None: all."""
    archived: bool = False
    """Include archived sessions."""


class Sessions:
    """Finds, lists, starts and kills sessions, within the permissions of the caller."""

    def __init__(
        self,
        store: Store,
        manager: Manager,
        workspaces: Workspaces,
        spawner: Spawner,
        kills: Kills,
        timers: MailTimers,
        terminals: Lifecycle,
    ) -> None:
        self._store = store
        self._manager = manager
        self._spawner = spawner
        self._kills = kills
        self._timers = timers
        self._terminals = terminals
        self.find = manager.find
        self.caller_session = manager.caller_session
        self.principal = manager.principal
        self.acknowledge_endings = manager.acknowledge_endings
        self.agent_types = spawner.agent_types
        self.type_modes = spawner.type_modes
        self.workspace_slug = workspaces.slug

    # Lists

    def visible(self, caller: Caller, *, archived: bool = False) -> list[Session]:
        """The sessions that exist for `caller`, oldest first."""
        principal = self.principal(caller)
        sessions = self._store.sessions.values()
        return [s for s in sessions if visible(principal, s) and (archived or not s.archived)]

    def list_sessions(self, caller: Caller, filter: SessionFilter) -> list[Session]:
        return self.select(caller, self._store.sessions.values(), filter)

    def select(self, caller: Caller, sessions: Iterable[Session], filter: SessionFilter) -> list[Session]:
        """The sessions among `sessions` that `caller` sees and that the filter selects."""
        principal = self.principal(caller)
        seen = [s for s in sessions if visible(principal, s) and (filter.archived or not s.archived)]
        return self.apply_filter(caller, seen, filter)

    def siblings(self, caller: Caller, filter: SessionFilter) -> list[Session]:
        """The other children of the caller's parent; for a caller that is no session, the sessions without a parent."""
        caller_session = self.caller_session(caller)
        parent = caller_session.parent_id if caller_session else None
        return [s for s in self.others(caller, filter) if s.parent_id == parent]

    def others(self, caller: Caller, filter: SessionFilter) -> list[Session]:
        caller_session = self.caller_session(caller)
        seen = self.visible(caller, archived=filter.archived)
        return self.apply_filter(caller, [s for s in seen if s is not caller_session], filter)

    def children(self, caller: Caller, reference: str, *, archived: bool) -> list[Session]:
        """The children of the named session; of the caller where `reference` is `-`."""
        tree, principal = self._manager.tree, self.principal(caller)
        if reference != "-":
            children = tree.children(self.find(caller, reference).id)
        elif isinstance(principal, Session):
            children = tree.children(principal.id)
        else:
            children = [s for s in self.visible(caller, archived=True) if self._is_root(principal, s)]
        return [s for s in children if visible(principal, s) and (archived or not s.archived)]

    def _is_root(self, principal: Principal, session: Session) -> bool:
        """True for a session whose parent does not exist for `principal`."""
        parent = self._store.sessions.get(session.parent_id or "")
        return parent is None or not visible(principal, parent)

    def descendants(self, caller: Caller, session_id: str) -> list[Session]:
        """The visible descendants, nearest first."""
        principal = self.principal(caller)
        return [s for s in self._manager.tree.descendants(session_id) if visible(principal, s)]

    def subtree(
        self, caller: Caller, reference: str | None, workspace: str | None, *, descendants: bool
    ) -> list[Session]:
        """The named session, with `descendants` also those below it; all visible sessions without a name.

        Archived ones are included. `workspace`: as in `SessionFilter`. Raises NotFound.
        """
        sessions = self._manager.subtree(caller, reference, descendants=descendants)
        return self.apply_filter(caller, sessions, SessionFilter(workspace=workspace))

    def apply_filter(
        self, caller: Caller, sessions: Iterable[Session], filter: SessionFilter
    ) -> list[Session]:
        """The sessions that pass the filter. Raises NotFound for an unknown workspace."""
        if filter.search:
            sessions = [s for s in sessions if matches(s, filter.search)]
        if filter.status != "all":
            sessions = [s for s in sessions if s.status == filter.status]
        if filter.workspace is None:
            return list(sessions)
        slug = self.workspace_slug(caller, filter.workspace)
        return [s for s in sessions if s.workspace == slug]

    def event_scope(
        self, caller: Caller, reference: str | None, workspace: str | None, *, recursive: bool
    ) -> list[str] | None:
        """The ids of the sessions whose events the caller asks for; None for all."""
        principal = self.principal(caller)
        if reference is None and not isinstance(principal, Session):
            if workspace is None and is_unrestricted(caller):
                return None
            seen = self.visible(caller, archived=True)
            return [s.id for s in self.apply_filter(caller, seen, SessionFilter(workspace=workspace))]
        session = self.find(caller, reference or "me")
        tree = self._manager.tree
        below = tree.descendants(session.id) if recursive else tree.children(session.id)
        return [session.id, *(s.id for s in below if visible(principal, s))]

    # One session

    def may_read(self, caller: Caller, session: Session) -> bool:
        """True when the caller may read the contents of a visible session. A session may read its own."""
        return self._manager.may_read(caller, session)

    def without_hidden_names(self, caller: Caller, session: Session) -> Session:
        """The session without the ids of sessions that the caller cannot see. The caller's own is complete."""
        principal = self.principal(caller)
        if is_unrestricted(caller) or caller.session_id == session.id:
            return session
        if session.parent_id is not None and self.is_hidden(principal, session.parent_id):
            session = replace(session, parent_id=None)
        kind, _, creator = session.created_by.partition(":")
        if creator and self.is_hidden(principal, creator):
            session = replace(session, created_by=kind)
        return session

    def sees_all(self, caller: Caller) -> bool:
        """True when every session exists for the caller."""
        return is_unrestricted(caller)

    def is_hidden(self, principal: Principal, session_id: str | None) -> bool:
        session = self._store.sessions.get(session_id or "")
        return session is not None and not visible(principal, session)

    def is_orphan(self, session: Session) -> bool:
        """True when the session is live and the process of its parent has ended."""
        parent = self._store.sessions.get(session.parent_id or "")
        parent_ended = parent is not None and is_ended(parent.status) and parent.exit is not None
        return parent_ended and is_live(session.status)

    # Changes

    async def shell_environment(self, caller: Caller) -> dict[str, str]:
        """The environment for an agent whose caller, in a chat, has no shell: that of the daemon.

        Variables that only the operator's shell has, such as CLAUDE_CONFIG_DIR, come from the newest session that the
        operator started. A caller with limited permissions does not get them.
        """
        own = dict(os.environ)
        if not is_unrestricted(caller):
            return own
        started = (s for s in self._store.sessions.values() if s.created_by == str(OPERATOR))
        newest = max(started, key=lambda s: s.created_at, default=None)
        if newest is None:
            return own
        return {**(await self._store.launch(newest.id)).inherited, **own}

    async def spawn(
        self,
        caller: Caller,
        wanted: SpawnRequest,
        key: RequestKey | None,
        wait_s: float | None,
        is_connected: Callable[[], bool],
    ) -> SessionResult:
        """Start an agent; with `wait_s` return when the agent is ready, or after that time."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + (wait_s or 0.0)
        start_wait_s = START_WAIT_S if wait_s is None else wait_s
        answer = await self._spawner.spawn(caller, wanted, key, start_wait_s, is_connected)
        if wait_s is None:
            return answer
        ready = await self._spawner.ready(answer.session.id, max(0.0, until_s - loop.time()))
        return replace(answer, session=ready)

    async def kill(
        self,
        caller: Caller,
        reference: str,
        key: RequestKey | None,
        *,
        force: bool,
        tree: bool,
        is_connected: Callable[[], bool],
    ) -> list[Session]:
        """End the session's process, with `tree` also the processes of its descendants."""
        killed = await self._kills.kill(caller, reference, key, force=force, tree=tree)
        for session in killed:
            self._timers.hold_notice(session.id, caller.mailbox)
        if is_connected():
            await self._manager.acknowledge_endings(caller, [s.id for s in killed])
        return killed

    def may_stop_daemon(self, caller: Caller) -> None:
        """Raises NotPermitted."""
        self._manager.require(caller, Action.STOP_DAEMON)

    def may_read_config(self, caller: Caller) -> None:
        """Raises NotPermitted."""
        self._manager.require(caller, Action.READ_CONFIG, is_read=True)

    async def end_all(self) -> list[str]:
        """Kill every session and close every terminal; return the ids of the killed sessions."""
        killed = await self._kills.kill_all()
        with suppress(TerminalError):  # terminals of ended sessions are useless without a daemon
            for pane in (await self._terminals.snapshot()).values():
                await self._terminals.close(pane.name)
        return killed
