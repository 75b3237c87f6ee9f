"""The routes of accounts: list, pause and resume them. Only for the operator."""

from typing import Annotated

from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import doc
from sm.api.route import RouteTable
from sm.core.labels import label
from sm.core.pause_states import PauseState, spending_words
from sm.core.timestamps import iso
from sm.sessions.accounts import AccountState
from sm.sessions.pause import WAIT_MAX_S, WAIT_S
from sm.wire_types.accounts import AccountView, ParkView, ResumedView

routes = RouteTable()


class AccountBody(Body):
    pass


class PauseAccountBody(Body):
    soft: Annotated[bool | None, doc("Pause no session: what is under way goes on.")] = None
    wait_s: Annotated[
        float | None, doc("How long to wait until nothing spends any more, at most 3600; null: 10.")
    ] = None


@routes.route("GET", "/v1/accounts", agents=False)
async def accounts(request: ApiRequest) -> list[AccountView]:
    """List the accounts that turns of agents are charged to."""
    return [account_view(state) for state in await request.services.accounts.states(request.caller)]


@routes.route("POST", "/v1/accounts/{name}/pause", agents=False)
async def pause_account(request: ApiRequest, body: PauseAccountBody) -> list[AccountView]:
    """Park an account, and pause its live sessions: they spend nothing until it is resumed."""
    wait_s = WAIT_S if body.wait_s is None else min(body.wait_s, WAIT_MAX_S)
    await request.services.accounts.pause(request.caller, request.name, soft=bool(body.soft), wait_s=wait_s)
    states = await request.services.accounts.states(request.caller)
    return [account_view(state) for state in states]


@routes.route("POST", "/v1/accounts/{name}/resume", agents=False)
async def resume_account(request: ApiRequest, body: AccountBody) -> ResumedView:
    """End the parks of an account: its sessions go on, one after the other."""
    return ResumedView(await request.services.accounts.resume(request.caller, request.name) > 0)


def account_view(state: AccountState) -> AccountView:
    account = state.account
    return AccountView(
        name=account.name,
        provider=account.provider,
        directory=account.directory,
        sessions=state.sessions,
        waiting=state.waiting,
        paused=len(state.paused),
        spends=[
            f"{label(session)}: {spending_words(session.paused.spends)}"
            for session in state.paused
            if session.paused is not None and session.paused.state is PauseState.PAUSING
        ],
        parks=[
            ParkView(
                kind=park.kind.value,
                reason=park.reason,
                since=iso(park.since),
                until=None if park.until is None else iso(park.until),
                model=park.model or None,
            )
            for park in state.parks
        ],
        last_success_at=account.last_success_at,
    )
