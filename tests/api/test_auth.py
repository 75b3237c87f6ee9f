"""Tokens on an agent socket: each condition on its own."""

import os
from dataclasses import replace

import pytest

from sm.api.auth import Containment, Tokens
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
HEADER = [f"Bearer {TOKEN}"]


@pytest.fixture
def holder() -> Session:
    assert HERE is not None
    return replace(
        session("1a2b3c4d", status=Status.RUNNING),
        workspace="shop",
        effective_mode=TrustLevel.SANDBOXED,
        process=HERE,
        token_hash=digest(TOKEN),
    )


def tokens(holder: Session | None, *, contained: bool = True, user: tuple[int, int] | None = None) -> Tokens:
    containment = Containment(
        lambda pid, workspace: contained and workspace == "shop", lambda workspace: user
    )
    return Tokens(lambda token_hash: holder, "shop", containment)


def test_token_admits_its_session(holder: Session) -> None:
    token = tokens(holder).authenticate(PEER, HEADER)
    assert token.id == holder.id
    assert not tokens(holder).has_ended(token)


@pytest.mark.parametrize("status", Status)
def test_token_admits_session_in_any_status_while_its_process_runs(holder: Session, status: Status) -> None:
    assert tokens(replace(holder, status=status)).authenticate(PEER, HEADER).id == holder.id


@pytest.mark.parametrize("status", [Status.SPAWNED, Status.STARTING, Status.COMPLETED, Status.ERROR])
def test_token_admits_session_before_its_process_is_known(holder: Session, status: Status) -> None:
    starting = replace(holder, status=status, process=None)
    assert tokens(starting).authenticate(PEER, HEADER).id == holder.id


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
        {"process": None, "status": Status.ERROR, "exit": Exit()},
        {"token_hash": None},
        {"token_hash": digest("5b" * 32)},
    ],
    ids=[
        *("other workspace", "no workspace", "direct", "exited", "exited without code", "other boot"),
        *("dead process", "failed start", "no token", "other token"),
    ],
)
def test_token_is_refused_when_session_does_not_match_or_its_process_is_gone(
    holder: Session, changes: dict[str, object]
) -> None:
    changed = replace(holder, **changes)  # type: ignore[arg-type]  # fields of the session
    with pytest.raises(Unauthenticated) as refusal:
        tokens(changed).authenticate(PEER, HEADER)
    with pytest.raises(Unauthenticated) as without_token:
        tokens(None).authenticate(PEER, [])
    assert str(refusal.value) == str(without_token.value)


def test_token_admits_peer_with_the_user_of_the_container_or_of_the_daemon(holder: Session) -> None:
    container = tokens(holder, user=(1234, 1234))
    for uid in (1234, os.geteuid()):
        assert container.authenticate(replace(PEER, uid=uid), HEADER).id == holder.id


def test_token_is_refused_when_peer_has_another_user_or_container(holder: Session) -> None:
    stranger = replace(PEER, uid=os.geteuid() + 1)
    for user in (None, (stranger.uid + 1, stranger.uid)):
        with pytest.raises(Unauthenticated):
            tokens(holder, user=user).authenticate(stranger, HEADER)
    with pytest.raises(Unauthenticated):
        tokens(holder, contained=False).authenticate(PEER, HEADER)


@pytest.mark.parametrize(
    "headers",
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
        [*HEADER, *HEADER],
    ],
)
def test_token_is_refused_when_authorization_header_is_malformed(holder: Session, headers: list[str]) -> None:
    with pytest.raises(Unauthenticated):
        tokens(holder).authenticate(PEER, headers)


def test_token_expires_when_its_process_exits_or_its_session_is_gone(holder: Session) -> None:
    token = tokens(holder).authenticate(PEER, HEADER)
    assert tokens(replace(holder, exit=Exit(0))).has_ended(token)
    assert tokens(None).has_ended(token)
