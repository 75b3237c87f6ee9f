"""Git repositories of tests."""

import subprocess
from pathlib import Path


def git(directory: Path, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-C", str(directory), *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) is fails, done
    return done.stdout.strip()


def make_app(work: Path) -> Path:
    """Make the repository `app` with one commit, below this directory."""
    path = work / "app"
    (path / "api").mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "api" / "a.txt").write_text("a\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def branches(repo: Path) -> list[str]:
    return git(repo, "branch", "--format=%(refname:short)").split("\n")


def commit(path: Path, text: str) -> str:
    (path / "api" / "a.txt").write_text(text)
    git(path, "commit", "-q", "-a", "-m", text)
    return git(path, "rev-parse", "HEAD")
