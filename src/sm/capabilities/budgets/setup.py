"""Builds budgets, and registers their parts at the kernel."""

from sm.capabilities.budgets import operations
from sm.capabilities.budgets.budgeting import Budgeting
from sm.capabilities.budgets.listeners import BudgetField, BudgetTimers, SpawnBudgets
from sm.capabilities.budgets.model import BudgetTimer
from sm.capabilities.budgets.settings import BudgetSettings
from sm.capabilities.budgets.state.charges import Budgets
from sm.capabilities.budgets.tables import PART
from sm.core.states import RequestKind
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    settings = kernel.config.section(BudgetSettings)
    store = kernel.store
    budgets = Budgets(settings, store.part(PART), kernel.notices, kernel.providers)
    budgeting = Budgeting(settings, store, kernel.authorizer, kernel.providers, budgets)
    timers = BudgetTimers(settings, store, budgets)
    store.followers.append(budgets)
    kernel.usage.followers.append(budgets)
    kernel.requests.answerers[RequestKind.BUDGET] = budgeting.answer
    kernel.spawn_parts.append(SpawnBudgets(settings, store.part(PART)))
    kernel.fields.append(BudgetField(budgeting))
    kernel.timers[BudgetTimer.MINUTES] = timers.minutes_due
    kernel.timers[BudgetTimer.STOP] = timers.grace_over
    kernel.timers[BudgetTimer.DAY] = timers.day_over
    kernel.use_cases[operations.SHOW] = budgeting.show
    kernel.use_cases[operations.CHANGE] = budgeting.change
    kernel.use_cases[operations.SHOW_DAY] = budgeting.show_day
    kernel.use_cases[operations.CHANGE_DAY] = budgeting.change_day
    kernel.at_start.append(timers.begin)
    kernel.on_config.append(timers.follow_settings)
