"""A Messages API on loopback that answers what the prompt itself asks for: see `script`."""

from tests.scripted_api.conversation import Kind
from tests.scripted_api.script import Usage, tool, usage
from tests.scripted_api.server import Answer, Request, ScriptedApi

__all__ = ["Answer", "Kind", "Request", "ScriptedApi", "Usage", "tool", "usage"]
