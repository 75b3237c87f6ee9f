"""Identifies callers, by facts of the kernel about a peer or by the token of a session.

Four marks can name the session of a peer: the ancestry of its process, `SM_SESSION_ID` in its environment, its
controlling terminal, if it is a pane of a session, and its cgroup. Two different sessions are refused. A peer without
a session is the operator. A process can set a variable and may move itself to another cgroup, so a peer with no other
mark than these two also sends the token of that session.

The cgroup of a descendant of a live agent is not looked up: the agent may have been adopted in a terminal that an
agent of another session started, and then stays in the cgroup of that session.

The kernel's facts do not identify a process in a container, which sends the token of its session (`Tokens`).
"""

import asyncio
import hmac
import logging
import os
import re
from collections.abc import Callable, Sequence

from sm.core.dataclass import dataclass
from sm.core.models import OPERATOR, Caller, Session, digest, is_waiting
from sm.core.session_index import SessionIndex
from sm.core.states import CallerKind, TrustLevel
from sm.errors import NotPermitted, SmError, TerminalError, Unauthenticated
from sm.linux.processes import ancestry, environ_value, identify, is_alive
from sm.linux.sockets import Peer
from sm.linux.ttys import tty_of
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import RESTORE
from sm.terminals.base import Lifecycle

log = logging.getLogger(__name__)

_ASK_WITHIN_S = 2.0
_BEARER = re.compile(r"Bearer ([0-9a-f]{64})", re.ASCII)
_NOBODY = "0" * 64
_VARIABLE = "SM_SESSION_ID"
_CGROUP = "its cgroup"
_CHOSEN = {_VARIABLE, _CGROUP}
"""The marks that a process can give itself."""


@dataclass(frozen=True, slots=True)
class Containment:
    """The facts about containers that identify their processes. Sessions without a workspace have workspace None."""

    contains: Callable[[int, str | None], bool]
    """Return whether a process (its pid on the host) runs in the container of a workspace, by its cgroup."""
    user: Callable[[str | None], tuple[int, int] | None]
    """The uid and gid of the agents in the container of a workspace, or None if no container is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """Identifies peers. `tty_owner` finds the session of a watched pane's tty without a call to tmux.

    `cgroup_owner` finds the session in whose cgroup a process is. It is called in a thread: the kernel may hold the
    file of a process's cgroups for milliseconds while another process is moved.
    """

    _index: SessionIndex
    _terminals: Lifecycle
    _tty_owner: Callable[[str], str | None]
    _cgroup_owner: Callable[[int], str | None]

    async def caller(self, peer: Peer, headers: Sequence[str] = ()) -> Caller:
        """The caller behind `peer`; `headers` are all Authorization headers of its request. Raises NotPermitted."""
        if peer.uid != os.geteuid():
            raise NotPermitted(
                f"this daemon belongs to user id {os.geteuid()}, not {peer.uid}",
                "run sm as the owner of the daemon",
            )
        # A process that has ended shows no marks. Its request must not pass for the operator's.
        process = identify(peer.pid)
        ancestor = self._by_ancestry(peer.pid)
        marks = {
            "its process ancestry": ancestor,
            _VARIABLE: environ_value(peer.pid, _VARIABLE) or None,
            "its terminal": await self._by_terminal(peer.pid),
            _CGROUP: None if ancestor else await asyncio.to_thread(self._cgroup_owner, peer.pid),
        }
        if process is None or identify(peer.pid) != process:
            raise NotPermitted("the calling process ended before the daemon could identify it")
        named = {session_id for session_id in marks.values() if session_id is not None}
        if not named:
            return OPERATOR
        if len(named) > 1:
            claims = ", ".join(
                f"{mark} says {session_id}" for mark, session_id in marks.items() if session_id
            )
            log.warning("refused a caller with two identities")
            raise NotPermitted(f"the calling process belongs to two sessions: {claims}")
        session_id = named.pop()
        if session_id not in self._index.sessions:
            raise NotPermitted(
                f"the calling session {session_id} is unknown to this daemon",
                "unset SM_SESSION_ID, or set SM_SOCKET to the socket of its daemon",
            )
        found = [mark for mark, named_id in marks.items() if named_id]
        if _CHOSEN.issuperset(found):
            session = self._index.sessions[session_id]
            verb = "names" if len(found) == 1 else "name"
            if not _is_token_of(session, _token_hash(headers)):
                raise NotPermitted(
                    f"only {' and '.join(found)} {verb} session {session_id}, "
                    "and the request has no valid token of that session",
                    "run sm inside the agent, where its token is set, or in a terminal that no agent started",
                )
            # The rest of a crashed process may still report its end before the next process starts.
            if not _is_running(session) and not is_waiting(session):
                raise ended(session_id)
        if marks["its process ancestry"] is None and self.has_ended(self._index.sessions[session_id]):
            raise ended(session_id)
        return Caller(CallerKind.SESSION, session_id)

    async def is_operator(self, pid: int) -> bool:
        """True if neither an agent nor its descendants run as this process, which need not belong to the same user."""
        try:
            return await self.caller(Peer(pid, os.geteuid(), os.getegid())) == OPERATOR
        except SmError:
            return False

    def holder(self, caller: Caller) -> Session | None:
        """The session that calls, as it is now; None for the operator."""
        return None if caller.session_id is None else self._index.sessions.get(caller.session_id)

    def has_ended(self, holder: Session) -> bool:
        """True when the process that the session had has ended. `holder`: the session as it was then.

        False while a crashed session waits for its next process: the rest of the last one may still report its end.
        """
        session = self._index.sessions.get(holder.id)
        if session is None or session.exit is not None:
            return True
        return session.process is not None and holder.process not in (None, session.process)

    def _by_ancestry(self, pid: int) -> str | None:
        agents = {
            s.process.pid: s
            for s in self._index.unfinished.values()
            if s.process is not None and s.exit is None
        }
        for ancestor in ancestry(pid):
            session = agents.get(ancestor)
            if session is not None and identify(ancestor) == session.process:
                return session.id
        return None

    async def _by_terminal(self, pid: int) -> str | None:
        tty = tty_of(pid)
        if tty is None:
            return None
        known = self._tty_owner(tty)
        if known is not None or self._index.is_empty():
            return known
        try:
            async with asyncio.timeout(_ASK_WITHIN_S):
                return await self._terminals.session_of_tty(tty)
        except (TerminalError, TimeoutError):
            # Without an answer the other marks decide: a person must be able to diagnose a stuck tmux.
            return None


class Tokens:
    """Identifies the callers of one workspace's agent socket by the tokens of sessions.

    `by_hash` finds the session of a token by its hash, also a session that has ended. A token counts only for a peer
    in the container of the workspace, whose user is that of the container or of the daemon.
    """

    def __init__(
        self, by_hash: Callable[[str], Session | None], workspace: str | None, containment: Containment
    ) -> None:
        self._by_hash = by_hash
        self._workspace = workspace
        self._containment = containment

    def authenticate(self, peer: Peer, headers: Sequence[str]) -> Session:
        """The calling session; `headers` are all Authorization headers of the request.

        Raises Unauthenticated with the same message for every reason, so that a caller cannot distinguish another
        session's token or an expired token from an unknown one.
        """
        token_hash = _token_hash(headers)
        # By hash, which a caller cannot choose: the time of the look-up reveals nothing about any token.
        session = self._by_hash(token_hash)
        if (
            session is None
            or not _is_token_of(session, token_hash)
            or session.workspace != self._workspace
            or session.effective_mode is not TrustLevel.SANDBOXED
            or not _is_running(session)
            or not self._is_contained(peer)
        ):
            raise invalid_token()
        return session

    def _is_contained(self, peer: Peer) -> bool:
        user = self._containment.user(self._workspace)
        own = user is not None and peer.uid == user[0]
        return (own or peer.uid == os.geteuid()) and self._containment.contains(peer.pid, self._workspace)

    def has_ended(self, holder: Session) -> bool:
        """True when the process that holds the token is known to be gone."""
        session = self._by_hash(holder.token_hash or _NOBODY)
        return session is None or session.exit is not None or is_waiting(session)


def _token_hash(headers: Sequence[str]) -> str:
    """The hash of the token in the only Authorization header; of no token for other headers."""
    match = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
    return digest(match[1]) if match else _NOBODY


def _is_token_of(session: Session, token_hash: str) -> bool:
    return hmac.compare_digest(session.token_hash or "", token_hash)


def invalid_token() -> Unauthenticated:
    return Unauthenticated(
        "missing or invalid session token", "run sm inside the agent, where its token is set"
    )


def ended(session_id: str) -> NotPermitted:
    """The refusal of a process or a terminal that is left of a session."""
    return NotPermitted(
        f"the process of session {session_id} has ended, so nothing that is left of it may act for it",
        Hint("to start its agent again, in another terminal: ", Use(RESTORE, session_id)),
    )


def _is_running(session: Session) -> bool:
    """True when the process that holds the session's token lives.

    Its pid is not known while it starts. An agent may report its end before that is recorded.
    """
    if session.exit is not None or is_waiting(session):
        return False
    return session.process is None or is_alive(session.process)
