"""Commands on a pseudo-terminal: its size, its colours, its end of input, and the program that it goes to."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping

import pytest

from sm.core.columns import columns
from tests.cli.conftest import Sm
from tests.cli.peer import Peer, answer
from tests.cli.samples import overview_row, session
from tests.played.cli.test_terminal import untrusted


def screen(
    run: Sm, *words: str, width: int = 80, environ: Mapping[str, str] = {}, typed: str = "", code: int = 0
) -> str:
    """Return the output of a command on a terminal of this width, with `typed` as its input."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        run.argv(*words),
        stdout=follower,
        stdin=follower,
        stderr=follower if typed else None,
        env=run.environ | {"TERM": "xterm-256color", **environ},
    )
    os.close(follower)
    os.write(leader, typed.encode())
    output = b""
    try:
        while piece := os.read(leader, 65536):
            output += piece
    except OSError:  # EIO: the other end is closed
        pass
    os.close(leader)
    assert process.wait() == code
    return output.decode().replace("\r\n", "\n")


def test_table_fits_the_width_of_the_terminal(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions", answer([session(completion_message="w" * 300)]))
    (line,) = screen(run, "all", environ={"COLUMNS": "40", "NO_COLOR": "1"}, width=100).splitlines()
    assert columns(line) == 100


@pytest.mark.parametrize(
    ("environ", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_status_is_coloured_when_the_terminal_supports_colours(
    run: Sm, peer: Peer, environ: dict[str, str], colour: bool
) -> None:
    peer.script("GET /v1/sessions", answer([session(status="error")]))
    assert ("\x1b[31merror" in screen(run, "all", environ=environ)) is colour


def test_spawn_takes_the_end_of_input_for_a_no(run: Sm, peer: Peer) -> None:
    untrusted(peer)
    shown = screen(run, "spawn", "Engineer", "Fix it", typed="\x04", code=9, width=200)
    assert "Its agents can run the files in it. [y/N] " in shown
    assert "internal error" not in shown


def test_attach_becomes_the_program_of_the_chosen_session(run: Sm, peer: Peer) -> None:
    argv = ["echo", "attached to", "architect-plan"]
    peer.script(
        "GET /v1/overview",
        answer([overview_row("00000001", friendly_name="architect-plan"), overview_row("00000002")]),
    )
    peer.script("GET /v1/sessions/00000001/attach", answer({"session_id": "00000001", "argv": argv}))
    shown = screen(run, "attach", typed="1\n")
    assert shown.endswith("attached to architect-plan\n")
