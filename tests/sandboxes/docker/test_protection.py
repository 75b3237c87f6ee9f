"""Files of a workspace that agents cannot change, or whose change is reported."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sm.config import SandboxSection
from sm.sandboxes.docker.protection import appeared, fingerprints, is_mountable, protected_paths
from sm.sandboxes.path_map import Mount

PROTECT = SandboxSection().protect


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    (path / ".git/hooks").mkdir(parents=True)
    (path / ".git/config").touch()
    return path


@pytest.fixture
def worktree(shop: Path) -> Path:
    """A linked worktree of `shop`, as git makes it."""
    path = shop.parent / "feature"
    own = shop / ".git/worktrees/feature"
    own.mkdir(parents=True)
    path.mkdir()
    (shop / ".git/objects").mkdir()
    (shop / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (path / ".git").write_text(f"gitdir: {own}\n")
    (own / "gitdir").write_text(f"{path}/.git\n")
    (own / "commondir").write_text("../..\n")
    return path


def mountable(directory: Path, protect: Sequence[str] = PROTECT) -> list[str]:
    base = directory.parent
    return [
        os.path.relpath(found.path, base)
        for found in protected_paths(str(directory), protect)
        if is_mountable(found)
    ]


def test_existing_files_and_directories_are_protected(shop: Path) -> None:
    (shop / ".vscode").mkdir()
    (shop / ".envrc").touch()
    assert sorted(mountable(shop)) == ["shop/.envrc", "shop/.git/config", "shop/.git/hooks", "shop/.vscode"]


def test_protection_covers_the_repository_of_a_linked_worktree(shop: Path, worktree: Path) -> None:
    assert sorted(mountable(worktree)) == [
        "feature/.git",
        "shop/.git/config",
        "shop/.git/hooks",
        "shop/.git/worktrees",
        "shop/.git/worktrees/feature/commondir",
        "shop/.git/worktrees/feature/gitdir",
    ]


def test_shortened_list_protects_no_git_file(worktree: Path) -> None:
    assert mountable(worktree, [".vscode"]) == []


def test_parents_are_the_directories_between_the_workspace_and_the_file(shop: Path) -> None:
    (found,) = protected_paths(str(shop), ["a/b/c"])
    assert list(found.parents) == [f"{shop}/a", f"{shop}/a/b"]


def test_link_and_what_is_behind_a_link_is_not_mounted(shop: Path) -> None:
    """The engine follows links in the source of a mount: the container would see /etc."""
    (shop / ".vscode").symlink_to("/etc")
    (shop / ".envrc").symlink_to("/etc/passwd")
    (shop / ".git").rename(shop / "real")
    (shop / ".git").symlink_to("real")
    assert mountable(shop) == []


def test_git_file_of_a_submodule_is_protected(shop: Path) -> None:
    inner = shop / "inner"
    inner.mkdir()
    (inner / ".git").write_text("gitdir: ../.git/modules/inner\n")
    assert mountable(inner) == ["inner/.git"]


def test_pipe_is_not_mounted(shop: Path) -> None:
    os.mkfifo(shop / ".envrc")
    assert "shop/.envrc" not in mountable(shop)


# ------------------------------------------------------------------------------------------------------- what appeared


def changes(shop: Path, at_start: dict[str, str], mounts: Sequence[Mount] = ()) -> list[str]:
    found = appeared(str(shop), PROTECT, at_start, mounts)
    return [os.path.relpath(path, shop) for path in found]


@pytest.mark.parametrize("name", [".mcp.json", ".envrc", ".claude/settings.json", ".git/commondir"])
def test_file_that_a_session_makes_is_reported(shop: Path, name: str) -> None:
    at_start = fingerprints(str(shop), PROTECT)
    (shop / name).parent.mkdir(exist_ok=True)
    (shop / name).write_text("x")
    assert changes(shop, at_start) == [name]


def test_nothing_is_reported_without_a_change(shop: Path) -> None:
    (shop / ".vscode").mkdir()
    (shop / ".envrc").symlink_to("elsewhere")
    at_start = fingerprints(str(shop), PROTECT)
    (shop / "other").touch()
    (shop / ".git/index").touch()
    assert changes(shop, at_start) == []


def test_link_that_points_elsewhere_is_reported(shop: Path) -> None:
    (shop / ".vscode").symlink_to("one")
    at_start = fingerprints(str(shop), PROTECT)
    (shop / ".vscode").unlink()
    (shop / ".vscode").symlink_to("two")
    assert changes(shop, at_start) == [".vscode"]


def test_file_behind_a_link_that_changes_is_reported(shop: Path) -> None:
    (shop / "real").mkdir()
    (shop / ".vscode").symlink_to("real")
    at_start = fingerprints(str(shop), PROTECT)
    (shop / "real/tasks.json").touch()
    assert changes(shop, at_start) == [".vscode"]


def test_change_in_a_chain_of_links_is_reported(shop: Path) -> None:
    (shop / ".vscode").symlink_to("second")
    (shop / "second").symlink_to("/etc")
    at_start = fingerprints(str(shop), PROTECT)
    (shop / "second").unlink()
    (shop / "second").symlink_to("/usr")
    assert changes(shop, at_start) == [".vscode"]


def test_directory_in_place_of_a_linked_one_is_reported(shop: Path) -> None:
    (shop / "real").mkdir()
    (shop / "real/tasks.json").touch()
    (shop / ".vscode").symlink_to("real")
    at_start = fingerprints(str(shop), PROTECT)
    (shop / ".vscode").unlink()
    (shop / "real").rename(shop / ".vscode")
    assert changes(shop, at_start) == [".vscode"]


def test_file_in_a_directory_that_was_not_mounted_is_reported(shop: Path) -> None:
    """The directory was made while the container ran."""
    (shop / ".vscode").mkdir()
    tasks = shop / ".vscode/tasks.json"
    tasks.touch()
    at_start = fingerprints(str(shop), PROTECT)
    tasks.write_text("{}")
    assert changes(shop, at_start) == [".vscode"]


def test_change_of_a_mounted_file_is_not_reported(shop: Path) -> None:
    """Only a program of the host can have changed it."""
    at_start = fingerprints(str(shop), PROTECT)
    (shop / ".git/config").write_text("[user]\n")
    (shop / ".git/hooks/pre-commit").touch()
    assert changes(shop, at_start) == [".git/config", ".git/hooks"]
    outer = [Mount(str(shop.parent), str(shop.parent)), Mount(str(shop), str(shop), writable=True)]
    assert changes(shop, at_start, outer) == [".git/config", ".git/hooks"]
    inner = [Mount(f"{shop}/{name}", f"{shop}/{name}") for name in (".git/config", ".git/hooks")]
    assert changes(shop, at_start, [*outer, *inner]) == []


def test_removed_file_is_not_reported(shop: Path) -> None:
    (shop / ".envrc").touch()
    at_start = fingerprints(str(shop), PROTECT)
    (shop / ".envrc").unlink()
    assert changes(shop, at_start) == []


def test_worktree_that_became_a_repository_is_reported(worktree: Path) -> None:
    at_start = fingerprints(str(worktree), PROTECT)
    (worktree / ".git").unlink()
    (worktree / ".git/hooks").mkdir(parents=True)
    assert changes(worktree, at_start) == [".git/hooks"]


def test_git_file_that_names_another_repository_is_reported(shop: Path) -> None:
    (shop / ".git").rename(shop / "other")
    at_start = fingerprints(str(shop), PROTECT)
    (shop / ".git").write_text("gitdir: other\n")
    assert changes(shop, at_start) == [".git"]


def test_workspace_that_is_gone_has_no_changes(shop: Path) -> None:
    at_start = fingerprints(str(shop), PROTECT)
    shop.rename(shop.parent / "moved")
    assert changes(shop, at_start) == []
