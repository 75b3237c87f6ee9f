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
    telegram,
    workspaces,
)

_KERNEL: dict[str, list[Route]] = {
    "daemon": daemon.routes,
    "sessions": sessions.routes,
    "live": [*live.routes, *screens.routes],
    "agents": agents.routes,
    "telegram": telegram.routes,
    "messages": messages.routes,
    "requests": requests.routes,
    "events": events.routes,
    "hooks": hooks.routes,
    "mcp": mcp.routes,
    "workspaces": workspaces.routes,
    "sandboxes": sandbox.routes,
}
_ADDED = capability_routes()
ROUTES = {tag: [*_KERNEL.get(tag, ()), *_ADDED.get(tag, ())] for tag in (*_KERNEL, *_ADDED)}

__all__ = ["ROUTES"]
