"""Private tmux servers for tests. libtmux drives them, so that checks are independent of the code under test."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from libtmux import Server


def private_server(
    socket_name: str, directory: Path, environment: Mapping[str, str], run_as: Sequence[str] = ()
) -> Server:
    """A tmux server whose clients run in `/` with exactly this environment, through the command `run_as`.

    libtmux would pass the environment of the tests to tmux, so it runs a script in `directory` in place of tmux.
    """
    program = directory / "tmux-client"
    assignments = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    program.write_text(f'#!/bin/sh\ncd / && exec env -i {assignments} {shlex.join(run_as)} tmux "$@"\n')
    program.chmod(0o700)
    return Server(socket_name=socket_name, tmux_bin=program)
