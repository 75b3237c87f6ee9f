"""Peers of real Unix sockets."""

import os
import socket
from pathlib import Path

import pytest

from sm.linux.sockets import Peer, peer_of
from tests.linux.child_process import Start, python

pytestmark = pytest.mark.processes


def test_peer_of_returns_the_connected_process_and_user(start: Start, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = (
            f"import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect({path!r})\n"
            "print('ready'); sys.stdin.read()"
        )
        child = start(*python(code))
        with server.accept()[0] as connection:
            assert peer_of(connection) == Peer(child.pid, os.getuid(), os.getgid())
