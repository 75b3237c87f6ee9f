"""Sessions that begin in a worktree while it is being removed: it stays."""

from pathlib import Path

import pytest

from sm.cli.worktrees import Removal
from sm.client.http import Client, new_key, session_path
from tests.fixtures import context_fixture
from tests.git_repositories import make_app
from tests.sim.sandbox_stage import SandboxInstance, open_instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", open_instance)


@pytest.mark.parametrize(
    ("trust", "place", "reason"),
    [
        ("direct", ".sm/worktrees/login/api", "another session works there"),
        (
            "sandboxed",
            "api",
            "a sandboxed session may have changed the programs that git runs in it",
        ),
    ],
)
def test_session_that_begins_after_the_answer_to_the_removal_keeps_the_worktree(
    instance: SandboxInstance, trust: str, place: str, reason: str
) -> None:
    repo = make_app(instance.work)
    words = ("--trust", "direct", "--worktree", "--name", "login")
    session = instance.json("spawn", "Sleeper", "x", *words, cwd=repo)
    instance.sm("kill", session["session_id"])
    client, key = Client(str(instance.socket)), new_key()
    path = session_path(session["session_id"], "/remove")
    answer = client.post(path, key=key)
    assert (answer["used"], answer["sandboxed"]) == (False, False)
    instance.sm("spawn", "Sleeper", "x", "--trust", trust, "--working-dir", str(repo / place), cwd=repo)
    kept = Removal(path, key, answer).clean(client)
    tree = Path(answer["worktree"]["path"])
    assert (kept, tree.exists()) == (f"kept the worktree {tree}: {reason}", True)


def test_answer_of_an_earlier_daemon_is_enough_to_remove_the_worktree(instance: SandboxInstance) -> None:
    repo = make_app(instance.work)
    session = instance.json("spawn", "Sleeper", "x", "--trust", "direct", "--worktree", cwd=repo)
    instance.sm("kill", session["session_id"])
    client, key = Client(str(instance.socket)), new_key()
    path = session_path(session["session_id"], "/remove")
    answer = client.post(path, key=key)
    known = ("removed", "label", "effective_mode", "worktree", "used", "sandboxed")
    assert Removal(path, key, {name: answer[name] for name in known}).clean(client) is None
    assert not Path(answer["worktree"]["path"]).exists()
