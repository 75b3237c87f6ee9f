"""Who shows which token on an agent socket: every condition by itself."""

import os
from dataclasses import replace

import pytest

from sm.api.auth import Tokens
from sm.core.models import Exit, Process, Session, digest
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.errors import Unauthenticated
from sm.linux.processes import identify
from sm.linux.sockets import Peer
from tests.samples import session

TOKEN = "5a" * 32
HERE = identify(os.getpid())
PEER = Peer(0, os.geteuid(), os.getegid())
SHOWN = [f"Bearer {TOKEN}"]


@pytest.fixture
def holder() -> Session:
    assert HERE is not None
    made = session("1a2b3c4d", status=Status.RUNNING)
    return replace(
        made, workspace="shop", effective_mode=TrustLevel.SANDBOXED, process=HERE, token_hash=digest(TOKEN)
    )


def tokens(found: Session | None, *, contained: bool = True) -> Tokens:
    return Tokens(lambda token_hash: found, "shop", lambda peer, session: contained)


def test_the_session_whose_token_is_shown_is_let_in(holder: Session) -> None:
    let_in = tokens(holder).holder(PEER, SHOWN)
    assert let_in.id == holder.id
    assert not tokens(holder).is_over(let_in)


@pytest.mark.parametrize("status", Status)
def test_an_ended_session_whose_process_lives_may_still_call(holder: Session, status: Status) -> None:
    assert tokens(replace(holder, status=status)).holder(PEER, SHOWN).id == holder.id


@pytest.mark.parametrize("status", [Status.SPAWNED, Status.STARTING])
def test_an_agent_may_call_before_anybody_knows_that_it_runs(holder: Session, status: Status) -> None:
    starting = replace(holder, status=status, process=None)
    assert tokens(starting).holder(PEER, SHOWN).id == holder.id


@pytest.mark.parametrize(
    "changes",
    [
        {"workspace": "bank"},
        {"workspace": None},
        {"effective_mode": TrustLevel.DIRECT},
        {"exit": Exit(0)},
        {"exit": Exit()},
        {"process": Process(os.getpid(), "another boot/1")},
        {"process": Process(2**22 + 1, HERE.started if HERE else "")},
        {"process": None, "status": Status.ERROR},
        {"token_hash": None},
        {"token_hash": digest("5b" * 32)},
    ],
    ids=range(10),
)
def test_whoever_is_not_the_living_process_of_a_sandboxed_session_here_is_refused(
    holder: Session, changes: dict[str, object]
) -> None:
    changed = replace(holder, **changes)  # type: ignore[arg-type]  # fields of it
    with pytest.raises(Unauthenticated) as refused:
        tokens(changed).holder(PEER, SHOWN)
    with pytest.raises(Unauthenticated) as nonsense:
        tokens(None).holder(PEER, [])
    assert str(refused.value) == str(nonsense.value)


def test_another_user_and_another_container_are_refused(holder: Session) -> None:
    with pytest.raises(Unauthenticated):
        tokens(holder).holder(replace(PEER, uid=os.geteuid() + 1), SHOWN)
    with pytest.raises(Unauthenticated):
        tokens(holder, contained=False).holder(PEER, SHOWN)


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [""],
        [TOKEN],
        [f"bearer {TOKEN}"],
        [f"Bearer  {TOKEN}"],
        [f"Bearer {TOKEN} "],
        [f"Bearer {TOKEN}\n"],
        [f"Bearer {TOKEN[:-1]}"],
        [f"Bearer {TOKEN}0"],
        [f"Bearer {TOKEN.upper()}"],
        ["Bearer " + "\N{FULLWIDTH DIGIT FIVE}" * 64],
        [*SHOWN, *SHOWN],
    ],
)
def test_what_is_no_token_makes_nobody(holder: Session, shown: list[str]) -> None:
    with pytest.raises(Unauthenticated):
        tokens(holder).holder(PEER, shown)


def test_a_token_is_over_when_its_process_is_or_another_has_its_place(holder: Session) -> None:
    let_in = tokens(holder).holder(PEER, SHOWN)
    assert tokens(replace(holder, exit=Exit(0))).is_over(let_in)
    assert tokens(None).is_over(let_in)
