"""An engine that hangs, is killed or starts again, under containers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from sm.errors import SandboxUnavailable
from sm.linux.processes import is_alive, read_stat
from sm.sandboxes.containers import ContainerEventKind
from tests.engine import EngineProcess
from tests.sandboxes.docker.conftest import Open, Sandboxes

pytestmark = pytest.mark.processes


@pytest.fixture
async def private(
    private_engine: EngineProcess, open_sandboxes: Open, sandbox_image: str
) -> AsyncIterator[Sandboxes]:
    """Containers on an engine of their own. Their removal needs a live engine."""
    made = open_sandboxes(private_engine.url, sandbox_image)
    yield made
    if private_engine.process() is not None:
        private_engine.resume()
    private_engine.start()


async def test_hung_engine_refuses_all_starts_and_leaves_what_is_known(
    private: Sandboxes, private_engine: EngineProcess
) -> None:
    made = await private.containers.ensure(private.workspace())
    others = [private.workspace(f"w{number}") for number in range(20)]
    with contextlib.closing(private.connect(ping_s=2)) as private.engine:
        later = private.open()
        await later.adopt()
        private_engine.hang()
        starting = asyncio.gather(*(later.ensure(other) for other in others), return_exceptions=True)
        await asyncio.sleep(0)
        assert later.find("shop") == made and later.of_pid(made.init.pid) == made
        assert not starting.done()
        for answer in await starting:
            assert isinstance(answer, SandboxUnavailable) and "does not respond" in answer.message
        private_engine.resume()
        assert (await later.ensure(others[0])).workspace == "w0"
        await later.close()


async def test_close_returns_while_the_engine_hangs(
    private: Sandboxes, private_engine: EngineProcess
) -> None:
    made = await private.containers.ensure(private.workspace())
    private.follow()
    private_engine.hang()
    waiting = asyncio.create_task(private.containers.ensure(private.workspace("other")))
    await asyncio.sleep(0)
    await private.containers.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    process = private_engine.process()
    assert process is not None
    stat = read_stat(process.pid)
    assert stat is not None and stat.stopped
    assert is_alive(made.init)


async def test_containers_are_known_again_when_the_engine_restarts_under_them(
    private: Sandboxes, private_engine: EngineProcess
) -> None:
    private_engine.stop()
    private_engine.options = ("--live-restore",)
    private_engine.start()
    workspace = private.workspace()
    made = await private.containers.ensure(workspace)
    private.start_inside(made, "sleep", "1000")
    private.follow()
    for end in (private_engine.stop, private_engine.kill):
        end()
        assert private.containers.find("shop") == made
        with pytest.raises(SandboxUnavailable, match="no Docker engine"):
            await private.containers.ensure(workspace)
        private_engine.start()
        assert await private.containers.ensure(workspace) == made
    assert len(made.members()) == 1
    assert private.events == []
    private.docker("kill", made.id)
    await private.until(lambda: private.events, "the event, after the stream was connected again")


async def test_containers_that_end_with_the_engine_are_told_once(
    private: Sandboxes, private_engine: EngineProcess
) -> None:
    workspace = private.workspace()
    made = await private.containers.ensure(workspace)
    private.follow()
    private_engine.kill()
    assert is_alive(made.init)  # an engine without live-restore ends them when it starts again
    private_engine.start()
    await private.until(lambda: private.events, "the end of the container")
    assert private.events == [(ContainerEventKind.DIED, made)]
    again = await private.containers.ensure(workspace)
    assert again.id == made.id and again.init != made.init
    assert private.containers.problem("shop") is None
