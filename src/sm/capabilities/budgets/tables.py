"""Budgets in the database, with a copy of all of them in memory."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple

from sm.capabilities.budgets.model import (
    DAILY,
    Amounts,
    Budget,
    BudgetTimer,
    Spent,
    above,
    binding,
    left_of,
)
from sm.capabilities.budgets.rules import as_much_again, least_left, minutes_due_s
from sm.capabilities.budgets.text.sentences import budget_reason
from sm.core.dataclass import dataclass
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.replacement import replaced
from sm.core.requests import Request
from sm.core.states import RequestKind
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.errors import IllegalState
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import APPROVE
from sm.store import Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import Find, PartWrites, TablePart, WorkHold
from sm.store.rows import RowTable, decode_json, encoded_mapping, insertion
from sm.wire_types.budget import BudgetState

_SCHEMA = Schema(
    "budgets",
    (
        """CREATE TABLE budgets (
            id TEXT PRIMARY KEY,
            limit_usd REAL,
            limit_tokens INTEGER,
            limit_minutes REAL,
            soft_percent INTEGER NOT NULL,
            step_usd REAL,
            step_tokens INTEGER,
            step_minutes REAL,
            spent_usd REAL NOT NULL,
            spent_tokens INTEGER NOT NULL,
            spent_s REAL NOT NULL,
            unpriced_tokens INTEGER NOT NULL,
            state TEXT NOT NULL,
            state_at TEXT NOT NULL,
            request INTEGER,
            reports TEXT NOT NULL,
            day TEXT
        ) WITHOUT ROWID""",
    ),
)
BUDGETS = RowTable(
    "budgets",
    Budget,
    split={
        "limits": ("limit_usd", "limit_tokens", "limit_minutes"),
        "steps": ("step_usd", "step_tokens", "step_minutes"),
        "spent": ("spent_usd", "spent_tokens", "spent_s", "unpriced_tokens"),
    },
    encode={"limits": astuple, "steps": astuple, "spent": astuple, "reports": encoded_mapping},
    decode={
        "limits": Amounts,
        "steps": Amounts,
        "spent": Spent,
        "state": BudgetState,
        "reports": lambda text: {k: v for k, v in decode_json(text).items() if isinstance(v, int)},
    },
)


@dataclass(slots=True, eq=False)
class BudgetReads:
    """Reads budgets and what was spent, as committed or as of a transaction.

    `find` takes the id of a session. `unfinished`: the sessions that are live or whose process runs. `elapsed_s`: the
    seconds of a session's work that is under way.
    """

    _known: Callable[[], Mapping[str, Budget]]
    _find: Callable[[str], Session | None]
    _unfinished: Callable[[], Iterable[Session]]
    _elapsed_s: Callable[[Session], float]

    def find(self, subject: str) -> Budget | None:
        return self._known().get(subject)

    def subjects(self) -> Collection[str]:
        """The ids of what has a budget: of sessions, and `DAILY`."""
        return self._known().keys()

    def binding(self, session: Session) -> list[Budget]:
        """The budgets that bind the session, nearest first."""
        return binding(session, self._find, self._known())

    def binding_id(self, session_id: str) -> list[Budget]:
        """As `binding`, for the id of a session; a removed one has none."""
        session = self._find(session_id)
        return [] if session is None else self.binding(session)

    def members(self, subject: str) -> list[Session]:
        """The sessions that the budget binds, live ones and those whose process runs, in no fixed order."""
        unfinished = self._unfinished()
        if subject == DAILY:
            return list(unfinished)
        return [s for s in unfinished if any(a.id == subject for a in above(s, self._find))]

    def spent_now(self, budget: Budget) -> Spent:
        """The spent amounts, with the work that is under way."""
        if budget.limits.minutes is None:
            return budget.spent
        return budget.spent + Spent(seconds=sum(map(self._elapsed_s, self._at_work(budget))))

    def left_above(self, session: Session) -> Amounts:
        """The least that the budgets above the session and that of the day have left."""
        return least_left(
            left_of(budget, self.spent_now(budget))
            for budget in self.binding(session)
            if budget.id != session.id and budget.state is not BudgetState.TOLD
        )

    def _at_work(self, budget: Budget) -> list[Session]:
        if budget.limits.minutes is None:
            return []
        return [s for s in self.members(budget.id) if s.working_since is not None]


class BudgetWrites(BudgetReads, PartWrites):
    """Changes and charges budgets in a transaction. `state.charges` decides what follows from a charge."""

    _tx: Transaction

    def __init__(self, part: "BudgetTable", transaction: Transaction) -> None:
        tx = transaction
        PartWrites.__init__(self, part, tx)
        BudgetReads.__init__(self, lambda: self.rows, tx.find, tx.unfinished_sessions, tx.elapsed_s)

    def put(self, budget: Budget) -> None:
        """Add the budget, or replace the one of its subject, and set its timer."""
        self._tx.write(*insertion(BUDGETS.name, BUDGETS.row(budget), verb="INSERT OR REPLACE"))
        self._put([budget])
        self.set_timer(budget)

    def remove(self, subject: str) -> None:
        """Remove the budget of the subject, if there is one, with its timers."""
        known = self._known()
        if subject not in known:
            return
        self._tx.write("DELETE FROM budgets WHERE id = ?", (subject,))
        left = {other: budget for other, budget in known.items() if other != subject}
        self.keep(left)
        self._tx.timers.remove(subject, BudgetTimer.MINUTES, BudgetTimer.STOP)

    def charge(self, bound: Iterable[Budget], spent: Spent) -> list[Budget]:
        """Add the amounts to these budgets, which bind the session that has spent them; return them as they are now."""
        charged = [replaced(budget, spent=budget.spent + spent) for budget in bound]
        if charged:
            # One statement for all of them: it makes the same sums.
            marks = ", ".join("?" * len(charged))
            self._tx.write(
                "UPDATE budgets SET spent_usd = spent_usd + ?, spent_tokens = spent_tokens + ?, spent_s = spent_s + ?,"  # noqa: S608 - constant text
                f" unpriced_tokens = unpriced_tokens + ? WHERE id IN ({marks})",
                (spent.usd, spent.tokens, spent.seconds, spent.unpriced, *[budget.id for budget in charged]),
            )
            self._put(charged)
        return charged

    def set_timer(self, budget: Budget) -> None:
        """Set the timer for the time when work uses up the minutes of the budget; without such a time, remove it."""
        if budget.limits.minutes is None and self._tx.timers.find(budget.id, BudgetTimer.MINUTES) is None:
            return
        wait_s = minutes_due_s(budget, self.spent_now(budget), len(self._at_work(budget)))
        if wait_s is None:
            self._tx.timers.remove(budget.id, BudgetTimer.MINUTES)
        else:
            due_s = wait_s + 0.001  # times have milliseconds: a timer that is too early would come again
            self._tx.timers.set(Timer(budget.id, BudgetTimer.MINUTES, later(self._tx.now, due_s), due_s))

    def follow(self, before: Session, after: Session) -> None:
        """Charge the work that a change of the session has ended, and set the timers that depend on it."""
        if not self._known():
            return
        if after.worked_s > before.worked_s:
            self.charge(self.binding(before), Spent(seconds=after.worked_s - before.worked_s))
        if after.working_since != before.working_since:
            for budget in self.binding(after):
                self.set_timer(budget)

    async def before_move(self, session: Session) -> None:
        """Charge the work so far of the session and of those below it: their budgets are about to change."""
        if not self._known():
            return
        for member in self.members(session.id):
            if member.working_since is not None:
                worked_s = member.worked_s + self._elapsed_s(member)
                await self._tx.update(member, worked_s=worked_s, working_since=self._tx.now)

    def _put(self, budgets: Iterable[Budget]) -> None:
        self.keep({**self._known(), **{budget.id: budget for budget in budgets}})

    def after_move(self, before: Session, after: Session) -> None:
        for budget in (*self.binding(before), *self.binding(after)):
            self.set_timer(budget)

    def forget(self, session_id: str) -> None:
        self.remove(session_id)

    def binds(self, session: Session) -> bool:
        return any(budget.id != DAILY for budget in self.binding(session))

    def check_removal(self, session: Session) -> None:
        bound = [s for s in self.members(session.id) if s.id != session.id]
        if bound and self.find(session.id) is not None:
            raise IllegalState(
                f"session {short_label(session)} has a budget that binds live sessions, such as "
                f"{short_label(bound[0])}: it cannot be removed",
                f"end its budget first: sm budget {name_to_type(session)} --set none",
            )

    def needless_requests(self, session: Session) -> list[Request]:
        """The open requests for more of a budget that binds no live session without this one."""
        found = []
        for budget in self.binding(session):
            request = self.open_request(budget)
            others = (s for s in self.members(budget.id) if s.id != session.id and is_live(s.status))
            if request is not None and budget.id != DAILY and next(others, None) is None:
                found.append(request)
        return found

    def open_request(self, budget: Budget) -> Request | None:
        """The open request for more of the budget."""
        request = self._tx.mail.open.requests.get(budget.request or 0)
        return request if request is not None and request.open else None

    def start_refusal(self, hold: WorkHold) -> IllegalState:
        request = self._request_of(hold)
        return IllegalState(
            f"{hold.reason}: no agent can start",
            self._raise_hint(hold) if request is None else Hint(Use(APPROVE, request.name)),
        )

    def resume_refusal(self, session: Session, hold: WorkHold) -> IllegalState:
        request = self._request_of(hold)
        return IllegalState(
            f"session {short_label(session)} is paused because a budget is spent: raise the budget to let it go on",
            self._raise_hint(hold) if request is None else Hint(Use(APPROVE, request.name)),
        )

    def _request_of(self, hold: WorkHold) -> Request | None:
        return self.open_request(self._known()[hold.subject])

    def _raise_hint(self, hold: WorkHold) -> str:
        """Name the command that adds as much to the budget as it had."""
        budget = self._known()[hold.subject]
        owner, more = self._find(budget.id), as_much_again(budget, self.spent_now(budget))
        return f"sm budget {DAILY if owner is None else name_to_type(owner)} --add {more}"


class BudgetTable(TablePart[BudgetReads, BudgetWrites]):
    """The table of budgets, by the id of the session or `model.DAILY`."""

    schema = _SCHEMA
    by_session = True
    outliving = frozenset({RequestKind.BUDGET})

    async def load(self, read: Read) -> Mapping[str, Budget]:
        budgets = map(BUDGETS.load, await read(f"{BUDGETS.select} ORDER BY id", ()))
        return {budget.id: budget for budget in budgets}

    def reads(self, store: Store) -> BudgetReads:
        return BudgetReads(
            lambda: self.rows_of(store.mail.open),
            store.sessions.get,
            lambda: store.index.unfinished.values(),
            store.elapsed_s,
        )

    def writes(self, transaction: Transaction) -> BudgetWrites:
        return BudgetWrites(self, transaction)

    def hold(self, session: Session, find: Find, rows: Mapping[str, Budget]) -> WorkHold | None:
        """Hold a session below a spent budget. The order to report what it has passes."""
        if not any(budget.stops for budget in rows.values()):
            return None
        bound = binding(session, find, rows)
        budget = next((b for b in bound if b.stops), None)
        if budget is None:
            return None
        return WorkHold(
            budget.id,
            budget_reason(budget, find(budget.id)),
            budget.reports.get(session.id),
            keeps_paused=any(b.state is BudgetState.STOPPED for b in bound),
        )


PART = BudgetTable()
