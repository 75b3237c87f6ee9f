"""Resources: the team, its sessions, agent types and requests, as JSON to read by an address.

A client spends tokens on tools of its own to read resources, so they are announced only with `mcp.resources`.
"""

import re
from urllib.parse import unquote

from sm.core.dataclass import dataclass
from sm.errors import NotFound
from sm.mcp.results import words
from sm.mcp.tool import Handler, Result, ToolCall
from sm.mcp.tools.agent_tools import list_agent_types
from sm.mcp.tools.progress_tools import get_progress
from sm.mcp.tools.request_tools import list_requests
from sm.mcp.tools.session_tools import list_workspace_sessions, session_of
from sm.services import Authorizer, Reads, Sessions

MIME_TYPE = "application/json"
_CHECKPOINTS = 50
_URI_MAX = 2_000


async def _session(call: ToolCall, *, sessions: Sessions, authorizer: Authorizer) -> Result:
    return session_of(call, sessions, authorizer.find(call.caller, call.values["session_id"]))


async def _checkpoints(call: ToolCall, *, store: Reads, authorizer: Authorizer) -> Result:
    session = authorizer.find(call.caller, call.values["session_id"])
    points = await store.checkpoints(session.id, _CHECKPOINTS)
    return {"checkpoints": [{"timestamp": p.timestamp, "message": words(p.message, session)} for p in points]}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, or with `{id}` in its address a template of resources."""

    uri: str
    name: str
    description: str
    handler: Handler

    def listed(self) -> dict[str, str]:
        """The entry in the list of resources, or of templates."""
        kind = "uriTemplate" if self.is_template else "uri"
        return {
            kind: self.uri,
            "name": self.name,
            "description": self.description,
            "mimeType": MIME_TYPE,
        }

    @property
    def is_template(self) -> bool:
        return "{id}" in self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the template in `uri`; None if `uri` names another resource."""
        pattern = re.escape(self.uri).replace(r"\{id\}", "(?P<session_id>[^/]+)")
        found = re.fullmatch(pattern, uri)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


RESOURCES = (
    Resource("sm://sessions", "sessions", "The live sessions of the team.", list_workspace_sessions),
    Resource("sm://sessions/{id}", "session", "A session.", _session),
    Resource("sm://sessions/{id}/progress", "progress", "The progress of a session.", get_progress),
    Resource("sm://sessions/{id}/checkpoints", "checkpoints", "The milestones of a session.", _checkpoints),
    Resource("sm://agents", "agents", "The agent types to start.", list_agent_types),
    Resource("sm://requests", "requests", "The open requests to the caller.", list_requests),
)


def find(uri: str) -> tuple[Resource, dict[str, str]]:
    """The resource at `uri`, and the values in the address. Raises NotFound."""
    if len(uri) <= _URI_MAX:
        for resource in RESOURCES:
            values = resource.match(uri)
            if values is not None:
                return resource, values
    raise NotFound(
        f"no such resource: {uri[:80]}", f"the resources are: {', '.join(r.uri for r in RESOURCES)}"
    )
