"""A Messages API on loopback whose answers are scripted in the prompts: see `script`."""

from tests.scripted_api.conversation import Kind
from tests.scripted_api.script import Usage, tool, usage
from tests.scripted_api.server import Answer, Request, ScriptedApi

__all__ = ["Answer", "Kind", "Request", "ScriptedApi", "Usage", "tool", "usage"]
