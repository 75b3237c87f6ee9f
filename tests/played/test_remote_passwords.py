"""The password in the URL of a remote: nobody reads it in an error, an event, the database or a command line."""

import json
import os
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import git, make_app
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

PASSWORD = "hunter2"
URL = f"https://bob:{PASSWORD}@127.0.0.1:1/app.git"

instance = context_fixture("function", Instance, "worktrees: {submodules: true}")


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def recording_git(instance: Instance) -> tuple[str, Path]:
    """A PATH with a git that writes down its arguments. Returns the file with them too."""
    directory, said = instance.home / "bin", instance.home / "arguments"
    directory.mkdir()
    program = directory / "git"
    program.write_text(f'#!/bin/sh\necho "$*" >>{said}\nexec /usr/bin/git "$@"\n')
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}", said


@pytest.mark.parametrize("wish", [("--pr", "7"), ("--remote-branch", "origin/topic"), ()])
def test_password_of_a_remote_is_in_no_error_no_event_no_file_and_no_argument(
    instance: Instance, repo: Path, wish: tuple[str, ...]
) -> None:
    if wish:
        git(repo, "remote", "add", "origin", URL)
    else:
        (repo / ".gitmodules").write_text(f'[submodule "sub"]\n\tpath = sub\n\turl = {URL}\n')
        git(repo, "add", ".gitmodules")
        git(repo, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
        git(repo, "commit", "-q", "-m", "a submodule")
    path, said = recording_git(instance)
    words = ("spawn", "Sleeper", "x", "--worktree", "--name", "login", *wish)
    done = instance.run(*words, cwd=repo, env={"PATH": path})
    # A worktree without a submodule is made, and the session starts.
    assert (done.returncode, "https://127.0.0.1:1/app.git" in done.stderr) == (9 if wish else 0, True)
    told = done.stderr + json.dumps([instance.events(), instance.json("ls", "--all")])
    files = [file for file in instance.state.rglob("*") if file.is_file()]
    assert Path(instance.world.paths.database) in files
    assert [file for file in files if PASSWORD.encode() in file.read_bytes()] == []
    assert "fetch" in said.read_text()
    assert PASSWORD not in told + said.read_text()
