"""The files of a played claude: its transcript and its state file, in the shapes of the recordings."""

import json
import os
import random
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tests.sim.clocks import Clocks
from tests.sim.processes import PlayedProcess
from tests.sim.recorded import recorded

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]")


class ClaudeFiles:
    """Files below `~/.claude` of one process. `usage`: what the model used, by the id of its message."""

    def __init__(
        self, process: PlayedProcess, clocks: Clocks, chance: random.Random, conversation: str
    ) -> None:
        self._process = process
        self._clocks = clocks
        self._chance = chance
        self.conversation = conversation
        self._home = f"{process.environ['HOME']}/.claude"
        self._state = f"{self._home}/sessions/{process.pid}.json"
        self._started_ms = int(clocks.wall() * 1000)
        self._last: str | None = None
        """The id of the last line that the next one follows."""
        self.prompt_id = ""
        self.usage: dict[str, tuple[int, int, int, int]] = {}
        """Input, output, read from the cache and written to it."""
        self._copied = ""
        """The lines of the original that a fork writes before its first own line."""

    @property
    def transcript(self) -> str:
        slug = _NOT_IN_A_NAME.sub("-", self._process.cwd)
        return f"{self._home}/projects/{slug}/{self.conversation}.jsonl"

    def new_id(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    # The state file

    def publish(self, status: str, waiting_for: str | None = None) -> None:
        os.makedirs(os.path.dirname(self._state), exist_ok=True)
        now_ms = int(self._clocks.wall() * 1000)
        state = recorded(
            "states",
            status,
            {
                "cwd": self._process.cwd,
                "pid": self._process.pid,
                "procStart": str(self._process.start),
                "sessionId": self.conversation,
                "startedAt": self._started_ms,
                "statusUpdatedAt": now_ms,
                "updatedAt": now_ms,
            }
            | ({} if waiting_for is None else {"waitingFor": waiting_for}),
        )
        self._write(self._state, "w", json.dumps(state))

    def unpublish(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._state)

    # The transcript

    def load(self, conversation: str) -> None:
        """Read what is there, and go on under an id, perhaps another one: then in a copy."""
        if conversation != self.conversation:
            with open(self.transcript, encoding="utf-8") as file:
                self._copied = file.read()
            self.conversation = conversation

    def prompt(self, text: str, source: str) -> None:
        self.line(
            "user text",
            message={"role": "user", "content": text},
            promptId=self.prompt_id,
            promptSource=source,
        )

    def say(self, message_id: str, text: str, used: tuple[int, int, int, int], *, ends: bool) -> None:
        """Write one text of the model. The lines of a message repeat its usage, the early ones with less output."""
        self._answer(
            "assistant text",
            message_id,
            {"type": "text", "text": text},
            used,
            "end_turn" if ends else "tool_use",
        )

    def call(
        self, message_id: str, use: str, tool: str, given: Mapping[str, Any], used: tuple[int, int, int, int]
    ) -> None:
        block = {"type": "tool_use", "id": use, "name": tool, "input": dict(given)}
        self._answer("assistant tool_use", message_id, block, used, "tool_use")

    def _answer(
        self,
        name: str,
        message_id: str,
        block: Mapping[str, Any],
        used: tuple[int, int, int, int],
        stop_reason: str,
    ) -> None:
        line = recorded("transcripts", name, {})
        given, written, read, cached = used
        usage = line["message"]["usage"] | {
            "input_tokens": given,
            "output_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": cached,
        }
        about = {"id": message_id, "model": "claude-sonnet-4-5", "content": [dict(block)], "usage": usage}
        message = line["message"] | about | {"stop_reason": stop_reason}
        is_written = self.line(name, message=message)
        known = self.usage.get(message_id, (0, 0, 0, 0))
        if is_written and written >= known[1]:
            self.usage[message_id] = used

    def result(self, use: str, text: str, *, is_error: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": use, "content": text, "is_error": is_error}
        self.line(
            "user tool_result text",
            message={"role": "user", "content": [block]},
            promptId=self.prompt_id,
            toolUseResult=f"Error: {text}" if is_error else text,
        )

    def interrupted(self) -> None:
        text = {"type": "text", "text": "[Request interrupted by user]"}
        self.line("user text", message={"role": "user", "content": [text]}, promptId=self.prompt_id)

    def line(self, name: str, **values: object) -> bool:
        """Append one line. Those with an id follow the one before. Returns False if the disk is full."""
        if self._copied:
            if not self._write(self.transcript, "a", self._copied):
                return False
            self._copied = ""
        line = recorded("transcripts", name, values)
        line["timestamp"] = self.now()
        line["sessionId"] = self.conversation
        if "uuid" in line:
            line |= {"uuid": self.new_id(), "parentUuid": self._last, "cwd": self._process.cwd}
            self._last = line["uuid"]
        return self._write(self.transcript, "a", json.dumps(line) + "\n")

    def now(self) -> str:
        at = datetime.fromtimestamp(self._clocks.wall(), UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _write(self, path: str, mode: str, text: str) -> bool:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(path, mode, encoding="utf-8") as file:
                file.write(text)
        except OSError:  # claude goes on without the line
            return False
        return True
