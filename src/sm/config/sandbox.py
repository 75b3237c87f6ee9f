"""The section `sandbox:` of config.yaml, and its overrides for a workspace."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from sm.config.fields import AbsolutePath, FileName, Text, Variable
from sm.core.models import IDENTITY
from sm.core.programs import agent_programs, engine_programs
from sm.policy.environment import denied_in_sandbox
from sm.policy.mounts import system_refusal
from sm.section import Section

_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_SIZE = re.compile(r"([1-9][0-9]{0,9})([bkmg]?)")
_SIZE_MAX = 1 << 50
_MEMORY_MIN = "512m"
"""A start needs 300 MB of free memory in the container."""
_OWN_VARIABLES = frozenset({*IDENTITY, "SM_PROMPT_FILE", "HOME", "PATH"})
_MOUNTS_MAX = 100


def bytes_of(size: str) -> int:
    """The number of bytes in a size such as `512m`. Raises ValueError."""
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError("must be a size: a number of bytes, or a number with k, m or g, such as 512m")
    return int(match[1]) * _UNITS[match[2]]


def _size(value: str) -> str:
    if bytes_of(value) > _SIZE_MAX:
        raise ValueError(f"must be at most {_SIZE_MAX // 1024**3}g")
    return value


def _memory(value: str) -> str:
    if bytes_of(_size(value)) < bytes_of(_MEMORY_MIN):
        raise ValueError(f"must be at least {_MEMORY_MIN}: an agent needs that much")
    return value


def _engine(value: str) -> str:
    if not any(re.fullmatch(engine.url_pattern, value) for engine in engine_programs()):
        raise ValueError("must be the socket of an engine on this machine: unix:///PATH")
    return value


def _image(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:@-]{0,254}", value):
        raise ValueError("is not a valid image name, such as sm-sandbox or registry.example.org/name:tag")
    return value


def _passed(name: str) -> str:
    if denied_in_sandbox(name):
        raise ValueError(f"{name} cannot be passed into a sandbox: it makes programs run other code")
    if name in _OWN_VARIABLES or any(name in program.reserved_variables for program in agent_programs()):
        raise ValueError(f"{name} cannot be passed into a sandbox: sm sets it itself")
    return name


def split_mount(mount: str) -> tuple[str, bool]:
    """The path of a mount `/PATH[:ro|rw]`, and True if it is writable. Raises ValueError."""
    path, _, mode = mount.partition(":")
    if mode not in ("", "ro", "rw") or (mount.endswith(":") and not mode):
        raise ValueError("must be /PATH, /PATH:ro or /PATH:rw")
    return path, mode == "rw"


def _mount(value: str) -> str:
    path, _ = split_mount(value)
    if not path.startswith("/"):
        raise ValueError("must be an absolute path: /PATH, /PATH:ro or /PATH:rw")
    if ".." in path.split("/"):
        raise ValueError("must not contain ..")
    if reason := system_refusal(_plain(path)):
        raise ValueError(f"{path} cannot be mounted: {reason}")
    return value


def _plain(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _mounts(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > _MOUNTS_MAX:
        raise ValueError(f"must not contain more than {_MOUNTS_MAX} mounts")
    paths = [_plain(split_mount(mount)[0]) for mount in value]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"must not contain {path} twice")
    return value


def _protected(value: str) -> str:
    parts = value.rstrip("/").split("/")
    if not value or any(part in ("", ".", "..") for part in parts):
        raise ValueError("must be a path below the workspace's directory, such as .git/hooks")
    return value.rstrip("/")


Engine = Annotated[Text, AfterValidator(_engine)]
Image = Annotated[str, AfterValidator(_image)]
Memory = Annotated[str, AfterValidator(_memory)]
Size = Annotated[str, AfterValidator(_size)]
PassedVariable = Annotated[Variable, AfterValidator(_passed)]
MountPath = Annotated[AbsolutePath, AfterValidator(_mount)]
Mounts = Annotated[tuple[MountPath, ...], AfterValidator(_mounts)]
ProtectedPath = Annotated[Text, AfterValidator(_protected)]


class SandboxOptions(Section):
    """Settings of a container that a workspace can override."""

    image: Image = "sm-sandbox"
    """The image of containers. `sm sandbox build` makes it."""
    network: Literal["bridge", "none"] = "bridge"
    """bridge: containers reach the network, but not each other. none: no network at all."""
    host_access: bool = False
    """Give containers the name host.docker.internal for this machine. Needs network: bridge."""
    memory: Memory = "4g"
    """Memory of a container, at least 512m. Containers do not swap."""
    memory_reservation: Size = "512m"
    """Memory that a container keeps when this machine runs out of memory. A value above memory counts as memory."""
    cpus: float = Field(default=2.0, ge=0.1, le=1024, allow_inf_nan=False)
    """CPU time of a container, as a number of processors."""
    pids: int = Field(default=1024, ge=128, le=1_000_000)
    """Processes and threads of a container. A start needs 64 that are free."""
    nofile: int | None = Field(default=None, ge=256, le=1_073_741_816)
    """Open files of a process, at most the limit of the engine. Null for the engine's default."""
    scratch: Size = "512m"
    """Size of /scratch, the private directories of sessions. It counts as memory of the container."""
    tmp: Size = "256m"
    """Size of /tmp. It counts as memory of the container."""
    runtime: FileName | None = None
    """Another runtime of the engine, such as runsc, or null for the engine's default."""
    pass_env: tuple[PassedVariable, ...] = ()
    """Variables that sandboxed agents get from the caller's environment, such as ANTHROPIC_API_KEY."""
    mounts: Mounts = ()
    """Files and directories of this machine that containers see at the same path: /PATH or /PATH:ro read-only, /PATH:rw
    writable."""
    protect: tuple[ProtectedPath, ...] = (
        *(".git/hooks", ".git/config"),
        *(name for program in agent_programs() for name in program.executed_files),
        *(".envrc", ".vscode"),
    )
    """Paths in the directory of a workspace that agents cannot change, because programs on this machine run what they
    contain."""
    ca_file: AbsolutePath | None = None
    """A file of certificates that the image trusts, or null for the certificates of this machine."""
    idle_stop_s: int = Field(default=1800, ge=0, le=31_536_000)
    """Seconds after which a container without sessions stops, or 0 for never. The next spawn starts it."""
    on_engine_restart: Literal["restore", "end"] = "restore"
    """Sessions whose terminal is lost because the engine restarted. restore: sm restores them with their conversation.
    end: they end."""


class SandboxSection(SandboxOptions):
    """Workspaces can override these keys, except engine, vault and fallback: `sm workspace set --sandbox KEY=VALUE`."""

    engine: Engine | None = None
    """Socket of the engine, unix:///PATH, or null for the value of DOCKER_HOST, else unix:///var/run/docker.sock. A
    change needs sm daemon restart."""
    vault: AbsolutePath | None = None
    """A directory that sessions without a workspace can read, at /vault and at its own path."""
    fallback: Literal["warn", "never"] = "warn"
    """Spawns without --trust where there never was an engine, or never an image. warn: they run directly on this
    machine, with a warning. never: they fail. Only for the operator, and only where default_trust is the reason for the
    sandbox. Every other reason for which no container can be used makes them fail."""

    @field_validator("memory_reservation")
    @classmethod
    def _fits_memory(cls, value: str, info: ValidationInfo) -> str:
        memory = info.data.get("memory", value)  # missing if it is invalid
        if bytes_of(value) > bytes_of(memory):
            raise ValueError(f"must be at most memory, {memory}")
        return value
