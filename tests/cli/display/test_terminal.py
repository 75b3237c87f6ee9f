"""The layout of tables on a terminal, as bytes on a pseudo-terminal of a given width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping

import pytest

from sm.cli.display.text import columns
from tests.cli.conftest import Sm
from tests.cli.peer import Peer, answer
from tests.cli.samples import request, session


def screen(run: Sm, *words: str, width: int = 80, environ: Mapping[str, str] = {}) -> str:
    """The output of a command on a terminal of this width."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        run.argv(*words),
        stdout=follower,
        stdin=follower,
        env=run.environ | {"TERM": "xterm-256color", **environ},
    )
    os.close(follower)
    output = b""
    try:
        while piece := os.read(leader, 65536):
            output += piece
    except OSError:  # EIO: the other end is closed
        pass
    os.close(leader)
    assert process.wait(30) == 0
    return output.decode().replace("\r\n", "\n")


def lines(run: Sm, *words: str, width: int = 80) -> list[str]:
    """The same as plain lines, without the blanks at their ends."""
    return [
        line.rstrip() for line in screen(run, *words, width=width, environ={"NO_COLOR": "1"}).splitlines()
    ]


@pytest.fixture
def sessions(peer: Peer) -> Peer:
    peer.script(
        "GET /v1/sessions",
        answer(
            [
                session("abc12345", friendly_name="日本", status="error", completion_message="日" * 300),
                session(
                    "def45678",
                    friendly_name="engineer-task1043",
                    parent_session_id="abc12345",
                    note="[b]x[/b] :smile:",
                ),
            ]
        ),
    )
    return peer


def test_rows_fit_the_width_of_the_terminal_and_cut_the_text_only(run: Sm, sessions: Peer) -> None:
    first, second = lines(run, "all")
    assert re.match(r"日本 \(abc12345\) +\| error +\| \d+d ago \| \"日", first)
    assert columns(first) in (79, 80)
    assert first.endswith("…")
    assert second.startswith("  └─ engineer-task1043 (def45678) | running | ")
    assert second.endswith(" | [b]x[/b] :smile:")


@pytest.mark.parametrize("width", [64, 68])
def test_name_and_id_are_wrapped_and_never_cut_on_a_narrow_terminal(
    run: Sm, sessions: Peer, width: int
) -> None:
    found = lines(run, "all", width=width)
    assert max(map(columns, found)) <= width
    names = "".join(line.partition("|")[0].replace(" ", "") for line in found)
    assert names == "日本(abc12345)└─engineer-task1043(def45678)"
    assert any("| running | " in line for line in found)


def test_lines_are_cut_at_the_edge_of_a_terminal_that_is_too_narrow_for_columns(
    run: Sm, sessions: Peer
) -> None:
    found = lines(run, "all", width=40)
    assert [columns(line) for line in found] == [40, 40]
    assert all(line.endswith("…") for line in found)


def test_columns_are_those_of_plain_text_on_a_wide_terminal(run: Sm, sessions: Peer) -> None:
    sessions.script("GET /v1/sessions/-/children", answer([session(status="idle")]))
    assert lines(run, "children", width=200) == run("children").out.splitlines()


@pytest.mark.parametrize(
    ("environ", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_status_has_a_colour_where_the_terminal_takes_one(
    run: Sm, sessions: Peer, environ: dict[str, str], colour: bool
) -> None:
    assert ("\x1b[31merror" in screen(run, "all", environ=environ)) is colour
    assert ("\x1b" in screen(run, "all", environ=environ)) is colour


def test_width_of_the_terminal_wins_over_columns(run: Sm, sessions: Peer) -> None:
    assert (
        max(
            map(
                columns,
                screen(run, "all", width=100, environ={"COLUMNS": "40", "NO_COLOR": "1"}).splitlines(),
            )
        )
        == 100
    )


def test_commands_to_type_are_wrapped_and_never_cut(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/requests", answer([request()]))
    found = lines(run, "requests", width=90)
    assert "sm answer r57 TEXT" in " ".join(line.rpartition("|")[2].strip() for line in found)
    assert max(map(columns, found)) <= 90


def test_plain_output_never_loads_rich(run: Sm, sessions: Peer) -> None:
    code = "import sys; from sm.cli.group import run; run(['all']); sys.exit('rich' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=run.environ, check=True, stdout=subprocess.DEVNULL)
