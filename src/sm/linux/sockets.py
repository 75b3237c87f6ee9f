"""Identifies the process at the other end of a Unix socket."""

import socket
import struct
from asyncio.trsock import TransportSocket

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected a Unix socket. `pid` is 0 when it is in an invisible pid namespace."""

    pid: int
    uid: int
    gid: int


def peer_of(sock: socket.socket | TransportSocket) -> Peer:
    """The process at the other end when it connected, as the kernel reports it (SO_PEERCRED, unix(7))."""
    layout = struct.Struct("3i")
    return Peer(*layout.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, layout.size)))
