"""Files of a person that a merge would overwrite, in the directory of the branch to merge into."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sm.capabilities.worktrees.merge_targets import MergeTarget
from sm.capabilities.worktrees.overwritten_files import refuse_overwriting
from sm.errors import IllegalState
from tests.git_repositories import git, make_app

pytestmark = pytest.mark.processes  # git


@pytest.fixture
def refusal(tmp_path: Path) -> Callable[[Path], str]:
    """Return why the branch `topic` is not merged in the directory, or an empty text."""

    def refused(repo: Path) -> str:
        target = MergeTarget("main", str(repo), str(repo), git(repo, "rev-parse", "main"))
        try:
            refuse_overwriting(target, "topic")
        except IllegalState as error:
            return error.message
        return ""

    return refused


def add_in_topic(repo: Path, *names: str) -> None:
    """Add files in the branch `topic`, and go back to main, in which git ignores `*.log` and `cache/`."""
    (repo / ".git" / "info" / "exclude").write_text("*.log\ncache/\n")
    git(repo, "switch", "-q", "-c", "topic")
    for name in names:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("of the agent\n")
        git(repo, "add", "--force", name)
    git(repo, "commit", "-q", "-m", "topic")
    git(repo, "switch", "-q", "main")


@pytest.mark.parametrize(
    ("added", "there", "lost"),
    [
        ("x.log", "x.log", "x.log"),
        ("[yz].log", "[yz].log", "[yz].log"),
        ("x.log", "y.log", ""),
        ("a.log/f", "a.log", "a.log"),
        ("a.log/b/f", "a.log", "a.log"),
        ("cache", "cache/f", "cache"),
        ("cache/f", "cache/g", ""),
    ],
)
def test_ignored_file_in_the_way_of_an_added_one_is_named(
    tmp_path: Path, refusal: Callable[[Path], str], added: str, there: str, lost: str
) -> None:
    repo = make_app(tmp_path)
    (repo / "z.log").touch()  # `[yz].log` is the name of a file here, and no pattern
    git(repo, "add", "z.log")
    git(repo, "commit", "-q", "-m", "a file that git tracks")
    add_in_topic(repo, added)
    (repo / there).parent.mkdir(exist_ok=True)
    (repo / there).write_text("of a person\n")
    expected = f"the merge would overwrite files that git does not track in {repo}: {lost}"
    assert refusal(repo) == (expected if lost else "")


@pytest.mark.parametrize("target", ["nowhere", "."])
def test_ignored_link_in_the_way_is_named(
    tmp_path: Path, refusal: Callable[[Path], str], target: str
) -> None:
    repo = make_app(tmp_path)
    add_in_topic(repo, "a.log/f")
    (repo / "a.log").symlink_to(target)
    assert refusal(repo).endswith(f"git does not track in {repo}: a.log")


def test_file_that_git_tracks_is_its_own_business(tmp_path: Path, refusal: Callable[[Path], str]) -> None:
    repo = make_app(tmp_path)
    git(repo, "mv", "api", "web")
    git(repo, "commit", "-q", "-m", "moved")
    add_in_topic(repo, "api/a.txt", "web/b.txt")
    git(repo, "switch", "-q", "topic")
    git(repo, "rm", "-q", "-r", "web")
    (repo / "web").write_text("a file\n")
    git(repo, "add", "web")
    git(repo, "commit", "-q", "-m", "a file in the place of a directory")
    git(repo, "switch", "-q", "main")
    assert refusal(repo) == ""
    (repo / "web" / "x.log").write_text("of a person\n")
    assert refusal(repo).endswith(f"git does not track in {repo}: web/x.log")


def test_file_that_is_renamed_over_an_ignored_one_is_named(
    tmp_path: Path, refusal: Callable[[Path], str]
) -> None:
    repo = make_app(tmp_path)
    git(repo, "config", "diff.renames", "true")
    add_in_topic(repo, "new")
    git(repo, "switch", "-q", "topic")
    git(repo, "mv", "api/a.txt", "a.log")
    git(repo, "commit", "-q", "-m", "renamed")
    git(repo, "switch", "-q", "main")
    (repo / "a.log").write_text("of a person\n")
    assert refusal(repo).endswith(f"git does not track in {repo}: a.log")


@pytest.mark.parametrize("is_in_the_change", [True, False])
def test_hidden_change_counts_only_if_the_merge_has_the_file_too(
    tmp_path: Path, refusal: Callable[[Path], str], is_in_the_change: bool
) -> None:
    repo = make_app(tmp_path)
    add_in_topic(repo, "api/a.txt" if is_in_the_change else "new")
    git(repo, "update-index", "--assume-unchanged", "api/a.txt")
    (repo / "api" / "a.txt").write_text("of a person\n")
    assert ("told not to look at" in refusal(repo)) is is_in_the_change


def test_branch_that_is_checked_out_nowhere_has_no_files(tmp_path: Path) -> None:
    repo = make_app(tmp_path)
    add_in_topic(repo, "x.log")
    (repo / "x.log").touch()
    refuse_overwriting(MergeTarget("main", None, str(repo), git(repo, "rev-parse", "main")), "topic")
