"""Every route of the API, by the module that holds it."""

from sm.api.operation_routes import capability_routes
from sm.api.route import Route
from sm.api.routes import (
    accounts,
    agents,
    archives,
    daemon,
    digest,
    events,
    hooks,
    live,
    mcp,
    messages,
    pairings,
    requests,
    sandbox,
    screens,
    sessions,
    telegram,
    usage,
    workspaces,
)

_of_capabilities = capability_routes()
ROUTES: dict[str, list[Route]] = {
    "daemon": daemon.routes,
    "sessions": sessions.routes,
    "live": [*live.routes, *screens.routes, *usage.routes],
    "digest": digest.routes,
    "agents": agents.routes,
    "accounts": accounts.routes,
    "pairings": pairings.routes,
    "telegram": telegram.routes,
    "messages": messages.routes,
    "requests": requests.routes,
    "events": events.routes,
    "search": [*archives.routes, *_of_capabilities.pop("search", ())],
    "hooks": hooks.routes,
    "mcp": mcp.routes,
    "workspaces": workspaces.routes,
    "sandboxes": sandbox.routes,
    **_of_capabilities,
}

__all__ = ["ROUTES"]
