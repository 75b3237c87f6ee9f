"""Decides which paths of the host a container may see. Lexical only: the caller resolves symbolic links."""

from collections.abc import Iterable

from sm.paths import INSIDE_CLIENT, INSIDE_HOME, INSIDE_SCRATCH, INSIDE_VAULT

SYSTEM_DIRECTORIES = ("/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run")
"""Never mounted, nor anything in them: settings, devices, kernel interfaces and sockets of the host."""
IMAGE_DIRECTORIES = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64",
    "/usr/libexec", "/usr/local/bin", "/usr/local/lib", INSIDE_CLIENT,
)  # fmt: skip
"""Programs of a container. A mount at such a path would replace them."""
MOUNT_POINTS = ("/tmp", "/run", INSIDE_HOME, INSIDE_SCRATCH, INSIDE_VAULT, INSIDE_CLIENT)
"""Directories of a container. A mount at such a path, or above it, would hide them; a mount below one is possible."""
ENGINE_SOCKETS = ("docker.sock", "containerd.sock", "podman.sock")
ENGINE_DATA = ("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers")
HOME_SECRETS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".docker",
    ".config/gh",
    ".netrc",
    ".claude",
    ".codex",
)
"""Files and directories of a home directory that hold credentials."""


def is_within(path: str, directory: str) -> bool:
    """Return whether `path` is the directory or lies in it. Both are absolute and normalized."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def system_refusal(path: str) -> str | None:
    """The reason why no container may see this path on any machine; None: it may."""
    if path == "/":
        return "it is the root of the file system"
    for directory in SYSTEM_DIRECTORIES:
        if is_within(path, directory):
            return f"{directory} belongs to the system"
    if data := overlap(path, ENGINE_DATA):
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
