"""The daemon in a simulation: sessions of commands, crashes, callers."""

import os
import shlex

import pytest

from sm.client.http import DaemonAway, new_key
from sm.core.models import Exit
from sm.errors import NotPermitted, ProgramMissing, StorageFull
from sm.linux.inotify import IN_MODIFY
from sm.linux.process_endings import ProcessWatch
from tests.sim.file_events import PlayedNotices
from tests.sim.programs import Running
from tests.sim.scripts import parse_script
from tests.sim.world import World, simulation

pytestmark = pytest.mark.simulation

CONFIG = """
default_trust: direct
commands:
  Sleeper: {command: [sleep, "1000000"], prompt: file}
  Failing: {command: [failing], prompt: file}
  Reading: {command: [reading], prompt: file, input: tty}
  Missing: {command: [no-such-program], prompt: file}
"""


async def failing(program: Running) -> int:
    program.print("last words")
    return 3


async def reading(program: Running) -> None:
    while (line := await program.read_line()) != "end":
        program.print(f"got {line}")


def install(world: World) -> None:
    world.programs.installed |= {"failing": failing, "reading": reading}


async def test_exit_code_of_a_command_agent_is_recorded_once() -> None:
    async with simulation(CONFIG) as world:
        install(world)
        id = await world.spawn("Failing")
        await world.settled()
        assert (await world.session(id))["status"] == "error"
        events = await world.operator.get("/v1/events", session=id, limit=100)
        assert [e["type"] for e in events["events"]].count("error") == 1


async def test_program_that_is_missing_fails_its_session() -> None:
    async with simulation(CONFIG) as world:
        with pytest.raises(
            ProgramMissing, match="cannot run no-such-program: no such program on the agent's PATH"
        ):
            await world.spawn("Missing")
        await world.settled()
        (found,) = await world.operator.get("/v1/sessions", all=1)
        assert (found["status"], found["pid"]) == ("error", None)


async def test_killed_agent_is_gone() -> None:
    async with simulation(CONFIG) as world:
        install(world)
        id = await world.spawn("Sleeper")
        await world.settled()
        pid = (await world.session(id))["pid"]
        await world.operator.post(f"/v1/sessions/{id}/kill", {})
        await world.settled()
        assert (await world.session(id))["status"] == "killed"
        assert pid not in world.kernel.processes or world.kernel.processes[pid].exit is not None


async def test_message_is_typed_into_a_command_agent_once() -> None:
    async with simulation(CONFIG) as world:
        install(world)
        id = await world.spawn("Reading")
        await world.settled()
        await world.operator.post("/v1/messages", {"to": id, "text": "hello"})
        await world.settled()
        assert world.programs.running[id].pane.lines.count("got [sm] from operator, message 1: hello") == 1


async def test_agent_survives_a_dropped_daemon_and_its_end_is_told_by_the_next_one() -> None:
    async with simulation(CONFIG) as world:
        install(world)
        id = await world.spawn("Reading")
        await world.settled()
        pid = (await world.session(id))["pid"]
        world.daemon.drop()
        with pytest.raises(DaemonAway):
            await world.session(id)
        await world.start()
        await world.settled()
        found = await world.session(id)
        assert (found["status"], found["pid"]) == ("running", pid)
        world.daemon.drop()
        program = world.programs.running[id]
        world.server.put(program.pane, ("text", "end"))
        world.server.put(program.pane, ("key", "Enter"))
        await world.loop.quiet()
        await world.start()
        await world.settled()
        assert (await world.session(id))["status"] == "completed"


async def test_first_spawn_starts_one_agent_when_the_daemon_is_dropped_at_every_fourth_step() -> None:
    """The client repeats the request with its key, as `sm spawn` does.

    `tests/played/test_crash_in_spawn.py` drops the daemon at each step of a later spawn.
    """
    for at in range(1, 600, 4):
        async with simulation(CONFIG) as world:
            dropped = world.drop_after(at)
            key = new_key()
            body = {"agent_type": "Sleeper", "prompt": "work", "cwd": str(world.work), "environment": {}}
            try:
                answer = await world.operator.post("/v1/sessions", body, key=key)
                is_late = world.daemon.is_running and not world.daemon.store.mail.open.effects
            except DaemonAway:
                is_late = False
                await world.start()
                answer = await world.operator.post("/v1/sessions", body, key=key)
            await dropped
            if not world.daemon.is_running:
                await world.start()
            await world.settled()
            sessions = await world.operator.get("/v1/sessions")
            assert [(s["session_id"], s["status"]) for s in sessions] == [(answer["session_id"], "running")]
            agents = [p for p in world.kernel.processes.values() if p.argv[0] == "sleep" and p.exit is None]
            assert [p.pid for p in agents] == [sessions[0]["pid"]]
        if is_late:
            return
    raise AssertionError("the spawn takes more steps")


async def test_caller_is_found_by_its_process() -> None:
    async with simulation(CONFIG) as world:
        install(world)
        first, second = await world.spawn("Sleeper"), await world.spawn("Sleeper")
        await world.settled()
        agent = world.programs.running[first].sm
        child = await world.spawn("Sleeper", by=agent)
        assert (await world.session(child))["parent_session_id"] == first
        with pytest.raises(NotPermitted):
            await agent.post(f"/v1/sessions/{second}/kill", {})


async def test_terminal_server_that_ends_ends_its_sessions() -> None:
    async with simulation(CONFIG) as world:
        id = await world.spawn("Sleeper")
        await world.settled()
        world.server.kill()
        await world.settled()
        assert (await world.session(id))["status"] == "error"


async def test_full_disk_refuses_a_message_and_takes_it_when_there_is_room() -> None:
    async with simulation(CONFIG) as world:
        install(world)
        id = await world.spawn("Reading")
        await world.settled()
        world.disk.is_full = True
        with pytest.raises(StorageFull):
            await world.operator.post("/v1/messages", {"to": id, "text": "hello"})
        with pytest.raises(OSError, match="No space left"):
            (world.work / "file").write_text("x", encoding="utf-8")
        assert world.disk.refused >= 2
        world.disk.is_full = False
        await world.operator.post("/v1/messages", {"to": id, "text": "hello"})
        await world.settled()
        got = [line for line in world.programs.running[id].pane.lines if line.startswith("got ")]
        assert [line.rpartition(": ")[2] for line in got] == ["hello"]


async def test_daemon_that_is_dropped_while_it_starts_is_followed_by_another() -> None:
    async with simulation(CONFIG) as world:
        for steps in range(1, 400, 40):
            world.daemon.drop()
            world.drop_next_after(steps)
            await world.start()
            if not world.daemon.is_running:
                await world.start()
            world.loop.forget_interruptions()
            assert await world.operator.get("/v1/sessions") == []


async def test_processes_that_end_leave_no_file_open() -> None:
    async with simulation(CONFIG) as world:
        before = os.listdir("/proc/self/fd")
        for _ in range(20):
            process = world.kernel.start(("true",), {}, "/")
            watch = ProcessWatch()
            watch.watch(process.process, lambda: None)
            world.kernel.end(process, Exit(0))
            watch.close()
            world.kernel.end(world.kernel.start(("unwatched",), {}, "/"), Exit(0))
            world.kernel.reap(process)
        assert os.listdir("/proc/self/fd") == before


async def test_launch_script_is_read_as_a_shell_reads_it() -> None:
    words = ["agent", "it's", "two\nlines", 'a "b" \\ $c', ""]
    script = "\n".join(
        [
            f"cd -- {shlex.quote('/a dir')} || exit 3",
            f"export {shlex.quote('NAME=it is')}",
            f"set -- {' '.join(map(shlex.quote, words))}",
        ]
    )
    assert parse_script(script) == ("/a dir", words, {"NAME": "it is"})


async def test_played_terminal_is_no_terminal_of_this_machine() -> None:
    # Those of other processes have the same numbers, and their output would come at any time.
    notices = PlayedNotices()
    queue = notices.open()
    with pytest.raises(FileNotFoundError):
        notices.add(queue, "/dev/pts/ptmx", IN_MODIFY)
    notices.close(queue)
