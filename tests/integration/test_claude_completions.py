"""Endings that sm detects in the last messages of the real Claude Code."""

from typing import Any

from sm.providers.claude.transcript import ClaudeTranscriptReader
from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.fixtures import context_fixture
from tests.instance import until
from tests.scripted_api import Request, ScriptedApi, tool

DONE = "Done. All 26 tests pass."


def answers(request: Request) -> str | None:
    """The model of an agent that was told of its child, or of its shell."""
    if "completed" in request.last_text and "child" in request.last_text:
        return "[[text:All parts are finished. Everything works.]]"
    return None


api = scripted_api("module")


def instance(api: ScriptedApi) -> ClaudeInstance:
    return ClaudeInstance(api, completion="{completion_quiet_s: 1, idle_timeout: 2}")
