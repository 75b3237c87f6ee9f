"""The real Claude Code in a container: what sm sees of it, and what sm does to it."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import claude_cli
from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.container_port import forwarded
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool

OWNER = 1234
SANDBOX = """
sandbox:
  engine: "{engine}"
  image: "{image}"
  network: none
  mounts: ["{program}"]
"""
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}],
}

COMPUTES = tool("Bash", command="python3 -c 'import time; time.sleep(3); print(6*7)'", description="x")

api = scripted_api("module")


class SandboxedClaude(ClaudeInstance):
    """Sessions of the workspace `shop` run claude in its container. claude is a program of this host, mounted."""

    def __init__(self, api: ScriptedApi, engine: str, image: str) -> None:
        super().__init__(api)
        program = Path(os.path.realpath(claude_cli.binary())).parent
        text = self.config.read_text().replace(
            f"default_command: {claude_cli.binary()}", f"default_command: {program}/claude.exe"
        )
        text = text.replace("default_trust: direct\n", "")
        text = re.sub(r"    CLAUDE_CODE_TMPDIR: .*\n", f'    ANTHROPIC_BASE_URL: "{api.url}"\n', text)
        text = text.replace("  env:\n", f"  env:\n    ANTHROPIC_AUTH_TOKEN: {claude_cli.KEY}\n", 1)
        self.config.write_text(text + SANDBOX.format(engine=engine, image=image, program=program))
        for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
            self.env.pop(name)
        shutil.rmtree(self.home / ".claude")
        os.chown(self.work, OWNER, OWNER)
        self.home.chmod(0o755)
        self.sm("workspace", "create", "shop", "--working-dir", str(self.work))
        first = self.spawn("Sh", "sleep 100000", "--workspace", "shop")
        self._ports = ExitStack()
        pid = self.session(first["session_id"])["pid"]
        self._ports.enter_context(forwarded(pid, int(api.url.rpartition(":")[2])))

    def claude(self, *arguments: str) -> str:
        """Start an agent of type Plain and return its id once it is idle."""
        spawned = self.spawn("Plain", *arguments, "--workspace", "shop", "--wait", "60")
        assert spawned["effective_mode"] == "sandboxed"
        session_id = str(spawned["session_id"])
        self.idle(session_id)
        return session_id

    def open_request(self, session_id: str) -> dict[str, Any]:
        def look() -> list[dict[str, Any]]:
            found = self.json("requests", "--all")
            return [r for r in found if (r["session_id"], r["state"]) == (session_id, "open")]

        (request,) = until(look, "a request is open", 60)
        return request

    def end(self) -> None:
        super().end()
        self._ports.close()


@pytest.fixture(scope="module")
def claudes(api: ScriptedApi, engine: str, sandbox_image: str) -> Iterator[SandboxedClaude]:
    instance = SandboxedClaude(api, engine, sandbox_image)
    yield instance
    instance.end()


def test_claude_starts_without_a_dialog_and_answers_its_prompt(
    claudes: SandboxedClaude, api: ScriptedApi
) -> None:
    session_id = claudes.claude("Look around. [[text:I see a box.]]")
    assert api.turns("Look around.")
    status_file = Path(f"/proc/{claudes.session(session_id)['pid']}/status").read_text()
    assert f"Uid:\t{OWNER}" in status_file
    until(lambda: claudes.progress(session_id)["tokens"], "the tokens are counted", 30)
    assert f"Your project directory is {claudes.work}." in api.turns("Look around.")[0].system


def test_status_follows_the_turns(claudes: SandboxedClaude, api: ScriptedApi) -> None:
    session_id = claudes.claude()
    claudes.prompt(session_id, f"Count. {COMPUTES} [[then]] [[text:done]]")
    claudes.says(session_id, "waiting_input", "claude asks")
    claudes.sm("approve", claudes.open_request(session_id)["request_id"])
    claudes.says(session_id, "running", "")
    claudes.idle(session_id)


def test_messages_arrive_once_while_claude_is_idle_and_busy(
    claudes: SandboxedClaude, api: ScriptedApi
) -> None:
    session_id = claudes.claude()
    for number in range(5):
        claudes.sm("send", session_id, f"Letter {number} of ten. [[text:read]]")
    claudes.idle(session_id)
    claudes.prompt(session_id, "Work. [[hold:work]] [[text:done]]")
    claudes.says(session_id, "running", "")
    for number in range(5, 10):
        claudes.sm("send", session_id, f"Letter {number} of ten. [[text:read]]")
    api.release("work")
    claudes.idle(session_id)

    def counts() -> list[int]:
        texts = "\n".join(api.turns()[-1].user_texts)
        return [texts.count(f"Letter {number} of ten.") for number in range(10)]

    until(lambda: counts() == [1] * 10, "every message is in the conversation once", 60)


def test_question_is_answered_through_sm(claudes: SandboxedClaude, api: ScriptedApi) -> None:
    session_id = claudes.claude()
    claudes.prompt(
        session_id, f"Ask me. {tool('AskUserQuestion', questions=[COLOUR])} [[then]] [[text:thanks]]"
    )
    request = claudes.open_request(session_id)
    claudes.sm("answer", request["request_id"], "blue")
    claudes.idle(session_id)
    assert any("blue" in json.dumps(turn.results) for turn in api.turns("Ask me."))


def test_interrupt_stops_the_turn(claudes: SandboxedClaude, api: ScriptedApi) -> None:
    session_id = claudes.claude()
    claudes.prompt(session_id, "Wait. [[hold:long]] [[text:over]]")
    claudes.says(session_id, "running", "")
    api.wait_for_hold("long")  # claude ignores Escape while it prepares the request
    claudes.sm("interrupt", session_id)
    claudes.idle(session_id)


def test_agent_spawns_a_child_and_is_told_of_its_end_once(claudes: SandboxedClaude, api: ScriptedApi) -> None:
    session_id = claudes.claude()
    command = "sm spawn Sh 'sm complete child-is-done; sleep 1000' --json"
    claudes.prompt(
        session_id, f"Delegate. {tool('Bash', command=command, description='x')} [[then]] [[text:I wait]]"
    )
    claudes.sm("approve", claudes.open_request(session_id)["request_id"])

    def told() -> bool:
        return any("child-is-done" in text for turn in api.turns() for text in turn.user_texts)

    until(told, "the parent is told of the completion", 60)


def test_restored_claude_goes_on_with_its_conversation(claudes: SandboxedClaude, api: ScriptedApi) -> None:
    session_id = claudes.claude("Remember the word marzipan. [[text:I do]]")
    claudes.sm("kill", session_id)
    claudes.sm("restore", session_id)
    claudes.idle(session_id)
    claudes.prompt(session_id, "Say it. [[text:marzipan]]")
    last = api.wait_for(
        lambda: next((turn for turn in api.turns("Say it.") if turn.prompt), None),
        "the prompt after the restore",
    )
    assert any("Remember the word marzipan." in text for text in last.user_texts)
