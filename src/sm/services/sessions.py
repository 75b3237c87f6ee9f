"""Finds, lists, starts and kills sessions."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sm.core.attention import EndedChildren
from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_ended, is_live
from sm.core.models import OPERATOR, Caller, RequestKey, Session, SpawnRequest, ancestors
from sm.core.session_index import oldest_first, words_of
from sm.core.statuses import Status
from sm.errors import TerminalError
from sm.messaging.timers import MailTimers
from sm.operations.arguments import PAGE, ListPage, SessionFilter
from sm.policy.relations import Principal, is_unrestricted, visible
from sm.sessions.acknowledgements import acknowledge_endings
from sm.sessions.authorizer import Authorizer
from sm.sessions.kill import Kills
from sm.sessions.spawn import SessionResult, Spawner
from sm.sessions.starts import START_WAIT_S, AgentStarts
from sm.sessions.tree import matches
from sm.sessions.workspaces import Workspaces
from sm.store import Store
from sm.store.history import (
    Chosen,
    PastCounts,
    among,
    beginning_with,
    children_of,
    descendants_of,
    roots_for,
    seen_by,
    texts,
)
from sm.terminals.base import Lifecycle
from sm.wire_types.live_answers import EarlierView

FIRST = ListPage()
_FILLED_TO = 20
"""A list has at least so many sessions, if there are so many."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of a list."""

    sessions: list[Session]
    """Oldest first."""
    next: str | None = None
    """Where the next page begins, which has sessions that ended earlier, or None if there is none."""
    left: int = 0
    """The number of sessions on later pages."""


class Sessions:
    """Finds, lists, starts and kills sessions, within the permissions of the caller."""

    def __init__(
        self,
        store: Store,
        authorizer: Authorizer,
        workspaces: Workspaces,
        spawner: Spawner,
        starts: AgentStarts,
        kills: Kills,
        timers: MailTimers,
        terminals: Lifecycle,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._spawner = spawner
        self._starts = starts
        self._kills = kills
        self._timers = timers
        self._terminals = terminals
        self.acknowledge_endings = partial(acknowledge_endings, store)
        self._workspaces = workspaces

    # Lists

    def visible(self, caller: Caller, *, archived: bool = False) -> list[Session]:
        """The sessions in memory that exist for `caller`, oldest first."""
        return self.select(caller, self._store.sessions.values(), SessionFilter(archived=archived))

    def select(self, caller: Caller, sessions: Iterable[Session], filter: SessionFilter) -> list[Session]:
        """The sessions among `sessions` that `caller` sees and that the filter selects."""
        principal = self._authorizer.principal(caller)
        seen = [s for s in sessions if visible(principal, s) and (filter.archived or not s.archived)]
        return self.apply_filter(caller, seen, filter)

    async def list_sessions(
        self, caller: Caller, filter: SessionFilter, page: ListPage = FIRST, prefix: str = ""
    ) -> Listed:
        """`prefix`: only sessions whose id or one of whose names begins with it, the newest ones of the history."""
        kept = self.select(caller, self._store.sessions.values(), filter)
        past = self.past(caller, filter)
        if prefix:
            kept = [s for s in kept if any(word.startswith(prefix) for word in (s.id, *words_of(s)))]
            past = beginning_with(prefix, past)
            page = page if page.limit is not None else replace(page, limit=len(kept) + PAGE)
        return await self._page(kept, past, filter, page)

    async def siblings(self, caller: Caller, filter: SessionFilter, page: ListPage = FIRST) -> Listed:
        """The other children of the caller's parent; for a caller that is no session, the sessions without a parent."""
        caller_session = self._authorizer.caller_session(caller)
        parent = caller_session.parent_id if caller_session else None
        kept = [s for s in self._others(caller, filter) if s.parent_id == parent]
        return await self._page(kept, self.past(caller, filter).also("parent_id IS ?", parent), filter, page)

    async def others(self, caller: Caller, filter: SessionFilter, page: ListPage = FIRST) -> Listed:
        return await self._page(self._others(caller, filter), self.past(caller, filter), filter, page)

    def _others(self, caller: Caller, filter: SessionFilter) -> list[Session]:
        caller_session = self._authorizer.caller_session(caller)
        seen = self.visible(caller, archived=filter.archived)
        return self.apply_filter(caller, [s for s in seen if s is not caller_session], filter)

    async def children(
        self, caller: Caller, reference: str, filter: SessionFilter, page: ListPage = FIRST
    ) -> Listed:
        """The children of the named session; of the caller where `reference` is `-`."""
        principal, tree = self._authorizer.principal(caller), self._authorizer.tree
        parent_id = self._parent(caller, reference)
        if parent_id is None:
            past = roots_for(principal)
            kept = [s for s in self.visible(caller, archived=True) if self._is_root(principal, s)]
        else:
            past = children_of(parent_id, principal)
            kept = tree.children(parent_id)
        chosen = self.past(caller, filter, past)
        return await self._page(self.select(caller, kept, filter), chosen, filter, page)

    async def below(
        self, caller: Caller, reference: str, filter: SessionFilter, page: ListPage = FIRST
    ) -> tuple[Listed, list[Session]]:
        """List all descendants of the session that `children` takes, and further ancestors of these in their tree.

        Archived children are left out with all that is below them, unless the filter has them.
        """
        principal, parent_id = self._authorizer.principal(caller), self._parent(caller, reference)
        if parent_id is None:
            past = seen_by(principal)
            top = [s for s in self.visible(caller, archived=True) if self._is_root(principal, s)]
        else:
            past = descendants_of(parent_id, principal)
            top = self._authorizer.tree.children(parent_id)
        top = [s for s in top if visible(principal, s) and (filter.archived or not s.archived)]
        kept = [*top, *(s for parent in top for s in self._kept_below(principal, parent.id))]
        chosen = self.past(caller, filter, past)
        listed = await self._page(self.apply_filter(caller, kept, filter), chosen, filter, page)
        wanted, above = {s.id for s in listed.sessions}, dict[str, Session]()
        for session in listed.sessions:
            for ancestor in ancestors(session, self._store.sessions.get):
                if ancestor.id in (parent_id, *above) or not visible(principal, ancestor):
                    break
                if ancestor.id not in wanted:
                    above[ancestor.id] = ancestor
        return listed, list(above.values())

    def _parent(self, caller: Caller, reference: str) -> str | None:
        """The session whose children a caller asks for, or None for those without a parent."""
        if reference != "-":
            return self._authorizer.find(caller, reference).id
        principal = self._authorizer.principal(caller)
        return principal.id if isinstance(principal, Session) else None

    def _is_root(self, principal: Principal, session: Session) -> bool:
        """True for a session whose parent does not exist for `principal`."""
        parent = self._store.sessions.get(session.parent_id or "")
        return parent is None or not visible(principal, parent)

    def _kept_below(self, principal: Principal, session_id: str) -> list[Session]:
        return [s for s in self._authorizer.tree.descendants(session_id) if visible(principal, s)]

    def past(self, caller: Caller, filter: SessionFilter, chosen: Chosen | None = None) -> Chosen:
        """The sessions of the history that the caller sees, or some of them, as far as the filter selects them."""
        chosen = seen_by(self._authorizer.principal(caller)) if chosen is None else chosen
        if not filter.archived:
            chosen = chosen.also("archived = 0")
        if filter.status != "all":
            chosen = chosen.also("status = ?", filter.status)
        if filter.workspace is not None:
            chosen = chosen.also("workspace IS ?", self._workspaces.slug(caller, filter.workspace))
        if filter.search:
            chosen = replace(chosen, keep=lambda s: matches(s, filter.search), key=filter.search)
        return chosen

    async def _page(
        self, kept: list[Session], chosen: Chosen, filter: SessionFilter, page: ListPage
    ) -> Listed:
        if page.before is not None:
            kept, limit = [], PAGE if page.limit is None else page.limit
        else:
            # A search is for old sessions too.
            usual = PAGE if filter.search else _FILLED_TO
            limit = max(0, (usual if page.limit is None else page.limit) - len(kept))
        found = await self._store.history.page(chosen, page.before, limit)
        sessions = sorted([*kept, *found.sessions], key=oldest_first) if found.sessions else kept
        return Listed(sessions, found.next, found.left)

    async def past_children(self, session_id: str) -> list[Session]:
        """The children of a session that are no longer in memory."""
        return await self._store.history.all(children_of(session_id, None))

    async def count_children(self, caller: Caller, session_id: str) -> Counter[str]:
        """Count the children that the caller sees, by status, without archived ones."""
        kept = self.select(caller, self._authorizer.tree.children(session_id), SessionFilter())
        past = self.past(caller, SessionFilter(), children_of(session_id, self._authorizer.principal(caller)))
        counts = Counter[str]()
        for (status, _), count in (await self._store.history.counts(past)).items():
            counts[status.value] += count
        counts.update(child.status.value for child in kept)
        return counts

    async def visible_ids(self, caller: Caller) -> set[str]:
        """The ids of all sessions that exist for `caller`, archived ones included."""
        past = await self._store.history.ids(seen_by(self._authorizer.principal(caller)))
        return {*(s.id for s in self.visible(caller, archived=True)), *past}

    async def newest_completed(self, caller: Caller, agent_type: str, count: int) -> list[Session]:
        """The completed sessions of an agent type that the caller sees, archived ones included, the newest last."""
        completed = [s for s in self.visible(caller, archived=True) if s.status is Status.COMPLETED]
        kept = [s for s in completed if s.agent_type == agent_type][-count:]
        past = seen_by(self._authorizer.principal(caller)).also(
            "status = ? AND agent_type = ?", Status.COMPLETED, agent_type
        )
        found = await self._store.history.page(past, None, count - len(kept))
        return sorted([*kept, *found.sessions], key=oldest_first)

    async def past_counts(self, caller: Caller, filter: SessionFilter) -> PastCounts:
        """Count the sessions of a list that are no longer in memory."""
        return await self._store.history.counts(self.past(caller, filter))

    async def past_by_workspace(self, caller: Caller, filter: SessionFilter) -> list[EarlierView]:
        """Count the sessions of a list that are no longer in memory, whatever it searches for."""
        return await self._store.history.by_workspace(self.past(caller, replace(filter, search="")))

    async def ended_children(self, caller: Caller, parents: Iterable[Session]) -> EndedChildren:
        """Count the ended children that the caller sees, without archived ones."""
        counts = EndedChildren(self.visible(caller))
        past = self.past(caller, SessionFilter()).also(among("parent_id"), texts(s.id for s in parents))
        for parent_id, status, count in await self._store.history.ended_children(past):
            counts.add(parent_id, status, count)
        return counts

    async def subtree(
        self,
        caller: Caller,
        reference: str | None,
        workspace: str | None,
        *,
        descendants: bool,
        since: str = "",
    ) -> list[Session]:
        """The named session, with `descendants` also those below it; all visible sessions without a name.

        Archived ones are included. `workspace`: as in `SessionFilter`. `since`: without those that ended before, if no
        session is named. Raises NotFound.
        """
        sessions = await self._authorizer.subtree(caller, reference, descendants=descendants, since=since)
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
        slug = self._workspaces.slug(caller, filter.workspace)
        return [s for s in sessions if s.workspace == slug]

    async def event_scope(
        self, caller: Caller, reference: str | None, workspace: str | None, *, recursive: bool
    ) -> list[str] | None:
        """The ids of the sessions whose events the caller asks for; None for all."""
        principal = self._authorizer.principal(caller)
        if reference is None and not isinstance(principal, Session):
            if workspace is None and is_unrestricted(caller):
                return None
            filter = SessionFilter(workspace=workspace, archived=True)
            seen = self.apply_filter(caller, self.visible(caller, archived=True), filter)
            return [*(s.id for s in seen), *await self._store.history.ids(self.past(caller, filter))]
        session = self._authorizer.find(caller, reference or "me")
        tree = self._authorizer.tree
        kept = self._kept_below(principal, session.id) if recursive else tree.children(session.id)
        past = descendants_of if recursive else children_of
        ids = await self._store.history.ids(past(session.id, principal))
        return [session.id, *(s.id for s in kept if visible(principal, s)), *ids]

    # One session

    def without_hidden_names(self, caller: Caller, session: Session) -> Session:
        """The session without the ids of sessions that the caller cannot see. The caller's own is complete."""
        principal = self._authorizer.principal(caller)
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
        newest = await self._store.newest_launch(str(OPERATOR))
        return own if newest is None else {**newest.inherited, **own}

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
        ready = await self._starts.ready(answer.session.id, max(0.0, until_s - loop.time()))
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
            await acknowledge_endings(self._store, caller, [s.id for s in killed])
        return killed

    async def end_all(self) -> list[str]:
        """Kill every session and close every terminal; return the ids of the killed sessions."""
        killed = await self._kills.kill_all()
        with suppress(TerminalError):  # terminals of ended sessions are useless without a daemon
            for pane in (await self._terminals.snapshot()).values():
                await self._terminals.close(pane.name)
        return killed
