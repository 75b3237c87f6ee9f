"""Peers of real Unix sockets."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

from sm.linux.sockets import Peer, peer_of
from tests.linux.started import Started, python


def test_peer_of_a_socket_is_who_connected(start: Callable[..., Started], tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = (
            f"import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect({path!r})\n"
            "print('ready'); sys.stdin.read()"
        )
        one = start(*python(code))
        with server.accept()[0] as connection:
            assert peer_of(connection) == Peer(one.pid, os.getuid(), os.getgid())
