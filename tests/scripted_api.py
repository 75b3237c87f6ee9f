"""The scripted API of `sm check claude`, whose waits have names in tests."""

from sm.providers.claude.check.scripted_api import (
    Kind,
    ScriptedApi,
    conversation,
    tool,
    usage,
)
from sm.providers.claude.check.scripted_api import ModelRequest as Request
from sm.providers.claude.check.scripted_api import SentAnswer as Answer
from sm.providers.claude.check.scripted_api import TokenUsage as Usage
from tests.waits import waiting

__all__ = ["Answer", "Kind", "Request", "ScriptedApi", "Usage", "conversation", "tool", "usage"]

ScriptedApi.named = staticmethod(waiting)
