"""`Sandboxes` of conftest.py on the played engine of tests/sim, and that engine as an `EngineProcess`."""

import asyncio
import os
import shutil
import signal
from typing import Any

from sm.core.models import Process
from sm.sandboxes.containers import Container
from sm.sandboxes.docker.engine import PING_S, Engine
from tests.sandboxes.docker.conftest import Sandboxes
from tests.sim.docker_client import PlayedDockerClient
from tests.sim.engine import ENGINE_URL, IMAGE, PlayedAccess, PlayedEngine
from tests.sim.lives import Life
from tests.sim.world import World


class PlayedEngineProcess:
    """The orders of `EngineProcess`."""

    url = ENGINE_URL

    def __init__(self, engine: PlayedEngine) -> None:
        self._engine = engine
        self.options: tuple[str, ...] = ()

    def start(self) -> None:
        self._engine.is_live_restoring = "--live-restore" in self.options
        self._engine.start()

    def stop(self) -> None:
        self._engine.stop()

    def kill(self) -> None:
        self._engine.kill()

    def hang(self) -> None:
        self._engine.hang()

    def resume(self) -> None:
        self._engine.resume()

    def process(self) -> Process | None:
        return None if self._engine.process is None else self._engine.process.process


class PlayedSandboxes(Sandboxes):
    """Containers of one instance on the engine of a world."""

    def __init__(self, world: World, **settings: Any) -> None:
        self._world = world
        self._life = Life("test", os.getpid())
        super().__init__(ENGINE_URL, IMAGE, **settings)

    def connect(self, ping_s: float = PING_S) -> Engine:
        played = self._world.engine
        access = PlayedAccess(
            played, self._world.loop, self._world.board, self._life, lambda: PlayedDockerClient(played)
        )
        return Engine(ENGINE_URL, ping_s=ping_s, access=access)

    def give(self, path: str, uid: int) -> None:
        if os.geteuid() == 0:
            os.chown(path, uid, uid)

    def docker(self, *arguments: str, check: bool = True) -> str:
        client, engine = PlayedDockerClient(self._world.engine), self._world.engine
        match arguments:
            case ["run", "-d", "--name", name, "--network", "none", *more]:
                labels = dict(label.split("=") for option, label in _pairs(more) if option == "--label")
                return engine.run_foreign(name, labels).id
            case ["inspect", "-f", form, name]:
                found = engine.find(name)
                assert found is not None
                shown: dict[str, object] = {
                    "{{.HostConfig.PidsLimit}}": found.settings.get("PidsLimit"),
                    "{{.State.Paused}}": str(found.is_frozen).lower(),
                    "{{.State.Running}}": str(found.is_running).lower(),
                }
                return str(shown[form])
            case ["pause", name]:
                client.api.pause(name)
            case ["stop", "-t", "1", name]:
                client.api.stop(name)
            case ["kill", name]:
                found = engine.find(name)
                assert found is not None
                engine.kill_container(found, signal.SIGKILL)
            case ["rm", "-f", name]:
                client.api.remove_container(name, force=True)
            case ["network", "rm", name]:
                client.api.remove_network(name)
            case _:
                raise AssertionError(f"the played command docker does not know {arguments}")
        return ""

    def inside(self, container: Container, *command: str, check: bool = True) -> str:
        """Start the background process of a shell."""
        self._world.kernel.start(command, {}, "/", parent=container.init.pid)
        return ""

    def start_inside(self, container: Container, *command: str) -> None:
        self._world.kernel.start(command, {}, "/", place=self._world.engine.containers[container.id])

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.containers.close()
        self.engine.close()
        shutil.rmtree(self.root)


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=False))
