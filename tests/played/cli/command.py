"""The command `sm` in the process of the test, for tests of its requests, its output and its exit codes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from tests.cli.conftest import SESSION, Done
from tests.engine import NO_ENGINE
from tests.sim.clocks import BEGIN_S
from tests.sim.command import ClosedStreams, Completed, StartedCommand, Streams, Terminal
from tests.sim.stage import Instance

BEGIN = datetime.fromtimestamp(BEGIN_S, UTC)
"""The time at which each test begins."""

_START_S = 0.01


@contextmanager
def empty_home() -> Iterator[Instance]:
    """Open an instance without a configuration and a daemon."""
    with Instance(config="") as instance:
        instance.config.unlink()
        instance.work.rmdir()
        yield instance


class Sm:
    """As `Sm` of tests/cli/conftest.py, without a process and on virtual time."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.tools = instance.command.tools
        home = str(instance.home)
        self.environ = {
            "HOME": home,
            "SM_HOME": home,
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "DOCKER_HOST": NO_ENGINE,
        }

    def __call__(
        self,
        *arguments: str,
        code: int | None = 0,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command to its end. Any exit code is accepted when `code` is None."""
        self.instance.wait(_START_S)
        ended = self._run(arguments, environ, Streams(stdin))
        done = Done(ended.returncode, ended.stdout, ended.stderr)
        assert code is None or done.code == code, done
        assert "Traceback" not in done.err, done.err
        return done

    def screen(
        self,
        *arguments: str,
        width: int = 80,
        environ: Mapping[str, str] | None = None,
        typed: str = "",
        code: int = 0,
    ) -> str:
        """Return the output of a command on a terminal of this width, with `typed` as its input."""
        more = {"TERM": "xterm-256color", **(environ or {})}
        ended = self._run(arguments, more, Terminal(typed, width))
        assert ended.returncode == code, ended
        return ended.stdout

    def complete(self, words: str) -> list[str]:
        """Return what the completion in bash offers for the words of a command line."""
        environ = {
            "_SM_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        return self(code=None, environ=environ).out.split()

    def unread(self, *arguments: str) -> None:
        """Run a command whose stdout nobody reads, and which must end with 0 and without output on stderr."""
        reader, writer = os.pipe()
        os.close(reader)
        assert self.writing_to(writer, *arguments) == Done(0, "", "")

    def unread_after_a_line(self, *arguments: str) -> None:
        """Close the stdout of a command after its first line. It must end with 0 and without output on stderr."""
        reader, writer = os.pipe()
        with open(reader, "rb") as lines, open(writer, "w") as stdout:
            streams = Streams(stdout=stdout)
            process = self.start(*arguments, streams=streams)
            self.instance.wait(1)
            os.set_blocking(reader, False)
            assert lines.readline().endswith(b"\n")
            lines.close()
            assert process.wait(30) == 0
        assert streams.texts[1] == ""

    def writing_to(self, stdout: str | int, *arguments: str) -> Done:
        """Run a command with this real file as its stdout."""
        file = open(stdout, "w", encoding="utf-8")  # noqa: SIM115 - its close fails as each write does
        ended = self._run(arguments, None, Streams(stdout=file))
        with suppress(OSError):
            file.close()
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def with_closed(self, redirection: str, *arguments: str) -> Done:
        """Run a command as in a shell with a redirection such as `>&-`."""
        ended = self._run(arguments, None, ClosedStreams(redirection))
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *arguments: str, streams: Streams | None = None) -> StartedCommand:
        """Start a command, and return it while it runs."""
        return self.instance.command.start(arguments, self.environ, Path.cwd(), streams)

    def _run(
        self, arguments: tuple[str, ...], environ: Mapping[str, str] | None, streams: Streams
    ) -> Completed:
        return self.instance.command.run(arguments, self.environ | dict(environ or {}), Path.cwd(), streams)

    def as_session(self, state: Path) -> dict[str, str]:
        """Variables that sm adds to the environment of an agent."""
        return {"SM_SESSION_ID": SESSION, "SM_SOCKET": str(state / "run" / "sm.sock")}
