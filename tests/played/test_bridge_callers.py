"""People in chat networks as callers of the services: a real database, and the use cases of a front door."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sm.capabilities.accounts.operations import LIST
from sm.capabilities.pairing.model import PairState
from sm.capabilities.pairing.operations import APPROVE, REVOKE, UserApproval
from sm.capabilities.pairing.tables import PART
from sm.core.lifecycle import is_live
from sm.core.models import OPERATOR, BridgeUser, Caller, Session, SpawnRequest
from sm.core.states import BridgeLevel, CallerKind, MessageMode, RequestState
from sm.errors import (
    LimitReached,
    NotFound,
    NotPermitted,
    RateLimited,
    SandboxUnavailable,
    SmError,
)
from sm.kernel import OperationCall, UseCases
from sm.operations.daemon_operations import STOP
from sm.requests.answers import RequestReply
from sm.services import (
    Adoptions,
    Authorizer,
    ChatUsers,
    Forks,
    Inbox,
    Interrupts,
    Messages,
    Monitor,
    Records,
    Requests,
    Restorer,
    SessionFilter,
    Sessions,
    Workspaces,
)
from tests.sim.stage import INSTANCE_CONFIG
from tests.sim.world import World, simulation

ADA, BOB = "telegram:4711", "telegram:4712"
OWNER = Caller(CallerKind.BRIDGE, user=BridgeUser("telegram:1", BridgeLevel.OWNER))
"""As `ChatUsers.caller` makes it of `owner_ids`."""
ABSENT = "0f0f0f0f"


pytestmark = pytest.mark.simulation


_USE_CASES = {
    "users": ChatUsers,
    "use_cases": UseCases,
    "sessions": Sessions,
    "messages": Messages,
    "inbox": Inbox,
    "requests": Requests,
    "interrupts": Interrupts,
    "monitor": Monitor,
    "workspaces": Workspaces,
    "records": Records,
    "restorer": Restorer,
    "forks": Forks,
    "adoptions": Adoptions,
    "authorizer": Authorizer,
}


@dataclass(frozen=True)
class Door:
    """A front door of the daemon for people in chats."""

    world: World

    @property
    def services(self) -> Any:
        return SimpleNamespace(**self.world.daemon.parts.doors.parts.given(_USE_CASES))

    @property
    def sessions(self) -> Mapping[str, Session]:
        return self.world.daemon.store.sessions

    async def pair(self, user: str, trust: str = "direct", workspace: str | None = None) -> Caller:
        """Pair a user as /start and the operator do, and identify the user as each message does."""
        await self.services.users.ask(user, "A person")
        requests = self.world.daemon.store.part(PART).rows.requests.values()
        (request,) = (r for r in requests if r.user == user and r.state is PairState.OPEN)
        approval = OperationCall(OPERATOR, request.name, UserApproval(trust, workspace), None)
        await self.services.use_cases[APPROVE](approval)
        caller: Caller = self.services.users.caller(user)
        return caller

    async def spawn(self, caller: Caller, agent_type: str = "Sleeper", **more: Any) -> Session:
        given = {"current_dir": str(self.world.work), "prompt": "x", "environment": self.world.environ}
        wanted = SpawnRequest(agent_type, **{**given, **more})
        result = await self.services.sessions.spawn(caller, wanted, None, None, lambda: True)
        session: Session = result.session
        return session

    async def send(self, caller: Caller, reference: str, text: str = "hello") -> Any:
        sent = await self.services.messages.send(caller, reference, text, MessageMode.AUTO, None, None)
        return sent.done

    async def kill(self, caller: Caller, reference: str) -> list[Session]:
        killed: list[Session] = await self.services.sessions.kill(
            caller, reference, None, force=False, tree=False, is_connected=lambda: True
        )
        return killed

    async def listed(self, caller: Caller) -> set[str]:
        page = await self.services.sessions.list_sessions(caller, SessionFilter())
        return {s.id for s in page.sessions}

    def audit(self) -> list[tuple[str, str, str | None, str]]:
        lines = Path(self.world.paths.log, "audit.jsonl").read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        return [(line["who"], line["what"], line["target"], line["decision"]) for line in found]


@asynccontextmanager
async def door(more: str = "limits: {spawn_interval_s: 0}") -> AsyncIterator[Door]:
    async with simulation(INSTANCE_CONFIG.format(more=more)) as world:
        yield Door(world)


async def refusal(call: Awaitable[object]) -> SmError:
    with pytest.raises(SmError) as raised:
        await call
    return raised.value


async def test_paired_user_starts_an_agent_and_works_with_it() -> None:
    async with door() as w:
        ada = await w.pair(ADA)
        session = await w.spawn(ada)
        assert (session.created_by, session.paired_user, session.parent_id) == (ADA, ADA, None)
        child = await w.spawn(ada, parent=session.id)
        below = await w.spawn(Caller(CallerKind.SESSION, child.id))
        assert (child.created_by, child.paired_user, below.paired_user) == (ADA, ADA, ADA)
        assert await w.listed(ada) == {session.id, child.id, below.id}
        roots = await w.services.sessions.children(ada, "-", SessionFilter())
        assert [s.id for s in roots.sessions] == [session.id]

        message = await w.send(ada, session.id)
        assert message.sender == ADA
        inside = Caller(CallerKind.SESSION, session.id)
        (taken,) = await w.services.inbox.take(inside, 5, None, idle=True)
        assert taken.shown.startswith(f"[sm] from {ADA}, message {message.id}\n")
        assert (await w.services.messages.read(ada, message.id)).id == message.id
        assert [m.id for m, _ in await w.services.messages.log(ada, None, 10)] == [message.id]

        asked = await w.services.requests.ask(inside, "Which colour?", ["red", "blue"], None, None)
        assert [r.id for r in await w.services.requests.list_requests(ada, all=False, limit=0)] == [asked.id]
        answered = await w.services.requests.answer(ada, asked.name, RequestReply(True, ("2",)), None)
        assert (answered.state, answered.answered_by) == (RequestState.ANSWERED, ADA)
        assert answered.answer.answers == ("blue",)
        again = await w.services.requests.ask(inside, "And now?", [], None, None)
        by_text = await w.send(ada, session.id, "go on")
        assert (by_text.id, by_text.answered_by) == (again.id, ADA)
        assert [r.id for r in await w.services.requests.list_requests(ada, all=True, limit=9)] == [
            asked.id,
            again.id,
        ]

        assert (await w.services.interrupts.interrupt(ada, below.id, None)).session.id == below.id
        shown = await w.services.monitor.progress(
            session, 5, may_read=w.services.authorizer.may_read(ada, session)
        )
        assert shown.session_id == session.id
        scope = await w.services.sessions.event_scope(ada, None, None, recursive=False)
        assert set(scope) == {session.id, child.id, below.id}
        assert [s.id for s in await w.kill(ada, session.id)] == [session.id]
        ended = w.sessions[session.id]
        assert ended.status == "killed"
        # The operator hears of an ending that a person in a chat caused, and that person has no inbox.
        await w.world.settled()
        assert w.services.inbox.available(OPERATOR, idle=True)
        assert w.services.inbox.available(ada, idle=True) == []
        assert await w.services.inbox.take(ada, 5, None, idle=True) == []
        # Its child has moved to the operator's sessions, and the user still has it.
        assert w.sessions[child.id].parent_id is None
        assert await w.listed(ada) >= {child.id, below.id}
        assert (ADA, "kill", session.id, "allowed") in w.audit()


async def test_hidden_session_and_an_absent_one_get_the_same_answer() -> None:
    async with door() as w:
        ada, bob = await w.pair(ADA), await w.pair(BOB, "sandboxed")
        (w.world.home / "shop").mkdir()
        given = {"working_dir": str(w.world.home / "shop")}
        await w.services.workspaces.create(OPERATOR, "shop", given, None)
        cy = await w.pair("telegram:4713", "direct", "shop")
        own, operators = await w.spawn(ada), await w.spawn(OPERATOR)
        in_shop = await w.spawn(OPERATOR, workspace="shop")
        request = await w.services.requests.ask(
            Caller(CallerKind.SESSION, operators.id), "Which?", [], None, None
        )
        message = await w.send(OPERATOR, operators.id)
        hidden = {
            ADA: (operators, in_shop),
            BOB: (own, operators, in_shop),
            "telegram:4713": (own, operators),
        }

        calls: list[Callable[[Caller, str], Awaitable[object]]] = [
            lambda c, ref: w.send(c, ref),
            lambda c, ref: w.kill(c, ref),
            lambda c, ref: w.services.interrupts.interrupt(c, ref, None),
            lambda c, ref: w.services.records.archive(c, ref, None, archived=True),
            lambda c, ref: w.services.records.remove(c, ref, None),
            lambda c, ref: w.services.records.reparent(c, ref, None, None),
            lambda c, ref: w.services.records.rename(c, ref, "other", None),
            lambda c, ref: w.services.restorer.restore(c, ref, None, tree=False),
            lambda c, ref: w.services.forks.fork(c, ref, None, None),
            lambda c, ref: w.services.requests.answer(c, ref, RequestReply(True, ("x",)), None),
            lambda c, ref: w.spawn(c, parent=ref),
            lambda c, ref: asyncio.to_thread(w.services.authorizer.find, c, ref),
        ]
        for caller in (ada, bob, cy):
            for session in hidden[caller.name]:
                for call in calls:
                    real = await refusal(call(caller, session.id))
                    absent = await refusal(call(caller, ABSENT))
                    assert type(real) is type(absent) is NotFound
                    same = (absent.message.replace(ABSENT, session.id), absent.hint)
                    assert (real.message, real.hint) == same
            for reference in (request.name, "r999999999999999999"):
                error = await refusal(
                    w.services.requests.answer(caller, reference, RequestReply(True, ("x",)), None)
                )
                assert (error.message, error.hint) == (
                    f"no such request: {reference}",
                    "list requests: sm requests",
                )
            assert isinstance(await refusal(w.services.messages.read(caller, message.id)), NotFound)
            assert (caller.name, "kill", operators.id, "refused") in w.audit()
        assert all(is_live(w.sessions[s.id].status) for s in (own, operators, in_shop))
        assert await w.listed(ada) == {own.id}
        assert await w.listed(bob) == set()
        assert await w.listed(cy) == {in_shop.id}


async def test_user_of_a_workspace_controls_its_sessions_and_starts_only_there() -> None:
    async with door() as w:
        for slug in ("shop", "other"):
            (w.world.home / slug).mkdir()
            given = {"working_dir": str(w.world.home / slug)}
            await w.services.workspaces.create(OPERATOR, slug, given, None)
        cy = await w.pair("telegram:4713", "direct", "shop")
        operators = await w.spawn(OPERATOR, workspace="shop")
        own = await w.spawn(cy)
        assert (own.workspace, own.working_dir) == ("shop", str(w.world.home / "shop"))
        assert await w.listed(cy) == {operators.id, own.id}
        assert [x.slug for x in w.services.workspaces.list_workspaces(cy)] == ["shop"]
        for slug in ("other", "absent"):
            error = await refusal(w.spawn(cy, workspace=slug))
            assert isinstance(error, NotFound)
            assert error.message == f"no such workspace: {slug}"
            assert "other" not in (error.hint or "")
        assert isinstance(await refusal(w.spawn(cy, workspace="-")), NotFound)
        assert [s.id for s in await w.kill(cy, operators.id)] == [operators.id]
        # A directory in a workspace does not bring a user there who is not paired with it.
        ada = await w.pair(ADA)
        outside = await w.spawn(ada, working_dir=str(w.world.home / "other"))
        assert outside.workspace is None


async def test_limits_of_a_parent_bind_a_paired_user_and_not_an_owner() -> None:
    bounds = "limits: {max_children: 2, spawn_interval_s: 0, messages_per_minute: 2}"
    async with door(bounds) as w:
        ada = await w.pair(ADA)
        first, second = await w.spawn(ada), await w.spawn(ada)
        error = await refusal(w.spawn(ada))
        assert isinstance(error, LimitReached)
        assert error.message == f"user {ADA} already has 2 live sessions, at most 2 are allowed"
        await w.kill(ada, second.id)
        await w.spawn(ada)
        assert isinstance(
            await refusal(w.services.restorer.restore(ada, second.id, None, tree=False)), LimitReached
        )
        for _ in range(2):
            await w.send(ada, first.id)
        assert isinstance(await refusal(w.send(ada, first.id)), RateLimited)
        for _ in range(3):
            await w.spawn(OWNER)
            await w.send(OWNER, first.id)


async def test_paired_user_starts_one_session_in_each_interval() -> None:
    async with door("limits: {spawn_interval_s: 1000}") as w:
        ada = await w.pair(ADA)
        await w.spawn(ada)
        error = await refusal(w.spawn(ada))
        assert isinstance(error, RateLimited)
        assert error.message.startswith(f"user {ADA} may start one child every 1000 seconds")
        await w.spawn(await w.pair(BOB))


async def test_sandboxed_user_without_an_engine_gets_an_error_and_no_process() -> None:
    async with door("sandbox: {fallback: warn}\nlimits: {spawn_interval_s: 0}") as w:
        bob = await w.pair(BOB, "sandboxed")
        error = await refusal(w.spawn(bob))
        assert isinstance(error, SandboxUnavailable)
        error = await refusal(w.spawn(bob, trust="direct"))
        assert isinstance(error, NotPermitted)
        assert (
            error.message == f"user {BOB} is paired as sandboxed: all sessions of that user run in a sandbox"
        )
        assert isinstance(await refusal(w.spawn(bob, trust="sandboxed")), SandboxUnavailable)
        # Nobody in a chat falls back to the host, also not an owner.
        assert isinstance(await refusal(w.spawn(OWNER, trust="sandboxed")), SandboxUnavailable)
        direct = await w.spawn(OPERATOR)
        assert isinstance(await refusal(w.spawn(bob, parent=direct.id)), NotFound)
        assert set(w.sessions) == {direct.id}
        assert list(w.world.server.panes) == [f"command-{direct.id}"]


async def test_owner_sees_and_does_what_the_operator_may_but_needs_a_terminal_for_the_rest() -> None:
    settings = "child_agents: {allow_args: true}\nlimits: {spawn_interval_s: 0}\ntelegram: {owner_ids: [1]}"
    async with door(settings) as w:
        assert w.services.users.caller("telegram:1") == OWNER
        operators = await w.spawn(OPERATOR)
        own = await w.spawn(OWNER)
        assert (own.created_by, own.paired_user) == ("telegram:1", None)
        assert await w.listed(OWNER) == {operators.id, own.id} == await w.listed(OPERATOR)
        assert await w.services.sessions.event_scope(OWNER, None, None, recursive=False) is None
        asked = await w.services.requests.ask(Caller(CallerKind.SESSION, operators.id), "So?", [], None, None)
        answered = await w.services.requests.answer(OWNER, asked.name, RequestReply(True, ("y",)), None)
        assert answered.answered_by == "telegram:1"
        for more in ({"extra_args": ("--x",)}, {"env": {"A": "b"}}):
            assert isinstance(await refusal(w.spawn(OWNER, **more)), NotPermitted)
        given = {"working_dir": str(w.world.work)}
        for call in (
            w.services.workspaces.create(OWNER, "shop", given, None),
            w.services.restorer.restore_all(OWNER, None),
            w.services.adoptions.adopt(OWNER, "%0", None, name=None, agent_type=None, trust=None),
            w.services.use_cases[LIST](OperationCall(OWNER, "", None, None)),
        ):
            assert isinstance(await refusal(call), NotPermitted)
        with pytest.raises(NotPermitted):
            w.services.authorizer.require(OWNER, STOP.audience)
        assert ("telegram:1", "stop_daemon", None, "refused") in w.audit()
        await w.kill(OWNER, operators.id)


async def test_stranger_and_revoked_user_can_do_nothing_and_stand_in_the_audit_log() -> None:
    async with door() as w:
        with pytest.raises(NotPermitted):
            w.services.users.caller(BOB)
        ada = await w.pair(ADA)
        session = await w.spawn(ada)
        revoked = await w.services.use_cases[REVOKE](OperationCall(OPERATOR, ADA, None, None))
        assert revoked.sessions == 1
        with pytest.raises(NotPermitted):
            w.services.users.caller(ADA)
        # A command that was identified before and arrives now changes nothing either.
        assert isinstance(await refusal(w.spawn(ada)), NotPermitted)
        assert isinstance(await refusal(w.kill(ada, session.id)), NotFound)
        now = w.sessions[session.id]
        assert (now.paired_user, is_live(now.status)) == (None, True)
        assert set(w.sessions) == {session.id}
        lines = w.audit()
        assert (BOB, "call", None, "refused") in lines
        assert (ADA, "call", None, "refused") in lines
        assert (ADA, "kill", session.id, "refused") in lines


async def test_session_that_moves_below_another_one_belongs_to_the_user_of_its_parent() -> None:
    async with door() as w:
        ada = await w.pair(ADA)
        own, operators = await w.spawn(ada), await w.spawn(OPERATOR)
        below = await w.spawn(OPERATOR, parent=operators.id)
        assert await w.listed(ada) == {own.id}
        await w.services.records.reparent(OPERATOR, operators.id, own.id, None)
        assert await w.listed(ada) == {own.id, operators.id, below.id}
        error = await refusal(w.services.records.reparent(ada, below.id, None, None))
        assert error.message == f"user {ADA} may not move a session to the operator"
