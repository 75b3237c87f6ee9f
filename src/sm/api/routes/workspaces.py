"""The routes of workspaces (docs/protocol.md)."""

from typing import Any

from aiohttp import web

from sm.api.body import read_body, read_key
from sm.api.context import CALLER, Daemon, json_answer
from sm.api.views import workspace_json
from sm.core.lifecycle import is_live
from sm.core.models import Workspace

_SETTINGS = ("working_dir", "trust", "capabilities", "strict_mcps", "sandbox")
_NO_SANDBOX = "sandbox settings are kept, and have no effect: there is no sandbox in this version"


class WorkspaceRoutes:
    def __init__(self, daemon: Daemon) -> None:
        self._d = daemon

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/workspaces", self.list),
            web.post("/v1/workspaces", self.create),
            web.get("/v1/workspaces/{slug}", self.show),
            web.post("/v1/workspaces/{slug}", self.set),
            web.post("/v1/workspaces/{slug}/delete", self.delete),
        ]

    async def list(self, request: web.Request) -> web.Response:
        found = self._d.workspaces.listed(request[CALLER], deleted="deleted" in request.query)
        return json_answer([self._view(request, workspace) for workspace in found])

    async def show(self, request: web.Request) -> web.Response:
        return json_answer(
            self._view(request, self._d.workspaces.find(request[CALLER], request.match_info["slug"]))
        )

    async def create(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        made, warnings = await self._d.workspaces.create(
            request[CALLER], body.text("slug") or "", _given(body.value), read_key(request, body)
        )
        return await self._changed(request, made, warnings, body.value)

    async def set(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        changed = await self._d.workspaces.change(
            request[CALLER], request.match_info["slug"], _given(body.value), read_key(request, body)
        )
        return await self._changed(request, changed, (), body.value)

    async def delete(self, request: web.Request) -> web.Response:
        key = read_key(request, await read_body(request))
        slug = request.match_info["slug"]
        return json_answer(self._view(request, await self._d.workspaces.delete(request[CALLER], slug, key)))

    async def _changed(
        self, request: web.Request, workspace: Workspace, warnings: tuple[str, ...], body: Any
    ) -> web.Response:
        given = body.get("capabilities")
        if isinstance(given, dict) and "agents" in given:
            warnings = (*warnings, *await self._d.workspaces.unmatched(request[CALLER], workspace))
        if body.get("sandbox"):
            warnings = (*warnings, _NO_SANDBOX)
        return json_answer({**self._view(request, workspace), "warnings": list(warnings)})

    def _view(self, request: web.Request, workspace: Workspace) -> dict[str, Any]:
        sessions = self._d.workspaces.sessions(request[CALLER], workspace.slug)
        return workspace_json(workspace, len(sessions), sum(is_live(s.status) for s in sessions))


def _given(body: Any) -> dict[str, Any]:
    return {name: body[name] for name in _SETTINGS if name in body}
