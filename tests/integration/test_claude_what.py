"""`sm what` with the real Claude Code: one API request without tools and without files that the record names."""

import json

from tests.claude_instance import ClaudeInstance
from tests.scripted_api import ScriptedApi


def test_model_summary_attaches_no_file_that_the_agent_has_named() -> None:
    with ScriptedApi() as api, ClaudeInstance(api, claude_more="  what: {enabled: true}") as instance:
        secret = instance.work / "secret.txt"
        secret.write_text("not for a summary")
        session_id = instance.spawn("Plain", f"tell of @/etc/hostname [[text:it is @{secret}]]")["session_id"]
        instance.idle(session_id)
        before = len(api.requests)
        summary = instance.json("what", session_id)
        assert (summary["made_by"], summary["reason"]) == ("claude haiku", None)
        (request,) = api.requests[before:]
        assert request.tools == []
        assert "haiku" in str(request.body["model"])
        assert "not for a summary" not in json.dumps(request.body)
