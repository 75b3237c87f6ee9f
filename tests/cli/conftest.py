"""What the tests of the command share: an instance's directory, a scripted daemon, and the real `sm`."""

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
from tests.load import scaled

SOURCES = str(Path(sm.__file__).parents[1])
SESSION = "1a2b3c4d"


@pytest.fixture
def home() -> Iterator[Path]:
    """SM_HOME: short enough for a socket's path, which pytest's own directories are not."""
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


def heed_ctrl_c() -> None:
    """In a child: a shell that runs the tests in the background ignores SIGINT, and so would all below it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Sm:
    """The real command, in an environment made from nothing."""

    starts_processes = True

    def __init__(self, home: Path) -> None:
        self.environ = {
            "HOME": str(home),
            "SM_HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONPATH": SOURCES,
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
        """Run it to its end. `code` None: any exit code will do."""
        done = subprocess.run(
            self.argv(*arguments),
            input=stdin,
            capture_output=True,
            env=self.environ | dict(environ or {}),
            timeout=scaled(60),
            check=False,
        )
        said = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert code is None or said.code == code, said
        assert "Traceback" not in said.err, said.err
        return said

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it with pipes for stdout and stderr."""
        return subprocess.Popen(
            self.argv(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
            preexec_fn=heed_ctrl_c,
        )

    def unread(self, *arguments: str, after_a_line: bool = False) -> None:
        """Start it and close its stdout (with `after_a_line` later): it ends with 0 and without a word."""
        with self.start(*arguments) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert not after_a_line or process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
            assert process.wait(scaled(30)) == 0

    def as_session(self, state: Path) -> dict[str, str]:
        """What an agent's environment has besides."""
        return {"SM_SESSION_ID": SESSION, "SM_SOCKET": str(state / "run" / "sm.sock")}


@pytest.fixture
def run(home: Path) -> Sm:
    return Sm(home)


@pytest.fixture
def agent(run: Sm, state: Path) -> Sm:
    """`sm` as an agent has it."""
    run.environ |= run.as_session(state)
    return run
