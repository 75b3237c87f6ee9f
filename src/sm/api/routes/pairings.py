"""The routes of pairings: list, approve, deny and revoke users of chat networks. Only for the operator."""

from typing import Annotated

from sm.api.body import Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.fields import doc
from sm.api.route import RouteTable
from sm.api.views import build_view
from sm.core.models import RequestKey
from sm.core.pairing import Pairing, PairRequest
from sm.wire_types.pairings import PairingView, PairOverviewView, PairRequestView, RevokedUserView

routes = RouteTable()


class ApproveUserBody(Body):
    trust: Annotated[str | None, doc("`sandboxed` or `direct`; null: sandboxed.")] = None
    workspace: Annotated[
        str | None,
        doc("The user sees and controls the sessions of this workspace; null: the user's own sessions."),
    ] = None


@routes.route("GET", "/v1/pairings", agents=False)
async def pairings(request: ApiRequest) -> PairOverviewView:
    """List the paired users of chat networks and the open requests."""
    overview = request.services.pairings.overview(request.caller)
    return PairOverviewView(
        requests=[_request_view(open) for open in overview.requests],
        users=[_pairing_view(pairing) for pairing in overview.pairings],
    )


@routes.route("POST", "/v1/pairings/{request_id}/approve", agents=False)
async def approve_user(request: ApiRequest, body: ApproveUserBody, key: RequestKey | None) -> PairingView:
    """Pair the user of a request."""
    pairing = await request.services.pairings.approve(
        request.caller, request.name, body.trust, body.workspace, key
    )
    return _pairing_view(pairing)


@routes.route("POST", "/v1/pairings/{request_id}/deny", agents=False)
async def deny_user(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> PairRequestView:
    """Deny a request for pairing."""
    return _request_view(await request.services.pairings.deny(request.caller, request.name, key))


@routes.route("POST", "/v1/pairings/{user}/revoke", agents=False)
async def revoke_user(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> RevokedUserView:
    """End the pairing of a user. The user's sessions go on and belong to the operator."""
    return await request.services.pairings.revoke(request.caller, request.name, key)


def _request_view(request: PairRequest) -> PairRequestView:
    return build_view(PairRequestView, request, request_id=request.name)


def _pairing_view(pairing: Pairing) -> PairingView:
    return build_view(PairingView, pairing, trust_level=pairing.level.value)
