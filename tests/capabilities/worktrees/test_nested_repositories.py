"""Clones, mirrors and caches inside of a worktree: commits that their remotes have are no work, all others are.

`./check` plays every pair of two of kind, place of the work and packing, `./check --full` all of them together.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.worktrees.nested_repositories import nested_work
from tests.git_repositories import commit, git, make_app

pytestmark = pytest.mark.processes  # git


class Nest:
    """A directory with a clone, and the remote of that outside."""

    def __init__(self, directory: Path) -> None:
        self.remote = make_app(directory)
        self.top = directory / "tree"
        self.top.mkdir()
        git(self.top, "init", "-q")
        self.clone = self.top / "clone"
        # A tag in no branch, as of a deleted branch of a release.
        commit(self.remote, "release\n")
        git(self.remote, "tag", "v1")
        git(self.remote, "tag", "-a", "-m", "x", "v2")
        git(self.remote, "reset", "-q", "--hard", "HEAD~1")

    is_path = False
    """The clone gets the files of the remote, and no pack."""

    @property
    def url(self) -> str:
        return str(self.remote) if self.is_path else f"file://{self.remote}"

    def make(self, kind: str) -> None:
        match kind:
            case "fetched":  # as the installer of nvm
                git(self.top, "init", "-q", str(self.clone))
                git(self.clone, "remote", "add", "origin", self.url)
                git(self.clone, "fetch", "-q", "--depth=1", "origin", "tag", "v2")
                git(self.clone, "checkout", "-q", "FETCH_HEAD")
            case "init --bare":
                git(self.top, "init", "-q", "--bare", str(self.clone))
                git(self.clone, "remote", "add", "--mirror=fetch", "origin", self.url)
                git(self.clone, "fetch", "-q", "origin")
            case _:
                git(self.top, *kind.split(" "), "-q", self.url, str(self.clone))

    def work(self) -> list[str]:
        return list(nested_work(str(self.top), ()))


@pytest.fixture
def nest(tmp_path: Path) -> Nest:
    return Nest(tmp_path)


PACKINGS = ("", "pack-refs", "pack-refs --all", "gc -q")
WORKING = ("clone", "clone --depth 1 --branch v1", "clone --branch v2", "clone --no-checkout", "fetched")
BARE = ("clone --mirror", "clone --bare", "init --bare")


@pytest.mark.parametrize("kind", [*WORKING, *BARE])
@pytest.mark.parametrize("is_path", [False, True])
def test_clone_has_no_work(nest: Nest, kind: str, is_path: bool) -> None:
    nest.is_path = is_path
    nest.make(kind)
    if kind == "clone --no-checkout":
        git(nest.clone, "checkout", "-q", "v1")
    assert nest.work() == []


def pack(clone: Path, words: str) -> None:
    """Pack the refs of a clone, after which those that it was made with are not known."""
    if words:
        git(clone, *words.split(" "))


def on_a_branch(clone: Path) -> None:
    git(clone, "checkout", "-q", "-B", "mine")
    commit(clone, "mine\n")


def on_a_detached_head(clone: Path) -> None:
    git(clone, "checkout", "-q", "--detach")
    commit(clone, "mine\n")


def in_the_stash(clone: Path) -> None:
    (clone / "api" / "a.txt").write_text("mine\n")
    git(clone, "stash", "-q")


def at_a_tag(clone: Path) -> None:
    on_a_detached_head(clone)
    git(clone, "tag", "mine")
    git(clone, "checkout", "-q", "HEAD~1")


def at_a_moved_tag(clone: Path) -> None:
    on_a_detached_head(clone)
    git(clone, "tag", "-f", "v1")


def packed(kinds: Sequence[str], works: Sequence[Any]) -> Iterator[Any]:
    """All of kind, work and packing. Those that only repeat pairs have the mark `full`."""
    for (a, kind), (b, work), (c, packing) in product(*map(enumerate, (kinds, works, PACKINGS))):
        id = "-".join((kind, getattr(work, "__name__", str(work)), packing))
        # A Latin square. With fewer kinds than packings, the last kind also has the rows that miss.
        rows = range(a, max(a + 1, len(PACKINGS))) if kind == kinds[-1] else [a]
        is_repeated = c not in [(row + b) % len(PACKINGS) for row in rows]
        yield pytest.param(kind, work, packing, marks=[pytest.mark.full] if is_repeated else [], id=id)


@pytest.mark.parametrize(
    ("kind", "work", "packing"),
    [*packed(WORKING, (on_a_branch, on_a_detached_head, in_the_stash, at_a_tag, at_a_moved_tag))],
)
def test_commit_that_no_remote_has_is_work(
    nest: Nest, kind: str, work: Callable[[Path], None], packing: str
) -> None:
    nest.make(kind)
    if kind == "clone --no-checkout":
        git(nest.clone, "checkout", "-q", "v1")
    work(nest.clone)
    pack(nest.clone, packing)
    assert len(nest.work()) == 1


@pytest.mark.parametrize(
    ("kind", "ref", "packing"),
    [*packed(BARE, ("refs/heads/mine", "refs/heads/main", "refs/tags/mine", "refs/tags/v1"))],
)
def test_commit_that_was_pushed_to_a_mirror_is_work(nest: Nest, kind: str, ref: str, packing: str) -> None:
    nest.make(kind)
    other = nest.top.parent / "other"
    git(nest.top, "clone", "-q", nest.url, str(other))
    commit(other, "mine\n")
    git(other, "push", "-q", "--force", str(nest.clone), f"HEAD:{ref}")
    pack(nest.clone, packing)
    assert "the repository clone with" in nest.work()[0]


@pytest.mark.parametrize("kind", ["clone --depth 1 --branch v1", "clone --mirror", "fetched"])
def test_clone_of_a_repository_that_goes_too_is_work(nest: Nest, kind: str) -> None:
    nest.remote = nest.remote.rename(nest.top / "remote")
    nest.make(kind)
    assert any("repository clone with" in part for part in nest.work())


@pytest.mark.parametrize("kind", ["clone --depth 1 --branch v1", "clone --mirror", "clone --bare"])
def test_clone_of_the_own_repository_is_work(nest: Nest, kind: str) -> None:
    """Its branches are removed with their sessions, so the clone may be the last place of a commit."""
    tree = nest.top.parent / "linked"
    git(nest.remote, "worktree", "add", "-q", str(tree))
    nest.top, nest.clone = tree, tree / "clone"
    nest.make(kind)
    assert len(nest.work()) == 1


def test_clone_of_a_repository_that_is_gone_is_work(nest: Nest) -> None:
    nest.make("clone --mirror")
    nest.remote.rename(nest.remote.parent / "moved")
    assert len(nest.work()) == 1


def test_commits_that_were_fetched_from_the_worktree_itself_are_work(nest: Nest) -> None:
    nest.make("clone")
    on_a_branch(nest.clone)
    git(nest.clone, "fetch", "-q", ".", "mine")
    assert len(nest.work()) == 1
