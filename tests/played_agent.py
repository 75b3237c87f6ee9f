"""A claude that a test plays: its hooks in their order, its state file and the lines of its transcript.

The stage is a real instance (tests/integration/played_claude.py) or a played one (tests/sim/stage.py).
"""

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from sm.client.http import Client, new_key

CONFIG = """
default_trust: direct
tmux: {{socket_name: test}}
limits: {{spawn_interval_s: 0}}
commands:
  Sh: {{command: [sh, -c]}}
  Inbox: {{command: [sleep, "1000"], prompt: file}}
claude:
  default_command: {claude}
  agent_configs:
    Plain: {{}}
    Limited: {{budget: usd=50}}
    Ruled:
      auto_allow: ["Bash(make *)", "Write(src/*)", "Read"]
      auto_deny: ["Bash(* --force)", "Write(src/secret*)"]
"""
_RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 40
_POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
BOX = f"printf '%s\\r\\n' '{_RULE}' '{_POINTER} ' '{_RULE}' '  ? for shortcuts'\n"
"""Shell command that draws an empty input box. A test that uses it sets `daemon.ignore_evidence: [screen, title]`."""


class Hook(Protocol):
    """A process of a session that sends requests one after the other, and repeats them while the daemon is away."""

    def send(self, path: str, key: str, body: Mapping[str, object]) -> None: ...

    def receive(self) -> list[Any]:
        """Return the answer to the oldest request whose answer was not received yet."""

    def end(self) -> None: ...


class AgentStage(Protocol):
    """The place in which an agent is played."""

    @property
    def home(self) -> Path: ...
    @property
    def work(self) -> Path: ...
    @property
    def socket(self) -> Path: ...

    def hook_of(self, session_id: str) -> Hook: ...
    def session(self, session_id: str) -> dict[str, Any]: ...
    def json(self, *arguments: str, **options: Any) -> Any: ...
    def now(self) -> datetime: ...


class Agent:
    """A session that the daemon takes for claude. `starts`: its hook reports the start at once."""

    def __init__(self, stage: AgentStage, session_id: str, *, starts: bool = True) -> None:
        self.stage = stage
        self.id = session_id
        self.conversation = str(uuid.uuid4())  # sm looks for copies in the archives of all sessions with it
        self.transcript = stage.home / ".claude" / "projects" / session_id / f"{self.conversation}.jsonl"
        self._hooks: list[Hook] = []
        self._events = self.hook()
        self._uses = 0
        if starts:
            self.send_event("SessionStart", source="startup")

    def hook(self) -> Hook:
        caller = self.stage.hook_of(self.id)
        self._hooks.append(caller)
        return caller

    def end(self) -> None:
        for hook in self._hooks:
            hook.end()

    def event(self, name: str, **more: object) -> dict[str, object]:
        payload: dict[str, object] = {"hook_event_name": name, "session_id": self.conversation}
        payload |= {"cwd": str(self.stage.work), "transcript_path": str(self.transcript)} | more
        at = self.stage.now().isoformat().replace("+00:00", "Z")
        return {"provider": "claude", "emitted_at": at, "payload": payload}

    def send_event(self, name: str, **more: object) -> None:
        if name == "UserPromptSubmit" and not self.transcript.exists():
            self._append("mode", None)
        self.begin_event(name, **more)
        self.end_event()

    def begin_event(self, name: str, **more: object) -> None:
        """Send an event during which the daemon may crash: the hook repeats it for the next daemon."""
        self._events.send("/v1/hooks", new_key(), self.event(name, **more))

    def send_late(self, event: Mapping[str, object]) -> None:
        """Send an event that was emitted before."""
        self._events.send("/v1/hooks", new_key(), event)
        self.end_event()

    def end_event(self) -> None:
        """Wait for the answer to an event."""
        assert self._events.receive() == ["ok", {}]

    def end_tool(self, dialog: "Dialog") -> None:
        """Report that the tool of the dialog ran."""
        self.send_event("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id=dialog.tool_use)

    def write_result(self, dialog: "Dialog", text: str, at: datetime | None = None, **more: object) -> None:
        """Write the result of a tool use that failed or was refused into the transcript."""
        block = {"type": "tool_result", "tool_use_id": dialog.tool_use, "is_error": True, "content": text}
        self._write("user", at, message={"content": [block]}, **more)

    def write_tool_result(self, use: str, text: str, *, is_error: bool) -> None:
        """Write the result of a tool use into the transcript."""
        block = {"type": "tool_result", "tool_use_id": use, "is_error": is_error, "content": text}
        self._write("user", None, message={"role": "user", "content": [block]})

    def write_hook_refusal(self, dialog: "Dialog", text: str) -> None:
        decision = {"type": "hook_permission_decision", "decision": "deny", "toolUseID": dialog.tool_use}
        self._write("attachment", None, attachment=decision)
        self.write_result(dialog, text, toolUseResult=f"Error: {text}")

    def write_failure(self, error: str, text: str) -> None:
        """Write the end of a failed turn into the transcript, as in a turn whose failure no hook reports."""
        message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
        self._append("assistant", None, isApiErrorMessage=True, error=error, message=message)

    def write_prompt(self, text: str) -> None:
        """Write the prompt of a turn into the transcript."""
        self._write("user", None, message={"role": "user", "content": text}, promptSource="typed")

    def write_message(self, message: dict[str, Any], at: datetime | None = None, **line: object) -> None:
        """Write a message of the model with its usage into the transcript."""
        self._write("assistant", at, message=message, **line)

    def append_message(self, message: dict[str, Any]) -> None:
        """Write a message of the model into the transcript, without a hook."""
        self._append("assistant", None, message=message)

    def write_interruption(self) -> None:
        """Write the line with which claude ends a turn that a person has interrupted."""
        text = {"type": "text", "text": "[Request interrupted by user]"}
        self._write("user", None, message={"role": "user", "content": [text]})

    def publish(self, status: str) -> None:
        """Write the state file of the agent, as claude does when its status changes."""
        pid = self.stage.session(self.id)["pid"]
        file = self.stage.home / ".claude" / "sessions" / f"{pid}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        state = {"pid": pid, "status": status, "statusUpdatedAt": int(self.stage.now().timestamp() * 1000)}
        new = file.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.rename(file)

    def append_turn(self, text: str) -> None:
        """Write the lines of a turn that ends with `text` into the transcript, without its end."""
        self._append("user", None, promptId="p", message={"role": "user", "content": "go on"})
        content = [{"type": "text", "text": text}]
        self._append("assistant", None, message={"role": "assistant", "model": "m", "content": content})

    def append_turn_end(self) -> None:
        """Write the line that claude writes after the hooks of the end of a turn."""
        self._append("system", None, subtype="turn_duration", durationMs=1)

    def write_turn_end(self) -> None:
        """Write the line that claude writes after each turn, also after one that failed, and let the daemon read it."""
        self._write("system", None, subtype="turn_duration", durationMs=1)

    def write_line(self, type: str, **line: object) -> None:
        """Write any line into the transcript, and let the daemon read it."""
        self._write(type, None, **line)

    def _write(self, type: str, at: datetime | None, **line: object) -> None:
        self._append(type, at, **line)
        self.send_event("Notification")  # the daemon reads the transcript after each event

    def _append(self, type: str, at: datetime | None, **line: object) -> None:
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        stamp = (at or self.stage.now()).isoformat().replace("+00:00", "Z")
        with self.transcript.open("a") as file:
            file.write(json.dumps({"type": type, "timestamp": stamp, **line}) + "\n")

    def open_dialog(
        self, tool: str, arguments: dict[str, Any], *, sub_agent: str = "", **more: object
    ) -> "Dialog":
        """Open the permission dialog of a tool through a hook. `sub_agent`: the id of the one that uses it."""
        self._uses += 1
        use = f"toolu_{self._uses}"
        who = {"agent_id": sub_agent} if sub_agent else {}
        self.send_event("PreToolUse", tool_name=tool, tool_input=arguments, tool_use_id=use, **who)
        request = self.event("PermissionRequest", tool_name=tool, tool_input=arguments, **who)
        return Dialog(self, use, request | more)


class Dialog:
    """A dialog whose hook can wait for the answer."""

    def __init__(self, agent: Agent, tool_use: str, body: dict[str, object]) -> None:
        self.agent = agent
        self.tool_use = tool_use
        self.key = new_key()
        self.body = body
        self.hook = agent.hook()
        self.opened = self.poll(0)
        self.name = str(self.opened["request"])

    def poll(self, wait_s: float) -> dict[str, Any]:
        self.start_wait(wait_s)
        return self.answer()

    def start_wait(self, wait_s: float = 25) -> None:
        self.hook.send("/v1/hooks/dialog", self.key, self.body | {"wait_s": wait_s})

    def answer(self) -> dict[str, Any]:
        word, answer = self.hook.receive()
        assert word == "ok"
        result: dict[str, Any] = answer
        return result

    def take(self) -> dict[str, Any]:
        self.start_take()
        return self.taken()

    def start_take(self) -> None:
        self.hook.send("/v1/hooks/dialog/taken", self.key, {})

    def taken(self) -> dict[str, Any]:
        word, answer = self.hook.receive()
        assert word == "ok"
        result: dict[str, Any] = answer
        return result

    def take_decision(self) -> Any:
        """Take the answer as the hook does; return the hook's output for claude."""
        decision = self.answer()
        assert (decision["request"], decision["state"]) == (self.name, "decided")
        assert self.take() == {"request": self.name, "state": "answered"}
        return json.loads(decision["output"])

    @property
    def request(self) -> dict[str, Any]:
        """The request of the dialog.

        Read without a command: on a busy machine, a command lasts longer than an answer waits for its hook.
        """
        found: dict[str, Any] = Client(str(self.agent.stage.socket)).get(f"/v1/requests/{self.name}")
        return found
