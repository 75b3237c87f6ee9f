"""A container of a real engine with the options of the product, for tests of single modules."""

import contextlib
import os
import signal
import subprocess
import uuid
from pathlib import Path

import docker  # type: ignore[import-untyped,unused-ignore]

from sm.config import Config, sandbox_for
from sm.core.models import Process, Workspace
from sm.errors import SandboxUnavailable
from sm.linux.processes import identify, is_alive, is_ending, signal_process
from sm.paths import InstancePaths
from sm.sandboxes.containers import Container
from sm.sandboxes.docker.spec import build_spec
from tests.waits import until

USER = 1000


class RealContainers:
    """The container of workspace `w`, whose directory is `project`. Remove it with `close`."""

    def __init__(self, engine: str, image: str, folder: Path, **settings: object) -> None:
        self.engine = engine
        self.project = folder / "project"
        self.project.mkdir()
        os.chown(self.project, USER, USER)
        self.workspace = Workspace("w", str(self.project), "2026-01-27T15:10:00.000Z")
        self.paths = InstancePaths(str(folder / "config/config.yaml"), str(folder / "state"))
        section = {"image": image, "network": "none", "memory": "512m", "pids": 256, **settings}
        self.config = Config.model_validate({"sandbox": section})
        self.idle_starts: list[str | None] = []
        self._api = docker.APIClient(base_url=engine, timeout=60)
        self._container = self._make()

    def _make(self) -> Container:
        own = self.paths.sandbox("w")
        for path in (own.home, own.launch, own.socket_dir, self.paths.client):
            os.makedirs(path, mode=0o700)
            os.chown(path, USER, USER)
        spec = build_spec(
            self.workspace,
            sandbox_for(self.config, self.workspace),
            self.paths,
            uuid.uuid4().hex,
            nofile_max=None,
        )
        host_config = self._api.create_host_config(**spec.host_config)
        made = self._api.create_container(
            name=spec.name, labels=dict(spec.labels), host_config=host_config, **spec.options
        )
        self.id: str = made["Id"]
        try:
            self._api.start(self.id)
            pid = self._api.inspect_container(self.id)["State"]["Pid"]
        except BaseException:
            self.close()
            raise
        init = identify(pid)
        assert init is not None
        return Container(self.id, spec.name, "w", *spec.user, init, spec.hash, spec.mounts)

    async def check(self, workspace: Workspace | None) -> tuple[str, ...]:
        return ()

    async def ensure(self, workspace: Workspace | None) -> Container:
        if workspace != self.workspace or not is_alive(self._container.init):
            raise SandboxUnavailable("this test has no such container")
        return self._container

    def find(self, workspace: str | None) -> Container | None:
        return self._container if workspace == "w" else None

    async def has_ended(self, workspace: str | None, process: Process) -> bool:
        return is_ending(self._container.init)

    def start_idle_time(self, workspace: str | None) -> None:
        self.idle_starts.append(workspace)

    def members(self) -> set[int]:
        """The live processes, without those of the container itself."""
        return {process.pid for process in self._container.members()}

    def host_pid(self, inside: int) -> int | None:
        """The pid on the host of a process that the container knows as `inside`."""
        for pid in self.members():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if pid_inside(pid) == inside:
                    return pid
        return None

    def clear(self) -> None:
        """Kill all processes but those of the container itself."""

        def is_empty() -> bool:
            for pid in self.members():
                if (process := identify(pid)) is not None:
                    signal_process(process, signal.SIGKILL)
            return not self.members()

        until(is_empty, "the container is empty")

    def exec(self, *argv: str) -> str:
        """Run a command inside as the container's user, and return its output."""
        # exec_start of docker-py loses output that arrives together with the headers of the answer: it reads past their
        # buffer.
        command = ["docker", "-H", self.engine, "exec", "--user", f"{USER}:{USER}", self.id, *argv]
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return ended.stdout

    def pause(self) -> None:
        self._api.pause(self.id)

    def inspect(self) -> str:
        """Everything that the engine says about the container and its execs."""
        found = self._api.inspect_container(self.id)
        execs = [self._api.exec_inspect(id) for id in found["ExecIDs"] or ()]
        return repr((found, execs))

    def close(self) -> None:
        self._api.remove_container(self.id, force=True)
        self._api.close()


def pid_inside(pid: int) -> int:
    """The pid of a process in its own PID namespace: the last number of NSpid (proc(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    raise AssertionError("the kernel has no PID namespaces")
