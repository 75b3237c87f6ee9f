"""The played claude does what the recordings of the real one say, and the daemon takes it for claude."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.record.shapes import lines_of, merged
from tests.sim.claude import Habits, Journal, PlayedClaude
from tests.sim.programs import Running
from tests.sim.recorded import NotRecorded, recorded, shapes
from tests.sim.world import World, simulation

pytestmark = pytest.mark.simulation

CONFIG = """
default_trust: direct
claude:
  default_command: /usr/bin/stand-in
  agent_configs: {Plain: {}}
"""


@asynccontextmanager
async def played(habits: Habits, journal: Journal) -> AsyncIterator[World]:
    async with simulation(CONFIG) as world:

        async def claude(program: Running) -> int:
            chance = random.Random(program.session_id)
            return await PlayedClaude(program, world.clocks, chance, habits, journal).run()

        world.programs.installed["stand-in"] = claude
        yield world


async def test_played_hooks_and_lines_have_the_recorded_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, seen = Journal(), dict[str, list[object]]()

    def keep(kind: str, name: str, values: object) -> dict[str, object]:
        made = recorded(kind, name, values)  # type: ignore[arg-type]
        seen.setdefault(f"{kind}/{name}", []).append(made)
        return made

    monkeypatch.setattr("tests.sim.claude.recorded", keep)
    monkeypatch.setattr("tests.sim.claude_files.recorded", keep)
    async with played(Habits(tools_max=4, permission=0.3, question=0.2), journal) as world:
        id = await world.spawn("Plain")
        for number in range(12):
            await world.operator.post("/v1/messages", {"to": id, "text": f"tag{number}"})
            for request in await world.operator.get("/v1/requests"):
                answer = {"answers": ["1"]} if request["kind"] == "question" else {"approved": True}
                await world.operator.post(f"/v1/requests/{request['request_id']}/answer", answer)
            await asyncio.sleep(60)
        await world.operator.post(f"/v1/sessions/{id}/kill", {})
    assert len(seen) > 15
    for name, values in seen.items():
        kind, _, shape = name.partition("/")
        now = merged([lines_of(json.loads(json.dumps(value))) for value in values])
        real = shapes(kind)[shape]
        assert now.keys() <= real.keys(), name
        assert {
            path: kinds - real[path][1] for path, (_, kinds) in now.items() if kinds - real[path][1]
        } == {}, name


async def test_key_that_claude_never_writes_is_refused() -> None:
    with pytest.raises(NotRecorded):
        recorded("hooks", "Stop", {"mood": "good"})


async def test_turn_of_played_claude_is_counted_and_its_message_acknowledged() -> None:
    journal = Journal()
    heard: list[str] = []
    journal.heard = lambda session_id, text: heard.append(text)
    async with played(Habits(permission=0, question=0, done=0), journal) as world:
        id = await world.spawn("Plain")
        await world.in_status(id, "idle")
        await world.operator.post("/v1/messages", {"to": id, "text": "tag1"})
        await world.in_status(id, "running")
        await world.in_status(id, "idle")
        await world.settled()
        (message,) = await world.operator.get("/v1/messages", session=id)
        assert (message["status"], heard) == ("acknowledged", ["[sm] from operator, message 1\ntag1"])
        report = await world.operator.get("/v1/usage/report")
        used = [sum(kind) for kind in zip(*journal.files[id][0].usage.values(), strict=True)]
        assert list(report["total"]["tokens"].values()) == used
        assert journal.turns == 2


async def test_fork_counts_its_own_messages_alone_whatever_the_clock_says() -> None:
    journal = Journal()
    async with played(Habits(permission=0, question=0, done=0), journal) as world:
        original = await world.spawn("Plain")
        await world.in_status(original, "idle")
        world.clocks.step(-3600)  # the messages of the original are later than the fork is ordered
        fork = (await world.operator.post(f"/v1/sessions/{original}/fork", {}))["session_id"]
        await world.in_status(fork, "idle")
        world.clocks.step(-3600)  # the messages of the fork are earlier
        for text in ("tag1", "tag2"):
            await world.operator.post("/v1/messages", {"to": fork, "text": text})
            await world.in_status(fork, "running")
            await world.in_status(fork, "idle")
            await world.settled()
            for session_id in (original, fork):
                used = [sum(kind) for kind in zip(*journal.files[session_id][0].usage.values(), strict=True)]
                progress = await world.operator.get(f"/v1/sessions/{session_id}/progress")
                assert list(progress["tokens"].values()) == used
            world.daemon.drop()
            await world.start()


async def test_dialog_of_played_claude_is_answered_by_its_hook() -> None:
    journal = Journal()
    async with played(Habits(tools_max=1, permission=1, question=0, done=0), journal) as world:
        id = await world.spawn("Plain")
        for number in range(20):
            await world.operator.post("/v1/messages", {"to": id, "text": f"tag{number}"})
            await asyncio.sleep(40)
            if await world.operator.get("/v1/requests"):
                break
        (request,) = await world.operator.get("/v1/requests")
        assert (await world.session(id))["status"] == "waiting_input"
        await world.operator.post(f"/v1/requests/{request['request_id']}/answer", {"approved": True})
        await world.in_status(id, "idle")
        assert (await world.operator.get(f"/v1/requests/{request['request_id']}"))["state"] == "answered"
        assert journal.wrongly_typed == []


async def test_played_claude_exits_as_the_real_one_when_it_is_killed() -> None:
    async with played(Habits(), Journal()) as world:
        id = await world.spawn("Plain")
        await world.settled()
        await world.operator.post(f"/v1/sessions/{id}/kill", {})
        found = await world.session(id)
        assert (found["status"], found["exit_code"]) == ("killed", 143)
