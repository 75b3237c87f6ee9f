"""Fixtures of the command tests: directories of an instance, a scripted daemon, and the real `sm`."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import sm
from tests.cli.peer import Peer
from tests.engine import NO_ENGINE

SOURCES = str(Path(sm.__file__).parents[1])
SESSION = "1a2b3c4d"


@pytest.fixture
def home() -> Iterator[Path]:
    """SM_HOME. The directories of pytest are too long for a socket path."""
    path = Path(tempfile.mkdtemp(prefix="sm-t-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def state(home: Path) -> Path:
    path = home / "state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def peer(state: Path) -> Iterator[Peer]:
    with Peer(str(state / "run" / "sm.sock")) as peer:
        yield peer


def restore_sigint() -> None:
    """Restore SIGINT in a child: a shell ignores SIGINT for background jobs and their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Sm:
    """The real command in a clean environment."""

    starts_processes = True

    def __init__(self, home: Path) -> None:
        self.environ = {
            "HOME": str(home),
            "SM_HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONPATH": SOURCES,
            "DOCKER_HOST": NO_ENGINE,
        }

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sm.cli", *arguments]

    def __call__(
        self,
        *arguments: str,
        code: int | None = 0,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command to its end. Any exit code is accepted when `code` is None."""
        process = subprocess.run(
            self.argv(*arguments),
            input=stdin,
            capture_output=True,
            env=self.environ | dict(environ or {}),
            check=False,
        )
        done = Done(process.returncode, process.stdout.decode(), process.stderr.decode())
        assert code is None or done.code == code, done
        assert "Traceback" not in done.err, done.err
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command with pipes for stdout and stderr."""
        return subprocess.Popen(
            self.argv(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
            preexec_fn=restore_sigint,
        )

    def unread(self, *arguments: str, after_a_line: bool = False) -> None:
        """Close the stdout of a command, which must end with 0 and without output on stderr.

        With `after_a_line`, read the first line before.
        """
        with self.start(*arguments) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert not after_a_line or process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
            assert process.wait() == 0

    def as_session(self, state: Path) -> dict[str, str]:
        """Variables that sm adds to the environment of an agent."""
        return {"SM_SESSION_ID": SESSION, "SM_SOCKET": str(state / "run" / "sm.sock")}


@pytest.fixture
def run(home: Path) -> Sm:
    return Sm(home)


@pytest.fixture
def agent(run: Sm, state: Path) -> Sm:
    """`sm` in the environment of an agent."""
    run.environ |= run.as_session(state)
    return run
