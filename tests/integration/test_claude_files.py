"""Files of the operator that the real Claude Code reads."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sm.client.http import Client
from sm.providers.claude.check.scripted_api.script import tool
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.scripted_api import Request, ScriptedApi

TEXT = b"the secret word\n"

api = scripted_api("module")
claude = claude_instance("module")


def picture() -> bytes:
    """A PNG of 2 x 2 white pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    head = (2).to_bytes(4) + (2).to_bytes(4) + bytes((8, 2, 0, 0, 0))
    rows = zlib.compress((b"\0" + b"\xff" * 6) * 2)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def uploaded(claude: ClaudeInstance, name: str, content: bytes) -> str:
    file: Mapping[str, Any] = Client(str(claude.socket)).upload("/v1/files", {"name": name}, content)
    return str(file["file_id"])


def results(api: ScriptedApi, prompt: str, count: int) -> Request:
    return api.wait_for(
        lambda: next((turn for turn in api.turns(prompt) if len(turn.results) >= count), None),
        f"{count} results: {prompt[:60]}",
    )


def test_claude_reads_the_files_of_a_message_and_of_its_task_without_a_permission_dialog(
    claude: ClaudeInstance, api: ScriptedApi
) -> None:
    client = Client(str(claude.socket))
    claude.sm("status")  # starts the daemon
    task = uploaded(claude, "the task.txt", TEXT)
    body = {"agent_type": "Plain", "prompt": "Look at this.", "files": [task], "cwd": str(claude.work)}
    session = client.post("/v1/sessions", {**body, "environment": claude.env})["session_id"]
    claude.idle(session)
    launch = Path("/run/sm/launch" if claude.container else claude.launch_dir)
    paths = {task: f"{launch}/{session}.files/{task}/the task.txt"}
    (turn,) = api.turns("Look at this.")
    assert f"[sm] file 1: {paths[task]} (text/plain, 16 bytes)" in turn.prompt

    shot = uploaded(claude, "shot.png", picture())
    paths[shot] = f"{launch}/{session}.files/{shot}/shot.png"
    reads = "".join(tool("Read", file_path=path) for path in paths.values())
    sent = client.post("/v1/messages", {"to": session, "text": f"Read both. {reads}", "files": [shot]})
    read = results(api, "Read both.", 2)
    # Claude reads them at the same time.
    assert [failed for failed, _ in read.results] == [False, False]
    assert any("the secret word" in output for _, output in read.results)
    assert '"media_type": "image/png"' in json.dumps(read.body["messages"][-1])
    assert claude.json("requests") == []
    claude.idle(session)
    message = client.get(f"/v1/messages/{sent['message_id']}", {"wait_s": 5})
    assert message["status"] in ("submitted", "acknowledged")
    claude.sm("kill", "--force", session)
