"""Every route of the API, by the module that holds it."""

from sm.api.operation_routes import capability_routes
from sm.api.route import Route
from sm.api.routes import (
    agents,
    daemon,
    events,
    hooks,
    live,
    mcp,
    messages,
    requests,
    sandbox,
    screens,
    sessions,
    spawn_choices,
    telegram,
    workspaces,
)

_OF_KERNEL: dict[str, list[Route]] = {
    "daemon": daemon.routes,
    "sessions": sessions.routes,
    "live": [*live.routes, *screens.routes],
    "agents": [*agents.routes, *spawn_choices.routes],
    "telegram": telegram.routes,
    "messages": messages.routes,
    "requests": requests.routes,
    "events": events.routes,
    "hooks": hooks.routes,
    "mcp": mcp.routes,
    "workspaces": workspaces.routes,
    "sandboxes": sandbox.routes,
}
_OF_CAPABILITIES = capability_routes()
ROUTES: dict[str, list[Route]] = {
    tag: [*_OF_KERNEL.get(tag, ()), *_OF_CAPABILITIES.get(tag, ())] for tag in (_OF_KERNEL | _OF_CAPABILITIES)
}
"""By the tag of docs/openapi.json."""

__all__ = ["ROUTES"]
