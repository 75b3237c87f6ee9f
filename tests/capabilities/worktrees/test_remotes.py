"""The URLs of remotes, which may have passwords."""

import pytest

from sm.capabilities.worktrees.git.remotes import shown_url


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
