"""tmux servers of tests, run by libtmux: a witness that is independent of the code under test."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from libtmux import Server


def private_server(socket_name: str, directory: Path, environment: Mapping[str, str]) -> Server:
    """A tmux server whose clients run with exactly this environment, in `/`.

    libtmux passes the environment of the tests to tmux, and takes another program than tmux: a script in `directory`.
    """
    program = directory / "tmux-client"
    assignments = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    program.write_text(f'#!/bin/sh\ncd / && exec env -i {assignments} tmux "$@"\n')
    program.chmod(0o700)
    return Server(socket_name=socket_name, tmux_bin=program)
