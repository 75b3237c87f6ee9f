"""Agents of a fleet that use the tools of sm: clients of processes `sm mcp`, which die and are started again."""

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sm.mcp.sdk  # noqa: F401 - before the random numbers of a seed begin, some of which its libraries take
from tests.cli.mcp.client import notification, request
from tests.sim.command import Command
from tests.sim.loop import VirtualLoop
from tests.sim.pump import PumpProcess, played_pumps
from tests.sim.told import Told
from tests.sim.world import World

_WITHIN_S = 400.0
"""Longer than the pump waits for a daemon, and than the longest wait of a tool."""


@dataclass(frozen=True, slots=True)
class _Host:
    """The place of the processes `sm mcp`: `PumpHost`."""

    loop: VirtualLoop
    world: World
    command: Command
    home: Path


class ToolUser:
    """One agent with a process `sm mcp`."""

    def __init__(self, pump: PumpProcess) -> None:
        self._pump = pump
        self._answered: set[int] = set()
        self._open: dict[int, asyncio.Future[Any]] = {}
        self.wrong: list[str] = []
        self.is_over = False
        self._greeted = self._begin("initialize", _HANDSHAKE)
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def _begin(self, method: str, parameters: dict[str, Any]) -> "asyncio.Future[Any]":
        """Send a request, and return what gets its answer."""
        number = len(self._open) + len(self._answered)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        self._send(request(method, number, parameters))
        return answer

    def _send(self, message: object) -> None:
        self._pump.feed(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        while line := await self._pump.outputs[1].readline():
            answer = json.loads(line)
            if "id" not in answer:
                continue
            waiting = self._open.pop(answer["id"], None)
            self._answered.add(answer["id"])
            if waiting is None:
                self.wrong.append(f"call {answer['id']} of a tool was answered twice, or never made")
            elif not waiting.done():
                waiting.set_result(answer)
            if answer["id"] == 0:
                self._send(notification("notifications/initialized"))
        self.is_over = True
        for waiting in self._open.values():
            waiting.cancel()

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """The structured result; `error`: the code of a refusal. None if the process ended before."""
        if not self._greeted.done():
            await asyncio.wait([self._greeted], timeout=_WITHIN_S)
        if self.is_over:
            return None
        answer = self._begin("tools/call", {"name": tool, "arguments": arguments})
        done, _ = await asyncio.wait([answer], timeout=_WITHIN_S)
        if not done:
            self.wrong.append(f"a call of {tool} was not answered")
            return None
        if answer.cancelled():
            return None
        found = answer.result()
        if "error" in found:
            return {"error": found["error"]["message"]}
        result = found["result"]
        if result["isError"]:
            return {"error": json.loads(result["content"][0]["text"])["error"]["code"]}
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    def kill(self) -> None:
        self._pump.kill()


_HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "fleet", "version": "1"},
}


class ToolUsers:
    """The agents of one world that use tools."""

    def __init__(self, world: World, told: Told, say: Callable[[str], None], open: ExitStack) -> None:
        self._told = told
        self._say = say
        command = Command(world)
        self._host = _Host(world.loop, world, command, world.home)
        self._users: dict[str, ToolUser] = {}
        self._all: list[ToolUser] = []
        open.enter_context(command.connected())
        open.enter_context(played_pumps(world.loop))

    def user(self, session_id: str) -> ToolUser:
        """The running process `sm mcp` of an agent that lives."""
        known = self._users.get(session_id)
        if known is None or known.is_over:
            agent = self._host.world.programs.running[session_id].process
            known = self._users[session_id] = ToolUser(PumpProcess(self._host, agent.environ, agent.pid))
            self._all.append(known)
            agent.on_end.append(known.kill)
        return known

    def kill(self, number: int) -> None:
        """End one of the processes, as SIGKILL does."""
        if self._all:
            self._say("FAULT SIGKILL of a process `sm mcp`")
            self._all[number % len(self._all)].kill()

    async def use(self, name: str, target: str, tag: str, value: float, *, is_below: bool) -> None:
        """Let an agent call a tool."""
        told, user = self._told, self.user(name)
        if value < 0.3:
            task = {"title": f"Part {value:.3f}", "agent_name": "Inbox", "initial_message": "work"}
            done = await user.call("create_session", **task)
            if done is None or "error" in done:
                told.refused_spawns += 1
            else:
                told.spawned.append(done["session_id"])
            self._tell(name, "create_session", done)
            if value < 0.2:
                await self._wait(user, name, 1 + int(500 * value))
        elif value < 0.6:
            told.refused_sends.add(tag)  # until it is confirmed
            done = await user.call("send_message", session_id=target, message=tag, wait_s=2, answer=False)
            if done is not None and "error" not in done:
                told.refused_sends.discard(tag)
                told.sent.append(tag)
            self._tell(name, f"send_message {tag}", done)
        elif value < 0.75 or is_below or target == name:
            await self._wait(user, name, 1 + int(200 * (value - 0.6)))
        else:
            done = await user.call("control_session", session_id=target, action="kill")
            self._tell(name, f"control_session kill {target}", done)
            if done is not None and "error" not in done:
                told.overstepped.append(f"{name} killed {target} with a tool")

    async def _wait(self, user: ToolUser, name: str, timeout_s: int) -> None:
        """Wait for all children of the agent."""
        done = await user.call("wait_for_sessions", timeout_s=timeout_s)
        statuses = [] if done is None else [s["status"] for s in done.get("sessions", ())]
        self._tell(name, f"wait_for_sessions {statuses}", done)
        if done is not None and done.get("reached") and not set(statuses) <= _ENDED:
            self._told.waited.append(f"a wait of {name} answered that its children have ended: {statuses}")

    def _tell(self, name: str, what: str, done: dict[str, Any] | None) -> None:
        end = "no answer" if done is None else done.get("error", done.get("why", "done"))
        self._say(f"{name} used the tool {what}: {end}")

    def broken(self) -> list[str]:
        """Name each call that was not answered once."""
        return [f"4: {text}" for user in self._all for text in user.wrong]


_ENDED = {"completed", "error", "killed", "abandoned"}
