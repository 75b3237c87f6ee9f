"""The looks at paused agents, on a real SQLite file: what they order, and what they tell."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sm.capabilities.accounts import tables as accounts_tables
from sm.capabilities.accounts.accounts import Accounts
from sm.capabilities.accounts.model import Account
from sm.capabilities.accounts.settings import QuotaSettings
from sm.capabilities.budgets.model import Amounts, Budget
from sm.capabilities.budgets.settings import BudgetSettings
from sm.capabilities.budgets.state.charges import Budgets
from sm.capabilities.budgets.tables import PART
from sm.capabilities.pauses.listeners import AgentSight, PauseTimers
from sm.capabilities.pauses.operations import ResumeRequest
from sm.capabilities.pauses.pausing import Pausing
from sm.capabilities.pauses.rules import FORCE_AFTER_S, PRESSES_MAX, QUIET_S, PauseTimer
from sm.capabilities.pauses.state import Pauses
from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.models import OPERATOR, Caller, Exit, Process, Session, is_pausing
from sm.core.pause_states import Held, PauseState, held_words
from sm.core.pauses import PAUSED, Pause, PauseOrder, pause_fact
from sm.core.states import CallerKind, EventType, NoticeKind
from sm.core.statuses import Status
from sm.core.timers import TimerKind
from sm.core.timestamps import later
from sm.core.usage import Usage
from sm.errors import IllegalState
from sm.kernel import OperationCall
from sm.messaging.holds import hold_reason
from sm.providers import make_providers
from sm.sessions.interrupt import Interrupts
from sm.sessions.kill import Kills
from sm.sessions.leftovers import Leftovers
from sm.store import Store
from sm.wire_types.budget import BudgetState
from tests.samples import AT, LAUNCH, session
from tests.sandboxes.terminal import without_cgroups
from tests.state_parts import StateParts, open_parts, with_pauses

PARENT = session("bbbb2222", status=Status.IDLE)
WORKER = replace(
    session("aaaa1111", status=Status.RUNNING),
    provider="claude",
    process=Process(7, "b/1"),
    parent_id=PARENT.id,
    conversation="c",
    token_hash="t",
)
ACCOUNT = Account("a", "claude", "/c", "d" * 32)
KEY = (WORKER.id, PauseTimer.PAUSE)


@dataclass
class Scene:
    """A session, a clock, and what a look at its agent finds."""

    store: Store
    parts: StateParts
    clock: list[str]
    works: bool | None = True
    agents: int = 3
    frozen: bool = False
    pauses: Pauses = field(init=False)
    timers: PauseTimers = field(init=False)

    def __post_init__(self) -> None:
        self.pauses = with_pauses(self.store, self.parts)
        self.timers = PauseTimers(self.store, self.pauses, make_providers(Config()), _Sight(self))

    def pause(self) -> Pause:
        pause = self.store.sessions[WORKER.id].paused
        assert pause is not None
        return pause

    def orders(self, kind: EffectKind) -> int:
        return sum(e.kind == kind for e in self.store.mail.open.effects.values())

    async def order(self) -> None:
        async with self.store.transaction() as tx:
            await self.pauses.pause(tx, tx.session(WORKER.id), PauseOrder("operator", "a test"))

    async def pass_time(self, seconds: float) -> None:
        """Run the looks that are due until then."""
        end = later(self.clock[0], seconds)
        while (timer := self.store.mail.open.timers.get(KEY)) is not None and timer.due_at <= end:
            self.clock[0] = max(timer.due_at, self.clock[0])
            await self.timers.look_again(timer)
        self.clock[0] = end

    async def use(self, at: str) -> None:
        async with self.store.transaction() as tx:
            usage = [Usage(f"m{at}", "claude-haiku-4-5", at, output=10)]
            await self.pauses.follow_usage(tx, tx.session(WORKER.id), usage)

    async def recorded(self, type: EventType) -> list[str]:
        """The texts of events about the session."""
        events = await self.store.events(sessions=[WORKER.id])
        return [e.message for e in events if e.type is type]

    async def told(self) -> list[str | None]:
        """The recipients of notices about the session."""
        notices = self.store.mail.open.notices.values()
        found = [n.recipient for n in notices if n.kind is NoticeKind.WARNING and n.session_id == WORKER.id]
        return sorted(found, key=str)


class _Sight(AgentSight):
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    async def is_frozen(self, session: Session) -> bool:
        return self.scene.frozen

    async def works(self, session_id: str) -> bool | None:
        return self.scene.works

    def background_agents(self, session_id: str) -> int:
        return self.scene.agents


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock = [AT]
    async with open_parts(tmp_path, lambda: clock[0]) as (store, parts):
        async with store.transaction() as tx:
            await tx.insert(PARENT, LAUNCH, None)
            await tx.insert(WORKER, LAUNCH, None)
        yield Scene(store, parts, clock)


async def test_agent_that_works_on_is_interrupted_then_forced_and_told_of_once(scene: Scene) -> None:
    await scene.order()
    await scene.pass_time(FORCE_AFTER_S - 0.1)
    assert scene.orders(EffectKind.INTERRUPT) == PRESSES_MAX
    assert scene.orders(EffectKind.SUSPEND) == 0
    assert scene.pause().spends == ("3 background agents",)
    await scene.pass_time(60)
    assert scene.orders(EffectKind.INTERRUPT) == PRESSES_MAX
    assert scene.orders(EffectKind.SUSPEND) == 1
    assert scene.pause().state is PauseState.PAUSING
    assert await scene.told() == [None, PARENT.id]
    warnings = [e for e in await scene.store.events(sessions=[WORKER.id]) if e.type is EventType.WARNING]
    assert ["3 background agents still spend" in event.message for event in warnings] == [True]


async def test_agent_that_stops_is_paused_after_its_quiet_time(scene: Scene) -> None:
    await scene.order()
    await scene.pass_time(1)
    scene.works = False
    await scene.pass_time(QUIET_S - 0.1)
    assert scene.pause().state is PauseState.PAUSING
    await scene.pass_time(1)
    assert (scene.pause().state, scene.pause().held) == (PauseState.PAUSED, Held.TOLD)
    assert KEY not in scene.store.mail.open.timers
    assert await scene.told() == []


async def test_usage_that_comes_after_all_is_told_and_stopped_anew(scene: Scene) -> None:
    await scene.order()
    scene.works = False
    await scene.pass_time(10)
    assert scene.pause().state is PauseState.PAUSED
    before = scene.orders(EffectKind.INTERRUPT)
    await scene.use(AT)  # from before the order, and read late
    assert scene.pause().state is PauseState.PAUSED
    await scene.use(scene.clock[0])
    assert scene.pause().state is PauseState.PAUSING
    assert scene.orders(EffectKind.INTERRUPT) == before + 1
    for _ in range(5):
        await scene.use(scene.clock[0])
    assert await scene.told() == [None, PARENT.id]
    await scene.pass_time(60)
    assert scene.pause().state is PauseState.PAUSED


async def test_missing_report_of_a_running_agent_is_no_evidence(scene: Scene) -> None:
    await scene.order()
    scene.works = None
    await scene.pass_time(60)
    assert scene.pause().state is PauseState.PAUSING


async def test_frozen_session_is_paused_at_once_and_looked_at_again(scene: Scene) -> None:
    await scene.order()
    scene.frozen = True
    await scene.pass_time(0.1)
    assert (scene.pause().state, scene.pause().held) == (PauseState.PAUSED, Held.FROZEN)
    scene.frozen = False
    await scene.pass_time(60)
    assert scene.pause().state is PauseState.PAUSING
    async with scene.store.transaction() as tx:
        frozen = replace(scene.pause(), held=Held.FROZEN)
        await scene.pauses.resume(tx, await tx.update(tx.session(WORKER.id), paused=frozen), "operator")
    assert scene.orders(EffectKind.CONTINUE) == 1
    assert (await scene.recorded(EventType.PAUSED))[1:] == [
        "Child aaaa1111: its pause froze its processes, because nothing else stopped its turn; "
        "sm resume lets them go on"
    ]
    assert (await scene.recorded(EventType.RESUMED)) == ["Child aaaa1111 resumed: its frozen processes go on"]


async def test_process_that_a_pause_has_ended_starts_again_only_after_it(scene: Scene) -> None:
    await scene.order()
    async with scene.store.transaction() as tx:
        assert await scene.pauses.end_process(tx, tx.session(WORKER.id)) is None
        await scene.parts.endings.process_ended(tx, tx.session(WORKER.id), Exit(143, None), ())
    ended = scene.store.sessions[WORKER.id]
    assert (ended.status, ended.process, ended.exit) == (Status.STARTING, None, None)
    assert ended.parent_id == PARENT.id and ended.restarts is not None and ended.restarts.times == ()
    known = scene.store.sessions
    assert hold_reason(ended, scene.store.mail.open, 0.0, known.get) == PAUSED  # not "is starting"
    await scene.pass_time(1)
    assert (scene.pause().state, scene.pause().held) == (PauseState.PAUSED, Held.ENDED)
    assert pause_fact(scene.pause()).endswith("its process was ended, and sm resume starts it again")
    assert (WORKER.id, TimerKind.RESTART) in scene.store.mail.open.timers
    assert await scene.told() == []
    assert (await scene.recorded(EventType.PAUSED))[1:] == [
        "Child aaaa1111: its pause ended its process, because nothing else stopped its turn; "
        "sm resume starts it again with its conversation"
    ]
    async with scene.store.transaction() as tx:
        await scene.pauses.resume(tx, tx.session(WORKER.id), "operator")
    assert await scene.recorded(EventType.RESUMED) == [
        "Child aaaa1111 resumed: it is started again with its conversation"
    ]


async def test_process_that_a_pause_ends_starts_again_when_resumed_before_its_end(scene: Scene) -> None:
    await scene.order()
    async with scene.store.transaction() as tx:
        await scene.pauses.end_process(tx, tx.session(WORKER.id))
    async with scene.store.transaction() as tx:
        await scene.pauses.resume(tx, tx.session(WORKER.id), "operator")
    async with scene.store.transaction() as tx:
        await scene.parts.endings.process_ended(tx, tx.session(WORKER.id), Exit(143, None), ())
    ended = scene.store.sessions[WORKER.id]
    assert (ended.status, ended.exit, ended.paused) == (Status.STARTING, None, None)
    assert await scene.recorded(EventType.RESUMED) == [
        "Child aaaa1111 resumed: it is started again with its conversation"
    ]
    assert "ended its process" in (await scene.recorded(EventType.PAUSED))[-1]
    assert (WORKER.id, TimerKind.RESTART) in scene.store.mail.open.timers


async def test_kill_beside_a_pause_that_ends_the_process_ends_the_session(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.sessions.kill.is_alive", lambda process: True)
    await scene.order()
    async with scene.store.transaction() as tx:
        await scene.pauses.end_process(tx, tx.session(WORKER.id))
    kills = Kills(
        scene.store,
        scene.parts.authorizer,
        lambda: None,
        Leftovers(scene.store, scene.parts.authorizer, without_cgroups()),
    )
    async with scene.store.transaction() as tx:
        await kills.order(tx, tx.session(WORKER.id), OPERATOR)
    assert scene.orders(EffectKind.KILL) == 2
    async with scene.store.transaction() as tx:
        await scene.parts.endings.process_ended(tx, tx.session(WORKER.id), Exit(143, None), ())
    ended = scene.store.sessions[WORKER.id]
    assert (ended.status, ended.exit) == (Status.KILLED, Exit(143, None))


@pytest.mark.parametrize("lacks", [{"conversation": None}, {"token_hash": None}])
async def test_process_that_could_not_go_on_is_not_ended(scene: Scene, lacks: dict[str, None]) -> None:
    await scene.order()
    async with scene.store.transaction() as tx:
        other = await tx.update(tx.session(WORKER.id), **lacks)
        assert await scene.pauses.end_process(tx, other) is not None
    assert scene.orders(EffectKind.KILL) == 0


async def test_agent_that_has_resumed_is_not_interrupted_again(scene: Scene) -> None:
    await scene.order()
    timer = scene.store.mail.open.timers[KEY]
    async with scene.store.transaction() as tx:
        await scene.pauses.resume(tx, tx.session(WORKER.id), "operator")
    await scene.timers.look_again(timer)
    assert scene.orders(EffectKind.INTERRUPT) == 1
    assert KEY not in scene.store.mail.open.timers


@pytest.mark.parametrize("held", [Held.FROZEN, Held.ENDED])
async def test_session_that_can_take_no_key_is_not_interrupted(scene: Scene, held: Held) -> None:
    await scene.order()
    async with scene.store.transaction() as tx:
        await scene.pauses.settle(tx, tx.session(WORKER.id), held)
    before = scene.orders(EffectKind.INTERRUPT)
    with pytest.raises(IllegalState, match=held_words(held)) as refusal:
        await Interrupts(scene.store, scene.parts.authorizer, scene.parts.providers).interrupt(
            OPERATOR, WORKER.id, None
        )
    assert refusal.value.hint == f"sm resume {WORKER.id}"
    assert scene.orders(EffectKind.INTERRUPT) == before


async def test_harder_pause_is_verified_anew_and_another_end_is_not(scene: Scene) -> None:
    async with scene.store.transaction() as tx:
        await scene.pauses.pause(tx, tx.session(WORKER.id), PauseOrder("o", "a", soft=True))
    scene.works = False
    await scene.pass_time(20)
    assert scene.pause().state is PauseState.PAUSED and scene.orders(EffectKind.INTERRUPT) == 0
    await scene.order()
    assert scene.pause().state is PauseState.PAUSING
    await scene.pass_time(20)
    settled = scene.pause().settled_at
    assert settled is not None
    await scene.order()
    assert (scene.pause().settled_at, scene.pause().state) == (settled, PauseState.PAUSED)


@pytest.mark.parametrize("works", [True, False])
async def test_pause_of_an_older_version_is_verified_when_the_daemon_starts(
    scene: Scene, works: bool
) -> None:
    async with scene.store.transaction() as tx:
        old = Pause(later(AT, -86_400), "operator", "before the update")
        await tx.update(tx.session(WORKER.id), paused=old)
    assert scene.pause().state is PauseState.PAUSING and KEY not in scene.store.mail.open.timers
    await scene.timers.begin()
    scene.works = works
    await scene.pass_time(1)
    assert scene.orders(EffectKind.INTERRUPT) == (1 if works else 0)
    assert scene.orders(EffectKind.SUSPEND) == 0  # the agent is told first, as at every other order
    scene.works = False
    await scene.pass_time(QUIET_S + 1)
    assert (scene.pause().state, scene.pause().held) == (PauseState.PAUSED, Held.TOLD)
    await scene.timers.begin()
    assert KEY not in scene.store.mail.open.timers


async def test_start_of_the_daemon_leaves_the_looks_that_are_due(scene: Scene) -> None:
    await scene.order()
    await scene.pass_time(3)
    due, pause = scene.store.mail.open.timers[KEY], scene.pause()
    await scene.timers.begin()
    assert (scene.store.mail.open.timers[KEY], scene.pause()) == (due, pause)


async def test_account_pauses_its_sessions_until_they_spend_nothing(scene: Scene) -> None:
    accounts = Accounts(scene.store, scene.parts.authorizer, QuotaSettings(stagger_s=0.0))
    async with scene.store.transaction() as tx:
        tx.part(accounts_tables.PART).put(ACCOUNT)
        await tx.update(tx.session(WORKER.id), account=ACCOUNT.name)
    await accounts.pause(OPERATOR, ACCOUNT.name, soft=True, wait_s=0)
    assert scene.store.sessions[WORKER.id].paused is None
    await accounts.pause(OPERATOR, ACCOUNT.name, soft=False, wait_s=0)
    await scene.pass_time(60)
    assert scene.orders(EffectKind.SUSPEND) == 1, "its background agents went on"
    (state,) = await accounts.states(OPERATOR)
    assert [s.id for s in state.paused if is_pausing(s)] == [WORKER.id]
    assert await scene.told() == [None, PARENT.id]
    scene.frozen = True
    await scene.pass_time(1)
    assert (scene.pause().state, scene.pause().reason) == (PauseState.PAUSED, "account a was paused")
    assert await accounts.resume(OPERATOR, ACCOUNT.name) == 2
    assert scene.store.sessions[WORKER.id].paused is None
    assert scene.orders(EffectKind.CONTINUE) == 1
    assert await accounts.resume(OPERATOR, ACCOUNT.name) == 0


async def test_end_of_an_accounts_pause_leaves_the_pauses_of_others(scene: Scene) -> None:
    accounts = Accounts(scene.store, scene.parts.authorizer, QuotaSettings(stagger_s=0.0))
    async with scene.store.transaction() as tx:
        tx.part(accounts_tables.PART).put(ACCOUNT)
        worker = await tx.update(tx.session(WORKER.id), account=ACCOUNT.name)
        await scene.pauses.pause(tx, worker, PauseOrder("operator", "mine", soft=True))
    await accounts.pause(OPERATOR, ACCOUNT.name, soft=False, wait_s=0)
    assert (scene.pause().soft, scene.pause().reason) == (False, "mine")
    await accounts.resume(OPERATOR, ACCOUNT.name)
    assert scene.pause().reason == "mine"


@pytest.mark.parametrize("end", ["its time", "its budget", "its parent"])
async def test_session_of_a_paused_account_stays_paused_when_its_own_pause_ends(
    scene: Scene, end: str
) -> None:
    accounts = Accounts(scene.store, scene.parts.authorizer, QuotaSettings(stagger_s=0.0))
    budget = Budget(WORKER.id, Amounts(usd=1), state=BudgetState.STOPPED)
    scene.frozen = True
    async with scene.store.transaction() as tx:
        tx.part(accounts_tables.PART).put(ACCOUNT)
        worker = await tx.update(tx.session(WORKER.id), account=ACCOUNT.name)
        until, by = (later(AT, 60), "operator") if end == "its time" else (None, PARENT.id)
        if end == "its budget":
            tx.part(PART).put(budget)
        spent = budget.id if end == "its budget" else None
        await scene.pauses.pause(tx, worker, PauseOrder(by, "its own", until, hold=spent))
    await accounts.pause(OPERATOR, ACCOUNT.name, soft=False, wait_s=0)
    await scene.pass_time(1)
    assert scene.pause().reason == "its own"
    if end == "its time":
        await scene.timers.resume_due(scene.store.mail.open.timers[WORKER.id, PauseTimer.RESUME])
    elif end == "its budget":
        async with scene.store.transaction() as tx:
            parts = scene.parts
            reads, providers = scene.store.part(PART), {"claude": parts.providers[worker.provider]}
            budgets = Budgets(BudgetSettings(), reads, parts.notices, providers)
            await budgets.end(tx, budget, "operator")
    else:
        parent = Caller(CallerKind.SESSION, PARENT.id)
        with pytest.raises(IllegalState, match="is paused with its account a, which only the operator can"):
            await Pausing(scene.store, scene.parts.authorizer).resume(
                OperationCall(parent, WORKER.id, ResumeRequest(), None)
            )
    pause = scene.pause()
    assert (pause.state, pause.reason, pause.by) == (PauseState.PAUSED, "account a was paused", "operator")
    assert (pause.until, pause.hold, scene.orders(EffectKind.CONTINUE)) == (None, None, 0)
    await accounts.resume(OPERATOR, ACCOUNT.name)
    assert scene.store.sessions[WORKER.id].paused is None


async def test_session_that_its_budget_keeps_paused_is_not_paused_with_its_account_any_more(
    scene: Scene,
) -> None:
    accounts = Accounts(scene.store, scene.parts.authorizer, QuotaSettings(stagger_s=0.0))
    async with scene.store.transaction() as tx:
        tx.part(accounts_tables.PART).put(ACCOUNT)
        await tx.update(tx.session(WORKER.id), account=ACCOUNT.name)
    await accounts.pause(OPERATOR, ACCOUNT.name, soft=False, wait_s=0)
    async with scene.store.transaction() as tx:
        tx.part(PART).put(Budget(WORKER.id, Amounts(usd=1), state=BudgetState.STOPPED))
    await accounts.resume(OPERATOR, ACCOUNT.name)
    assert (scene.pause().hold, scene.pause().account) == (WORKER.id, None)
    (state,) = await accounts.states(OPERATOR)
    assert state.paused == []
