"""Unix sockets: the process that connected one."""

import socket
import struct
from asyncio.trsock import TransportSocket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """Who connected a Unix socket. `pid` is 0 when the peer lives in a pid namespace that we cannot see."""

    pid: int
    uid: int
    gid: int


def peer_of(sock: socket.socket | TransportSocket) -> Peer:
    """The process at the other end, as it was when it connected (SO_PEERCRED, unix(7)): the kernel's word."""
    layout = struct.Struct("3i")
    return Peer(*layout.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, layout.size)))
