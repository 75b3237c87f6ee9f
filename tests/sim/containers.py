"""Played containers: their processes, their cgroups, and their files, which are files of this machine."""

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sm.daemon import sandboxing
from sm.linux.files import stat_without_links
from sm.linux.kernel import RootDirectory
from sm.paths import INSIDE_SCRATCH, InstancePaths
from tests.sim.processes import PlayedKernel, PlayedProcess
from tests.sim.replacing import replaced


@dataclass(frozen=True, slots=True)
class PlayedMount:
    """A bind mount. `shown`: the file of the host that the engine found at the source."""

    source: str
    target: str
    writable: bool
    shown: str


class PlayedContainer:
    """A container. `directory` has the files that are no mounts; `settings` is the answer of `create_host_config`."""

    def __init__(
        self,
        id: str,
        name: str,
        labels: Mapping[str, str],
        user: str,
        image: str,
        settings: Mapping[str, Any],
        directory: Path,
        cgroups: Path,
    ) -> None:
        self.id = id
        self.name = name
        self.labels = dict(labels)
        self.user = user
        self.image = image
        self.settings = settings
        self.state = "created"
        self.exit_code = 0
        self.oom_killed = False
        self.oom_kills = 0
        self.memory_bytes = 10 << 20
        """The memory that its processes use."""
        self.init: PlayedProcess | None = None
        self.execs: dict[str, PlayedProcess] = {}
        """The agents that the engine started in it, by the id of the exec."""
        self.removed: set[str] = set()
        """The mount points whose directory somebody has removed on the host since the start."""
        self._directory = directory
        self._cgroups = cgroups
        self._inside = itertools.count(1)
        self._mounts = [
            PlayedMount(m["Source"], m["Target"], not m["ReadOnly"], m["Source"])
            for m in settings.get("Mounts") or ()
        ]

    # Its state

    def begin(self, init: PlayedProcess, programs: Sequence[str]) -> None:
        """Run, with new temporary files. `programs`: those of the image."""
        self.state, self.init = "running", init
        self.removed.clear()
        self._mounts = [
            PlayedMount(m.source, m.target, m.writable, os.path.realpath(m.source)) for m in self._mounts
        ]
        shutil.rmtree(self._directory, ignore_errors=True)
        for name in ("usr/bin", "tmp", "run", INSIDE_SCRATCH[1:]):
            (self._directory / name).mkdir(parents=True)
        (self._directory / "bin").symlink_to("usr/bin")
        for name in programs:
            (self._directory / "usr/bin" / name).touch(0o755)
        os.makedirs(f"{self._cgroups}{self.cgroup}")

    def finish(self, exit_code: int) -> None:
        self.state, self.init, self.exit_code = "exited", None, exit_code
        self._inside = itertools.count(1)
        self.execs.clear()
        shutil.rmtree(f"{self._cgroups}{self.cgroup}")

    def forget(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        return self.init is not None

    @property
    def uid(self) -> int:
        """The user of its processes."""
        return int(self.user.partition(":")[0] or 0)

    @property
    def mounts(self) -> list[dict[str, Any]]:
        """As the engine describes them."""
        return [
            {"Type": "bind", "Source": m.source, "Destination": m.target, "RW": m.writable}
            for m in self._mounts
        ]

    # Place

    @property
    def cgroup(self) -> str:
        return f"/docker/{self.id}"

    @property
    def reaper(self) -> int:
        return 1 if self.init is None else self.init.pid

    @property
    def is_frozen(self) -> bool:
        return self.state == "paused"

    def enter(self) -> int:
        return next(self._inside)

    def open_root(self) -> RootDirectory:
        return _PlayedRoot(self)

    def mount_points(self) -> Mapping[str, str]:
        removed = dict.fromkeys(self.removed, "//deleted")
        return {"/": "/", **{m.target: m.shown + removed.get(m.target, "") for m in self._mounts}}

    # Files

    def host_path(self, inside: str) -> str:
        """The path on this machine of an absolute path inside."""
        path = "/" + os.path.normpath(inside).lstrip("/") + ("/." if inside.endswith("/.") else "")
        found = [m for m in self._mounts if path == m.target or path.startswith(m.target + "/")]
        if not found:
            return f"{self._directory}{path}"
        mount = max(found, key=lambda m: len(m.target))
        return mount.shown + path.removeprefix(mount.target)

    def cgroup_file(self, name: str, pids: Sequence[int]) -> bytes:
        """The content of a file of its cgroup. Raises FileNotFoundError."""
        limits = {"memory.max": self.settings.get("Memory"), "pids.max": self.settings.get("PidsLimit")}
        match name:
            case "cgroup.procs":
                return "".join(f"{pid}\n" for pid in pids).encode()
            case "cgroup.freeze":
                return b"1\n" if self.is_frozen else b"0\n"
            case "memory.current":
                return f"{self.memory_bytes}\n".encode()
            case "memory.events":
                return f"oom_kill {self.oom_kills}\n".encode()
            case "memory.stat":
                return b""
            case "pids.current":
                return f"{len(pids)}\n".encode()
            case "memory.max" | "pids.max":
                return f"{limits[name] or 'max'}\n".encode()
            case _:
                raise FileNotFoundError(name)


class _PlayedRoot:
    """`RootDirectory` of the processes of a container."""

    def __init__(self, container: PlayedContainer) -> None:
        self._container = container

    def open(self, path: bytes, flags: int) -> int:
        return os.open(self._container.host_path(os.fsdecode(path)), flags | os.O_CLOEXEC)

    def status_without_links(self, path: str) -> os.stat_result:
        return stat_without_links(self._container.host_path(path))

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class PlayedImage:
    """An image. `programs`: those on the PATH of agents; the played programs of these names can run in it."""

    id: str
    programs: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)


@contextmanager
def played_client() -> Iterator[None]:
    """Write a command `sm` for containers that nothing runs: to compile the real one takes longer than a test."""

    def write(paths: InstancePaths) -> None:
        command = Path(paths.client, "bin/sm")
        command.parent.mkdir(parents=True, exist_ok=True)
        command.touch(0o755)

    with replaced((sandboxing, "write_client", write)):
        yield


class Cgroups:
    """The mounted hierarchy of the cgroups of containers. Only directories are real; the kernel shows the files."""

    def __init__(
        self, directory: Path, kernel: PlayedKernel, containers: Mapping[str, PlayedContainer]
    ) -> None:
        self._kernel = kernel
        self._containers = containers
        directory.mkdir(parents=True)
        kernel.file_systems[str(directory)] = self._read

    def _read(self, path: str) -> bytes:
        folder, _, name = path.rpartition("/")
        container = next((c for c in self._containers.values() if c.cgroup == folder and c.is_running), None)
        if container is None:
            raise FileNotFoundError(path)
        return container.cgroup_file(name, [p.pid for p in self._kernel.inhabitants(container)])
