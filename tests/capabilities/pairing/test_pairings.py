"""Pairing of people in chat networks: requests, decisions, and who may decide, on a real database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sm.capabilities.pairing.model import PairState
from sm.capabilities.pairing.operations import UserApproval
from sm.capabilities.pairing.pairings import Pairings
from sm.capabilities.pairing.repeated_requests import EXPIRES_S, OPEN_MAX, REPLY_EVERY_S
from sm.capabilities.pairing.tables import PART, PairingRows
from sm.core.models import OPERATOR, Caller, RequestKey, Workspace
from sm.core.states import BridgeLevel, CallerKind
from sm.core.timestamps import later
from sm.errors import IllegalState, NotFound, NotPermitted, SmError, UsageError
from sm.kernel import OperationCall
from sm.sessions.chat_users import AdmissionReply, ChatUsers
from sm.store import Store
from sm.wire_types.pairings import PairingView, PairOverviewView, PairRequestView, RevokedUserView
from tests.samples import AT, LAUNCH, session
from tests.state_parts import open_parts

ADA, BOB, OWNER = "telegram:4711", "telegram:4712", "telegram:1"


@dataclass
class World:
    store: Store
    users: ChatUsers
    pairings: Pairings
    clock: list[str]
    lines: list[tuple[str, str, str | None, str, str | None]]

    def wait(self, seconds: float) -> None:
        self.clock[0] = later(self.clock[0], seconds)

    @property
    def rows(self) -> PairingRows:
        return self.store.part(PART).rows

    async def ask(self, user: str = ADA, label: str = "Ada") -> AdmissionReply | None:
        return await self.users.ask(user, label)

    async def request(self, user: str = ADA) -> str:
        """Ask for access; return the name of the request."""
        assert await self.ask(user) is not None
        return [request.name for request in self.rows.requests.values() if request.user == user][-1]

    async def overview(self, caller: Caller = OPERATOR) -> PairOverviewView:
        return await self.pairings.overview(OperationCall(caller, "", None, None))

    async def approve(
        self,
        caller: Caller,
        reference: str,
        trust: str | None = None,
        workspace: str | None = None,
        key: RequestKey | None = None,
    ) -> PairingView:
        return await self.pairings.approve(
            OperationCall(caller, reference, UserApproval(trust, workspace), key)
        )

    async def deny(self, caller: Caller, reference: str) -> PairRequestView:
        return await self.pairings.deny(OperationCall(caller, reference, None, None))

    async def revoke(self, caller: Caller, user: str, key: RequestKey | None = None) -> RevokedUserView:
        return await self.pairings.revoke(OperationCall(caller, user, None, key))


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[World]:
    clock, lines = [AT], list[tuple[str, str, str | None, str, str | None]]()

    def audit(who: str, what: str, target: str | None, decision: str, reason: str | None) -> None:
        lines.append((who, what, target, decision, reason))

    async with open_parts(directory, lambda: clock[0], audit) as (store, parts):
        users = ChatUsers(store, audit, [OWNER])
        pairings = Pairings(store, parts.authorizer, users, audit)
        users.admissions.append(pairings)
        yield World(store, users, pairings, clock, lines)


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
        await world.approve(OPERATOR, "1", trust)
        caller = world.users.caller(ADA)
        assert (caller.kind, str(caller), caller.name) == (CallerKind.BRIDGE, ADA, ADA)
        assert caller.user is not None
        assert (caller.user.level, caller.user.workspace) == (level, None)
        expected = f"approve p1 as {level}"
        assert ("operator", "pair", ADA, "allowed", expected) in world.lines
        overview = await world.overview()
        assert (overview.requests, [p.user for p in overview.users]) == ([], [ADA])


@pytest.mark.parametrize("trust", ["owner", "operator", "root", ""])
async def test_approval_with_an_unknown_level_pairs_nobody(tmp_path: Path, trust: str) -> None:
    async with opened(tmp_path) as world:
        await world.request()
        with pytest.raises(UsageError):
            await world.approve(OPERATOR, "p1", trust)
        with pytest.raises(NotPermitted):
            world.users.caller(ADA)


async def test_user_who_is_not_paired_is_no_caller_and_stands_in_the_audit_log_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        for _ in range(100):
            with pytest.raises(NotPermitted):
                world.users.caller(BOB)
        assert world.lines == [(BOB, "call", None, "refused", "not paired")]
        world.wait(REPLY_EVERY_S)
        with pytest.raises(NotPermitted):
            world.users.caller(BOB)
        assert world.lines[1:] == [
            (BOB, "call", None, "refused", "not paired; 99 more times since the last line")
        ]


async def test_owner_of_the_configuration_is_identified_and_cannot_be_revoked(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        owner = world.users.caller(OWNER)
        assert owner.user is not None
        assert owner.user.is_owner
        with pytest.raises(NotFound, match="not paired") as refused:
            await world.revoke(OPERATOR, OWNER)
        assert refused.value.hint == "owners are in config.yaml"


async def test_request_of_a_user_is_answered_once_in_ten_minutes(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        first = await world.ask(ADA, "A\x1b[31mda\n\u202ex")
        assert first is not None
        assert first.question is not None
        (request,) = world.rows.requests.values()
        assert "\x1b" not in first.question.text + request.label
        assert "\n" not in first.question.text + request.label
        assert await world.ask() is None
        world.wait(REPLY_EVERY_S)
        again = await world.ask()
        assert again is not None
        assert (again.text, again.question) == (first.text, None)
        assert await world.ask() is None
        assert [line[1:] for line in world.lines if line[1] == "ask_to_pair"] == [
            ("ask_to_pair", "p1", "allowed", "asked to be paired"),
            ("ask_to_pair", "p1", "allowed", "asked again: the request is open"),
        ]


async def test_twenty_requests_can_be_open_and_expire_after_a_day(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        for number in range(OPEN_MAX):
            await world.request(f"telegram:{100 + number}")
        assert await world.ask() is None
        assert len((await world.overview()).requests) == OPEN_MAX
        world.wait(EXPIRES_S)
        assert (await world.overview()).requests == []
        with pytest.raises(IllegalState, match="expired"):
            await world.approve(OPERATOR, "p1")
        await world.request()
        assert list(world.rows.requests) == [OPEN_MAX + 1]
        with pytest.raises(NotFound):
            await world.approve(OPERATOR, "p1")


@pytest.mark.parametrize("reference", ["p2", "0", "p01", "-1", "r1", "", "p1 ", "9" * 30, "é"])
async def test_unknown_request_is_not_found(tmp_path: Path, reference: str) -> None:
    async with opened(tmp_path) as world:
        await world.request()
        with pytest.raises(NotFound):
            await world.approve(OPERATOR, reference)
        with pytest.raises(NotFound):
            await world.deny(OPERATOR, reference)


async def test_decided_request_cannot_be_decided_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        name = await world.request()
        assert (await world.deny(OPERATOR, name)).state == PairState.DENIED
        with pytest.raises(IllegalState, match="already denied"):
            await world.approve(OPERATOR, name)
        world.wait(REPLY_EVERY_S)
        assert await world.ask() is None
        assert ("operator", "pair", ADA, "allowed", "deny p1") in world.lines


async def test_approval_with_a_workspace_needs_one_that_is_not_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        async with world.store.transaction() as tx:
            tx.put_workspace(Workspace("web", "/srv/web", AT))
            tx.put_workspace(Workspace("old", "/srv/old", AT, deleted_at=AT))
        name = await world.request()
        for slug in ("old", "nowhere", ""):
            with pytest.raises(NotFound):
                await world.approve(OPERATOR, name, None, slug)
        await world.approve(OPERATOR, name, "direct", "web")
        user = world.users.caller(ADA).user
        assert user is not None
        assert user.workspace == "web"


async def test_revoked_user_is_no_caller_and_the_operator_has_the_sessions(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.approve(OPERATOR, await world.request())
        await world.approve(OPERATOR, await world.request(BOB))
        async with world.store.transaction() as tx:
            for session_id, user in (("aaaa1111", ADA), ("aaaa2222", ADA), ("aaaa3333", BOB)):
                await tx.insert(replace(session(session_id), paired_user=user), LAUNCH, None)
        key = RequestKey("telegram:1:7", "f")
        revoked = await world.revoke(OPERATOR, "4711", key)
        assert (revoked.user, revoked.sessions) == (ADA, 2)
        assert await world.revoke(OPERATOR, "4711", key) == revoked
        with pytest.raises(NotPermitted):
            world.users.caller(ADA)
        assert [s.paired_user for s in world.store.sessions.values()] == [None, None, BOB]
        assert ("operator", "pair", ADA, "allowed", "revoke") in world.lines
        with pytest.raises(NotFound):
            await world.revoke(OPERATOR, ADA)
        # A new pairing does not bring the sessions back.
        world.wait(REPLY_EVERY_S)
        await world.approve(OPERATOR, await world.request(), "direct")
        assert world.store.sessions["aaaa1111"].paired_user is None


async def test_approval_is_carried_out_once_for_each_key(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        name, key = await world.request(), RequestKey("telegram:1:8", "f")
        first = await world.approve(OPERATOR, name, None, None, key)
        assert await world.approve(OPERATOR, name, None, None, key) == first
        await world.revoke(OPERATOR, ADA)
        with pytest.raises(IllegalState, match="revoked since"):
            await world.approve(OPERATOR, name, None, None, key)


async def test_only_the_operator_and_owners_decide_on_pairings(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.approve(OPERATOR, await world.request(), "direct")
        await world.approve(world.users.caller(OWNER), await world.request(BOB))
        assert world.rows.pairings[BOB].created_by == OWNER
        async with world.store.transaction() as tx:
            await tx.insert(session("aaaa1111"), LAUNCH, None)
        name = await world.request("telegram:5")
        refused = [
            world.users.caller(ADA),
            world.users.caller(BOB),
            Caller(CallerKind.SESSION, "aaaa1111"),
        ]
        for caller in refused:
            before = len(world.lines)
            for call in (
                world.approve(caller, name),
                world.deny(caller, name),
                world.revoke(caller, BOB),
            ):
                with pytest.raises(NotPermitted) as error:
                    await call
                assert isinstance(error.value, SmError)
                assert error.value.recorded
            with pytest.raises(NotPermitted):
                await world.overview(caller)
            assert [line[0] for line in world.lines[before:]] == [str(caller)] * 4
            assert {line[3] for line in world.lines[before:]} == {"refused"}
        assert set(world.rows.pairings) == {ADA, BOB}
