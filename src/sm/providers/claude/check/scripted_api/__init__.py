"""A Messages API on loopback whose answers are scripted in the prompts: see `script`."""

from sm.providers.claude.check.scripted_api import conversation
from sm.providers.claude.check.scripted_api.conversation import Kind
from sm.providers.claude.check.scripted_api.message_stream import SentAnswer
from sm.providers.claude.check.scripted_api.script import TokenUsage, tool, usage
from sm.providers.claude.check.scripted_api.server import ModelRequest, ScriptedApi

__all__ = ["Kind", "ModelRequest", "ScriptedApi", "SentAnswer", "TokenUsage", "conversation", "tool", "usage"]
