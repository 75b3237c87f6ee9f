"""The marks of a peer on the operator's socket: which combination makes it a session, the operator, or refused."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from sm.api.auth import Identity
from sm.core.models import OPERATOR, Caller, Exit, Process, Session, digest
from sm.core.session_index import SessionIndex
from sm.core.states import CallerKind
from sm.core.statuses import Status
from sm.errors import NotPermitted
from sm.linux.processes import identify
from sm.linux.sockets import Peer
from tests.linux.child_process import ChildProcess, Start
from tests.samples import session

TOKEN = "5a" * 32
HEADER = [f"Bearer {TOKEN}"]
ONE, OTHER = "1a2b3c4d", "5e6f7a8b"
HOLDER = Caller(CallerKind.SESSION, ONE)


def here() -> Process:
    found = identify(os.getpid())
    assert found is not None
    return found


def live(session_id: str, process: Process | None) -> Session:
    return replace(session(session_id, status=Status.RUNNING), process=process, token_hash=digest(TOKEN))


class Marks:
    """A peer in a session of its own, without a terminal, and the daemon's answer about it."""

    def __init__(self, start: Start) -> None:
        self._start = start

    async def caller(
        self,
        *,
        variable: str | None = None,
        cgroup: str | None = None,
        ancestor: str | None = None,
        headers: list[str] | None = None,
        change: Callable[[Session], Session] = lambda session: session,
    ) -> Caller:
        environment = {"PATH": os.environ["PATH"]} | ({"SM_SESSION_ID": variable} if variable else {})
        peer = self._start("sh", "-c", "echo ready; read -r line", env=environment)
        agent = self._start("sh", "-c", "echo ready; read -r line")
        sessions = [
            change(live(each, here() if each == ancestor else agent.process)) for each in (ONE, OTHER)
        ]
        # Without a controlling terminal of the peer, the terminals are not asked.
        identity = Identity(
            SessionIndex(sessions),
            cast(Any, None),
            lambda tty: None,
            lambda pid: cgroup if pid == peer.pid else None,
        )
        return await identity.caller(Peer(peer.pid, os.geteuid(), os.getegid()), headers or [])


@pytest.fixture
def marks(start: Start) -> Marks:
    return Marks(start)


async def test_peer_without_marks_is_the_operator(marks: Marks) -> None:
    assert await marks.caller() == OPERATOR
    assert await marks.caller(headers=HEADER) == OPERATOR


async def test_peer_in_the_cgroup_of_a_session_needs_the_token_of_that_session(marks: Marks) -> None:
    assert await marks.caller(cgroup=ONE, headers=HEADER) == HOLDER
    for headers in ([], ["Bearer " + "00" * 32]):
        with pytest.raises(NotPermitted, match=f"only its cgroup names session {ONE}"):
            await marks.caller(cgroup=ONE, headers=headers)


async def test_peer_in_the_cgroup_of_an_ended_session_is_refused_also_with_its_token(marks: Marks) -> None:
    with pytest.raises(NotPermitted, match="has ended, so nothing that is left of it") as refused:
        await marks.caller(cgroup=ONE, headers=HEADER, change=lambda session: replace(session, exit=Exit(0)))
    # The same terminal would be refused again.
    assert refused.value.hint == f"to start its agent again, in another terminal: sm restore {ONE}"


async def test_agent_that_completes_before_its_start_is_recorded_is_its_session(marks: Marks) -> None:
    def completed(session: Session) -> Session:
        return replace(session, status=Status.COMPLETED, process=None)

    assert await marks.caller(cgroup=ONE, variable=ONE, headers=HEADER, change=completed) == HOLDER


async def test_peer_in_the_cgroup_of_a_removed_session_is_refused(marks: Marks) -> None:
    with pytest.raises(NotPermitted, match="unknown to this daemon"):
        await marks.caller(cgroup="99999999", headers=HEADER)


async def test_peer_with_its_cgroup_and_its_variable_needs_the_token_too(marks: Marks) -> None:
    assert await marks.caller(cgroup=ONE, variable=ONE, headers=HEADER) == HOLDER
    with pytest.raises(NotPermitted, match=f"only SM_SESSION_ID and its cgroup name session {ONE}"):
        await marks.caller(cgroup=ONE, variable=ONE)


async def test_peer_whose_cgroup_and_variable_differ_is_refused_also_with_a_token(marks: Marks) -> None:
    with pytest.raises(NotPermitted, match="belongs to two sessions"):
        await marks.caller(cgroup=ONE, variable=OTHER, headers=HEADER)


async def test_descendant_of_an_agent_is_its_session_in_the_cgroup_of_another_session(marks: Marks) -> None:
    """As an agent that was adopted in a tmux server which an agent of the other session started."""
    assert await marks.caller(ancestor=ONE, cgroup=OTHER) == HOLDER


async def test_peer_that_ended_before_the_look_at_its_cgroup_is_refused(start: Start) -> None:
    peer: ChildProcess = start("sh", "-c", "echo ready; read -r line")

    def ends(pid: int) -> None:
        peer.stop()

    identity = Identity(SessionIndex([]), cast(Any, None), lambda tty: None, ends)
    with pytest.raises(NotPermitted, match="ended before the daemon could identify it"):
        await identity.caller(Peer(peer.pid, os.geteuid(), os.getegid()))
