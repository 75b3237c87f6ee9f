"""`sm what` with the real Claude Code: one request, without tools, and without any file that the record names."""

import json

from tests.claude_instance import ClaudeInstance
from tests.scripted_api import ScriptedApi


def test_a_summary_by_a_model_attaches_nothing_that_the_agent_has_named() -> None:
    with ScriptedApi() as api, ClaudeInstance(api, claude_more="  what: {enabled: true}") as instance:
        secret = instance.work / "secret.txt"
        secret.write_text("not for a summary")
        session_id = instance.spawn("Plain", f"tell of @/etc/hostname [[text:it is @{secret}]]")["session_id"]
        instance.idle(session_id)
        before = len(api.requests)
        made = instance.json("what", session_id)
        assert (made["made_by"], made["reason"]) == ("claude haiku", None)
        (asked,) = api.requests[before:]
        assert asked.tools == []
        assert "haiku" in str(asked.body["model"])
        assert "not for a summary" not in json.dumps(asked.body)
