"""The URLs of remotes, which may have passwords."""

from pathlib import Path

import pytest

from sm.capabilities.worktrees.git.calls import repository_around
from sm.capabilities.worktrees.git.pushing import PushState, push, push_remote
from sm.capabilities.worktrees.git.remotes import remote_urls, shown_url
from tests.git_repositories import git, make_app


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/app.git", "https://example.org/app.git"),
        ("https://bob@example.org/app.git", "https://example.org/app.git"),
        ("https://bob:hunter2@example.org:8443/app.git", "https://example.org:8443/app.git"),
        ("https://bob:hunt@er2@example.org", "https://example.org"),
        ("ssh://bob:hunter2@[::1]:22/a/b@c.git", "ssh://[::1]:22/a/b@c.git"),
        ("git@example.org:app.git", "git@example.org:app.git"),
        ("/srv/git/a@b", "/srv/git/a@b"),
    ],
)
def test_url_is_shown_without_the_name_and_the_password_of_a_user(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.processes
@pytest.mark.parametrize("is_linked", [True, False], ids=["worktree", "main"])
def test_relative_url_leads_from_the_main_worktree(tmp_path: Path, is_linked: bool) -> None:
    """As for a person who pushes the branch of an agent there: nothing is beside the worktree of the agent."""
    app, linked = make_app(tmp_path), tmp_path / "app" / ".sm" / "worktrees" / "x"
    git(tmp_path, "init", "-q", "--bare", "r.git")
    git(app, "remote", "add", "origin", "../r.git")
    git(app, "worktree", "add", "-q", "-b", "sm/x", str(linked))
    top = str(linked if is_linked else app)
    assert remote_urls(repository_around(top)) == {"origin": f"{app}/../r.git"}
    remote = push_remote(top, None)
    assert (remote.place, remote.directory) == (str(tmp_path / "r.git"), str(app))
    assert push(top, remote, "sm/x").state is PushState.NEW
    assert git(tmp_path / "r.git", "for-each-ref", "--format=%(refname)") == "refs/heads/sm/x"
