"""The directories of a repository, found without git in files that somebody else may have written."""

import os
from pathlib import Path

import pytest

from sm.linux.repositories import UnreadableRepository, find_repository, has_commit, places_of


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return made(tmp_path / "app")


def made(top: Path) -> Path:
    git_directory(top / ".git")
    return top


def git_directory(path: Path) -> Path:
    for name in ("objects/info", "refs/heads"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    return path


def linked(repo: Path, top: Path) -> Path:
    """The own git directory of a new linked worktree."""
    own = repo / ".git/worktrees" / top.name
    own.mkdir(parents=True)
    top.mkdir()
    (own / "HEAD").write_text("ref: refs/heads/x\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{top}/.git\n")
    (top / ".git").write_text(f"gitdir: {own}\n")
    return own


def parts(directory: Path) -> tuple[str | None, str, str] | None:
    found = find_repository(str(directory))
    return None if found is None else (found.top, found.own, found.common)


def test_repository_is_found_from_below_and_from_its_git_directory(repo: Path) -> None:
    (repo / "a/b").mkdir(parents=True)
    expected = (str(repo), f"{repo}/.git", f"{repo}/.git")
    assert parts(repo / "a/b") == parts(repo) == parts(repo / ".git") == expected
    assert parts(repo.parent) is None
    assert parts(repo / "missing") is None


def test_linked_worktree_has_its_own_git_directory(repo: Path, tmp_path: Path) -> None:
    own = linked(repo, tmp_path / "x")
    assert parts(tmp_path / "x") == parts(own) == (str(tmp_path / "x"), str(own), f"{repo}/.git")


def test_bare_layout_is_found_only_by_its_own_path(repo: Path) -> None:
    bare = git_directory(repo / "vendor/lib")
    (bare / "src").mkdir()
    assert parts(bare) == (None, str(bare), str(bare))
    assert parts(bare / "src") == (str(repo), f"{repo}/.git", f"{repo}/.git")


@pytest.mark.parametrize(
    "content", ["gitdir: /nonexistent\n", "something else\n", "gitdir: a\nb\n", "gitdir: " + "x" * 5000, ""]
)
def test_file_that_names_no_git_directory_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content)
    with pytest.raises(UnreadableRepository):
        find_repository(str(tmp_path))


def test_pipe_and_link_are_not_read(repo: Path, tmp_path: Path) -> None:
    own = linked(repo, tmp_path / "x")
    (own / "commondir").unlink()
    os.mkfifo(own / "commondir")
    with pytest.raises(UnreadableRepository, match="commondir"):
        find_repository(str(tmp_path / "x"))
    (own / "commondir").unlink()
    (own / "commondir").symlink_to(repo / ".git/HEAD")
    with pytest.raises(UnreadableRepository, match="commondir"):
        find_repository(str(tmp_path / "x"))


def test_common_directory_that_is_no_repository_is_refused(repo: Path, tmp_path: Path) -> None:
    own = linked(repo, tmp_path / "x")
    (own / "commondir").write_text("/tmp\n")
    with pytest.raises(UnreadableRepository, match="/tmp"):
        find_repository(str(tmp_path / "x"))


def places(directory: Path) -> set[str]:
    found = find_repository(str(directory))
    assert found is not None
    return set(places_of(found))


def test_places_are_behind_links_and_alternates(repo: Path, tmp_path: Path) -> None:
    for name in ("packs", "far", "branch"):
        (tmp_path / name).mkdir()
    (repo / ".git/objects/pack").symlink_to(tmp_path / "packs")
    (repo / ".git/refs/heads/x").symlink_to(tmp_path / "branch")
    (repo / ".git/refs/remotes").symlink_to(tmp_path / "branch")
    near = git_directory(tmp_path / "near")
    (repo / ".git/objects/info/alternates").write_text(f"# comment\n../../../near/objects\n{near}/objects\n")
    (near / "objects/info/alternates").write_text(f"{tmp_path}/far\n")
    assert {
        str(repo), f"{repo}/.git", f"{tmp_path}/packs", f"{tmp_path}/branch", f"{near}/objects", f"{tmp_path}/far"
    } <= places(repo)  # fmt: skip


def test_linked_worktree_has_the_places_of_its_repository(repo: Path, tmp_path: Path) -> None:
    own = linked(repo, tmp_path / "x")
    assert {str(tmp_path / "x"), str(own), f"{repo}/.git"} <= places(tmp_path / "x")


@pytest.mark.parametrize("text", ['"/quoted"\n', "".join(f"/{n}\n" for n in range(100)), "x" * 70_000])
def test_alternates_that_cannot_be_followed_are_refused(repo: Path, text: str) -> None:
    (repo / ".git/objects/info/alternates").write_text(text)
    with pytest.raises(UnreadableRepository, match="alternates"):
        places(repo)


def test_circle_of_alternates_ends(repo: Path) -> None:
    (repo / ".git/objects/info/alternates").write_text(f"{repo}/.git/objects\n")
    assert str(repo) in places(repo)


def test_commit_is_found_in_a_loose_or_packed_ref(repo: Path) -> None:
    found = find_repository(str(repo))
    assert found is not None
    assert not has_commit(found)
    (repo / ".git/packed-refs").write_text("# pack-refs\n0123 refs/heads/main\n")
    assert has_commit(found)
    (repo / ".git/packed-refs").unlink()
    (repo / ".git/refs/heads/main").write_text("0123\n")
    assert has_commit(found)
