"""Writes lines to the pager of the user, as git does."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import click

_PLAIN = frozenset({"less", "more", "cat", ""})
"""Pagers that show lines as they are. Others, such as delta, colour what git writes."""


def pager_of(environ: Mapping[str, str]) -> str:
    """The command of the pager: GIT_PAGER, PAGER, or `less` if it is installed."""
    default = "less" if shutil.which("less") else "cat"
    return environ.get("GIT_PAGER") or environ.get("PAGER") or default


def shows_colours(pager: str) -> bool:
    """True for a pager that shows the colours of sm as they are."""
    return os.path.basename(_program(pager)) in _PLAIN


def _program(pager: str) -> str:
    try:
        return (shlex.split(pager) or [""])[0]
    except ValueError:  # a quotation mark without its other one, which the shell will report
        return pager


@contextmanager
def paged(pager: str, environ: Mapping[str, str]) -> Iterator[Callable[[Iterable[str]], None]]:
    """Yield a function that writes lines to the pager, and returns as soon as nobody reads them."""
    if pager.strip() in ("cat", ""):
        yield lambda lines: _write_all(lines, lambda line: click.echo(line, color=True))
        return
    # Without R, less would show the control sequences of colours. Like git: quit if all fits on the screen.
    options = {
        "LESS": f"-R {environ['LESS']}" if environ.get("LESS") else "FRX",
        "LV": environ.get("LV", "-c"),
    }
    # The user wrote the command, which may have options and variables as for git.
    argv = ["/bin/sh", "-c", pager]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, env={**environ, **options})
    stdin = process.stdin
    assert stdin is not None

    def write(text: str) -> None:
        stdin.write(f"{text}\n".encode(errors="replace"))

    try:
        with suppress(BrokenPipeError):
            yield lambda lines: _write_all(lines, write)
    finally:
        with suppress(BrokenPipeError):
            stdin.close()
        _wait(process)


def _write_all(lines: Iterable[str], write: Callable[[str], None]) -> None:
    for line in lines:
        write(line)


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the pager. Ctrl-C is a key of it: sm must not leave the terminal to both it and the shell."""
    while True:
        try:
            process.wait()
        except KeyboardInterrupt:
            continue
        return


def width_of_terminal() -> int:
    """The columns of the terminal at stdout."""
    return os.get_terminal_size(sys.stdout.fileno()).columns or 80
