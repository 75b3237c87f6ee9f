"""A client of the SDK for the played engine: the calls that sm makes, with the refusals of a real engine."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any

import requests
from docker.errors import APIError, ImageNotFound, NotFound
from docker.types import HostConfig

from tests.sim.containers import PlayedContainer, PlayedImage
from tests.sim.engine import PlayedEngine

_API = "1.43"


def _refusal(status: int, words: str, kind: type[APIError] = APIError) -> APIError:
    response = requests.Response()
    response.status_code = status
    return kind(words, response, words)


class PlayedDockerClient:
    """`docker.DockerClient` of the played engine, as far as sm uses one."""

    def __init__(self, engine: PlayedEngine) -> None:
        self._engine = engine
        self.api = _Calls(engine)
        self.images = SimpleNamespace(get=self._image)

    def _image(self, name: str) -> Any:
        return SimpleNamespace(id=self.api.image(name).id)

    def info(self) -> dict[str, Any]:
        self.api.require_engine()
        return {
            "ServerVersion": "27.0-played",
            "CgroupVersion": "2",
            "Driver": "overlay2",
            "SecurityOptions": ["name=seccomp,profile=builtin"],
            "LiveRestoreEnabled": self._engine.is_live_restoring,
            "DockerRootDir": "/",
            "NCPU": 2,
            "MemTotal": 8 << 30,
            "Runtimes": {"runc": {}},
        }

    def ping(self) -> bool:
        self.api.require_engine()
        return True

    def close(self) -> None:
        """Nothing is open."""


class _Calls:
    """`docker.APIClient`."""

    def __init__(self, engine: PlayedEngine) -> None:
        self._engine = engine
        self.timeout: float = 60

    def require_engine(self) -> None:
        if self._engine.process is None:
            raise requests.ConnectionError("the engine has gone")

    # Containers

    def _container(self, name: str) -> PlayedContainer:
        self.require_engine()
        if (found := self._engine.find(name)) is None:
            raise _refusal(404, f"No such container: {name}", NotFound)
        return found

    def containers(self, *, all: bool, filters: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
        self.require_engine()
        found = self._engine.containers.values()
        wanted = set(filters["label"])
        return [{"Id": c.id} for c in found if wanted <= {f"{k}={v}" for k, v in c.labels.items()}]

    def inspect_container(self, name: str) -> dict[str, Any]:
        found = self._container(name)
        return {
            "Id": found.id,
            "Name": f"/{found.name}",
            "Config": {"Labels": found.labels, "User": found.user},
            "State": {
                "Status": found.state,
                "Pid": 0 if found.init is None else found.init.pid,
                "OOMKilled": found.oom_killed,
                "ExitCode": found.exit_code,
            },
            "Image": found.image,
            "Mounts": found.mounts,
            "ExecIDs": list(found.execs) or None,
        }

    def create_host_config(self, **settings: Any) -> dict[str, Any]:
        return dict(HostConfig(version=_API, **settings))

    def create_container(
        self, *, name: str, labels: Mapping[str, str], host_config: Mapping[str, Any], **options: Any
    ) -> dict[str, Any]:
        image = self.image(options["image"])
        if (taken := self._engine.find(name)) is not None:
            words = f'Conflict. The container name "/{name}" is already in use by container "{taken.id}".'
            raise _refusal(409, words)
        self._require_sources(host_config.get("Mounts") or ())
        made = self._engine.add(name, labels, options.get("user", ""), image, host_config)
        return {"Id": made.id, "Warnings": []}

    def _require_sources(self, mounts: Sequence[Mapping[str, Any]]) -> None:
        for mount in mounts:
            if not Path(mount["Source"]).exists():
                words = f'invalid mount config for type "bind": bind source path does not exist: {mount["Source"]}'
                raise _refusal(400, words)

    def start(self, name: str) -> None:
        found = self._container(name)
        if found.is_running:
            return
        network = found.settings.get("NetworkMode", "none")
        if network != "none" and network not in self._engine.networks:
            raise _refusal(404, f"network {network} not found", NotFound)
        self._require_sources(found.settings.get("Mounts") or ())
        self._engine.run(found)

    def stop(self, name: str, timeout: float | None = None) -> None:
        found = self._container(name)
        self._engine.kill_container(found, signal.SIGTERM)

    def remove_container(self, name: str, *, force: bool = False, v: bool = False) -> None:
        found = self._container(name)
        if found.is_running and not force:
            raise _refusal(409, f"cannot remove container /{found.name}: container is running")
        self._engine.remove(found)

    def pause(self, name: str) -> None:
        found = self._container(name)
        if not found.is_running or found.is_frozen:
            raise _refusal(409, f"Container {found.id} is not running or is already paused")
        self._engine.pause(found)

    def unpause(self, name: str) -> None:
        found = self._container(name)
        if not found.is_frozen:
            raise _refusal(500, f"Container {found.id} is not paused")
        self._engine.unpause(found)

    # Commands in containers

    def exec_create(self, name: str, argv: Sequence[str], *, user: str = "") -> dict[str, Any]:
        found = self._container(name)
        if not found.is_running or found.is_frozen:
            raise _refusal(409, f"Container {found.id} is not running")
        return {"Id": (found, list(argv))}

    def exec_start(self, made: tuple[PlayedContainer, list[str]]) -> bytes:
        found, argv = made
        self.require_engine()
        match argv:
            case ["rm", "-rf", "--", path]:
                rmtree(found.host_path(path), ignore_errors=True)
                return b""
            case _:
                raise AssertionError(f"the played engine does not know the command {argv}")

    def exec_inspect(self, exec_id: str) -> dict[str, Any]:
        self.require_engine()
        for container in self._engine.containers.values():
            if (process := container.execs.get(exec_id)) is not None:
                arguments = list(process.argv[1:])
                return {
                    "Running": process.exit is None,
                    "Pid": process.pid,
                    "ProcessConfig": {"arguments": arguments},
                }
        raise _refusal(404, f"No such exec instance: {exec_id}", NotFound)

    # Images and networks

    def image(self, name: str) -> PlayedImage:
        self.require_engine()
        if (found := self._engine.images.get(name)) is None:
            raise _refusal(404, f"No such image: {name}", ImageNotFound)
        return found

    def inspect_image(self, name: str) -> dict[str, Any]:
        found = self.image(name)
        return {"Id": found.id, "Config": {"Labels": found.labels}, "Size": 1 << 20, "Created": ""}

    def df(self) -> dict[str, Any]:
        self.require_engine()
        used = {container.image for container in self._engine.containers.values()}
        return {
            "Images": [
                {"Id": image.id, "Labels": image.labels, "RepoTags": [name], "Containers": image.id in used}
                for name, image in self._engine.images.items()
            ]
        }

    def inspect_network(self, name: str) -> dict[str, Any]:
        self.require_engine()
        if name not in self._engine.networks:
            raise _refusal(404, f"network {name} not found", NotFound)
        return self._engine.networks[name]

    def create_network(self, name: str, *, labels: Mapping[str, str], **_: Any) -> dict[str, Any]:
        self.require_engine()
        made = self._engine.networks[name] = {"Id": self._engine.new_id(), "Labels": dict(labels)}
        return made

    def remove_network(self, name: str) -> None:
        self.inspect_network(name)
        if any(
            c.is_running and c.settings.get("NetworkMode") == name for c in self._engine.containers.values()
        ):
            raise _refusal(403, f"error while removing network: network {name} has active endpoints")
        del self._engine.networks[name]
