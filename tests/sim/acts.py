"""Carries out the acts of a fleet: the requests of people and agents, repeated as `sm` repeats them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sm.capabilities.budgets.tables import PART
from sm.client.http import DaemonAway, new_key
from sm.errors import SmError
from tests.sim.claude import PlayedClaude
from tests.sim.company import Company
from tests.sim.fleet import Act, Entry, kind_of
from tests.sim.sandboxed import WORKSPACE
from tests.sim.told import Cause, Told
from tests.sim.wire import Caller
from tests.sim.world import World

_AWAY_S = 0.5
_OF_ENDED = frozenset([Act.RESTORE, Act.ARCHIVE, Act.REMOVE])
ENDED = ("completed", "error", "killed", "abandoned")


def _terms(value: float) -> dict[str, object]:
    """The terms of a spawn: everything but the agent type."""
    number = int(value * 9973)
    terms: dict[str, object] = {
        "lifecycle": ("auto", "manual", "supervised")[number % 3],
        "restart": ("never", "on-failure")[number // 3 % 2],
        "budget": (None, "tokens=3k", "minutes=2", "usd=0.02")[number // 6 % 4],
    }
    return {name: term for name, term in terms.items() if term is not None}


class Acts:
    """Acts in one world. `exits`: ends the program of a session with a code."""

    def __init__(
        self,
        world: World,
        told: Told,
        say: Callable[[str], None],
        start_daemon: Callable[[], Awaitable[None]],
        company: Company,
    ) -> None:
        self._company = company
        self._world = world
        self._told = told
        self._say = say
        self._start_daemon = start_daemon
        self._tags = 0
        self.exits: dict[str, asyncio.Future[int]] = {}
        self.claudes: dict[str, PlayedClaude] = {}

    def find(self, number: int, *, alive: bool = True) -> str | None:
        """A session by its number: mostly one whose process lives, or with `alive` False one whose process is gone."""
        spawned = self._told.spawned
        fitting = [s for s in spawned if (self._told.run_of(s) is not None) is alive]
        chosen = fitting if fitting and number % 8 else spawned
        return chosen[number % len(chosen)] if chosen else None

    def _caller(self, number: int) -> tuple[str, Caller]:
        session_id = None if number < 0 else self.find(number)
        if session_id is None or self._told.run_of(session_id) is None:
            return "operator", self._world.operator
        return session_id, self._world.programs.running[session_id].sm

    async def post(
        self, caller: Caller, path: str, body: Mapping[str, object], *, repeats: bool = True
    ) -> Any:
        """Send a request, and repeat it with its key while the daemon is away, as `sm` does."""
        key = new_key()
        while True:
            try:
                return await caller.post(path, body, key=key)
            except DaemonAway:
                if not repeats:
                    raise
                await asyncio.sleep(_AWAY_S)
                await self._start_daemon()

    async def perform(self, entry: Entry) -> None:
        try:
            await self._carry_out(entry)
        except SmError as error:
            self._say(f"{entry.act} refused: {error.message[:120]}")

    async def _carry_out(self, entry: Entry) -> None:
        world, told = self._world, self._told
        name, caller = self._caller(entry.actor)
        target = self.find(entry.target, alive=entry.act not in _OF_ENDED)
        is_agent = name != "operator"
        match entry.act:
            case Act.SPAWN:
                await self._spawn(name, caller, kind_of(entry.value))
            case Act.HIRE:
                await self._spawn(name, caller, kind_of(entry.value), _terms(entry.value))
            case Act.BOX if self._company.sandboxed is not None:
                kind = "Inbox" if entry.value < 0.7 else "Tty"
                await self._spawn("operator", world.operator, kind, {"workspace": WORKSPACE})
            case Act.FORK if target is not None:
                await self._fork(target)
            case Act.JUDGE if is_agent:
                await self._answer(entry.value, name, caller)
            case Act.GRANT if (child := self._child_of(name, entry.target)) is not None:
                change = {"set": f"tokens={1 + int(30 * entry.value)}k"}
                await self.post(caller, f"/v1/sessions/{child}/budget", change)
                self._say(f"{name} set the budget of {child}: {change['set']}")
            case Act.SEND | Act.URGENT if target is not None:
                await self._send(name, caller, target, "urgent" if entry.act is Act.URGENT else "auto")
            case Act.ASK if is_agent:
                await self._ask(name, caller, entry.value)
            case Act.ANSWER:
                await self._answer(entry.value)
            case Act.NOTE if is_agent:
                await self.post(caller, "/v1/sessions/me/note", {"text": f"note {entry.value:.3f}"})
            case Act.CHECKPOINT if is_agent:
                await self.post(caller, "/v1/sessions/me/checkpoints", {"message": f"step {entry.value:.3f}"})
            case Act.COMPLETE if is_agent:
                await self.post(caller, "/v1/sessions/me/complete", {"message": "done"})
                self._say(f"{name} completed")
            case Act.EXIT if target is not None:
                self._exit(target, int(entry.value * 4))
            case Act.KILL | Act.KILL_TREE if target is not None:
                await self._kill(target, tree=entry.act is Act.KILL_TREE)
            case Act.PAUSE | Act.RESUME | Act.RESTORE | Act.INTERRUPT if target is not None:
                body: dict[str, object] = {"for_s": 60.0, "wait_s": 0} if entry.act is Act.PAUSE else {}
                await self.post(world.operator, f"/v1/sessions/{target}/{entry.act}", body)
                self._say(f"operator ordered {entry.act} of {target}")
            case Act.BUDGET if target is not None:
                change = (
                    {"set": f"tokens={1 + int(40 * entry.value)}k"} if entry.value < 0.8 else {"set": "none"}
                )
                await self.post(world.operator, f"/v1/sessions/{target}/budget", change)
                self._say(f"operator set the budget of {target}: {change['set']}")
            case Act.ARCHIVE if target is not None:
                verb = "archive" if entry.value < 0.7 else "unarchive"
                await self.post(world.operator, f"/v1/sessions/{target}/{verb}", {})
                self._say(f"operator ordered {verb} of {target}")
            case Act.REMOVE if target is not None:
                await self.post(world.operator, f"/v1/sessions/{target}/remove", {})
                told.removed.add(target)
                self._say(f"operator removed {target}")
            case Act.WAIT if target is not None:
                await self._wait(name, caller, target, 120 * entry.value)
            case Act.WRITE if target is not None and (phone := self._company.phone) is not None:
                phone.send(target, self._new_tag(target))
            case Act.PRESS if (phone := self._company.phone) is not None:
                phone.press(entry.value)
            case Act.TOOL if target is not None and (tools := self._company.tools) is not None and is_agent:
                below = self._is_below(target, name)
                await tools.use(name, target, self._new_tag(target), entry.value, is_below=below)
            case Act.OVERSTEP if target is not None and is_agent:
                await self._overstep(name, caller, target, entry.value)
            case _:
                pass

    async def _spawn(
        self, name: str, caller: Caller, kind: str, terms: Mapping[str, object] | None = None
    ) -> None:
        body: dict[str, object] = {"agent_type": kind, "prompt": "work", "cwd": str(self._world.work)}
        body |= terms or {}
        if name == "operator":
            body["environment"] = dict(self._world.environ)
        try:
            answer = await self.post(caller, "/v1/sessions", body)
        except SmError:
            self._told.refused_spawns += 1
            raise
        self._told.spawned.append(answer["session_id"])
        self._say(
            f"{name} spawned {kind} {self._told.spawned[-1]}{'' if terms is None else f' with {terms}'}"
        )

    async def _fork(self, original: str) -> None:
        try:
            answer = await self.post(self._world.operator, f"/v1/sessions/{original}/fork", {})
        except SmError:
            self._told.refused_spawns += 1
            raise
        self._told.spawned.append(answer["session_id"])
        self._say(f"operator forked {original} to {answer['session_id']}")

    def _child_of(self, name: str, number: int) -> str | None:
        sessions = self._world.store.sessions.values()
        children = [s.id for s in sessions if s.parent_id == name]
        return children[number % len(children)] if children else None

    async def _send(self, name: str, caller: Caller, target: str, mode: str) -> None:
        tag = self._new_tag(target)
        body = {"to": target, "text": tag, "answer": "message", "mode": mode}
        try:
            await self.post(caller, "/v1/messages", body)
        except SmError:
            self._told.refused_sends.add(tag)
            raise
        self._told.sent.append(tag)
        self._say(f"{name} sent {tag} {'' if mode == 'auto' else mode}".rstrip())

    def _new_tag(self, target: str) -> str:
        self._tags += 1
        return f"tag{self._tags} to {target}"

    async def _ask(self, name: str, caller: Caller, value: float) -> None:
        request = await self.post(caller, "/v1/requests", {"question": "which?", "options": ["a", "b"]})
        self._say(f"{name} asked {request['request_id']}")
        await asyncio.sleep(60 * value)
        path = f"/v1/requests/{request['request_id']}/answer"
        await self.post(self._world.operator, path, {"answers": ["1"]})
        self._say(f"operator answered {request['request_id']}")

    async def _answer(self, value: float, name: str = "operator", caller: Caller | None = None) -> None:
        """Answer an open request. `caller`: an agent, which answers one that another session has asked."""
        caller = caller or self._world.operator
        while True:
            try:
                found = await caller.get("/v1/requests")
                break
            except DaemonAway:
                await asyncio.sleep(_AWAY_S)
                await self._start_daemon()
        found = [request for request in found if request["session_id"] != name]
        if not found:
            return
        request = found[int(value * 997) % len(found)]
        approved = value < 0.7
        body: dict[str, object] = {"approved": approved}
        if request["kind"] == "question" and approved:
            body = {"answers": ["1"]}
        await self.post(caller, f"/v1/requests/{request['request_id']}/answer", body)
        self._say(f"{name} answered {request['request_id']} ({request['kind']}): {body}")

    def _exit(self, target: str, code: int) -> None:
        run = self._told.run_of(target)
        if run is None:
            return
        claude, future = self.claudes.get(target), self.exits.get(target)
        if claude is not None and claude.program.process is run.process:
            claude.leave(code)
        elif future is not None and not future.done():
            future.set_result(code)
        else:
            return
        run.cause = Cause.ITSELF
        self._say(f"{target} exits with {code}")

    async def _kill(self, target: str, *, tree: bool) -> None:
        known = {*self._world.store.sessions, *self._told.spawned}
        self._told.killed |= {s for s in known if s == target or (tree and self._is_below(s, target))}
        await self.post(self._world.operator, f"/v1/sessions/{target}/kill", {"tree": True} if tree else {})
        self._say(f"operator killed {'the tree of ' if tree else ''}{target}")

    async def _wait(self, name: str, caller: Caller, target: str, wait_s: float) -> None:
        answer = await self.post(caller, "/v1/wait", {"sessions": [target], "wait_s": wait_s})
        statuses = [found["status"] for found in answer["sessions"]]
        self._say(f"{name} waited for {target}: {answer['reached']}, {statuses}")
        if answer["reached"] is True and not set(statuses) <= set(ENDED):
            self._told.waited.append(f"the wait for {target} answered that it has ended: {statuses}")

    async def _overstep(self, name: str, caller: Caller, target: str, value: float) -> None:
        """Try something that only the operator, or somebody above the target, may do."""
        if self._is_below(target, name) or target == name:
            orders: list[tuple[str, dict[str, object]]] = [
                ("/v1/restore", {}),
                ("/v1/budget", {"set": "usd=1000"}),
            ]
            store = self._world.store
            own = [b for b in store.part(PART).binding(store.sessions[name]) if b.id == name]
            if any(budget.limits.get("tokens") is not None for budget in own):  # else it adds a limit
                orders.append(("/v1/sessions/me/budget", {"set": "tokens=900M"}))
        else:
            orders = [
                (f"/v1/sessions/{target}/kill", {}),
                (f"/v1/sessions/{target}/archive", {}),
                (f"/v1/sessions/{target}/restore", {}),
                (f"/v1/sessions/{target}/interrupt", {}),
                (f"/v1/sessions/{target}/pause", {}),
                (f"/v1/sessions/{name}/reparent", {"parent": None}),
                ("/v1/sessions", {"agent_type": "Tty", "prompt": "x", "cwd": "/", "parent": target}),
            ]
        path, body = orders[int(value * len(orders))]
        await self.post(caller, path, body)
        self._told.overstepped.append(f"{name} ordered {path} {body}")

    def _is_below(self, session_id: str, above: str) -> bool:
        sessions = self._world.store.sessions
        at: str | None = session_id
        while at is not None and at in sessions:
            if at == above:
                return True
            at = sessions[at].parent_id
        return False
