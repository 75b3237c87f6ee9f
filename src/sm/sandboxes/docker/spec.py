"""Builds every option of a container in one place, as plain data for the SDK."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from typing import Any

from sm import __version__
from sm.config import SandboxSection, bytes_of
from sm.core.dataclass import dataclass
from sm.core.models import Workspace
from sm.errors import SandboxUnavailable
from sm.paths import INSIDE_LAUNCH, INSIDE_SCRATCH, InstancePaths
from sm.sandboxes.docker.mounts import mounts_of
from sm.sandboxes.docker.program import PROGRAM
from sm.sandboxes.docker.refusals import Host
from sm.sandboxes.path_map import Mount

DEFAULT_USER = (60999, 60999)
"""The user of the default container of a daemon that runs as root.

No directory gives this container an owner, and it must not run as root. systemd and Debian assign this number to
nobody. With the number of a person, that person could read the keys in the memory of the agents. The owner of the vault
would make the user, and with it the owner of the container's home, depend on a setting.
"""
_CPU_PERIOD_US = 100_000
_RUN_SIZE = "16m"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container as it should be. Plain data: no part needs the SDK.

    Create it with `api.create_container(name=name, labels=labels, host_config=api.create_host_config(**host_config),
    **options)`.
    """

    name: str
    labels: Mapping[str, str]
    hash: str
    """Of everything that makes the container. Another hash means that a running container must be remade."""
    user: tuple[int, int]
    """The uid and the gid of every process, and of the owner of the container's home."""
    mounts: tuple[Mount, ...]
    network: str
    """The name of the network of this instance, which must exist; `none`."""
    options: Mapping[str, Any]
    """Arguments of `APIClient.create_container`."""
    host_config: Mapping[str, Any]
    """Arguments of `APIClient.create_host_config`."""


def build_spec(
    workspace: Workspace | None,
    settings: SandboxSection,
    paths: InstancePaths,
    instance: str,
    *,
    nofile_max: int | None,
    host: Host | None = None,
) -> ContainerSpec:
    """The container of a workspace, or the default container if None.

    `settings`: `sandbox_for` of the workspace. `nofile_max`: the hard limit of the engine's own process, or None if
    unknown. `host`: the user of the daemon, or None for that of this process. Raises SandboxUnavailable, with a hint,
    for a directory that cannot be mounted or that belongs to root.
    """
    host = host or Host.current(os.environ, settings.engine)
    mounts = mounts_of(workspace, settings, paths, host)
    user = container_user(workspace, host)
    network = network_name(instance) if settings.network == "bridge" else "none"
    options = _options(workspace, settings, user)
    host_config = _host_config(settings, user, mounts, network, nofile_max)
    name = container_name(instance, workspace)
    digest = _digest(
        [name, options, host_config, [_inode(mount) for mount in mounts if _is_stable(mount, paths)]]
    )
    return ContainerSpec(
        name, labels_of(workspace, instance, digest), digest, user, mounts, network, options, host_config
    )


def container_name(instance: str, workspace: Workspace | None) -> str:
    if workspace is None:
        return f"sm-{instance[:8]}-default"
    # A slug cannot contain an underscore, so no other workspace has this name.
    return f"sm-{instance[:8]}-{'ws_default' if workspace.slug == 'default' else workspace.slug}"


def network_name(instance: str) -> str:
    """The network of all containers of an instance."""
    return f"sm-{instance[:8]}"


def labels_of(workspace: Workspace | None, instance: str, config: str) -> dict[str, str]:
    """The labels by which a container is found again. `config`: the hash of its spec."""
    return {
        "app": "sm",
        "type": "default" if workspace is None else "workspace",
        "workspace": "" if workspace is None else workspace.slug,
        "instance": instance,
        "config": config,
        "version": __version__,
    }


def container_user(workspace: Workspace | None, host: Host) -> tuple[int, int]:
    """The uid and gid of a container: those of the daemon; of a daemon that runs as root: of the workspace's directory.

    Raises SandboxUnavailable for a directory that belongs to root.
    """
    if host.uid != 0:
        return host.uid, host.gid
    if workspace is None:
        return DEFAULT_USER
    try:
        status = os.stat(workspace.directory, follow_symlinks=False)
    except OSError as error:
        raise SandboxUnavailable(
            f"the directory of workspace {workspace.slug} cannot be read: {workspace.directory}: {error.strerror}"
        ) from None
    if status.st_uid == 0:
        raise SandboxUnavailable(
            f"the directory of workspace {workspace.slug} belongs to root, and no container runs as root: "
            f"{workspace.directory}",
            f"give it to another user, for example: chown -R 1000:1000 {shlex.quote(workspace.directory)}",
        )
    return status.st_uid, status.st_gid or status.st_uid


def _options(workspace: Workspace | None, settings: SandboxSection, user: tuple[int, int]) -> dict[str, Any]:
    return {
        "image": settings.image,
        "entrypoint": ["sleep"],
        "command": ["infinity"],
        "working_dir": "/",
        "hostname": "sandbox" if workspace is None else workspace.slug[:63].rstrip("-"),
        "user": f"{user[0]}:{user[1]}",
        "healthcheck": {"test": ["NONE"]},
        # Otherwise the SDK adds proxies from ~/.docker/config.json to the environment.
        "use_config_proxy": False,
    }


def _host_config(
    settings: SandboxSection,
    user: tuple[int, int],
    mounts: tuple[Mount, ...],
    network: str,
    nofile_max: int | None,
) -> dict[str, Any]:
    memory = bytes_of(settings.memory)
    host_config: dict[str, Any] = {
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        # The seccomp profile is the engine's default, because no option here names another one.
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": settings.pids,
        "mem_limit": memory,
        "memswap_limit": memory,  # memory and swap together: no swap
        "mem_reservation": min(bytes_of(settings.memory_reservation), memory),
        # A quota and not --cpus: the engine refuses more processors than the machine has.
        "cpu_period": _CPU_PERIOD_US,
        "cpu_quota": round(settings.cpus * _CPU_PERIOD_US),
        "ipc_mode": "private",
        "network_mode": network,
        "log_config": {"type": "none"},
        "tmpfs": _tmpfs(settings, *user),
        "mounts": [_bind(mount) for mount in mounts],
    }
    # No limit `nproc`: the kernel counts the processes of the user on the whole machine.
    if settings.nofile is not None:
        # The engine cannot start a process with a higher limit than its own.
        nofile = settings.nofile if nofile_max is None else min(settings.nofile, nofile_max)
        host_config["ulimits"] = [{"name": "nofile", "soft": nofile, "hard": nofile}]
    if settings.runtime is not None:
        host_config["runtime"] = settings.runtime
    if settings.host_access and settings.network == "bridge":
        host_config["extra_hosts"] = [f"{PROGRAM.host_name}:host-gateway"]
    return host_config


def _tmpfs(settings: SandboxSection, uid: int, gid: int) -> dict[str, str]:
    """Options by path. Agents run programs in /tmp and /scratch, so both allow it: the engine's default is noexec."""
    owned = f"uid={uid},gid={gid},mode=0700"
    return {
        "/tmp": f"rw,nosuid,nodev,exec,size={bytes_of(settings.tmp)},mode=1777",
        "/run": f"rw,nosuid,nodev,noexec,size={bytes_of(_RUN_SIZE)},{owned}",
        # Belongs to root. Otherwise the agents, as owners of /run, could rename the directory above their socket.
        os.path.dirname(INSIDE_LAUNCH): f"rw,nosuid,nodev,noexec,size={bytes_of(_RUN_SIZE)},mode=0755",
        INSIDE_SCRATCH: f"rw,nosuid,nodev,exec,size={bytes_of(settings.scratch)},{owned}",
    }


def _bind(mount: Mount) -> dict[str, Any]:
    """A mount as the engine's API describes it. The engine refuses a source that does not exist."""
    options: dict[str, Any] = {"Propagation": "rprivate"}
    if not mount.writable:
        # Engines before 25 leave file systems below a read-only mount writable, so none of them is mounted.
        options["NonRecursive"] = True
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": not mount.writable,
        "BindOptions": options,
    }


def _is_stable(mount: Mount, paths: InstancePaths) -> bool:
    """Return whether the inode of the source counts: not for directories that sm makes after the spec was built."""
    return not mount.source.startswith(paths.state + "/") or mount.source == paths.client


def _inode(mount: Mount) -> tuple[str, int]:
    """The target and what the mount shows there. A file that was replaced leaves the old one in the container."""
    try:
        return mount.target, os.stat(mount.source, follow_symlinks=False).st_ino
    except OSError:
        return mount.target, 0


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]
