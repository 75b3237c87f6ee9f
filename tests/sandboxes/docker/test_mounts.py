"""Mounts of a container: their sources, targets and modes, and the refused ones."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import SandboxSection
from sm.core.models import Workspace
from sm.errors import SandboxUnavailable
from sm.paths import InstancePaths
from sm.sandboxes.docker.mounts import changed, make_directories, mounts_of
from sm.sandboxes.docker.refusals import Host
from sm.sandboxes.path_map import Mount

HOST = Host(1000, 1000, ("/nonexistent",))


@pytest.fixture
def paths(tmp_path: Path) -> InstancePaths:
    return InstancePaths(f"{tmp_path}/sm/config.yaml", f"{tmp_path}/sm/state")


@pytest.fixture
def shop(tmp_path: Path) -> Workspace:
    (tmp_path / "shop").mkdir()
    return Workspace("shop", f"{tmp_path}/shop", "2026-01-01T00:00:00Z")


def found(workspace: Workspace | None, paths: InstancePaths, **settings: Any) -> dict[str, tuple[str, bool]]:
    mounts = mounts_of(workspace, SandboxSection(**settings), paths, HOST)
    targets = {mount.target: (mount.source, mount.writable) for mount in mounts}
    assert len(targets) == len(mounts)  # the engine refuses two mounts at one target
    return targets


def test_workspace_is_mounted_at_its_own_path(paths: InstancePaths, shop: Workspace) -> None:
    state = paths.state
    assert found(shop, paths) == {
        shop.directory: (shop.directory, True),
        "/home/sandbox": (f"{state}/ws/shop/home", True),
        "/opt/sm": (f"{state}/client", False),
        "/run/sm/launch": (f"{state}/ws/shop/launch", False),
        "/run/sm/socket": (paths.sandbox("shop").socket_dir, False),
    }


def test_default_container_sees_the_vault_read_only_and_no_project(
    paths: InstancePaths, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    vault = f"{tmp_path}/docs"
    assert found(None, paths, vault=vault) == {
        vault: (vault, False),
        "/vault": (vault, False),
        "/home/sandbox": (f"{paths.state}/ws-default/home", True),
        "/opt/sm": (f"{paths.state}/client", False),
        "/run/sm/launch": (f"{paths.state}/ws-default/launch", False),
        "/run/sm/socket": (paths.sandbox(None).socket_dir, False),
    }


def test_workspace_does_not_see_the_vault(paths: InstancePaths, shop: Workspace, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert found(shop, paths, vault=f"{tmp_path}/docs") == found(shop, paths)


def test_configured_mounts_are_read_only_unless_they_say_rw(
    paths: InstancePaths, shop: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "file").touch()
    data, cache, file = (f"{tmp_path}/{name}" for name in ("data", "cache", "file"))
    targets = found(shop, paths, mounts=(f"{data}/", f"{cache}:rw", file))
    assert (targets[data], targets[cache], targets[file]) == ((data, False), (cache, True), (file, False))


def test_configured_mount_of_the_workspace_itself_does_not_make_it_read_only(
    paths: InstancePaths, shop: Workspace
) -> None:
    assert found(shop, paths, mounts=(shop.directory,)) == found(shop, paths)


def test_protected_files_are_read_only_and_their_parents_cannot_be_renamed(
    paths: InstancePaths, shop: Workspace
) -> None:
    git = Path(shop.directory, ".git")
    (git / "hooks/deep").mkdir(parents=True)
    (git / "config").touch()
    (git / "hooks/deep/file").touch()
    targets = found(shop, paths, protect=(".git/hooks", ".git/config", ".envrc", ".git/hooks/deep/file"))
    assert {t: writable for t, (_, writable) in targets.items() if t.startswith(str(git))} == {
        str(git): True,
        f"{git}/hooks": False,
        f"{git}/config": False,
        f"{git}/hooks/deep/file": False,
    }


def test_mounts_are_ordered_from_outer_to_inner(paths: InstancePaths, shop: Workspace) -> None:
    Path(shop.directory, ".git/hooks").mkdir(parents=True)
    targets = list(found(shop, paths))
    for index, target in enumerate(targets):
        assert not any(target.startswith(f"{later}/") for later in targets[index:])


def test_linked_worktree_sees_the_git_directory_of_its_repository(
    paths: InstancePaths, tmp_path: Path
) -> None:
    common, tree = tmp_path / "shop/.git", tmp_path / "tree"
    own = common / "worktrees/tree"
    for directory in (own, common / "objects", common / "hooks", tree):
        directory.mkdir(parents=True)
    (common / "HEAD").write_text("ref: refs/heads/main\n")
    (tree / ".git").write_text(f"gitdir: {own}\n")
    (own / "gitdir").write_text(f"{tree}/.git\n")
    (own / "commondir").write_text("../..\n")
    targets = found(Workspace("tree", str(tree), "2026-01-01T00:00:00Z"), paths)
    assert {t: writable for t, (_, writable) in targets.items() if t.startswith(str(tmp_path))} == {
        str(tree): True,
        f"{tree}/.git": False,
        str(common): True,
        f"{common}/hooks": False,
        f"{common}/worktrees": False,
        str(own): True,
        f"{own}/commondir": False,
        f"{own}/gitdir": False,
    }


def test_protected_files_of_a_writable_mount_and_of_submodules_are_read_only(
    paths: InstancePaths, shop: Workspace, tmp_path: Path
) -> None:
    library, bare = tmp_path / "library", tmp_path / "bare.git"
    inner = library / ".git/modules/vendor/zlib"
    for directory in (library / ".git", inner, inner / "modules/deep", bare):
        for name in ("hooks", "info", "objects"):
            (directory / name).mkdir(parents=True)
        for name in ("HEAD", "config"):
            (directory / name).touch()
    mounts = (f"{library}:rw", f"{bare}:rw")
    for workspace in (shop, None):
        targets = found(workspace, paths, mounts=mounts)
        read_only = {os.path.relpath(t, tmp_path) for t, (_, writable) in targets.items() if not writable}
        assert {path for path in read_only if path.startswith(("library", "bare"))} == {
            f"{directory}/{name}"
            for directory in (
                "library/.git",
                "library/.git/modules/vendor/zlib",
                "library/.git/modules/vendor/zlib/modules/deep",
                "bare.git",
            )
            for name in ("config", "hooks", "info")
        }
        assert targets[f"{library}/.git/modules"] == (f"{library}/.git/modules", True)
        # Only a writable mount has anything to protect.
        assert not [t for t in found(workspace, paths, mounts=(str(library),)) if t.startswith(f"{library}/")]


def test_all_modules_are_read_only_when_there_are_too_many(paths: InstancePaths, shop: Workspace) -> None:
    for number in range(101):
        (Path(shop.directory) / f".git/modules/{number}/objects").mkdir(parents=True)
        (Path(shop.directory) / f".git/modules/{number}/HEAD").touch()
    assert found(shop, paths)[f"{shop.directory}/.git/modules"][1] is False


# ----------------------------------------------------------------------------------------------------------- refusals


def refused(workspace: Workspace | None, paths: InstancePaths, **settings: Any) -> str:
    with pytest.raises(SandboxUnavailable) as raised:
        mounts_of(workspace, SandboxSection(**settings), paths, HOST)
    return raised.value.message


def test_missing_directory_of_a_workspace_is_refused(paths: InstancePaths, shop: Workspace) -> None:
    Path(shop.directory).rmdir()
    assert refused(shop, paths).startswith("the directory of workspace shop cannot be read")


def test_directory_that_became_a_link_is_refused(
    paths: InstancePaths, shop: Workspace, tmp_path: Path
) -> None:
    """An agent of a workspace around this one can replace its directory."""
    (tmp_path / "other").mkdir()
    Path(shop.directory).rmdir()
    Path(shop.directory).symlink_to("other")
    assert refused(shop, paths).endswith(
        f"it contains a symbolic link, and its real path is {tmp_path}/other"
    )
    Path(shop.directory).unlink()
    Path(shop.directory).symlink_to("/etc")
    assert refused(shop, paths).endswith("/etc belongs to the system")


def test_vault_and_mounts_are_refused_like_directories(
    paths: InstancePaths, shop: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert refused(None, paths, vault="/etc").startswith(
        "sandbox.vault cannot be mounted into a container: /etc:"
    )
    assert refused(None, paths, vault=f"{tmp_path}/none").endswith("it does not exist")
    assert refused(shop, paths, mounts=(f"{tmp_path}/link",)).endswith("/etc belongs to the system")
    assert refused(shop, paths, mounts=(f"{tmp_path}/none",)).endswith("it does not exist")
    assert refused(shop, paths, mounts=(str(tmp_path),)).endswith("belongs to the state of sm")


def test_vault_that_is_a_file_is_refused(paths: InstancePaths, tmp_path: Path) -> None:
    (tmp_path / "docs").touch()
    assert (
        refused(None, paths, vault=f"{tmp_path}/docs") == f"sandbox.vault is not a directory: {tmp_path}/docs"
    )


# -------------------------------------------------------------------------------------------- the container's own files


def test_directories_of_a_container_are_private(paths: InstancePaths) -> None:
    user = (os.geteuid(), os.getegid())
    for _ in range(2):
        make_directories(None, paths, user)
    own = paths.sandbox(None)
    assert [os.stat(path).st_mode & 0o777 for path in (own.base, own.home, own.launch)] == [0o700] * 3
    assert os.path.isdir(own.socket_dir)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_home_is_given_to_the_user_of_the_container_without_following_links(
    paths: InstancePaths, tmp_path: Path
) -> None:
    make_directories(None, paths, (1234, 1234))
    home = Path(paths.sandbox(None).home)
    (tmp_path / "secret").touch()
    (home / "deep").mkdir()
    (home / "deep/link").symlink_to(tmp_path / "secret")
    (home / "out").symlink_to(tmp_path)
    make_directories(None, paths, (2345, 6789))
    for path in (home, home / "deep", home / "deep/link", home / "out"):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (2345, 6789)
    assert (tmp_path / "secret").stat().st_uid == 0
    assert tmp_path.stat().st_uid == 0


# ------------------------------------------------------------------------- a link made between the check and the mount


def test_mounts_of_this_process_are_unchanged(tmp_path: Path) -> None:
    """Every process sees its own files at their own paths."""
    (tmp_path / "file").touch()
    mounts = [Mount(path, path) for path in (str(tmp_path), f"{tmp_path}/file")]
    assert changed(mounts, os.getpid()) == ()


def test_other_file_at_the_target_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    mounts = [Mount(f"{tmp_path}/a", f"{tmp_path}/b"), Mount(f"{tmp_path}/a", f"{tmp_path}/none")]
    assert changed(mounts, os.getpid()) == (f"{tmp_path}/b", f"{tmp_path}/none")


def test_link_in_the_source_is_found_while_it_exists(tmp_path: Path) -> None:
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for name in ("link", "link/deep"):
        assert changed([Mount(f"{tmp_path}/{name}", f"{tmp_path}/{name}")], os.getpid())


@pytest.mark.parametrize(
    ("settings", "of_workspace", "hint"),
    [
        ({}, {}, "use another directory: sm workspace set shop --working-dir PATH"),
        ({"mounts": ("/nowhere",)}, {}, "change sandbox.mounts in config.yaml"),
        (
            {"mounts": ("/nowhere",)},
            {"mounts": ["/nowhere"]},
            "sm workspace set shop --sandbox 'mounts=[/PATH, ...]'",
        ),
    ],
    ids=["directory", "configured mount", "mount of the workspace"],
)
def test_refused_path_names_the_setting_to_change(
    paths: InstancePaths, shop: Workspace, settings: dict[str, Any], of_workspace: dict[str, Any], hint: str
) -> None:
    workspace = replace(shop, directory=shop.directory if settings else "/etc", sandbox=of_workspace)
    with pytest.raises(SandboxUnavailable) as refusal:
        mounts_of(workspace, SandboxSection(**settings), paths, HOST)
    assert str(refusal.value.hint).startswith(hint)


def test_refused_vault_names_the_setting_to_change(paths: InstancePaths) -> None:
    with pytest.raises(SandboxUnavailable) as refusal:
        mounts_of(None, SandboxSection(vault="/nowhere"), paths, HOST)
    assert refusal.value.hint == "change sandbox.vault in config.yaml"
