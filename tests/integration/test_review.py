"""`sm review` with a real editor: a script that writes comments, and a person who agrees at a terminal."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import git, make_app
from tests.instance import Instance
from tests.typist import Typist, plain

pytestmark = pytest.mark.processes
GIT = shutil.which("git")

shared = context_fixture("module", Instance)


def test_process_for_the_page_leaves_nothing_behind_when_its_reader_has_gone(
    shared: Instance, tmp_path: Path
) -> None:
    """The request to end comes while git runs."""
    repo = make_app(shared.work)
    session = shared.spawn("Sleeper", "x", "--worktree", "--name", "read", cwd=repo)["session_id"]
    ready, temporary, program = tmp_path / "ready", tmp_path / "tmp", tmp_path / "git"
    os.mkfifo(ready)
    temporary.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *write-tree*) echo $$ >{ready}; exec sleep 1000;; esac\nexec {GIT} "$@"\n'
    )
    program.chmod(0o755)
    env = {**shared.env, "TMPDIR": str(temporary), "PATH": f"{tmp_path}:{shared.env['PATH']}"}
    argv = [sys.executable, "-m", "sm.cli.page_changes"]
    with subprocess.Popen(argv, env=env, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        task = {"socket": str(shared.socket), "session": session, "act": "changes", "base": ""}
        process.stdin.write(json.dumps(task).encode())
        process.stdin.close()
        pid = int(ready.read_text())
        process.terminate()
        assert process.wait() == 1
    assert list(temporary.iterdir()) == []
    shared.until(lambda: not os.path.exists(f"/proc/{pid}"), "git has ended")
    shutil.rmtree(repo)


def test_request_to_end_while_git_starts_ends_it(shared: Instance, tmp_path: Path) -> None:
    repo, pid = make_app(shared.work), tmp_path / "pid"
    session = shared.spawn("Sleeper", "x", "--worktree", "--name", "start", cwd=repo)["session_id"]
    code = f"""
import signal, subprocess
start = subprocess.Popen.__init__
def start_with_signal(process, argv, **options):
    is_chosen = "write-tree" in argv
    start(process, ["sleep", "1000"] if is_chosen else argv, **options)
    if is_chosen:
        open({str(pid)!r}, "w").write(str(process.pid))
        signal.raise_signal(signal.SIGTERM)
subprocess.Popen.__init__ = start_with_signal
from sm.cli import page_changes
page_changes.main()
"""
    task = json.dumps({"socket": str(shared.socket), "session": session, "act": "changes", "base": ""})
    argv = [sys.executable, "-c", code]
    ended = subprocess.run(
        argv, env=shared.env, cwd="/", input=task.encode(), capture_output=True, check=False
    )
    assert ended.returncode == 1
    shared.until(lambda: not os.path.exists(f"/proc/{pid.read_text()}"), "git has ended")
    shutil.rmtree(repo)


def test_review_with_an_editor_reaches_the_agent(shared: Instance) -> None:
    repo = make_app(shared.work)
    session = shared.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    path = Path(session["worktree"]["path"])
    (path / "api" / "a.txt").write_text("a\nb\nc\n")
    editor = shared.home / "my editor.sh"
    editor.write_text("#!/bin/sh\nsed -i -e '/^> +c$/a @2 why?' -e '/^> +b$/d' \"$2\"\necho \"$1\"\n")
    editor.chmod(0o755)
    terminal = Typist({**shared.env, "VISUAL": f"'{editor}' --wait"}, shared.home)
    try:
        code, output = terminal.type(
            f"sm review {session['session_id']}", {"Send 1 comment to sleeper-login? [y/N] ": "y"}
        )
    finally:
        terminal.end()
    assert (code, "Round 1 with 1 comment: queued" in plain(output)) == (0, True), output
    (letter,) = shared.json("inbox", "--take", env=shared.as_session(session["session_id"]))
    assert "1. api/a.txt:2-3\n| +c\nwhy?\n" in letter["text"]
    assert git(repo, "for-each-ref", "--format=%(objecttype)", "refs/sm/reviews") == "tree"
    nothing = shared.sm("review", session["session_id"], "--since-last", env={"EDITOR": "false"})
    assert nothing == "No comments: nothing was sent\n"


def test_ctrl_c_is_for_the_editor_and_costs_no_text(shared: Instance) -> None:
    """A person interrupts a command inside of the editor: the terminal sends Ctrl-C to every process."""
    repo = make_app(shared.work / "interrupted")
    session = shared.spawn("Sleeper", "x", "--worktree", "--name", "typing", cwd=repo)
    (Path(session["worktree"]["path"]) / "api" / "a.txt").write_text("a\nb\n")
    editor = shared.home / "patient.sh"
    # The command says itself that it runs: Ctrl-C then ends it at any time.
    command = "bash -c 'echo [sleeping]; exec sleep 1000'"
    editor.write_text(f"#!/bin/bash\ntrap 'echo caught' INT\n{command}\necho 'mine' >>\"$1\"\n")
    editor.chmod(0o755)
    terminal = Typist({**shared.env, "VISUAL": "", "EDITOR": str(editor)}, shared.home)
    try:
        output = terminal.leave(f"sm review {session['session_id']} --yes", r"\[sleeping\]")
    finally:
        terminal.end()
    assert "Round 1 with 1 comment" in plain(output)
    (letter,) = shared.json("inbox", "--take", env=shared.as_session(session["session_id"]))
    assert "1. the whole change\nmine\n" in letter["text"]
