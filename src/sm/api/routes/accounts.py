"""The routes of accounts: list, pause and resume them. Only for the operator."""

from sm.api.answers.accounts import AccountView, ResumedView
from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.route import RouteTable
from sm.core.timestamps import iso
from sm.sessions.accounts import AccountState

routes = RouteTable()


class AccountBody(Body):
    pass


@routes.route("GET", "/v1/accounts", agents=False)
async def accounts(request: ApiRequest) -> list[AccountView]:
    """List the accounts that turns of agents are charged to."""
    return [account_view(state) for state in await request.services.accounts.states(request.caller)]


@routes.route("POST", "/v1/accounts/{name}/pause", agents=False)
async def pause_account(request: ApiRequest, body: AccountBody) -> list[AccountView]:
    """Park an account: its sessions start no turn until it is resumed."""
    await request.services.accounts.pause(request.caller, request.name)
    states = await request.services.accounts.states(request.caller)
    return [account_view(state) for state in states]


@routes.route("POST", "/v1/accounts/{name}/resume", agents=False)
async def resume_account(request: ApiRequest, body: AccountBody) -> ResumedView:
    """End the parks of an account: its sessions go on, one after the other."""
    return {"resumed": await request.services.accounts.resume(request.caller, request.name) > 0}


def account_view(state: AccountState) -> AccountView:
    account = state.account
    return {
        "name": account.name,
        "provider": account.provider,
        "directory": account.directory,
        "sessions": state.sessions,
        "waiting": state.waiting,
        "parks": [
            {
                "kind": park.kind.value,
                "reason": park.reason,
                "since": iso(park.since),
                "until": None if park.until is None else iso(park.until),
                "model": park.model or None,
            }
            for park in state.parks
        ],
        "last_success_at": account.last_success_at,
    }
