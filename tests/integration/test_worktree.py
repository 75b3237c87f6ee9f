"""`sm spawn --worktree` against a scripted daemon whose answers leave the result unknown."""

from pathlib import Path

import pytest

from tests.cli.peer import HANG_UP, Peer, answer, error
from tests.cli.samples import session as sample
from tests.git_repositories import branches, commit, git, make_app
from tests.instance import Instance

__all__ = ["branches", "commit", "git"]


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def test_worktree_is_kept_when_the_result_of_the_spawn_is_unknown(instance: Instance, repo: Path) -> None:
    instance.socket.parent.mkdir(parents=True, mode=0o700)
    refusal = error("name_taken", "name login is already used by a live session", 409)
    with Peer(str(instance.socket)) as peer:
        peer.script("GET /v1/me", answer(sample(working_dir=str(repo))))
        peer.script("POST /v1/sandbox/writable", answer({"writable": []}))
        peer.script("POST /v1/sessions", HANG_UP, refusal)
        command = ("spawn", "Sleeper", "x", "--worktree", "--name", "login")
        ended = instance.run(*command, cwd=repo, env={"SM_SESSION_ID": "11111111", "SM_SOCKET": peer.path})
    assert "name login is already used" in ended.stderr
    assert (repo / ".sm" / "worktrees" / "login").exists()
    assert branches(repo) == ["main", "sm/login"]


def test_worktree_is_kept_after_a_failed_spawn_when_a_session_uses_it(instance: Instance, repo: Path) -> None:
    instance.socket.parent.mkdir(parents=True, mode=0o700)
    made = repo / ".sm" / "worktrees" / "login"
    owner = sample(worktree={"path": str(made), "branch": "sm/login"})
    with Peer(str(instance.socket)) as peer:
        peer.script("GET /v1/me", answer(sample(working_dir=str(repo))))
        peer.script("POST /v1/sandbox/writable", answer({"writable": []}))
        peer.script("GET /v1/sessions", answer([owner]))
        peer.script("POST /v1/sessions", error("usage", "no", 400))
        done = instance.run(
            "spawn", "Sleeper", "x", "--worktree", "--name", "login", cwd=repo,
            env={"SM_SESSION_ID": "11111111", "SM_SOCKET": peer.path},
        )  # fmt: skip
    assert done.returncode == 2
    assert made.exists()
