"""Pairing of people in chat networks: requests, decisions, and who may decide, on a real database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sm.core.models import OPERATOR, Caller, RequestKey, Workspace
from sm.core.pairing import PairState
from sm.core.states import BridgeLevel, CallerKind
from sm.core.timestamps import later
from sm.errors import IllegalState, NotFound, NotPermitted, SmError, UsageError
from sm.policy.pairing import EXPIRES_S, OPEN_MAX, REPLY_EVERY_S, PairDecision
from sm.sessions.manager import Manager
from sm.sessions.pairings import Pairings
from sm.store import Store
from tests.samples import AT, LAUNCH, session
from tests.session_manager import open_manager

ADA, BOB, OWNER = "telegram:4711", "telegram:4712", "telegram:1"


@dataclass
class World:
    store: Store
    manager: Manager
    pairings: Pairings
    clock: list[str]
    lines: list[tuple[str, str, str | None, str, str | None]]

    def wait(self, seconds: float) -> None:
        self.clock[0] = later(self.clock[0], seconds)

    async def request(self, user: str = ADA, label: str = "Ada") -> str:
        answer = await self.pairings.ask(user, label)
        assert answer.request is not None
        return answer.request.name


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[World]:
    clock, lines = [AT], list[tuple[str, str, str | None, str, str | None]]()

    def audit(who: str, what: str, target: str | None, decision: str, reason: str | None) -> None:
        lines.append((who, what, target, decision, reason))

    async with open_manager(directory, lambda: clock[0], audit) as (store, manager):
        yield World(store, manager, Pairings(store, manager, audit, [OWNER]), clock, lines)


@pytest.mark.parametrize(
    ("trust", "level"),
    [
        (None, BridgeLevel.SANDBOXED),
        ("sandboxed", BridgeLevel.SANDBOXED),
        ("untrusted", BridgeLevel.SANDBOXED),
        ("direct", BridgeLevel.DIRECT),
        ("full", BridgeLevel.DIRECT),
        ("trusted", BridgeLevel.DIRECT),
    ],
)
async def test_approved_user_is_identified_with_the_level_of_the_approval(
    tmp_path: Path, trust: str | None, level: BridgeLevel
) -> None:
    async with opened(tmp_path) as world:
        name = await world.request()
        assert name == "p1"
        await world.pairings.approve(OPERATOR, "1", trust, None, None)
        caller = world.pairings.caller(ADA)
        assert (caller.kind, str(caller), caller.name) == (CallerKind.BRIDGE, ADA, ADA)
        assert caller.user is not None
        assert (caller.user.level, caller.user.workspace) == (level, None)
        expected = f"approve p1 as {level}"
        assert ("operator", "pair", ADA, "allowed", expected) in world.lines
        overview = world.pairings.overview(OPERATOR)
        assert (overview.requests, [p.user for p in overview.pairings]) == ([], [ADA])


@pytest.mark.parametrize("trust", ["owner", "operator", "root", ""])
async def test_approval_with_an_unknown_level_pairs_nobody(tmp_path: Path, trust: str) -> None:
    async with opened(tmp_path) as world:
        await world.request()
        with pytest.raises(UsageError):
            await world.pairings.approve(OPERATOR, "p1", trust, None, None)
        with pytest.raises(NotPermitted):
            world.pairings.caller(ADA)


async def test_user_who_is_not_paired_is_no_caller_and_stands_in_the_audit_log_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        for _ in range(100):
            with pytest.raises(NotPermitted):
                world.pairings.caller(BOB)
        assert world.lines == [(BOB, "call", None, "refused", "not paired")]
        world.wait(REPLY_EVERY_S)
        with pytest.raises(NotPermitted):
            world.pairings.caller(BOB)
        assert world.lines[1:] == [
            (BOB, "call", None, "refused", "not paired; 99 more times since the last line")
        ]


async def test_owner_of_the_configuration_is_identified_and_cannot_be_revoked(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        owner = world.pairings.caller(OWNER)
        assert owner.user is not None
        assert owner.user.is_owner
        with pytest.raises(NotFound, match="not paired") as refused:
            await world.pairings.revoke(OPERATOR, OWNER, None)
        assert refused.value.hint == "owners are in config.yaml"


async def test_request_of_a_user_is_answered_once_in_ten_minutes(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        first = await world.pairings.ask(ADA, "A\x1b[31mda\n\u202ex")
        assert first.decision is PairDecision.OPEN
        assert first.request is not None
        assert "\x1b" not in first.request.label
        assert "\n" not in first.request.label
        assert (await world.pairings.ask(ADA, "Ada")).request is None
        world.wait(REPLY_EVERY_S)
        again = await world.pairings.ask(ADA, "Ada")
        assert again.decision is PairDecision.REPEAT
        assert again.request is not None
        assert again.request.name == first.request.name
        assert (await world.pairings.ask(ADA, "Ada")).decision is PairDecision.TOO_SOON


async def test_twenty_requests_can_be_open_and_expire_after_a_day(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        for number in range(OPEN_MAX):
            await world.request(f"telegram:{100 + number}")
        assert (await world.pairings.ask(ADA, "Ada")).decision is PairDecision.FULL
        assert len(world.pairings.overview(OPERATOR).requests) == OPEN_MAX
        world.wait(EXPIRES_S)
        assert world.pairings.overview(OPERATOR).requests == []
        with pytest.raises(IllegalState, match="expired"):
            await world.pairings.approve(OPERATOR, "p1", None, None, None)
        await world.request()
        assert list(world.store.mail.open.pair_requests) == [OPEN_MAX + 1]
        with pytest.raises(NotFound):
            await world.pairings.approve(OPERATOR, "p1", None, None, None)


@pytest.mark.parametrize("reference", ["p2", "0", "p01", "-1", "r1", "", "p1 ", "9" * 30, "é"])
async def test_unknown_request_is_not_found(tmp_path: Path, reference: str) -> None:
    async with opened(tmp_path) as world:
        await world.request()
        with pytest.raises(NotFound):
            await world.pairings.approve(OPERATOR, reference, None, None, None)
        with pytest.raises(NotFound):
            await world.pairings.deny(OPERATOR, reference, None)


async def test_decided_request_cannot_be_decided_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        name = await world.request()
        assert (await world.pairings.deny(OPERATOR, name, None)).state is PairState.DENIED
        with pytest.raises(IllegalState, match="already denied"):
            await world.pairings.approve(OPERATOR, name, None, None, None)
        world.wait(REPLY_EVERY_S)
        assert (await world.pairings.ask(ADA, "Ada")).decision is PairDecision.DENIED
        assert ("operator", "pair", ADA, "allowed", "deny p1") in world.lines


async def test_approval_with_a_workspace_needs_one_that_is_not_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        async with world.store.transaction() as tx:
            tx.put_workspace(Workspace("web", "/srv/web", AT))
            tx.put_workspace(Workspace("old", "/srv/old", AT, deleted_at=AT))
        name = await world.request()
        for slug in ("old", "nowhere", ""):
            with pytest.raises(NotFound):
                await world.pairings.approve(OPERATOR, name, None, slug, None)
        await world.pairings.approve(OPERATOR, name, "direct", "web", None)
        user = world.pairings.caller(ADA).user
        assert user is not None
        assert user.workspace == "web"


async def test_revoked_user_is_no_caller_and_the_operator_has_the_sessions(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.pairings.approve(OPERATOR, await world.request(), None, None, None)
        await world.pairings.approve(OPERATOR, await world.request(BOB), None, None, None)
        async with world.store.transaction() as tx:
            for session_id, user in (("aaaa1111", ADA), ("aaaa2222", ADA), ("aaaa3333", BOB)):
                await tx.insert(replace(session(session_id), paired_user=user), LAUNCH, None)
        key = RequestKey("telegram:1:7", "f")
        revoked = await world.pairings.revoke(OPERATOR, "4711", key)
        assert (revoked.user, revoked.sessions) == (ADA, 2)
        assert await world.pairings.revoke(OPERATOR, "4711", key) == revoked
        with pytest.raises(NotPermitted):
            world.pairings.caller(ADA)
        assert [s.paired_user for s in world.store.sessions.values()] == [None, None, BOB]
        assert ("operator", "pair", ADA, "allowed", "revoke") in world.lines
        with pytest.raises(NotFound):
            await world.pairings.revoke(OPERATOR, ADA, None)
        # A new pairing does not bring the sessions back.
        world.wait(REPLY_EVERY_S)
        await world.pairings.approve(OPERATOR, await world.request(), "direct", None, None)
        assert world.store.sessions["aaaa1111"].paired_user is None


async def test_approval_is_carried_out_once_for_each_key(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        name, key = await world.request(), RequestKey("telegram:1:8", "f")
        first = await world.pairings.approve(OPERATOR, name, None, None, key)
        assert await world.pairings.approve(OPERATOR, name, None, None, key) == first
        await world.pairings.revoke(OPERATOR, ADA, None)
        with pytest.raises(IllegalState, match="revoked since"):
            await world.pairings.approve(OPERATOR, name, None, None, key)


async def test_only_the_operator_and_owners_decide_on_pairings(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.pairings.approve(OPERATOR, await world.request(), "direct", None, None)
        await world.pairings.approve(world.pairings.caller(OWNER), await world.request(BOB), None, None, None)
        assert world.store.mail.open.pairings[BOB].created_by == OWNER
        async with world.store.transaction() as tx:
            await tx.insert(session("aaaa1111"), LAUNCH, None)
        name = await world.request("telegram:5")
        refused = [
            world.pairings.caller(ADA),
            world.pairings.caller(BOB),
            Caller(CallerKind.SESSION, "aaaa1111"),
        ]
        for caller in refused:
            before = len(world.lines)
            for call in (
                world.pairings.approve(caller, name, None, None, None),
                world.pairings.deny(caller, name, None),
                world.pairings.revoke(caller, BOB, None),
            ):
                with pytest.raises(NotPermitted) as error:
                    await call
                assert isinstance(error.value, SmError)
                assert error.value.recorded
            with pytest.raises(NotPermitted):
                world.pairings.overview(caller)
            assert [line[0] for line in world.lines[before:]] == [str(caller)] * 4
            assert {line[3] for line in world.lines[before:]} == {"refused"}
        assert set(world.store.mail.open.pairings) == {ADA, BOB}
