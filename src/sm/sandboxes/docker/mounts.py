"""Decides which files and directories of this machine a container sees, and where."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from sm.config import SandboxSection, split_mount
from sm.core.models import Workspace
from sm.errors import SandboxUnavailable
from sm.linux.files import stat_without_links
from sm.linux.mount_points import mount_points
from sm.linux.process_root import ProcessRoot
from sm.operations.hints import Argument, Hint
from sm.paths import (
    INSIDE_CLIENT,
    INSIDE_HOME,
    INSIDE_LAUNCH,
    INSIDE_SOCKET_DIR,
    INSIDE_VAULT,
    InstancePaths,
    is_within,
)
from sm.sandboxes.docker.protection import is_mountable, protected_paths, writable_within
from sm.sandboxes.docker.refusals import Host, MountPath, check_directory, check_path, homes_of
from sm.sandboxes.git_directory import linked_worktree
from sm.sandboxes.path_map import Mount


def mounts_of(
    workspace: Workspace | None, settings: SandboxSection, paths: InstancePaths, host: Host | None = None
) -> tuple[Mount, ...]:
    """The mounts of a workspace's container, outer before inner ones, or of the default container if None.

    `host`: the user of the daemon, None for this process. Raises SandboxUnavailable for a missing or refused path.
    """
    host = host or Host.current(os.environ, settings.engine)
    own = paths.sandbox(None if workspace is None else workspace.slug)
    found = [
        Mount(own.home, INSIDE_HOME, writable=True),
        Mount(own.launch, INSIDE_LAUNCH),
        Mount(own.socket_dir, INSIDE_SOCKET_DIR),
        Mount(paths.client, INSIDE_CLIENT),
    ]
    configured = list(_configured(workspace, settings, paths, host))
    directories = [mount.source for mount in configured if mount.writable and os.path.isdir(mount.source)]
    if workspace is not None:
        of_workspace = list(_of_workspace(workspace, paths, host))
        found += of_workspace
        directories.insert(0, of_workspace[0].source)
    elif settings.vault is not None:
        named = MountPath(settings.vault, "sandbox.vault", "change sandbox.vault in config.yaml")
        vault = check_directory(named, paths, host)
        found += [Mount(vault, vault), Mount(vault, INSIDE_VAULT)]
    found += _protected(directories, settings.protect, [mount.source for mount in (*found, *configured)])
    taken = {mount.target for mount in found}
    found += [mount for mount in configured if mount.target not in taken]
    return tuple(sorted(found, key=lambda mount: mount.target.count("/")))


def writable_directories(workspace: Workspace | None, settings: SandboxSection) -> tuple[str, ...]:
    """The directories with protected files: that of the workspace, and the writable ones of `sandbox.mounts`."""
    mounts = (split_mount(mount) for mount in settings.mounts)
    found = [os.path.realpath(path) for path, writable in mounts if writable and os.path.isdir(path)]
    return tuple(dict.fromkeys((*([] if workspace is None else [workspace.directory]), *found)))


def make_directories(workspace: Workspace | None, paths: InstancePaths, user: tuple[int, int]) -> None:
    """Make the directories of a container that do not exist, and give its home to `user` (uid, gid). Idempotent.

    Blocks. Raises OSError.
    """
    own = paths.sandbox(None if workspace is None else workspace.slug)
    os.makedirs(own.base, 0o700, exist_ok=True)
    for path in (own.home, own.launch):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        _give(path, user)
    # Whoever opens the socket gives its directory to the user.
    os.makedirs(own.socket_dir, 0o700, exist_ok=True)


def _give(path: str, user: tuple[int, int]) -> None:
    """Change the owner of a tree, if its top has another one. Follows no link: an agent wrote the tree."""
    status = os.lstat(path)
    if (status.st_uid, status.st_gid) == user:
        return
    for _, directories, files, descriptor in os.fwalk(path, topdown=False, follow_symlinks=False):
        for name in (*directories, *files):
            os.chown(name, *user, dir_fd=descriptor, follow_symlinks=False)
    # Last, so that an interrupted change is repeated.
    os.chown(path, *user, follow_symlinks=False)


def _of_workspace(workspace: Workspace, paths: InstancePaths, host: Host) -> Iterator[Mount]:
    name = f"the directory of workspace {workspace.slug}"
    try:
        owner = os.stat(workspace.directory).st_uid
    except OSError as error:
        raise SandboxUnavailable(f"{name} cannot be read: {workspace.directory}: {error.strerror}") from None
    host = replace(host, homes=tuple(dict.fromkeys((*host.homes, *homes_of(owner)))))
    other = Hint(
        f"use another directory: sm workspace set {workspace.slug} ", Argument("working_dir", "PATH")
    )
    directory = check_directory(MountPath(workspace.directory, name, other), paths, host)
    yield Mount(directory, directory, writable=True)
    if worktree := linked_worktree(directory):
        name = f"the git directory of workspace {workspace.slug}"
        common = check_directory(MountPath(worktree.common, name, other), paths, host)
        yield Mount(common, common, writable=True)


def _protected(directories: Sequence[str], protect: Sequence[str], visible: Sequence[str]) -> Iterator[Mount]:
    """`directories`: those with protected files, which may be in other ones. `visible`: all that are mounted."""
    found = [path for directory in directories for path in protected_paths(directory, protect)]
    # The repository of a linked worktree is mounted for the workspace only.
    mountable = [
        path for path in found if is_mountable(path) and any(is_within(path.path, d) for d in visible)
    ]
    read_only = {path.path for path in mountable}
    parents = {parent for path in mountable for parent in path.parents}
    writable = {parent for parent in parents if not any(is_within(parent, path) for path in read_only)}
    own = (writable_within(directory) for directory in directories)
    writable |= {path for path in own if path is not None and os.path.dirname(path) in read_only}
    yield from (Mount(parent, parent, writable=True) for parent in sorted(writable))
    yield from (Mount(path, path) for path in sorted(read_only))


def _configured(
    workspace: Workspace | None, settings: SandboxSection, paths: InstancePaths, host: Host
) -> Iterator[Mount]:
    hint = "change sandbox.mounts in config.yaml"
    if workspace is not None and "mounts" in workspace.sandbox:
        hint = f"sm workspace set {workspace.slug} --sandbox 'mounts=[/PATH, ...]', or mounts= for those of config.yaml"
    for mount in settings.mounts:
        path, writable = split_mount(mount)
        real = check_path(MountPath(path, "a path of sandbox.mounts", hint), paths, host)
        yield Mount(real, real, writable)


def changed(mounts: Sequence[Mount], pid: int) -> tuple[str, ...]:
    """The targets at which a new container has another file than the host has at the source of the mount.

    The engine follows symbolic links in a source, and an agent of another container can make one between the check and
    the mount. Call this before the first agent starts in the container; `pid` is its first process. A container with
    such a mount must be removed. Not found: a link to a place that has the same file under the path of the source.
    """
    try:
        with ProcessRoot(pid) as root:
            return tuple(mount.target for mount in mounts if not _is_same(mount, root))
    except OSError:  # it has ended
        return tuple(mount.target for mount in mounts)


def present(mounts: Sequence[Mount], pid: int) -> tuple[Mount, ...]:
    """The mounts that the container of a process still has.

    When a program of the host replaces a mounted file, as git does with its configuration, the kernel removes the mount
    from the container, and agents can write the new file.
    """
    targets = mount_points(pid)
    return tuple(mount for mount in mounts if targets is None or mount.target in targets)


def _is_same(mount: Mount, root: ProcessRoot) -> bool:
    try:
        return os.path.samestat(stat_without_links(mount.source), root.status_without_links(mount.target))
    except OSError:
        return False
