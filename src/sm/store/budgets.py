"""Budgets in the database. `Open.budgets` has a copy of all of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sm.core.budgets import DAILY, Amounts, Budget, BudgetState, Spent, above, binding, left_of
from sm.core.models import Session
from sm.core.replacement import replaced
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import later
from sm.policy.budgets import least_left, minutes_due_s
from sm.store.rows import BUDGETS, insertion

if TYPE_CHECKING:
    from sm.store.transaction import Transaction


class BudgetReads:
    """Reads budgets and what was spent, as committed or as of a transaction.

    `find` takes the id of a session. `unfinished`: the sessions that are live or whose process runs. `elapsed_s`: the
    seconds of a session's work that is under way.
    """

    def __init__(
        self,
        known: Callable[[], Mapping[str, Budget]],
        find: Callable[[str], Session | None],
        unfinished: Callable[[], Iterable[Session]],
        elapsed_s: Callable[[Session], float],
    ) -> None:
        self._known = known
        self._find = find
        self._unfinished = unfinished
        self._elapsed_s = elapsed_s

    def find(self, subject: str) -> Budget | None:
        return self._known().get(subject)

    def binding(self, session: Session) -> list[Budget]:
        """The budgets that bind the session, nearest first."""
        return binding(session, self._find, self._known())

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


class BudgetWrites(BudgetReads):
    """Changes and charges budgets in a transaction. `state.budgets` decides what follows from a charge."""

    def __init__(self, transaction: "Transaction") -> None:
        tx = transaction
        super().__init__(lambda: tx.mail.open.budgets, tx.find, tx.unfinished_sessions, tx.elapsed_s)
        self._tx = tx

    def put(self, budget: Budget) -> None:
        """Add the budget, or replace the one of its subject, and set its timer."""
        self._tx.write(*insertion(BUDGETS.name, BUDGETS.row(budget), verb="INSERT OR REPLACE"))
        self._keep([budget])
        self.set_timer(budget)

    def remove(self, subject: str) -> None:
        """Remove the budget of the subject, if there is one, with its timers."""
        known = self._known()
        if subject not in known:
            return
        self._tx.write("DELETE FROM budgets WHERE id = ?", (subject,))
        left = {other: budget for other, budget in known.items() if other != subject}
        self._tx.mail.open = replace(self._tx.mail.open, budgets=left)
        self._tx.timers.remove(subject, TimerKind.BUDGET, TimerKind.BUDGET_STOP)

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
            self._keep(charged)
        return charged

    def set_timer(self, budget: Budget) -> None:
        """Set the timer for the time when work uses up the minutes of the budget; without such a time, remove it."""
        if budget.limits.minutes is None and self._tx.timers.find(budget.id, TimerKind.BUDGET) is None:
            return
        wait_s = minutes_due_s(budget, self.spent_now(budget), len(self._at_work(budget)))
        if wait_s is None:
            self._tx.timers.remove(budget.id, TimerKind.BUDGET)
        else:
            due_s = wait_s + 0.001  # times have milliseconds: a timer that is too early would come again
            self._tx.timers.set(Timer(budget.id, TimerKind.BUDGET, later(self._tx.now, due_s), due_s))

    def follow(self, before: Session, after: Session) -> None:
        """Charge the work that a change of the session has ended, and set the timers that depend on it."""
        if not self._known():
            return
        if after.worked_s > before.worked_s:
            self.charge(self.binding(before), Spent(seconds=after.worked_s - before.worked_s))
        if after.working_since != before.working_since:
            for budget in self.binding(after):
                self.set_timer(budget)

    async def settle(self, session: Session) -> None:
        """Charge the work so far of the session and of those below it: their budgets are about to change."""
        if not self._known():
            return
        for member in self.members(session.id):
            if member.working_since is not None:
                worked_s = member.worked_s + self._elapsed_s(member)
                await self._tx.update(member, worked_s=worked_s, working_since=self._tx.now)

    def _keep(self, budgets: Iterable[Budget]) -> None:
        known = {**self._known(), **{budget.id: budget for budget in budgets}}
        self._tx.mail.open = replaced(self._tx.mail.open, budgets=known)
