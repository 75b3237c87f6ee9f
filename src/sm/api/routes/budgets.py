"""The routes of budgets."""

from typing import Annotated

from sm.api.answers.budgets import BudgetAboveView, BudgetReportView
from sm.api.body import Body
from sm.api.budget_views import amounts_json, budget_json
from sm.api.context import ApiRequest
from sm.api.fields import doc
from sm.api.route import RouteTable
from sm.api.views import Views
from sm.core.budgets import DAILY
from sm.core.labels import label
from sm.core.models import RequestKey
from sm.sessions.budgets import BudgetChange, BudgetReport, BudgetStatus

routes = RouteTable()


class BudgetBody(Body):
    """Exactly one of both."""

    set: Annotated[
        str | None,
        doc("Limits such as `usd=5,tokens=none`: other units stay as they are; `none` ends the budget."),
    ] = None
    add: Annotated[str | None, doc("Amounts to add to the limits, such as `usd=2`.")] = None


@routes.route("GET", "/v1/sessions/{ref}/budget", agents=True)
async def budget(request: ApiRequest) -> BudgetReportView:
    """Show the budget of a session, and the rest of those above it."""
    return report_json(request.views, await request.services.budgets.report(request.caller, request.name))


@routes.route("POST", "/v1/sessions/{ref}/budget", agents=True)
async def change(request: ApiRequest, body: BudgetBody, key: RequestKey | None) -> BudgetReportView:
    """Set, raise, lower or end the budget of a session. A session may only lower its own."""
    wanted = BudgetChange(body.set, body.add)
    done = await request.services.budgets.change(request.caller, request.name, wanted, key)
    return report_json(request.views, done)


@routes.route("GET", "/v1/budget", agents=False)
async def budget_of_day(request: ApiRequest) -> BudgetReportView:
    """Show the daily budget of the instance."""
    return report_json(request.views, await request.services.budgets.report_of_day(request.caller))


@routes.route("POST", "/v1/budget", agents=False)
async def change_of_day(request: ApiRequest, body: BudgetBody, key: RequestKey | None) -> BudgetReportView:
    """Change the daily budget of the instance until the end of the day."""
    wanted = BudgetChange(body.set, body.add)
    done = await request.services.budgets.change_of_day(request.caller, wanted, key)
    return report_json(request.views, done)


# Shapes


def report_json(views: Views, report: BudgetReport) -> BudgetReportView:
    return {
        "session_id": None if report.session is None else report.session.id,
        "label": "the day" if report.session is None else label(report.session),
        "budget": None if report.own is None else budget_json(report.own),
        "above": [_above(views, status) for status in report.above],
        "warnings": list(report.warnings),
    }


def _above(views: Views, status: BudgetStatus) -> BudgetAboveView:
    subject = status.budget.id
    session = views.services.store.sessions.get(subject)
    sessions, principal = views.services.sessions, views.services.sessions.principal(views.caller)
    hidden = session is not None and sessions.is_hidden(principal, subject)
    shown = (
        "the day" if subject == DAILY or session is None else "a session above" if hidden else label(session)
    )
    return {
        "session_id": None if subject == DAILY or hidden else subject,
        "label": shown,
        "left": amounts_json(status.left),
        "state": status.budget.state,
    }
