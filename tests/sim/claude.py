"""A played claude: a program with an input box, turns, tools, dialogs, hooks, a transcript and a state file.

The shapes of its hooks, lines and files are those of tests/data/recordings. What it does in a turn comes from a seed.
"""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.sim.claude_files import ClaudeFiles
from tests.sim.claude_screen import ClaudeScreen
from tests.sim.clocks import Clocks
from tests.sim.hooks import HookFault, PlayedHooks
from tests.sim.programs import Running
from tests.sim.recorded import recorded

_START_S = 0.8
_DRAWS_S = 0.02
_SUPERVISED_S = 1.0
"""How long a dialog must have been open until input for it cannot have been typed for the box."""
_CALLS = 5
"""The calls to the terminal server from the last look at the screen to the paste, which a slow server delays."""
DONE = "All tests pass, and I have committed the change. The task is complete."
_UNDONE = (
    "I have changed the parser and will look at the tests next.",
    "Should I also update the documents?",
)
_ANSWERS = frozenset([("text", "1"), ("text", "3"), ("key", "Enter"), ("key", "Escape")])
"""The keys that answer a dialog."""


@dataclass(slots=True)
class Habits:
    """The habits of a played claude in its turns."""

    tools_max: int = 3
    permission: float = 0.15
    """The share of tools that ask for permission."""
    question: float = 0.05
    done: float = 0.3
    """The share of turns whose last message says that the work is done."""
    hooks: bool = True
    """False if its settings turn hooks off."""
    fault: HookFault = field(default=lambda session_id: None)


@dataclass(slots=True)
class Journal:
    """The record of the played claudes of a world."""

    heard: Callable[[str, str], None] = lambda session_id, text: None
    """Gets each prompt that a session has accepted."""
    wrongly_typed: list[tuple[str, str, str]] = field(default_factory=list)
    """Input into dialogs by anyone but a person: the session, the text or key, and where."""
    files: dict[str, list[ClaudeFiles]] = field(default_factory=dict)
    """The files of each process, by session."""
    turns: int = 0


class PlayedClaude:
    """One process. Give `run` to `Programs.installed` through `claude`."""

    def __init__(
        self, program: Running, clocks: Clocks, chance: random.Random, habits: Habits, journal: Journal
    ) -> None:
        self.program = program
        self._clocks = clocks
        self._chance = chance
        self._habits = habits
        self._journal = journal
        self._hooks = PlayedHooks(program, clocks, habits.fault)
        self._screen = ClaudeScreen(program)
        self._turn: asyncio.Task[None] | None = None
        self._queue: list[str] = []
        self._answer: asyncio.Future[str] | None = None
        """The key that a person presses in the open dialog."""
        self._dialog_s = 0.0
        self.end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Gets the exit code with which the process shall end."""
        self._files: ClaudeFiles

    # Its life

    async def run(self) -> int:
        program, loop = self.program, asyncio.get_running_loop()
        program.set_flags(0)
        conversation, original, prompt = self._read_arguments()
        source = "startup" if original is None else "resume"
        self._files = ClaudeFiles(program.process, self._clocks, self._chance, original or conversation)
        if original is not None and not os.path.exists(self._files.transcript):
            program.print(f"No conversation found with session ID: {original}")
            return 1
        named = {"session_id": self._files.conversation, "transcript_path": self._files.transcript}
        self._files.load(conversation)
        self._journal.files.setdefault(program.session_id, []).append(self._files)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            program.process.handlers[number] = self._handler(number)
        await asyncio.sleep(_START_S)
        self._files.publish("busy" if prompt else "idle")
        self._screen.draw()
        # That of a fork names the original.
        await self._hook(f"SessionStart {source}", "SessionStart", source=source, **named)
        reading = loop.create_task(self._read())
        if prompt:
            self._begin(prompt, "typed")
        try:
            code = await self.end
            await self._finish("prompt_input_exit")
            return code
        finally:
            reading.cancel()
            self._hooks.end()
            if self._turn is not None:
                self._turn.cancel()

    def _read_arguments(self) -> tuple[str, str | None, str]:
        """The conversation, the one that it continues or copies, and the first prompt."""
        argv = list(self.program.argv)
        prompt = argv[argv.index("--") + 1] if "--" in argv else ""
        resumed = argv[argv.index("--resume") + 1] if "--resume" in argv else None
        chosen = argv[argv.index("--session-id") + 1] if "--session-id" in argv else None
        return (chosen or "") if resumed is None or "--fork-session" in argv else resumed, resumed, prompt

    def _handler(self, number: int) -> Callable[[], None]:
        def handle() -> None:
            self.program.process.handlers.clear()  # a second signal ends it at once
            self.program.react(self._stop(number))

        return handle

    async def _stop(self, number: int) -> int:
        await self._finish("other")
        return 128 + number

    async def _finish(self, reason: str) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._files.unpublish()
        await self._hook("SessionEnd", "SessionEnd", reason=reason)

    async def _hook(self, name: str, event: str, **values: object) -> None:
        if self._habits.hooks:
            await self._hooks.send(self._payload(name, event, **values))

    def _payload(self, name: str, event: str, **values: object) -> dict[str, object]:
        about = {
            "hook_event_name": event,
            "session_id": self._files.conversation,
            "transcript_path": self._files.transcript,
            "cwd": self.program.process.cwd,
        }
        if self._files.prompt_id and event not in ("SessionStart", "SessionEnd"):
            about["prompt_id"] = self._files.prompt_id
        return recorded("hooks", name, about | values)

    # Its input

    async def _read(self) -> None:
        while True:
            kind, text = await self.program.read()
            if self._screen.dialog is not None:
                self._press_in_dialog(kind, text)
                continue
            if kind == "text":
                self._screen.type(text)
            elif text == "Enter":
                self._submit()
            elif text == "Escape":
                await self._interrupt()
            else:
                self._screen.press(text)
            await asyncio.sleep(_DRAWS_S)

    def _press_in_dialog(self, kind: str, text: str) -> None:
        loop = asyncio.get_running_loop()
        is_person = self.program.pane.keys_at_s is not None and loop.time() - self.program.pane.keys_at_s < 1
        on_its_way_s = _SUPERVISED_S + _CALLS * self.program.terminal_call_s
        if not is_person and loop.time() - self._dialog_s > on_its_way_s:
            where = f"was typed into the {self._screen.dialog} dialog of"
            self._journal.wrongly_typed.append((self.program.session_id, text, where))
        is_known = (kind, text) in _ANSWERS
        if self._answer is not None and not self._answer.done() and is_known:
            self._answer.set_result(text)

    def _submit(self) -> None:
        text = self._screen.take()
        self._screen.draw()
        if not text:
            return
        self._journal.heard(self.program.session_id, text)
        if self._turn is not None and not self._turn.done():
            self._files.line("queue-operation enqueue", content=text)
            self._queue.append(text)
        else:
            self._begin(text, "typed")

    def _begin(self, text: str, source: str) -> None:
        self._turn = asyncio.get_running_loop().create_task(self._play_turn(text, source))

    async def _interrupt(self) -> None:
        if self._turn is None or self._turn.done():
            return
        self._turn.cancel()
        with suppress(asyncio.CancelledError):
            await self._turn
        self._files.interrupted()
        self._idle()
        self._go_on_with_queue()

    def _go_on_with_queue(self) -> None:
        if self._queue:
            text = self._queue.pop(0)
            self._files.line("queue-operation dequeue")
            self._begin(text, "queued")

    def _idle(self) -> None:
        self._screen.dialog, self._screen.is_busy = None, False
        self._files.publish("idle")
        self._screen.draw()

    def _busy(self) -> None:
        self._screen.dialog, self._screen.is_busy = None, True
        self._files.publish("busy")
        self._screen.draw()

    # Its turns

    async def _play_turn(self, prompt: str, source: str) -> None:
        files, chance, habits = self._files, self._chance, self._habits
        self._journal.turns += 1
        files.prompt_id = files.new_id()
        self._busy()
        await self._hook("UserPromptSubmit", "UserPromptSubmit", prompt=prompt)
        files.prompt(prompt, source)
        for _ in range(chance.randint(0, habits.tools_max)):
            await asyncio.sleep(chance.uniform(0.5, 6))
            if not await self._use_tool():
                break
            for text in self._queue:
                files.line("queue-operation remove")
                files.line("attachment queued_command", attachment={"type": "queued_command", "prompt": text})
            self._queue.clear()
        await asyncio.sleep(chance.uniform(0.5, 6))
        said = DONE if chance.random() < habits.done else chance.choice(_UNDONE)
        files.say(self._message_id(), said, self._used(), ends=True)
        self._screen.say(f"\N{BLACK CIRCLE} {said}")
        await self._hook("Stop", "Stop", last_assistant_message=said, background_tasks=[])
        self._idle()
        files.line("system turn_duration", durationMs=1000)
        # The task of this turn ends now: what the queue holds begins the next one.
        asyncio.get_running_loop().call_soon(self._go_on_with_queue)

    async def _use_tool(self) -> bool:
        """Use one tool. Returns False if the turn ends, because somebody refused it."""
        files, chance = self._files, self._chance
        message, used, use = self._message_id(), self._used(), f"toolu_{chance.getrandbits(64):016x}"
        asks = chance.random() < self._habits.question
        tool = "AskUserQuestion" if asks else "Bash"
        given = _QUESTION if asks else {"command": f"make test-{chance.randrange(1000)}"}
        files.say(message, "I will look.", (*used[:1], 1, *used[2:]), ends=False)
        files.call(message, use, tool, given, used)
        await self._hook(
            f"PreToolUse {tool}", "PreToolUse", tool_name=tool, tool_input=given, tool_use_id=use
        )
        if asks or chance.random() < self._habits.permission:
            kind = "question" if asks else "permission"
            payload = self._payload(
                f"PermissionRequest {tool}", "PermissionRequest", tool_name=tool, tool_input=given
            )
            if not await self._ask(kind, self._hooks.dialog(payload)):
                files.result(use, "The user doesn't want to proceed with this tool use.", is_error=True)
                return True
        await asyncio.sleep(chance.uniform(0.1, 20))
        is_failed = not asks and chance.random() < 0.1
        if is_failed:
            await self._hook(
                "PostToolUseFailure Bash",
                "PostToolUseFailure",
                tool_name=tool,
                tool_input=given,
                tool_use_id=use,
            )
        else:
            await self._hook(
                f"PostToolUse {tool}", "PostToolUse", tool_name=tool, tool_input=given, tool_use_id=use
            )
        files.result(use, "failed" if is_failed else "ok", is_error=is_failed)
        return True

    async def _ask(self, kind: str, waiting: Awaitable[str | None]) -> bool:
        """Show a dialog until the hook or a person answers. Returns True to go on."""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self._dialog_s = loop.time()
        self._screen.dialog = kind
        self._files.publish("waiting", "permission prompt")
        self._screen.draw()
        hook = loop.create_task(_returned(waiting))
        try:
            waited: list[asyncio.Future[Any]] = [hook, self._answer]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not self._answer.done() and hook.result() is None:
                await self._answer  # the hook has left the dialog to a person
            if self._answer.done():
                return self._answer.result() in ("1", "Enter")
            return '"behavior": "allow"' in (hook.result() or "")
        finally:
            hook.cancel()
            self._answer = None
            self._busy()

    def _message_id(self) -> str:
        return f"msg_{self._chance.getrandbits(80):020x}"

    def _used(self) -> tuple[int, int, int, int]:
        chance = self._chance
        return (
            chance.randrange(1, 200),
            chance.randrange(2, 2000),
            chance.randrange(20_000),
            chance.randrange(3000),
        )

    def leave(self, code: int) -> None:
        """End the process as `/exit` does."""
        if not self.end.done():
            self.end.set_result(code)


async def _returned(waiting: Awaitable[str | None]) -> str | None:
    return await waiting


_QUESTION = {
    "questions": [
        {
            "question": "Which database should we use?",
            "header": "Database",
            "multiSelect": False,
            "options": [
                {"label": "SQLite", "description": "Simple file"},
                {"label": "Postgres", "description": "Server"},
            ],
        }
    ]
}
