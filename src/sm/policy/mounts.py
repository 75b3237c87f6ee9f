"""Decides which paths of the host a container may see. Lexical only: the caller resolves symbolic links."""

from collections.abc import Iterable

from sm.core.programs import agent_programs, engine_programs
from sm.paths import INSIDE_CLIENT, INSIDE_HOME, INSIDE_SCRATCH, INSIDE_VAULT, is_within

SYSTEM_DIRECTORIES = ("/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run")
"""Never mounted, nor anything in them: settings, devices, kernel interfaces and sockets of the host."""
IMAGE_DIRECTORIES = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64",
    "/usr/libexec", "/usr/local/bin", "/usr/local/lib", INSIDE_CLIENT,
)  # fmt: skip
"""Programs of a container. A mount at such a path would replace them."""
MOUNT_POINTS = ("/tmp", "/run", INSIDE_HOME, INSIDE_SCRATCH, INSIDE_VAULT, INSIDE_CLIENT)
"""Directories of a container. A mount at such a path, or above it, would hide them; a mount below one is possible."""
_OTHER_SOCKETS = ("podman.sock",)
"""Of engines that sm does not drive."""
_OTHER_DATA = ("/var/lib/containers",)
_OTHER_SECRETS = (".ssh", ".gnupg", ".aws", ".kube", ".config/gh", ".netrc")


def engine_sockets() -> tuple[str, ...]:
    """The names of sockets of engines."""
    return (*(name for engine in engine_programs() for name in engine.sockets), *_OTHER_SOCKETS)


def engine_data() -> tuple[str, ...]:
    """The directories of engines on this machine."""
    return (*(path for engine in engine_programs() for path in engine.data), *_OTHER_DATA)


def home_secrets() -> tuple[str, ...]:
    """Files and directories of a home directory that hold credentials."""
    of_engines = (name for engine in engine_programs() for name in engine.home_secrets)
    of_agents = (name for agent in agent_programs() for name in agent.home_secrets)
    return (*_OTHER_SECRETS, *of_engines, *of_agents)


def system_refusal(path: str) -> str | None:
    """The reason why no container may see this path on any machine, or None if it may."""
    if path == "/":
        return "it is the root of the file system"
    for directory in SYSTEM_DIRECTORIES:
        if is_within(path, directory):
            return f"{directory} belongs to the system"
    if data := overlap(path, engine_data()):
        return f"{data} belongs to an engine"
    if programs := overlap(path, IMAGE_DIRECTORIES):
        return f"the container has its own {programs}"
    for point in MOUNT_POINTS:
        if is_within(point, path):
            return f"the container has its own {point}"
    return None


def overlap(path: str, others: Iterable[str]) -> str | None:
    """The first of the other paths that lies in `path`, or that contains it."""
    return next((other for other in others if is_within(other, path) or is_within(path, other)), None)
