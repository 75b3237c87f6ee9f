"""`sm pr` with a real daemon, the real command, a bare repository and a double of gh."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.gh_double import GhDouble
from tests.git_repositories import commit, git, make_app
from tests.instance import Instance

pytestmark = pytest.mark.processes

shared = context_fixture("module", Instance)
URL = "https://github.com/octo/app"


def test_pull_request_is_opened_and_followed_to_its_end(shared: Instance) -> None:
    repo, origin = make_app(shared.work), shared.work / "origin.git"
    git(shared.work, "clone", "-q", "--bare", str(repo), str(origin))
    git(repo, "remote", "add", "origin", URL)
    (shared.home / ".gitconfig").write_text(f'[url "{origin}"]\n\tinsteadOf = {URL}\n')
    gh = GhDouble(shared.work / "bin")
    failed = {
        "name": "unit",
        "status": "COMPLETED",
        "conclusion": "FAILURE",
        "detailsUrl": f"{URL}/actions/runs/3",
    }
    gh.answer("pr-view", {"state": "MERGED", "headRefOid": "a", "statusCheckRollup": [failed]})
    gh.answer("run-view", "ci\tunit\tassert 1 == 2\n")
    session = shared.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    made = commit(Path(session["worktree"]["path"]), "Fix the login\n")
    env = {"PATH": f"{gh.place}:{os.environ['PATH']}", "GH_TOKEN": "mine"}
    shown = shared.sm("pr", "sleeper-login", "--watch", env=env)
    assert shown.splitlines() == [
        "Pushed sm/login to origin: 1 commit",
        f"Opened pull request 12: {gh.url}",
        f"Following pull request 12 of sleeper-login: {gh.url}",
        "check unit: failure; sent to the agent as message 1",
        "pull request 12 is merged; sent to the agent as message 2",
    ]
    assert git(origin, "rev-parse", "sm/login") == made
    assert {(call["env"]["GH_TOKEN"], call["cwd"], call["tty"]) for call in gh.calls()} == {
        ("mine", "/", False)
    }
    letters = shared.json("inbox", "--take", env=shared.as_session(session["session_id"]))
    assert "| ci  unit  assert 1 == 2\n" in letters[0]["text"]


class _AsksForPassword(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize("user", ["", "me:secret@"])
def test_remote_that_asks_for_a_password_gets_none(shared: Instance, user: str) -> None:
    work = shared.work / f"asks{len(user)}"
    repo = make_app(work)
    (shared.home / ".gitconfig").unlink(missing_ok=True)
    name = f"asked{len(user)}"
    session = shared.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
    commit(Path(session["worktree"]["path"]), "work\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), _AsksForPassword) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        git(repo, "remote", "add", "origin", f"http://{user}127.0.0.1:{server.server_port}/octo/app")
        problem = shared.refused("pr", f"sleeper-{name}", exit_code=9)
        server.shutdown()
    assert problem.startswith(
        f"sm: cannot push sm/{name} to http://127.0.0.1:{server.server_port}/octo/app: "
    )
    assert "secret" not in problem
    assert "hint: git asks nobody here" in problem
